"""Embeddings: vectors for texts, never streamed."""
