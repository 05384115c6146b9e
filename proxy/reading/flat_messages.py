"""Reads messages, documents, tools and bodies from the flat attributes of a span.

It reads what ``docs/contract/spans.md#the-span`` describes, for :mod:`proxy.reading.call`. Anything
of another form is left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from openinference.semconv.trace import SpanAttributes

from codec.asked import Tool
from codec.members import object_of, string_of
from codec.parts import ToolCall
from codec.text.jsontext import decode_json
from telemetry.semconv import REQUEST_BODY, RESPONSE_BODY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from codec.text.jsontext import JsonObject
    from telemetry.store.rows import CallPicture


def find_request_body(attributes: Mapping[str, Any], cut: Collection[str]) -> str | None:
    """Find the text of the client's body; `cut` has the names of attributes that were cut."""
    return _find_body(attributes, cut, REQUEST_BODY, SpanAttributes.INPUT_VALUE)


def find_response_body(attributes: Mapping[str, Any], cut: Collection[str]) -> str | None:
    """Find the text of the answer, in the same way as :func:`find_request_body`."""
    return _find_body(attributes, cut, RESPONSE_BODY, SpanAttributes.OUTPUT_VALUE)


def _find_body(
    attributes: Mapping[str, Any], cut: Collection[str], apart: str, value: str
) -> str | None:
    # If the body was left out, the value is a text for people, not a body.
    is_apart = apart in attributes or apart in cut
    return string_of(attributes.get(apart if is_apart else value))


def read_document(text: object) -> Any:
    """Decode strict JSON; other texts stay texts, so that writing them again gives valid JSON."""
    if not isinstance(text, str):
        return None
    try:
        value = decode_json(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return text
    return value


MAX_DIGITS: Final = 10
"""The most digits of a place in a list; no list has so many members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentPart:
    """A part of a message: text, reasoning, a refusal, media of some kind, or a call.

    The text of media is a URL or whatever else is known; that of a sound is its transcript.

    Attributes:
        call: one of the message's calls, if the order of calls and texts matters.
        place: its position among the parts of the message on the span.
        picture: what the store has of an image that is not whole in the span.
    """

    kind: str
    text: str
    call: ToolCall | None = None
    place: int = 0
    picture: CallPicture | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMessage:
    """A message of the request or of the answer.

    Attributes:
        index: its position; in an answer the position of its choice or item.
    """

    index: int
    role: str | None = None
    name: str | None = None
    tool_call_id: str | None = None
    parts: tuple[ContentPart, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDocument:
    """A document of a ranking, from the request or the answer.

    Attributes:
        index: its position in the request, ``None`` if not known.
        score: its score in the ranking.
    """

    index: int | None
    score: float | None = None
    text: str | None = None


def nest(attributes: Mapping[str, Any]) -> JsonObject:
    """Nest dotted keys; if a key is both a leaf and a branch, the first one stays."""
    tree: JsonObject = {}
    for key, value in attributes.items():
        *branches, leaf = key.split(".")
        node: Any = tree
        for branch in branches:
            node = node.setdefault(branch, {}) if isinstance(node, dict) else None
        if isinstance(node, dict):
            node.setdefault(leaf, value)
    return tree


def list_items(node: object) -> Iterator[tuple[int, JsonObject]]:
    """Yield the members of a flattened list with their indices, in order."""
    members = object_of(node)
    # A key that is not a place in a list may have more digits than Python reads.
    for index in sorted(int(key) for key in members if key.isdecimal() and len(key) < MAX_DIGITS):
        yield index, object_of(members.get(str(index)))


def read_message(index: int, message: JsonObject) -> RecordedMessage:
    """Read a message whose keys are nested."""
    calls = [
        _tool_call(object_of(item.get("tool_call")))
        for _, item in list_items(message.get("tool_calls"))
    ]
    if "function_call_name" in message:
        name = string_of(message["function_call_name"])
        arguments = string_of(message.get("function_call_arguments_json"))
        calls.append(ToolCall(name=name, arguments=arguments or "", type="function_call"))
    return RecordedMessage(
        index=index,
        role=string_of(message.get("role")),
        name=string_of(message.get("name")),
        tool_call_id=string_of(message.get("tool_call_id")),
        parts=tuple(_parts(message)),
        tool_calls=tuple(calls),
    )


def read_ranked(document: JsonObject) -> RecordedDocument:
    """Read a document of a ranking."""
    index, score = document.get("id"), document.get("score")
    return RecordedDocument(
        index=index if isinstance(index, int) else None,
        score=score if isinstance(score, int | float) else None,
        text=string_of(document.get("content")),
    )


def _tool_call(call: JsonObject) -> ToolCall:
    function = object_of(call.get("function"))
    return ToolCall(
        id=string_of(call.get("id")),
        name=string_of(function.get("name")),
        arguments=string_of(function.get("arguments")) or "",
    )


def _parts(message: JsonObject) -> Iterator[ContentPart]:
    content = string_of(message.get("content"))
    if content:
        yield ContentPart(kind="text", text=content)
    for place, item in list_items(message.get("contents")):
        part = object_of(item.get("message_content"))
        kind = string_of(part.get("type")) or "unknown"
        text = string_of(part.get("text"))
        if text is None:
            # Media: the kind twice, then a transcript, a URL or whatever else is known.
            media = object_of(object_of(part.get(kind)).get(kind))
            text = string_of(media.get("transcript"))
            if text is not None:
                kind = "transcript"
            else:
                known = (string_of(media.get(name)) for name in ("url", "name", "id", "mime_type"))
                text = next((value for value in known if value), "")
        call = _tool_call(object_of(item["tool_call"])) if "tool_call" in item else None
        yield ContentPart(kind=kind, text=text, call=call, place=place)


def mark_refusal(message: RecordedMessage) -> RecordedMessage:
    """Mark the last text of a message as a refusal, which comes after all other texts."""
    texts = [at for at, part in enumerate(message.parts) if part.kind == "text"]
    if not texts:
        return message
    parts = [*message.parts]
    parts[texts[-1]] = replace(parts[texts[-1]], kind="refusal")
    return replace(message, parts=tuple(parts))


def read_tool(attributes: JsonObject) -> Tool:
    """Read a tool; its definition has the parameters under one of two names, or its type."""
    value = object_of(read_document(attributes.get("json_schema")))
    kind = string_of(value.get("type")) or ""
    inner = object_of(value.get(kind))
    schemas = (value.get("parameters"), value.get("input_schema"), inner.get("parameters"))
    return Tool(
        type=kind,
        name=string_of(attributes.get("name")) or string_of(inner.get("name")),
        description=string_of(attributes.get("description")),
        parameters=next((one for one in schemas if one is not None), None),
        value=value,
    )
