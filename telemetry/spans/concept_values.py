"""The values of the concepts: parts of an exchange, and the options of its request.

A member of the client's JSON is left out if its value is not of the kind that its name takes;
``true`` and infinity are not numbers. A value that did not come is absent, and zero is a value
(R6). Nothing raises.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from codec.apis.api import SpanKind
from codec.apis.table import get_api
from telemetry.privacy.path_keys import hide_keys
from telemetry.provider import find_genai_provider, find_provider
from telemetry.spans.concept_reading import OfRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codec.usage import Usage
    from telemetry.observing.exchange import Exchange

MAX_TEXTS: Final = 64
"""The most texts of a list in a request; later ones are left out. Providers take 4 to 16 stop
sequences. An array has no other limit, and a million empty texts would count as nothing when
attributes are measured."""

MAX_CACHED_SERVICES: Final = 256
"""The number of endpoints of upstreams that are remembered; all upstreams are in the settings."""

_OUTPUT_TYPES: Final = {"text": "text", "json_object": "json", "json_schema": "json"}


class _Service(NamedTuple):
    operation: str | None
    kind: str
    system: str | None
    api_type: str | None
    provider: str | None
    genai_provider: str


def find_service(exchange: Exchange) -> _Service:
    """Find the values that all calls of an endpoint of an upstream share."""
    return _find_service(exchange.endpoint, exchange.provider, exchange.server_address)


@lru_cache(maxsize=MAX_CACHED_SERVICES)
def _find_service(endpoint: str, provider: str | None, host: str | None) -> _Service:
    api = get_api(endpoint)
    is_llm = api.span_kind is SpanKind.LLM
    return _Service(
        operation=api.operation,
        kind=api.span_kind.value,
        # Of OpenInference's kinds only an LLM has a system and a provider.
        system=api.system,
        api_type=api.api_type,
        provider=find_provider(provider, host) if is_llm else None,
        genai_provider=find_genai_provider(provider, host),
    )


class _Models(NamedTuple):
    asked: str | None
    answered: str | None
    of_chat: str | None = None
    of_embedding: str | None = None
    of_reranker: str | None = None
    asked_if_other: str | None = None
    answered_if_other: str | None = None


def find_models(exchange: Exchange) -> _Models:
    """Find the names of the model, as asked for and as answered."""
    asked = exchange.request.model if exchange.request is not None else None
    answered = exchange.response.model if exchange.response is not None else None
    kind = exchange.api.span_kind
    if kind is SpanKind.EMBEDDING:
        return _Models(asked, answered, of_embedding=answered or asked)
    if kind is SpanKind.RERANKER:
        return _Models(asked, answered, of_reranker=answered or asked)
    if kind is not SpanKind.LLM:
        return _Models(asked, answered)  # backends price by ``llm.model_name``
    if asked and answered and asked != answered:
        # The specification wants both only if they are known and differ.
        return _Models(asked, answered, answered, asked_if_other=asked, answered_if_other=answered)
    return _Models(asked, answered, answered or asked)


def find_exchange(exchange: Exchange) -> Exchange:
    """Give the exchange itself, for rows that read its own attributes."""
    return exchange


def find_response(exchange: Exchange) -> object:
    """Find the answer, ``None`` if none could be read."""
    return exchange.response


def find_usage(exchange: Exchange) -> Usage | None:
    """Find the token counts that the provider reported."""
    return exchange.response.usage if exchange.response is not None else None


class _Derived(NamedTuple):
    """Attributes of spans that no single attribute of an exchange holds.

    Attributes:
        conversation: the provider's, even if the client's session is another one.
        first_chunk_seconds: from the start to the first chunk, of a stream.
        path: the path of the request, without its query, and without parts that look like a key.
        resends: how often the request was sent again, if ever.
        rank_limit: how many documents a ranking is to have at most.
    """

    conversation: str | None
    first_chunk_seconds: float | None
    path: str | None
    resends: int | None
    rank_limit: int | None


def find_derived(exchange: Exchange) -> _Derived:
    """Find the values that no single attribute of the exchange holds."""
    context = exchange.context
    first_chunk_seconds = None
    if exchange.streamed and exchange.first_chunk_ns is not None:
        first_chunk_seconds = (exchange.first_chunk_ns - exchange.start_ns) / 1e9
    return _Derived(
        context.conversation_id or context.session_id,
        first_chunk_seconds,
        hide_keys(exchange.path) or None,
        exchange.resend_count or None,
        exchange.request.rank_limit if exchange.request is not None else None,
    )


class _Endings(NamedTuple):
    """The reasons why an answer ended.

    Attributes:
        first: the reason of choice 0, never of another choice, and never invented.
        every: the reasons of all choices, as they came: ``tool_calls`` stays plural.
    """

    first: str | None
    every: tuple[str, ...]


def find_endings(exchange: Exchange) -> _Endings | None:
    """Find why the answer ended; an error has no choices (``docs/contract/spans.md#endings``)."""
    if exchange.response is None or (exchange.response_status or 0) >= 400:
        return None
    reasons = exchange.response.finish_reasons
    if not reasons:
        return None
    indexes, words = zip(*reasons, strict=True)
    return _Endings(words[indexes.index(0)] if 0 in indexes else None, words)


def read_float(name: str) -> OfRequest:
    """Read a finite number."""

    def read(options: Mapping[str, Any]) -> float | None:
        value = options.get(name)
        if type(value) is not float and type(value) is not int:
            return None
        try:
            number = float(value)
        except OverflowError:  # an integer of hundreds of digits
            return None
        return number if math.isfinite(number) else None

    return OfRequest(frozenset({name}), read)


def read_int(*names: str) -> OfRequest:
    """Read the first of these members that is an integer."""

    def read(options: Mapping[str, Any]) -> int | None:
        for name in names:
            if type(value := options.get(name)) is int:
                return value
        return None

    return OfRequest(frozenset(names), read)


def _choice_count(options: Mapping[str, Any]) -> int | None:
    count = options.get("n")
    return count if type(count) is int and count != 1 else None


def _stream(options: Mapping[str, Any]) -> bool | None:
    return options.get("stream") is True or None


def read_texts(name: str) -> OfRequest:
    """Read a text, or a list of them."""
    return OfRequest(frozenset({name}), lambda options: _texts(options, name))


def _texts(options: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = options.get(name)
    values = value if isinstance(value, list) else [value]
    return tuple([v for v in values[:MAX_TEXTS] if isinstance(v, str) and v])


def _service_tier(options: Mapping[str, Any]) -> str | None:
    """Read the tier, except for the default, which the conventions leave out."""
    tier = options.get("service_tier")
    return tier if isinstance(tier, str) and tier not in {"", "auto"} else None


def _output_type(options: Mapping[str, Any]) -> str | None:
    modalities = _texts(options, "modalities")
    for modality, output_type in (("audio", "speech"), ("image", "image")):
        if modality in modalities:
            return output_type
    wanted = options.get("response_format")
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    return _OUTPUT_TYPES.get(kind) if isinstance(kind, str) else None


STREAM: Final = OfRequest(frozenset({"stream"}), _stream)
CHOICE_COUNT: Final = OfRequest(frozenset({"n"}), _choice_count)
SERVICE_TIER: Final = OfRequest(frozenset({"service_tier"}), _service_tier)
OUTPUT_TYPE: Final = OfRequest(frozenset({"modalities", "response_format"}), _output_type)
