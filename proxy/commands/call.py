"""A recorded call, read back from its span: the flat attributes as messages, tools and numbers.

The reading side of ``span-contract.md`` section 1. No value makes it raise: what is absent
is ``None`` or empty, and what does not have the expected form is left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from openinference.semconv.trace import SpanAttributes

from codec.call import Tool
from codec.jsontext import decode_json
from codec.parts import ToolCall
from telemetry.semconv import MetadataMember
from telemetry.spans.otlp.encoding import DecodedSpan, decode_spans
from telemetry.store.checksum import DAMAGED_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codec.jsontext import JsonObject
    from telemetry.store.rows import SpanSummary

__all__ = ("ContentPart", "RecordedCall", "RecordedMessage", "decode_call")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentPart:
    """One part of a message.

    Attributes:
        kind: ``text``, ``reasoning``, ``refusal``, or the kind of media.
        text: the text, or the URL of the media.
    """

    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMessage:
    """One message, of the request or of the answer.

    Attributes:
        index: its position; in an answer the index of its choice.
        tool_call_id: which call it is the result of (role ``tool``).
    """

    index: int
    role: str | None = None
    name: str | None = None
    tool_call_id: str | None = None
    parts: tuple[ContentPart, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RecordedCall:
    """One call as the store has it. What a reader asks for is decoded when it asks.

    Attributes:
        summary: the store's row.
        span: the span.
    """

    summary: SpanSummary
    span: DecodedSpan

    @property
    def duration_ns(self) -> int:
        """From the start of the request to the end of the answer."""
        return self.summary.end_ns - self.summary.start_ns

    @property
    def finish_reason(self) -> str | None:
        """Choice 0's finish reason, verbatim."""
        return _text(self.span.attributes.get(SpanAttributes.LLM_FINISH_REASON))

    @property
    def error_type(self) -> str | None:
        """The low-cardinality word of ``span-contract.md`` 2.1."""
        return _text(self.span.attributes.get("error.type"))

    @property
    def ttft_ms(self) -> float | None:
        """Milliseconds to the first token of a stream."""
        value = self.metadata.get(MetadataMember.TTFT_MS)
        return value if isinstance(value, int | float) else None

    @property
    def request_id(self) -> str | None:
        """The provider's own id of the request."""
        return _text(self.metadata.get(MetadataMember.REQUEST_ID))

    @property
    def session_id(self) -> str | None:
        """The session that the client named."""
        return _text(self.span.attributes.get(SpanAttributes.SESSION_ID))

    @property
    def user_id(self) -> str | None:
        """The end user that the client named."""
        return _text(self.span.attributes.get(SpanAttributes.USER_ID))

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that the client gave."""
        tags = self.span.attributes.get(SpanAttributes.TAG_TAGS)
        return tuple(filter(None, map(_text, tags))) if isinstance(tags, list) else ()

    @property
    def cost_usd(self) -> float | None:
        """What the call cost, in US dollars."""
        cost = self.span.attributes.get(SpanAttributes.LLM_COST_TOTAL)
        return cost if isinstance(cost, float) else None

    @property
    def requested_streaming(self) -> bool:
        """Whether the client asked for a stream: JSON's ``true`` and nothing else."""
        return self.parameters.get("stream") is True

    @cached_property
    def metadata(self) -> JsonObject:
        """The ``metadata`` object (``span-contract.md`` 1.8)."""
        return _object(self._document(SpanAttributes.METADATA))

    @cached_property
    def parameters(self) -> JsonObject:
        """The invocation parameters, as the client sent them."""
        chat = self._document(SpanAttributes.LLM_INVOCATION_PARAMETERS)
        return _object(chat or self._document(SpanAttributes.EMBEDDING_INVOCATION_PARAMETERS))

    @cached_property
    def request(self) -> Any:
        """The client's body: JSON where it is JSON, else its text, ``None`` where not kept."""
        return self._document(SpanAttributes.INPUT_VALUE)

    @cached_property
    def response(self) -> Any:
        """The answer as the client received it, a stream put together; as :attr:`request`."""
        return self._document(SpanAttributes.OUTPUT_VALUE)

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """The tools on offer."""
        tools = (_object(tool.get("tool")) for _, tool in self._list(SpanAttributes.LLM_TOOLS))
        return tuple(map(_tool, tools))

    @cached_property
    def input_messages(self) -> tuple[RecordedMessage, ...]:
        """The conversation that was sent; else the prompts, or the texts to embed."""
        return (
            self._texts(SpanAttributes.LLM_PROMPTS, "prompt")
            or self._texts(SpanAttributes.EMBEDDING_EMBEDDINGS, "embedding")
            or self._messages(SpanAttributes.LLM_INPUT_MESSAGES)
        )

    @cached_property
    def output_messages(self) -> tuple[RecordedMessage, ...]:
        """The answer, one message (or text) per choice, in order of the choices' indices.

        That a text is a refusal no attribute tells: ``output.value`` does.
        """
        if texts := self._texts(SpanAttributes.LLM_CHOICES, "completion"):
            return texts
        messages = {m.index: m for m in self._messages(SpanAttributes.LLM_OUTPUT_MESSAGES)}
        for choice in _object_list(_object(self.response).get("choices")):
            index, message = choice.get("index"), _object(choice.get("message"))
            refusal = _text(message.get("refusal"))
            if refusal and isinstance(index, int):
                told = messages.get(index, RecordedMessage(index=index))
                said = [part for part in told.parts if part.text != refusal]
                parts = (*said, ContentPart(kind="refusal", text=refusal))
                messages[index] = replace(told, parts=parts)
        return tuple(messages[index] for index in sorted(messages))

    @cached_property
    def _tree(self) -> JsonObject:
        return _nest(self.span.attributes)

    def _list(self, path: str) -> Iterator[tuple[int, JsonObject]]:
        node: object = self._tree
        for name in path.split("."):
            node = _object(node).get(name)
        return _items(node)

    def _messages(self, path: str) -> tuple[RecordedMessage, ...]:
        items = self._list(path)
        return tuple(_message(index, _object(item.get("message"))) for index, item in items)

    def _texts(self, path: str, name: str) -> tuple[RecordedMessage, ...]:
        texts = ((i, _text(_object(item.get(name)).get("text"))) for i, item in self._list(path))
        return tuple(
            RecordedMessage(index=index, role=name, parts=(ContentPart(kind="text", text=text),))
            for index, text in texts
            if text
        )

    def _document(self, name: str) -> Any:
        return _json_or_text(self.span.attributes.get(name))


