"""The demo: an OpenAI-shaped upstream on loopback, and a handful of chats with it."""
