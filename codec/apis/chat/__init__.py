"""Chat completions (OpenAI, and all who speak its language)."""
