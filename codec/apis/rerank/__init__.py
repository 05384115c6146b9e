"""Rankings: documents in the order in which they answer a query.

See ``docs/contract/apis.md#rankings``.

:data:`codec.apis.rerank.route.RERANK` is the door. Cohere, Jina, Voyage, Together, OpenRouter,
vLLM, llama.cpp and TEI have one form in words of their own, which
:mod:`~codec.apis.rerank.asked` and :mod:`~codec.apis.rerank.said` read alike.
"""
