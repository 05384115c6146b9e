"""Ollama's own API: chats, texts from a prompt, embeddings. Its streams are lines of JSON.

Chats and texts share their answer (:mod:`~codec.apis.ollama.said`) and its stream
(:mod:`~codec.apis.ollama.stream`); :mod:`~codec.apis.ollama.turns` reads messages and tools,
:mod:`~codec.apis.ollama.vectors` embeddings.

Doors: ``route``.
"""
