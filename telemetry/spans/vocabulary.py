"""The one table of what a span says in a word or a number, in both vocabularies.

OpenInference is what Phoenix reads, OpenTelemetry's GenAI conventions are what Jaeger and others do
(``span-contract.md`` 1.1, 1.4, 7.1, 7.4). Messages, tools and raw values are no such concepts; they
have rooms of their own.

Rules:

1. Whatever is a word or a number and has a name in either vocabulary stands here once, with its
   value.
2. Both sides are written. Where they spell a value differently, the row has a reader for each.
3. A member of the client's JSON that is not of the kind the name takes is left out; ``true`` is no
   number, nor is infinity. Of lists the first :data:`MAX_TEXTS` members count. Nothing raises.
4. What did not come is absent; zero is not absent (R6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from openinference.semconv.trace import (
    OpenInferenceLLMSystemValues,
    SpanAttributes,
)
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.semconv._incubating.attributes import openai_attributes as openai
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.semconv.attributes.http_attributes import (
    HTTP_REQUEST_RESEND_COUNT,
    HTTP_RESPONSE_STATUS_CODE,
)
from opentelemetry.semconv.attributes.server_attributes import SERVER_ADDRESS, SERVER_PORT

from codec.apis.api import SpanKind
from codec.apis.table import get_api
from telemetry.provider import find_genai_provider, find_provider
from telemetry.spans.concept_reading import OfPart, OfRequest, join_tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codec.usage import Usage
    from telemetry.observing.exchange import Exchange
    from telemetry.spans.concept_reading import Pairs, Reader

__all__ = (
    "CONCEPTS",
    "Concept",
    "build_concept_attributes",
)

MAX_TEXTS = 64
"""Of a list in a request: providers take 4 to 16 stop sequences. An array has no other limit, and
one of a million empty texts would count as nothing where attributes are measured."""

_OPENAI_SYSTEM: Final[str] = OpenInferenceLLMSystemValues.OPENAI.value

MAX_CACHED_SERVICES: Final = 256
"""Endpoints of upstreams, which are those of the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concept:
    """A row of the table.

    Attributes:
        meaning: in words, for the documentation.
        openinference: its name there, ``None`` where it has none.
        opentelemetry: its name there.
        read: its value.
        read_opentelemetry: the value there, where that is another one.
    """

    meaning: str
    openinference: str | None = None
    opentelemetry: str | None = None
    read: Reader
    read_opentelemetry: Reader | None = None


def build_concept_attributes(exchange: Exchange) -> tuple[Pairs, Pairs]:
    """The table in the words of OpenTelemetry, and in those of OpenInference."""
    opentelemetry, openinference = _READ(exchange)
    return opentelemetry, openinference


class _Service(NamedTuple):
    """What is the same for all calls of an endpoint of an upstream."""

    operation: str | None
    kind: str
    system: str | None
    api_type: str | None
    provider: str | None
    genai_provider: str


def _service(exchange: Exchange) -> _Service:
    return _find_service(exchange.endpoint, exchange.provider, exchange.server_address)


@lru_cache(maxsize=MAX_CACHED_SERVICES)
def _find_service(endpoint: str, provider: str | None, host: str | None) -> _Service:
    api = get_api(endpoint)
    is_embedding = api.span_kind is SpanKind.EMBEDDING
    return _Service(
        operation=api.operation,
        kind=api.span_kind.value,
        # OpenInference's embedding spans have neither a system nor a provider.
        system=None if is_embedding else _OPENAI_SYSTEM,
        api_type=api.api_type,
        provider=None if is_embedding else find_provider(provider, host),
        genai_provider=find_genai_provider(provider, host),
    )


class _Models(NamedTuple):
    """The names of a call's model, as each attribute wants them."""

    asked: str | None
    answered: str | None
    of_chat: str | None = None
    of_embedding: str | None = None
    asked_if_other: str | None = None
    answered_if_other: str | None = None


def _models(exchange: Exchange) -> _Models:
    asked = exchange.request.model if exchange.request is not None else None
    answered = exchange.response.model if exchange.response is not None else None
    if exchange.api.span_kind is SpanKind.EMBEDDING:
        return _Models(asked, answered, of_embedding=answered or asked)
    if asked and answered and asked != answered:
        # The specification wants both only where they are known and not the same.
        return _Models(asked, answered, answered, None, asked, answered)
    return _Models(asked, answered, answered or asked)


