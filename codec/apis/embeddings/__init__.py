"""Embeddings: vectors for texts, never streamed.

Vectors are numbers, or packed in base64.

Doors: ``route``.
"""
