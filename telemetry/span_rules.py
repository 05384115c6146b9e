"""What the settings and the environment say about every span, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from telemetry.client_context import HeaderMap
from telemetry.keep_rules import KeepRules
from telemetry.size_limits import SizeLimits

__all__ = ("SpanNaming", "SpanRules")


class SpanNaming(StrEnum):
    """Whose convention names spans (``span-contract.md`` section 1, "name")."""

    OPENINFERENCE = "openinference"
    """``ChatCompletion``, as the in-process instrumentation has it."""
    GENAI = "genai"
    """``chat {model}``, as OpenTelemetry's GenAI conventions have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRules:
    """The rules.

    Attributes:
        naming: how spans are named.
        headers: which request headers say something of a call.
        keep: which unsampled calls get a span.
        sizes: how large attributes may be.
        shows_vectors: whether the vectors of embeddings are recorded.
    """

    naming: SpanNaming = SpanNaming.OPENINFERENCE
    headers: HeaderMap = field(default_factory=HeaderMap.build)
    keep: KeepRules = field(default_factory=KeepRules)
    sizes: SizeLimits = field(default_factory=SizeLimits)
    shows_vectors: bool = False
