"""Who runs the hardware behind an upstream, told from its host name (``span-contract.md`` 1.1)."""

from __future__ import annotations

from openinference.semconv.trace import OpenInferenceLLMProviderValues as Provider

__all__ = ("infer_provider",)

_PROVIDER_BY_HOST_SUFFIX = {
    "api.openai.com": Provider.OPENAI,
    "openai.azure.com": Provider.AZURE,
    "services.ai.azure.com": Provider.AZURE,
    "cognitiveservices.azure.com": Provider.AZURE,
    "api.anthropic.com": Provider.ANTHROPIC,
    "api.cohere.com": Provider.COHERE,
    "api.cohere.ai": Provider.COHERE,
    "api.mistral.ai": Provider.MISTRALAI,
    "generativelanguage.googleapis.com": Provider.GOOGLE,
    "aiplatform.googleapis.com": Provider.GOOGLE,
    "amazonaws.com": Provider.AWS,
    "api.x.ai": Provider.XAI,
    "api.deepseek.com": Provider.DEEPSEEK,
    "api.groq.com": Provider.GROQ,
    "api.fireworks.ai": Provider.FIREWORKS,
    "api.moonshot.ai": Provider.MOONSHOT,
    "api.moonshot.cn": Provider.MOONSHOT,
    "api.cerebras.ai": Provider.CEREBRAS,
    "api.perplexity.ai": Provider.PERPLEXITY,
    "api.together.ai": Provider.TOGETHER,
    "api.together.xyz": Provider.TOGETHER,
    "ollama.com": Provider.OLLAMA,
    "api.meta.ai": Provider.META,
    "api.z.ai": Provider.ZAI,
    "api.minimax.io": Provider.MINIMAX,
    "api.minimaxi.com": Provider.MINIMAX,
    "api.minimax.chat": Provider.MINIMAX,
    "oci.oraclecloud.com": Provider.ORACLE,
}
"""The hosts that OpenInference's own instrumentations know, and ``api.moonshot.ai``."""


def infer_provider(host: str | None) -> str | None:
    """The value of ``llm.provider`` for an upstream's host.

    Args:
        host: a host name or address, without port.

    Returns:
        ``None`` for an unknown host, loopback included: never a guess (R6).
    """
    name = (host or "").lower().rstrip(".")
    for suffix, provider in _PROVIDER_BY_HOST_SUFFIX.items():
        # At the boundary of a label, lest smollama.com be taken for ollama.com.
        if name == suffix or name.endswith(f".{suffix}"):
            return provider.value
    return None
