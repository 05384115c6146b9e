"""Rankings: documents in the order in which they answer a query.

See ``docs/contract/apis.md#rankings``.

:data:`codec.apis.rerank.route.RERANK` is the door. Cohere, Jina, Voyage, Together, OpenRouter,
vLLM, llama.cpp and TEI have one form in words of their own, which are read alike.
"""
