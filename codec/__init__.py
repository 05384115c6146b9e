"""What is on the wire of an OpenAI-style chat, and what it means. Pure: bytes and values only."""
