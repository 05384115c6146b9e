"""All that the rest of the house asks of an API."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ("Api", "Content", "SpanKind")


class Content(StrEnum):
    """What requests and answers of an API are made of."""

    MESSAGES = "messages"
    """Messages with roles, tools and tool calls."""
    TEXTS = "texts"
    """Prompts and their continuations."""
    VECTORS = "vectors"
    """Texts, and a vector for each."""


class SpanKind(StrEnum):
    """Values of ``openinference.span.kind`` (``span-contract.md`` 1.1)."""

    LLM = "LLM"
    EMBEDDING = "EMBEDDING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """An API that is observed.

    Attributes:
        name: of the API; frames, spans and metrics carry it.
        path_end: how the paths of its requests end. Azure, Z.ai, OpenRouter and others put much
            before it; a trailing slash makes another path.
        operation: ``gen_ai.operation.name`` (``span-contract.md`` 7.1), ``None`` where it has none.
        span_name: what OpenInference calls a span of it.
        span_kind: what OpenInference says that it is.
        api_type: ``openai.api.type``, ``None`` where OpenTelemetry knows none.
        content: what its requests and answers are made of.
        has_usage_option: whether a stream tells its usage only where the request asks for it.
        answers_each_prompt: whether a request may have several prompts, each with choices of its
            own.
    """

    name: str
    path_end: str
    operation: str | None
    span_name: str
    span_kind: SpanKind = SpanKind.LLM
    api_type: str | None = None
    content: Content = Content.MESSAGES
    has_usage_option: bool = False
    answers_each_prompt: bool = False
