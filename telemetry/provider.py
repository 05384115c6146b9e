"""The provider behind an upstream, known by its host name (``docs/contract/spans.md#provider``).

OpenInference and OpenTelemetry know the same providers under different names.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from openinference.semconv.trace import OpenInferenceLLMProviderValues as Provider

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

UNKNOWN_PROVIDER = "openai_compatible"
"""The ``gen_ai.provider.name`` of a provider that is known by its API alone."""

MAX_CACHED_HOSTS: Final = 256
"""Hosts whose provider is remembered. Hosts are those of the upstreams in the settings."""

_VERTEX = "aiplatform.googleapis.com"

_PROVIDER_BY_HOST_SUFFIX = {
    "api.openai.com": Provider.OPENAI,
    "chatgpt.com": Provider.OPENAI,
    "openai.azure.com": Provider.AZURE,
    "services.ai.azure.com": Provider.AZURE,
    "cognitiveservices.azure.com": Provider.AZURE,
    "api.anthropic.com": Provider.ANTHROPIC,
    "api.cohere.com": Provider.COHERE,
    "api.cohere.ai": Provider.COHERE,
    "api.mistral.ai": Provider.MISTRALAI,
    "generativelanguage.googleapis.com": Provider.GOOGLE,
    "cloudcode-pa.googleapis.com": Provider.GOOGLE,
    _VERTEX: Provider.GOOGLE,
    "amazonaws.com": Provider.AWS,
    "amazonaws.com.cn": Provider.AWS,
    "amazonaws.eu": Provider.AWS,
    "api.aws": Provider.AWS,
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
"""The hosts that OpenInference's own instrumentations know, ``chatgpt.com`` (Codex with a login),
``cloudcode-pa`` (Code Assist), ``api.moonshot.ai``, Vertex's, and Amazon's others:
``bedrock-mantle.REGION.api.aws``, those of China and of the European cloud."""


_CHATGPT_HOST: Final = "chatgpt.com"
_COPILOT_HOST: Final = "githubcopilot.com"
"""The hosts of logins with ChatGPT and Copilot, whose subscription pays, and what ends so."""

_OAUTH_BETA: Final = "oauth-"
"""The beginning of a beta that Anthropic's clients name if a login, and not a key, pays."""


def is_paid_by_subscription(host: str | None, betas: str) -> bool:
    """Tell whether a subscription pays for a call. Nobody looks at the key.

    Args:
        host: of the upstream.
        betas: the value of the request's ``anthropic-beta``: names with commas between them.
    """
    if _OAUTH_BETA in betas:
        names = (name.strip() for name in betas.split(","))
        if any(name.startswith(_OAUTH_BETA) for name in names):
            return True
    return _is_below(_CHATGPT_HOST, host) or is_copilot(host)


def is_copilot(host: str | None) -> bool:
    """Tell whether an upstream is GitHub's Copilot, by its host."""
    return _is_below(_COPILOT_HOST, host)


@lru_cache(maxsize=MAX_CACHED_HOSTS)
def _is_below(domain: str, host: str | None) -> bool:
    name = (host or "").lower().rstrip(".")
    return name == domain or name.endswith(f".{domain}")


@lru_cache(maxsize=MAX_CACHED_HOSTS)
def infer_provider(host: str | None) -> str | None:
    """The value of ``llm.provider`` for an upstream's host, a name or an address without port.

    ``None`` for an unknown host, loopback included: never a guess (R6).
    """
    provider = _find_by_suffix(_PROVIDER_BY_HOST_SUFFIX, host)
    return provider.value if provider is not None else None


def _find_by_suffix(table: Mapping[str, T], host: str | None) -> T | None:
    name = (host or "").lower().rstrip(".")
    for suffix, value in table.items():
        # At the boundary of a label, for smollama.com is not ollama.com; but Vertex puts
        # its region before a hyphen (us-central1-aiplatform.googleapis.com).
        ends = (f".{suffix}", f"-{suffix}") if suffix == _VERTEX else (f".{suffix}",)
        if name == suffix or name.endswith(ends):
            return value
    return None


def find_provider(named: str | None, host: str | None) -> str | None:
    """The value of ``llm.provider``: what the settings name, else what the host tells."""
    return named or infer_provider(host)


@lru_cache(maxsize=MAX_CACHED_HOSTS)
def find_genai_provider(named: str | None, host: str | None) -> str:
    """The value of ``gen_ai.provider.name``, which the conventions require.

    A provider that they do not list keeps its own name, as they allow. Where it is not
    known, it is :data:`UNKNOWN_PROVIDER`: ``openai`` would make a server of one's own OpenAI's, in
    Phoenix too, which fills ``llm.provider`` from here.
    """
    provider = find_provider(named, host)
    service = _find_by_suffix(_GENAI_NAME_BY_HOST_SUFFIX, host)
    if service is not None and named in {None, infer_provider(host)}:
        return service
    return _GENAI_NAMES.get(provider or "", provider) or UNKNOWN_PROVIDER


_GENAI_NAMES = {
    Provider.AWS.value: "aws.bedrock",
    Provider.AZURE.value: "azure.ai.openai",
    Provider.GOOGLE.value: "gcp.gen_ai",
    Provider.MISTRALAI.value: "mistral_ai",
    Provider.MOONSHOT.value: "moonshot_ai",
    Provider.XAI.value: "x_ai",
}
"""Names that OpenTelemetry spells otherwise."""

_GENAI_NAME_BY_HOST_SUFFIX = {
    "services.ai.azure.com": "azure.ai.inference",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "cloudcode-pa.googleapis.com": "gcp.gemini",
    _VERTEX: "gcp.vertex_ai",
}
"""Services of one provider that OpenTelemetry tells apart."""
