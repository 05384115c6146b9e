"""Gemini: Google's API, on its own host, on Vertex AI and behind gateways."""
