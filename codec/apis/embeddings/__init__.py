"""Embeddings: vectors for texts, never streamed.

:data:`codec.apis.embeddings.route.EMBEDDINGS` is the door. Vectors are numbers, or packed in
base64.
"""
