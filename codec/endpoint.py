"""The requests that are observed: method and end of the path decide (``design.md`` 5)."""

from __future__ import annotations

from enum import StrEnum

__all__ = ("OBSERVED", "Endpoint", "calls_model_unobserved", "find_endpoint")

OBSERVED = "POST …/chat/completions, …/completions and …/embeddings"
"""What is observed, for people."""

_UNOBSERVED_ENDS = (
    "/responses",  # OpenAI
    "/messages",  # Anthropic
    ":generateContent",  # Gemini and Vertex
    ":streamGenerateContent",
    "/converse",  # Bedrock
    "/converse-stream",
    "/invoke",
    "/invoke-with-response-stream",
    "/api/chat",  # Ollama
    "/api/generate",
    "/rerank",  # Cohere, Jina, vLLM
)
"""How paths of other APIs end by which models are called."""


class Endpoint(StrEnum):
    """What a request asks a provider to do, as far as spantap cares."""

    CHAT_COMPLETIONS = "chat.completions"
    """A chat completion: observed, one span each."""
    COMPLETIONS = "completions"
    """A legacy completion, of a prompt instead of messages: likewise."""
    EMBEDDINGS = "embeddings"
    """Vectors for texts: observed, never rewritten."""
    OTHER = "other"
    """Everything else: relayed, never looked into."""


def find_endpoint(method: str, target: str) -> Endpoint:
    """Tell the endpoint of a request.

    Only the end of the path counts: Azure, Z.ai, OpenRouter and others put much before it. A
    trailing slash makes another path, and methods are case-sensitive (RFC 9110, section 9.1).

    Args:
        method: the request method as sent.
        target: the request target as sent, escapes and query included.
    """
    path = target.partition("?")[0]
    if method == "POST" and path.endswith("/chat/completions"):
        return Endpoint.CHAT_COMPLETIONS
    if method == "POST" and path.endswith("/completions"):
        return Endpoint.COMPLETIONS
    if method == "POST" and path.endswith("/embeddings"):
        return Endpoint.EMBEDDINGS
    return Endpoint.OTHER


def calls_model_unobserved(target: str) -> bool:
    """Whether a ``POST`` to this target calls a model by an API that is not observed."""
    return target.partition("?")[0].endswith(_UNOBSERVED_ENDS)