def _itself(exchange: Exchange) -> Exchange:
    return exchange


def _response(exchange: Exchange) -> object:
    return exchange.response


def _usage(exchange: Exchange) -> Usage | None:
    return exchange.response.usage if exchange.response is not None else None


def _conversation(exchange: Exchange) -> str | None:
    """The provider's own, also where the client's session is another one."""
    return exchange.context.conversation_id or exchange.context.session_id


class _Endings(NamedTuple):
    """Why an answer ended.

    Attributes:
        first: of choice 0, never another's and never invented.
        every: of all choices, as they came: ``tool_calls`` stays plural.
    """

    first: str | None
    every: tuple[str, ...]


def _endings(exchange: Exchange) -> _Endings | None:
    if exchange.response is None or (exchange.response_status or 0) >= 400:
        return None  # an error has no choices (contract 2.1)
    reasons = exchange.response.finish_reasons
    first = next((word for index, word in reasons if index == 0), None)
    return _Endings(first, tuple([word for _, word in reasons])) if reasons else None


def _float(name: str) -> OfRequest:
    def read(body: Mapping[str, Any]) -> float | None:
        value = body.get(name)
        if type(value) is not float and type(value) is not int:
            return None
        try:
            number = float(value)
        except OverflowError:  # an integer of hundreds of digits
            return None
        return number if math.isfinite(number) else None

    return OfRequest(read)


def _int(*names: str) -> OfRequest:
    """The first member that is an integer."""

    def read(body: Mapping[str, Any]) -> int | None:
        values = [body.get(name) for name in names]
        return next((value for value in values if type(value) is int), None)

    return OfRequest(read)


def _choice_count(body: Mapping[str, Any]) -> int | None:
    count = body.get("n")
    return count if type(count) is int and count != 1 else None


def _stream(body: Mapping[str, Any]) -> bool | None:
    return body.get("stream") is True or None


