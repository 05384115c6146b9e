"""Embeddings: vectors for texts, never streamed.

:data:`codec.apis.embeddings.route.EMBEDDINGS` is the door;
:mod:`codec.apis.embeddings.vectors` reads texts and vectors, as numbers or packed in base64.
"""
