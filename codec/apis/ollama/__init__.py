"""Ollama's own API: chats, texts from a prompt, embeddings. Its streams are lines of JSON."""
