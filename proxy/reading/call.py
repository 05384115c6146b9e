"""A recorded call, read from its span: the flat attributes become messages, tools and numbers.

It reads what ``docs/contract/spans.md#the-span`` describes. No value raises: an absent one is
``None`` or empty, and one of another form is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from openinference.semconv.trace import (
    OpenInferenceMimeTypeValues,
    RerankerAttributes,
    SpanAttributes,
)
from opentelemetry.semconv._incubating.attributes.gen_ai_attributes import (
    GEN_AI_OPERATION_NAME,
    GEN_AI_REQUEST_STREAM,
)
from opentelemetry.semconv.attributes.network_attributes import NETWORK_PROTOCOL_NAME

from codec.members import list_of, object_of, string_of
from codec.verdicts import Verdict
from proxy.reading.flat_messages import (
    ContentPart,
    RecordedDocument,
    RecordedMessage,
    find_request_body,
    find_response_body,
    list_items,
    mark_refusal,
    nest,
    read_document,
    read_message,
    read_ranked,
    read_tool,
)
from proxy.reading.pictures import add_pictures, find_common_reason, group_pictures
from telemetry.reading.limits import read_limits
from telemetry.semconv import WEBSOCKET, MetadataMember
from telemetry.spans.otlp.decoding import DecodedSpan, decode_spans
from telemetry.store.checksum import DAMAGED_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.asked import Tool
    from codec.rate_limits import RateLimit
    from codec.text.jsontext import JsonObject
    from proxy.reading.pictures import Pictures
    from telemetry.reading.calls import Calls
    from telemetry.store.rows import CallPicture, SpanSummary, StoredSpan


@dataclass(frozen=True, kw_only=True)
class RecordedCall:
    """One call as the store has it: its row and its span, decoded on demand."""

    summary: SpanSummary
    span: DecodedSpan
    pictures: Sequence[CallPicture] = ()

    @property
    def duration_ns(self) -> int:
        """The time from the start of the request to the end of the answer."""
        return self.summary.end_ns - self.summary.start_ns

    def text(self, name: str) -> str | None:
        """Return the attribute of this name if it is a text, else ``None``."""
        return string_of(self.span.attributes.get(name))

    @property
    def finish_reason(self) -> str | None:
        """The finish reason of choice 0, verbatim."""
        return self.text(SpanAttributes.LLM_FINISH_REASON)

    @property
    def error_type(self) -> str | None:
        """The class of the error (``docs/contract/spans.md#error-type``)."""
        return self.text("error.type")

    @property
    def ttft_ms(self) -> float | None:
        """The milliseconds to the first token of a stream."""
        value = self.metadata.get(MetadataMember.TTFT_MS)
        return value if isinstance(value, int | float) else None

    @property
    def request_id(self) -> str | None:
        """The provider's own id of the request."""
        return string_of(self.metadata.get(MetadataMember.REQUEST_ID))

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that the client gave."""
        tags = self.span.attributes.get(SpanAttributes.TAG_TAGS)
        return tuple(filter(None, map(string_of, tags))) if isinstance(tags, list) else ()

    @property
    def cost_usd(self) -> float | None:
        """The cost of the call, in US dollars."""
        cost = self.span.attributes.get(SpanAttributes.LLM_COST_TOTAL)
        return cost if isinstance(cost, float) else None

    @property
    def is_over_websocket(self) -> bool:
        """Whether it came over a WebSocket, and not as a request."""
        return self.text(NETWORK_PROTOCOL_NAME) == WEBSOCKET

    @property
    def requested_streaming(self) -> bool:
        """Whether the client asked for a stream, in the way of its API."""
        return self.span.attributes.get(GEN_AI_REQUEST_STREAM) is True

    @cached_property
    def metadata(self) -> JsonObject:
        """The ``metadata`` object (``docs/contract/spans.md#metadata``)."""
        return object_of(self._document(SpanAttributes.METADATA))

    @property
    def heads(self) -> Iterator[tuple[str, str, str]]:
        """The recorded fields of heads: ``request`` or ``response``, name and value of each."""
        heads = object_of(self.metadata.get(MetadataMember.HEADERS))
        for side in ("request", "response"):
            for name, value in object_of(heads.get(side)).items():
                if isinstance(value, str):
                    yield side, name, value

    @property
    def limits(self) -> list[RateLimit]:
        """What was left of the provider's rate limits, the nearest one first."""
        return read_limits(self.metadata)

    @cached_property
    def parameters(self) -> JsonObject:
        """The invocation parameters, as the client sent them."""
        chat = self._document(SpanAttributes.LLM_INVOCATION_PARAMETERS)
        return object_of(chat or self._document(SpanAttributes.EMBEDDING_INVOCATION_PARAMETERS))

    @property
    def request_text(self) -> str | None:
        """The client's body as it was recorded, ``None`` if it was not kept."""
        return find_request_body(self.span.attributes, self._cut)

    @property
    def response_text(self) -> str | None:
        """The answer's body as it was recorded, a stream joined; ``None`` if it was not kept."""
        return find_response_body(self.span.attributes, self._cut)

    @cached_property
    def request(self) -> Any:
        """The client's body: decoded if it is JSON, else its text; ``None`` if it was not kept."""
        return read_document(self.request_text)

    @cached_property
    def response(self) -> Any:
        """The answer as the client received it, a stream joined, in the form of :attr:`request`."""
        return read_document(self.response_text)

    @property
    def makes_content(self) -> bool:
        """Whether the call is one to a model that writes an answer."""
        return self.text(SpanAttributes.OPENINFERENCE_SPAN_KIND) in {None, "LLM"}

    @property
    def gives_reason(self) -> bool:
        """Whether its answer should say why it ended."""
        if not self.makes_content:
            return False
        from codec.apis.table import GIVE_NO_REASON  # noqa: PLC0415 - it imports every API

        return self.text(GEN_AI_OPERATION_NAME) not in GIVE_NO_REASON

    @property
    def sound(self) -> str | None:
        """The size, length and type of a sound, which is not kept, in words."""
        size_bytes = self.metadata.get(MetadataMember.OUTPUT_BYTES)
        if not isinstance(size_bytes, int):
            return None
        words = [f"{size_bytes} bytes"]
        seconds = self.metadata.get(MetadataMember.OUTPUT_SECONDS)
        if isinstance(seconds, float):
            words.append(f"{seconds:g} s")
        mime_type = self.text(SpanAttributes.OUTPUT_MIME_TYPE)
        if mime_type and mime_type != OpenInferenceMimeTypeValues.JSON.value:
            words.append(mime_type)
        return ", ".join(words)

    @property
    def query(self) -> str | None:
        """The query of a ranking."""
        return self.text(RerankerAttributes.RERANKER_QUERY)

    @cached_property
    def documents(self) -> tuple[RecordedDocument, ...]:
        """The documents of a ranking's request."""
        items = self._list(RerankerAttributes.RERANKER_INPUT_DOCUMENTS)
        found = ((index, object_of(item.get("document"))) for index, item in items)
        return tuple(
            RecordedDocument(index=index, text=string_of(one.get("content")))
            for index, one in found
        )

    @cached_property
    def ranking(self) -> tuple[RecordedDocument, ...]:
        """The documents of a ranking's answer, the best one first."""
        items = self._list(RerankerAttributes.RERANKER_OUTPUT_DOCUMENTS)
        return tuple(read_ranked(object_of(item.get("document"))) for _, item in items)

    @property
    def verdict(self) -> str | None:
        """The finding of a moderation, in words."""
        found = [
            *filter(
                None, map(string_of, list_of(self.metadata.get(MetadataMember.FLAGGED_CATEGORIES)))
            )
        ]
        flagged = self.metadata.get(MetadataMember.FLAGGED)
        is_flagged = flagged if isinstance(flagged, bool) else None
        return Verdict(flagged=is_flagged, categories=tuple(found)).words or None

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """The offered tools."""
        tools = (object_of(tool.get("tool")) for _, tool in self._list(SpanAttributes.LLM_TOOLS))
        return tuple(map(read_tool, tools))

    @cached_property
    def input_messages(self) -> tuple[RecordedMessage, ...]:
        """The messages of the request; else its prompts, or its texts to embed."""
        return (
            self._texts(SpanAttributes.LLM_PROMPTS, "prompt")
            or self._texts(SpanAttributes.EMBEDDING_EMBEDDINGS, "embedding")
            or self._messages(SpanAttributes.LLM_INPUT_MESSAGES)
        )

    @cached_property
    def output_messages(self) -> tuple[RecordedMessage, ...]:
        """The answer: a message (or text) for each choice or item, in the order of their indices.

        A refusal is a text like any other; the metadata say which choices refused.
        """
        messages = self._texts(SpanAttributes.LLM_CHOICES, "completion")
        messages = messages or self._messages(SpanAttributes.LLM_OUTPUT_MESSAGES)
        refused = list_of(self.metadata.get(MetadataMember.REFUSED_CHOICES))
        return tuple(mark_refusal(one) if one.index in refused else one for one in messages)

    @cached_property
    def _tree(self) -> JsonObject:
        return nest(self.span.attributes)

    def _list(self, path: str) -> Iterator[tuple[int, JsonObject]]:
        node: object = self._tree
        for name in path.split("."):
            node = object_of(node).get(name)
        return list_items(node)

    def _messages(self, path: str) -> tuple[RecordedMessage, ...]:
        items = self._list(path)
        is_answer = path == SpanAttributes.LLM_OUTPUT_MESSAGES
        messages = (read_message(index, object_of(item.get("message"))) for index, item in items)
        return tuple(
            add_pictures(
                one,
                self._pictures.get((is_answer, one.index), ()),
                find_common_reason(self.pictures),
                is_answer=is_answer,
            )
            for one in messages
        )

    @cached_property
    def _pictures(self) -> Pictures:
        return group_pictures(self.pictures)

    def _texts(self, path: str, name: str) -> tuple[RecordedMessage, ...]:
        texts = (
            (i, string_of(object_of(item.get(name)).get("text"))) for i, item in self._list(path)
        )
        return tuple(
            RecordedMessage(index=index, role=name, parts=(ContentPart(kind="text", text=text),))
            for index, text in texts
            if text
        )

    @property
    def _cut(self) -> JsonObject:
        return object_of(self.metadata.get(MetadataMember.CUT))

    def _document(self, name: str) -> Any:
        return read_document(self.span.attributes.get(name))


def read_with_pictures(calls: Calls, stored: StoredSpan) -> RecordedCall:
    """Decode a row of a store, and read which pictures are kept beside its span.

    Raises:
        StoreError: they cannot be read.
    """
    return decode_call(stored.summary, stored.span, calls.pictures(stored.summary.seq))


def decode_call(
    summary: SpanSummary, blob: bytes, pictures: Sequence[CallPicture] = ()
) -> RecordedCall:
    """Decode a row of the store; `pictures` are kept beside its span.

    Bytes that are not a span give a call without attributes, with a status that says so: one
    damaged row must not hide the others.
    """
    try:
        (span,) = decode_spans(blob)
    except ValueError:
        span = DecodedSpan(
            name=summary.name,
            trace_id=summary.trace_id,
            span_id=summary.span_id,
            parent_span_id=None,
            trace_state="",
            start_ns=summary.start_ns,
            end_ns=summary.end_ns,
            status=summary.status,
            status_message=DAMAGED_WORDS,
            attributes={},
            events=(),
            links=(),
            resource={},
            scope=("", ""),
        )
    return RecordedCall(summary=summary, span=span, pictures=pictures)
