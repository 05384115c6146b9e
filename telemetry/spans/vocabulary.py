"""The one table of all values of a span that are a word or a number, in both vocabularies.

OpenInference is what Phoenix reads, OpenTelemetry's GenAI conventions are what Jaeger and others do
(``docs/contract/spans.md#opentelemetry``). Other modules make messages, tools and raw values.
Everything else that has a name in either vocabulary is here once, with its value, which
:mod:`telemetry.spans.concept_values` reads. Both names are written. If the vocabularies spell a
value differently, the row has a reader for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from openinference.semconv.trace import RerankerAttributes, SpanAttributes
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.semconv._incubating.attributes import openai_attributes as openai
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.semconv.attributes.http_attributes import (
    HTTP_REQUEST_RESEND_COUNT,
    HTTP_RESPONSE_STATUS_CODE,
)
from opentelemetry.semconv.attributes.network_attributes import NETWORK_PROTOCOL_NAME
from opentelemetry.semconv.attributes.server_attributes import SERVER_ADDRESS, SERVER_PORT
from opentelemetry.semconv.attributes.url_attributes import URL_PATH
from opentelemetry.semconv.attributes.user_agent_attributes import USER_AGENT_ORIGINAL

from telemetry.spans.concept_reading import OfPart, RowReader
from telemetry.spans.concept_values import (
    CHOICE_COUNT,
    OUTPUT_TYPE,
    SERVICE_TIER,
    STREAM,
    find_derived,
    find_endings,
    find_exchange,
    find_models,
    find_response,
    find_service,
    find_usage,
    read_float,
    read_int,
    read_texts,
)

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange
    from telemetry.spans.concept_reading import Pairs, Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Concept:
    """A row of the table.

    Attributes:
        meaning: in words, for the documentation.
        openinference: its name there, ``None`` if it has none.
        opentelemetry: likewise.
        read: its value.
        read_opentelemetry: its value for OpenTelemetry, if that differs.
    """

    meaning: str
    openinference: str | None = None
    opentelemetry: str | None = None
    read: Reader
    read_opentelemetry: Reader | None = None


def build_concept_attributes(exchange: Exchange) -> tuple[Pairs, Pairs]:
    """The table in the words of OpenTelemetry, and in those of OpenInference."""
    values = _READER.read(exchange)
    middle = len(_OPENTELEMETRY_NAMES)
    return (
        zip(_OPENTELEMETRY_NAMES, values[:middle], strict=True),
        zip(_OPENINFERENCE_NAMES, values[middle:], strict=True),
    )


CONCEPTS: Final = (
    Concept(
        meaning="what the call does",
        opentelemetry=gen_ai.GEN_AI_OPERATION_NAME,
        read=OfPart(find_service, "operation"),
    ),
    Concept(
        meaning="kind of the span",
        openinference=SpanAttributes.OPENINFERENCE_SPAN_KIND,
        read=OfPart(find_service, "kind"),
    ),
    Concept(
        meaning="shape of the API",
        openinference=SpanAttributes.LLM_SYSTEM,
        opentelemetry=openai.OPENAI_API_TYPE,
        read=OfPart(find_service, "system"),
        read_opentelemetry=OfPart(find_service, "api_type"),
    ),
    Concept(
        meaning="who runs the hardware",
        openinference=SpanAttributes.LLM_PROVIDER,
        opentelemetry=gen_ai.GEN_AI_PROVIDER_NAME,
        read=OfPart(find_service, "provider"),
        read_opentelemetry=OfPart(find_service, "genai_provider"),
    ),
    Concept(
        meaning="the model, as answered, else as asked for",
        openinference=SpanAttributes.LLM_MODEL_NAME,
        read=OfPart(find_models, "of_chat"),
    ),
    Concept(
        meaning="the model of an embedding",
        openinference=SpanAttributes.EMBEDDING_MODEL_NAME,
        read=OfPart(find_models, "of_embedding"),
    ),
    Concept(
        meaning="the model of a reranker",
        openinference=RerankerAttributes.RERANKER_MODEL_NAME,
        read=OfPart(find_models, "of_reranker"),
    ),
    Concept(
        meaning="limit of ranked documents",
        openinference=RerankerAttributes.RERANKER_TOP_K,
        read=OfPart(find_derived, "rank_limit"),
    ),
    Concept(
        meaning="the model that was asked for",
        openinference=SpanAttributes.LLM_REQUEST_MODEL_NAME,
        opentelemetry=gen_ai.GEN_AI_REQUEST_MODEL,
        read=OfPart(find_models, "asked_if_other"),
        read_opentelemetry=OfPart(find_models, "asked"),
    ),
    Concept(
        meaning="the model that answered",
        openinference=SpanAttributes.LLM_RESPONSE_MODEL_NAME,
        opentelemetry=gen_ai.GEN_AI_RESPONSE_MODEL,
        read=OfPart(find_models, "answered_if_other"),
        read_opentelemetry=OfPart(find_models, "answered"),
    ),
    Concept(
        meaning="a stream was asked for",
        opentelemetry=gen_ai.GEN_AI_REQUEST_STREAM,
        read=STREAM,
    ),
    Concept(
        meaning="temperature",
        opentelemetry=gen_ai.GEN_AI_REQUEST_TEMPERATURE,
        read=read_float("temperature"),
    ),
    Concept(
        meaning="nucleus sampling",
        opentelemetry=gen_ai.GEN_AI_REQUEST_TOP_P,
        read=read_float("top_p"),
    ),
    Concept(
        meaning="top-k sampling",
        opentelemetry=gen_ai.GEN_AI_REQUEST_TOP_K,
        read=read_float("top_k"),
    ),
    Concept(
        meaning="frequency penalty",
        opentelemetry=gen_ai.GEN_AI_REQUEST_FREQUENCY_PENALTY,
        read=read_float("frequency_penalty"),
    ),
    Concept(
        meaning="presence penalty",
        opentelemetry=gen_ai.GEN_AI_REQUEST_PRESENCE_PENALTY,
        read=read_float("presence_penalty"),
    ),
    Concept(
        meaning="limit of answer tokens",
        opentelemetry=gen_ai.GEN_AI_REQUEST_MAX_TOKENS,
        read=read_int("max_completion_tokens", "max_tokens"),
    ),
    Concept(meaning="seed", opentelemetry=gen_ai.GEN_AI_REQUEST_SEED, read=read_int("seed")),
    Concept(
        meaning="number of choices asked for, if not 1",
        opentelemetry=gen_ai.GEN_AI_REQUEST_CHOICE_COUNT,
        read=CHOICE_COUNT,
    ),
    Concept(
        meaning="stop sequences",
        opentelemetry=gen_ai.GEN_AI_REQUEST_STOP_SEQUENCES,
        read=read_texts("stop"),
    ),
    Concept(
        meaning="encoding of an embedding",
        opentelemetry=gen_ai.GEN_AI_REQUEST_ENCODING_FORMATS,
        read=read_texts("encoding_format"),
    ),
    Concept(
        meaning="form of the output: text, json, speech, image",
        opentelemetry=gen_ai.GEN_AI_OUTPUT_TYPE,
        read=OUTPUT_TYPE,
    ),
    Concept(
        meaning="service tier asked for",
        opentelemetry=openai.OPENAI_REQUEST_SERVICE_TIER,
        read=SERVICE_TIER,
    ),
    Concept(
        meaning="service tier of the answer",
        opentelemetry=openai.OPENAI_RESPONSE_SERVICE_TIER,
        read=OfPart(find_response, "service_tier"),
    ),
    Concept(
        meaning="fingerprint of the serving system",
        opentelemetry=openai.OPENAI_RESPONSE_SYSTEM_FINGERPRINT,
        read=OfPart(find_response, "system_fingerprint"),
    ),
    Concept(
        meaning="id of the answer",
        opentelemetry=gen_ai.GEN_AI_RESPONSE_ID,
        read=OfPart(find_response, "id"),
    ),
    Concept(
        meaning="time to the first chunk, in seconds",
        opentelemetry=gen_ai.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK,
        read=OfPart(find_derived, "first_chunk_seconds"),
    ),
    Concept(
        meaning="the end user",
        openinference=SpanAttributes.USER_ID,
        read=OfPart(find_exchange, "context.user_id"),
    ),
    Concept(
        meaning="the session, or conversation",
        openinference=SpanAttributes.SESSION_ID,
        opentelemetry=gen_ai.GEN_AI_CONVERSATION_ID,
        read=OfPart(find_exchange, "context.session_id"),
        read_opentelemetry=OfPart(find_derived, "conversation"),
    ),
    Concept(
        meaning="host of the upstream",
        opentelemetry=SERVER_ADDRESS,
        read=OfPart(find_exchange, "server_address"),
    ),
    Concept(
        meaning="port of the upstream",
        opentelemetry=SERVER_PORT,
        read=OfPart(find_exchange, "server_port"),
    ),
    Concept(
        meaning="path of the request, without its query",
        opentelemetry=URL_PATH,
        read=OfPart(find_derived, "path"),
    ),
    Concept(
        meaning="`websocket` for a call over one",
        opentelemetry=NETWORK_PROTOCOL_NAME,
        read=OfPart(find_exchange, "protocol"),
    ),
    Concept(
        meaning="the client's program",
        opentelemetry=USER_AGENT_ORIGINAL,
        read=OfPart(find_exchange, "user_agent"),
    ),
    Concept(
        meaning="HTTP status",
        opentelemetry=HTTP_RESPONSE_STATUS_CODE,
        read=OfPart(find_exchange, "response_status"),
    ),
    Concept(
        meaning="how often the request was sent again",
        opentelemetry=HTTP_REQUEST_RESEND_COUNT,
        read=OfPart(find_derived, "resends"),
    ),
    Concept(
        meaning="class of the error",
        opentelemetry=ERROR_TYPE,
        read=OfPart(find_exchange, "error_type"),
    ),
    Concept(
        meaning="tokens of the request, cached ones included",
        openinference=SpanAttributes.LLM_TOKEN_COUNT_PROMPT,
        opentelemetry=gen_ai.GEN_AI_USAGE_INPUT_TOKENS,
        read=OfPart(find_usage, "prompt"),
    ),
    Concept(
        meaning="tokens of the answer",
        openinference=SpanAttributes.LLM_TOKEN_COUNT_COMPLETION,
        opentelemetry=gen_ai.GEN_AI_USAGE_OUTPUT_TOKENS,
        read=OfPart(find_usage, "completion"),
    ),
    Concept(
        meaning="tokens in all",
        openinference=SpanAttributes.LLM_TOKEN_COUNT_TOTAL,
        read=OfPart(find_usage, "total"),
    ),
    Concept(
        meaning="tokens of the request that came from a cache",
        openinference=SpanAttributes.LLM_TOKEN_COUNT_PROMPT_DETAILS_CACHE_READ,
        opentelemetry=gen_ai.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
        read=OfPart(find_usage, "cache_read"),
    ),
    Concept(
        meaning="tokens of the request that were written to a cache",
        openinference=SpanAttributes.LLM_TOKEN_COUNT_PROMPT_DETAILS_CACHE_WRITE,
        opentelemetry=gen_ai.GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS,
        read=OfPart(find_usage, "cache_write"),
    ),
    Concept(
        meaning="audio tokens of the request",
        openinference=SpanAttributes.LLM_TOKEN_COUNT_PROMPT_DETAILS_AUDIO,
        read=OfPart(find_usage, "prompt_audio"),
    ),
    Concept(
        meaning="tokens of reasoning",
        openinference=SpanAttributes.LLM_TOKEN_COUNT_COMPLETION_DETAILS_REASONING,
        opentelemetry=gen_ai.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS,
        read=OfPart(find_usage, "reasoning"),
    ),
    Concept(
        meaning="audio tokens of the answer",
        openinference=SpanAttributes.LLM_TOKEN_COUNT_COMPLETION_DETAILS_AUDIO,
        read=OfPart(find_usage, "completion_audio"),
    ),
    Concept(
        meaning="why the answer ended: of choice 0; of every choice",
        openinference=SpanAttributes.LLM_FINISH_REASON,
        opentelemetry=gen_ai.GEN_AI_RESPONSE_FINISH_REASONS,
        read=OfPart(find_endings, "first"),
        read_opentelemetry=OfPart(find_endings, "every"),
    ),
)
"""The table. Its order is the order on the span, of each vocabulary."""

_OPENTELEMETRY: Final = [row for row in CONCEPTS if row.opentelemetry is not None]
_OPENINFERENCE: Final = [row for row in CONCEPTS if row.openinference is not None]
_OPENTELEMETRY_NAMES: Final = [str(row.opentelemetry) for row in _OPENTELEMETRY]
_OPENINFERENCE_NAMES: Final = [str(row.openinference) for row in _OPENINFERENCE]

_READER: Final = RowReader(
    [
        *(row.read_opentelemetry or row.read for row in _OPENTELEMETRY),
        *(row.read for row in _OPENINFERENCE),
    ]
)
