"""OpenAI's Responses API, and all who speak its language: items in, items out."""