def decode_call(summary: SpanSummary, blob: bytes) -> RecordedCall:
    """The call that a row of the store holds.

    A blob that is no span gives a call without attributes that says so: one damaged row must not
    hide the others.
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
    return RecordedCall(summary=summary, span=span)


def _nest(attributes: Mapping[str, Any]) -> JsonObject:
    """Dotted keys as nested objects; where a key is both leaf and branch, the first one stays."""
    tree: JsonObject = {}
    for key, value in attributes.items():
        *branches, leaf = key.split(".")
        node: Any = tree
        for branch in branches:
            node = node.setdefault(branch, {}) if isinstance(node, dict) else None
        if isinstance(node, dict):
            node.setdefault(leaf, value)
    return tree


def _items(node: object) -> Iterator[tuple[int, JsonObject]]:
    """The members of a flattened list, in order of their index."""
    members = _object(node)
    for index in sorted(int(key) for key in members if key.isdecimal()):
        yield index, _object(members.get(str(index)))


def _message(index: int, message: JsonObject) -> RecordedMessage:
    calls = [
        _tool_call(_object(item.get("tool_call"))) for _, item in _items(message.get("tool_calls"))
    ]
    if "function_call_name" in message:
        name = _text(message["function_call_name"])
        arguments = _text(message.get("function_call_arguments_json"))
        calls.append(ToolCall(name=name, arguments=arguments or "", type="function_call"))
    return RecordedMessage(
        index=index,
        role=_text(message.get("role")),
        name=_text(message.get("name")),
        tool_call_id=_text(message.get("tool_call_id")),
        parts=tuple(_parts(message)),
        tool_calls=tuple(calls),
    )


def _tool_call(call: JsonObject) -> ToolCall:
    function = _object(call.get("function"))
    return ToolCall(
        id=_text(call.get("id")),
        name=_text(function.get("name")),
        arguments=_text(function.get("arguments")) or "",
    )


def _parts(message: JsonObject) -> Iterator[ContentPart]:
    content = _text(message.get("content"))
    if content:
        yield ContentPart(kind="text", text=content)
    for _, item in _items(message.get("contents")):
        part = _object(item.get("message_content"))
        kind = _text(part.get("type")) or "unknown"
        text = _text(part.get("text"))
        if text is None:
            # Media: the same word twice, then its URL or whatever else is known of it.
            media = _object(_object(part.get(kind)).get(kind))
            known = (_text(media.get(name)) for name in ("url", "name", "id", "mime_type"))
            text = next((value for value in known if value), "")
        yield ContentPart(kind=kind, text=text)


def _json_or_text(text: object) -> Any:
    """JSON where the text is strict JSON, else the text: what is written out again stays valid."""
    if not isinstance(text, str):
        return None
    try:
        value = decode_json(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return text
    return value


def _tool(attributes: JsonObject) -> Tool:
    """A tool of its attributes; its parameters stand in its definition, or under its type."""
    value = _object(_json_or_text(attributes.get("json_schema")))
    kind = _text(value.get("type")) or ""
    inner = _object(value.get(kind))
    return Tool(
        type=kind,
        name=_text(attributes.get("name")) or _text(inner.get("name")),
        description=_text(attributes.get("description")),
        parameters=value.get("parameters") or inner.get("parameters"),
        value=value,
    )


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _object_list(value: object) -> list[JsonObject]:
    return (
        [member for member in value if isinstance(member, dict)] if isinstance(value, list) else []
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
