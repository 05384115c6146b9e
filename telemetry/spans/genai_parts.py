"""A message's parts in OpenTelemetry's schema (``docs/contract/spans.md#genai-messages``).

Bytes in a message are a ``blob``, and what it points to is a ``uri``, because the schema wants no
base64 there. The name of an uploaded file is a ``file``. The words of a sound are a text after it,
because the schema has no other place for them. A part of a type that the record has no name for
stays as it came: it is the schema's generic part. A part without a type, or without what its type
promises, is left out here and stays readable in ``input.value``; nothing raises.

Arguments of functions are JSON values if their text is JSON, else the text; the input of a custom
tool is text, whatever it looks like.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from codec.parts import Media, Reasoning, Refusal, Text, ToolCall, ToolResult
from codec.text.jsontext import is_deep_text
from telemetry.attribute_values import is_readable
from telemetry.privacy.json_strings import REDACTED
from telemetry.spans.flattening import MAX_FLATTENED_PARTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codec.parts import Part
    from codec.text.jsontext import JsonObject

_DATA_SCHEME = "data:"
_LINKED = ("image", "audio", "video")
"""Kinds of a file besides a document, by the type in its ``data:`` URL."""

_OF_THE_SCHEMA = frozenset({"reasoning", "tool_call", "tool_call_response", "blob", "uri", "file"})
"""Types with members that a part as it came need not have."""

_DOCUMENT = "document"
"""The modality of all other files: the schema allows this word, and its newest form lists it."""


def build_parts(parts: Iterable[Part], *, image_max_length: int) -> Iterator[JsonObject]:
    """Yield the parts of a message; images in ``data:`` URLs over the limit are hidden."""
    for part in parts:
        if isinstance(part, str):
            yield from build_text_part("text", part)
        elif isinstance(part, (Text, Refusal)):
            yield from build_text_part("text", part.text)
        elif isinstance(part, Reasoning):
            yield from build_text_part("reasoning", part.text)
        elif isinstance(part, ToolCall):
            if part.type:
                yield _call(part)
        elif isinstance(part, ToolResult):
            yield _result(part)
        elif isinstance(part, Media):
            yield from _media(part, image_max_length)
        else:
            yield from _other(part.value)


def build_text_part(part_type: str, text: object) -> Iterator[JsonObject]:
    """Yield one part that is all text; nothing if there is no text."""
    if isinstance(text, str) and text:
        yield {"type": part_type, "content": text}


def _call(call: ToolCall) -> JsonObject:
    """A call of a tool. The schema wants a name, so it is empty if none came."""
    part: JsonObject = {"type": "tool_call", "name": call.name or ""}
    if call.id:
        part["id"] = call.id
    if call.arguments:
        is_text = call.type == "custom"
        part["arguments"] = call.arguments if is_text else _parse(call.arguments)
    return part


def _result(result: ToolResult) -> JsonObject:
    """Write a tool's result as it came; ``null`` if it is empty."""
    content = result.value
    response = content[:MAX_FLATTENED_PARTS] if isinstance(content, list) else content
    part: JsonObject = {"type": "tool_call_response", "response": response}
    return part if result.id is None else part | {"id": result.id}


def _other(value: Any) -> Iterator[JsonObject]:
    """Yield what came in the place of a part, or of a list of parts."""
    for item in islice(value if isinstance(value, list) else [value], MAX_FLATTENED_PARTS):
        part_type = item.get("type") if isinstance(item, dict) else None
        if part_type == "text" or not isinstance(item, dict):
            yield from build_text_part("text", item if part_type is None else item.get("text"))
        elif isinstance(part_type, str) and part_type not in _OF_THE_SCHEMA:
            yield item


def _media(media: Media, image_max_length: int) -> Iterator[JsonObject]:
    modality, url = media.kind, media.url
    if url is not None:
        if modality == _DOCUMENT:
            header = url[:16].lower()
            kinds = (kind for kind in _LINKED if header.startswith(f"{_DATA_SCHEME}{kind}/"))
            modality = next(kinds, _DOCUMENT)
        yield _located(modality, url, image_max_length)
    elif media.data is not None:
        yield _blob(modality, media.data, media.mime_type)
    elif media.file_id is not None:
        yield {"type": "file", "modality": modality, "file_id": media.file_id}
    yield from build_text_part("text", media.transcript)


def _located(modality: str, url: str, image_max_length: int) -> JsonObject:
    """Write the content that a URL holds itself (RFC 2397), or the URL."""
    comma = url.find(",")
    header = url[: max(comma, 0)].lower()
    if not (header.startswith(_DATA_SCHEME) and header.endswith(";base64")):
        return {"type": "uri", "modality": modality, "uri": url}
    # The whole URL is measured. :mod:`telemetry.privacy.images` would not find the image once it is
    # no longer a ``data:`` URL.
    is_hidden = modality == "image" and len(url) > image_max_length
    data = REDACTED if is_hidden else url[comma + 1 :]
    return _blob(modality, data, header.removeprefix(_DATA_SCHEME).partition(";")[0])


def _blob(modality: str, data: str, mime_type: str | None) -> JsonObject:
    typed = {"mime_type": mime_type} if mime_type else {}
    return {"type": "blob", "modality": modality, **typed, "content": data}


def _parse(arguments: str) -> Any:
    # As strict as its readers: codec.text.jsontext accepts NaN, which is not JSON.
    if not is_readable(arguments):
        return arguments
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return arguments
    return arguments if is_deep_text(arguments) else value