def _texts(body: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A text, or a list of them."""
    value = body.get(name)
    values = value if isinstance(value, list) else [value]
    return tuple([v for v in values[:MAX_TEXTS] if isinstance(v, str) and v])


def _texts_of(name: str) -> OfRequest:
    return OfRequest(lambda body: _texts(body, name))


def _service_tier(body: Mapping[str, Any]) -> str | None:
    """But for the default, which the conventions do not want told."""
    tier = body.get("service_tier")
    return tier if isinstance(tier, str) and tier not in {"", "auto"} else None


def _output_type(body: Mapping[str, Any]) -> str | None:
    modalities = _texts(body, "modalities")
    for modality, output_type in (("audio", "speech"), ("image", "image")):
        if modality in modalities:
            return output_type
    wanted = body.get("response_format")
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    return _OUTPUT_TYPES.get(kind) if isinstance(kind, str) else None


_OUTPUT_TYPES: Final = {"text": "text", "json_object": "json", "json_schema": "json"}


def _time_to_first_chunk(exchange: Exchange) -> float | None:
    if not exchange.streamed or exchange.first_chunk_ns is None:
        return None
    return (exchange.first_chunk_ns - exchange.start_ns) / 1e9


CONCEPTS: Final = (
    Concept(
        meaning="what the call does",
        opentelemetry=gen_ai.GEN_AI_OPERATION_NAME,
        read=OfPart(_service, "operation"),
    ),
    Concept(
        meaning="kind of the span",
        openinference=SpanAttributes.OPENINFERENCE_SPAN_KIND,
        read=OfPart(_service, "kind"),
    ),
    Concept(
        meaning="shape of the API",
        openinference=SpanAttributes.LLM_SYSTEM,
        opentelemetry=openai.OPENAI_API_TYPE,
        read=OfPart(_service, "system"),
        read_opentelemetry=OfPart(_service, "api_type"),
    ),
    Concept(
        meaning="who runs the hardware",
        openinference=SpanAttributes.LLM_PROVIDER,
        opentelemetry=gen_ai.GEN_AI_PROVIDER_NAME,
        read=OfPart(_service, "provider"),
        read_opentelemetry=OfPart(_service, "genai_provider"),
    ),
    Concept(
        meaning="the model, as answered, else as asked for",
        openinference=SpanAttributes.LLM_MODEL_NAME,
        read=OfPart(_models, "of_chat"),
    ),
    Concept(
        meaning="the model of an embedding",
        openinference=SpanAttributes.EMBEDDING_MODEL_NAME,
        read=OfPart(_models, "of_embedding"),
    ),
    Concept(
        meaning="the model that was asked for",
        openinference=SpanAttributes.LLM_REQUEST_MODEL_NAME,
        opentelemetry=gen_ai.GEN_AI_REQUEST_MODEL,
        read=OfPart(_models, "asked_if_other"),
        read_opentelemetry=OfPart(_models, "asked"),
    ),
    Concept(
        meaning="the model that answered",
        openinference=SpanAttributes.LLM_RESPONSE_MODEL_NAME,
        opentelemetry=gen_ai.GEN_AI_RESPONSE_MODEL,
        read=OfPart(_models, "answered_if_other"),
        read_opentelemetry=OfPart(_models, "answered"),
    ),
    Concept(
        meaning="a stream was asked for",
        opentelemetry=gen_ai.GEN_AI_REQUEST_STREAM,
        read=OfRequest(_stream),
    ),
    Concept(
        meaning="temperature",
        opentelemetry=gen_ai.GEN_AI_REQUEST_TEMPERATURE,
        read=_float("temperature"),
    ),
    Concept(
        meaning="nucleus sampling",
        opentelemetry=gen_ai.GEN_AI_REQUEST_TOP_P,
        read=_float("top_p"),
    ),
    Concept(
        meaning="top-k sampling",
        opentelemetry=gen_ai.GEN_AI_REQUEST_TOP_K,
        read=_float("top_k"),
    ),
    Concept(
        meaning="frequency penalty",
        opentelemetry=gen_ai.GEN_AI_REQUEST_FREQUENCY_PENALTY,
        read=_float("frequency_penalty"),
    ),
    Concept(
        meaning="presence penalty",
        opentelemetry=gen_ai.GEN_AI_REQUEST_PRESENCE_PENALTY,
        read=_float("presence_penalty"),
    ),
    Concept(
        meaning="most tokens of the answer",
        opentelemetry=gen_ai.GEN_AI_REQUEST_MAX_TOKENS,
        read=_int("max_completion_tokens", "max_tokens"),
    ),
    Concept(meaning="seed", opentelemetry=gen_ai.GEN_AI_REQUEST_SEED, read=_int("seed")),
    Concept(
        meaning="how many choices were asked for, if not one",
        opentelemetry=gen_ai.GEN_AI_REQUEST_CHOICE_COUNT,
        read=OfRequest(_choice_count),
    ),
    Concept(
        meaning="stop sequences",
        opentelemetry=gen_ai.GEN_AI_REQUEST_STOP_SEQUENCES,
        read=_texts_of("stop"),
    ),
    Concept(
        meaning="encoding of an embedding",
        opentelemetry=gen_ai.GEN_AI_REQUEST_ENCODING_FORMATS,
        read=_texts_of("encoding_format"),
    ),
    Concept(
        meaning="form of the output: text, json, speech, image",
        opentelemetry=gen_ai.GEN_AI_OUTPUT_TYPE,
        read=OfRequest(_output_type),
    ),
    Concept(
        meaning="service tier asked for",
        opentelemetry=openai.OPENAI_REQUEST_SERVICE_TIER,
        read=OfRequest(_service_tier),
    ),
    Concept(
        meaning="service tier of the answer",
        opentelemetry=openai.OPENAI_RESPONSE_SERVICE_TIER,
        read=OfPart(_response, "service_tier"),
    ),
    Concept(
        meaning="fingerprint of the serving system",
        opentelemetry=openai.OPENAI_RESPONSE_SYSTEM_FINGERPRINT,
        read=OfPart(_response, "system_fingerprint"),
    ),
    Concept(
        meaning="id of the answer",
        opentelemetry=gen_ai.GEN_AI_RESPONSE_ID,
        read=OfPart(_response, "id"),
    ),
    Concept(
        meaning="time to the first chunk, in seconds",
        opentelemetry=gen_ai.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK,
        read=_time_to_first_chunk,
    ),
    Concept(
        meaning="the end user",
        openinference=SpanAttributes.USER_ID,
        read=OfPart(_itself, "context.user_id"),
    ),
    Concept(
        meaning="the session, or conversation",
        openinference=SpanAttributes.SESSION_ID,
        opentelemetry=gen_ai.GEN_AI_CONVERSATION_ID,
        read=OfPart(_itself, "context.session_id"),
        read_opentelemetry=_conversation,
    ),
    Concept(
        meaning="host of the upstream",
        opentelemetry=SERVER_ADDRESS,
        read=OfPart(_itself, "server_address"),
    ),
    Concept(
        meaning="port of the upstream",
        opentelemetry=SERVER_PORT,
        read=OfPart(_itself, "server_port"),
    ),
    Concept(
        meaning="HTTP status",
        opentelemetry=HTTP_RESPONSE_STATUS_CODE,
        read=OfPart(_itself, "response_status"),
    ),
    Concept(
        meaning="how often the request was sent again",
        opentelemetry=HTTP_REQUEST_RESEND_COUNT,
        read=lambda exchange: exchange.resend_count or None,
    ),
    Concept(
        meaning="class of the error",
        opentelemetry=ERROR_TYPE,
        read=OfPart(_itself, "error_type"),
    ),
    Concept(
        meaning="tokens of the request, cached ones included",
        openinference=SpanAttributes.LLM_TOKEN_COUNT_PROMPT,
        opentelemetry=gen_ai.GEN_AI_USAGE_INPUT_TOKENS,
        read=OfPart(_usage, "prompt"),
    ),
    Concept(
        meaning="tokens of the answer",
        openinference=SpanAttributes.LLM_TOKEN_COUNT_COMPLETION,
        opentelemetry=gen_ai.GEN_AI_USAGE_OUTPUT_TOKENS,
        read=OfPart(_usage, "completion"),
    ),
    Concept(
        meaning="tokens in all",
        openinference=SpanAttributes.LLM_TOKEN_COUNT_TOTAL,
        read=OfPart(_usage, "total"),
    ),
    Concept(
        meaning="tokens of the request that came from a cache",
        openinference=SpanAttributes.LLM_TOKEN_COUNT_PROMPT_DETAILS_CACHE_READ,
        opentelemetry=gen_ai.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
        read=OfPart(_usage, "cache_read"),
    ),
    Concept(
        meaning="tokens of the request that were written to a cache",
        openinference=SpanAttributes.LLM_TOKEN_COUNT_PROMPT_DETAILS_CACHE_WRITE,
        opentelemetry=gen_ai.GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS,
        read=OfPart(_usage, "cache_write"),
    ),
    Concept(
        meaning="audio tokens of the request",
        openinference=SpanAttributes.LLM_TOKEN_COUNT_PROMPT_DETAILS_AUDIO,
        read=OfPart(_usage, "prompt_audio"),
    ),
    Concept(
        meaning="tokens of reasoning",
        openinference=SpanAttributes.LLM_TOKEN_COUNT_COMPLETION_DETAILS_REASONING,
        opentelemetry=gen_ai.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS,
        read=OfPart(_usage, "reasoning"),
    ),
    Concept(
        meaning="audio tokens of the answer",
        openinference=SpanAttributes.LLM_TOKEN_COUNT_COMPLETION_DETAILS_AUDIO,
        read=OfPart(_usage, "completion_audio"),
    ),
    Concept(
        meaning="why the answer ended: of choice 0; of every choice",
        openinference=SpanAttributes.LLM_FINISH_REASON,
        opentelemetry=gen_ai.GEN_AI_RESPONSE_FINISH_REASONS,
        read=OfPart(_endings, "first"),
        read_opentelemetry=OfPart(_endings, "every"),
    ),
)
"""The table. Its order is the order on the span, of each vocabulary."""

_READ: Final = join_tables(
    (
        [
            (row.opentelemetry, row.read_opentelemetry or row.read)
            for row in CONCEPTS
            if row.opentelemetry is not None
        ],
        [(row.openinference, row.read) for row in CONCEPTS if row.openinference is not None],
    )
)
"""What reads the rows of both vocabularies."""
