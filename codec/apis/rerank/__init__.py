"""Rankings: documents in the order in which they answer a query.

See ``docs/contract/apis.md#rankings``. Cohere, Jina, Voyage, Together, OpenRouter, vLLM, llama.cpp
and TEI have one form under different names, which are read alike.

Doors: ``route``.
"""
