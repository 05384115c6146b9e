"""What stands in a message, as parts of OpenTelemetry's message schema (``span-contract.md`` 7.1).

Rules:

1. Bytes in a message are a ``blob``, what it points to is a ``uri``: the schema wants no base64 in
   the latter. What an uploaded file is called by is a ``file``.
2. A part of a type that OpenAI does not have stays as it came: the schema's generic part.
3. What has no type, or not what its type promises, is left out here and stays readable in
   ``input.value``; nothing raises.
4. An image longer than the limit is hidden here: what is no ``data:`` URL any more nobody would
   find later (:mod:`telemetry.privacy.images`). Its URL is measured whole.
5. Arguments of functions are JSON values where their text is JSON, else the text; what a custom
   tool is given is text whatever it looks like.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from telemetry.attribute_values import is_readable, non_empty_text
from telemetry.privacy.json_strings import REDACTED
from telemetry.spans.flattening import MAX_FLATTENED_PARTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.answer import ToolCall
    from codec.jsontext import JsonObject

__all__ = (
    "build_call_part",
    "build_content_parts",
    "build_response_part",
    "build_text_part",
)

_DATA_SCHEME = "data:"
_URL_SCHEMES = (_DATA_SCHEME, "https:", "http:")
_LINKED = ("image", "audio", "video")
"""What has a part type ``<modality>_url``: the last two are vLLM's."""

_DOCUMENT = "document"
"""The modality of all other files, a word that the schema allows and its newest form lists."""


def build_content_parts(content: object, *, image_max_length: int) -> Iterator[JsonObject]:
    """The parts of a request message's ``content``.

    Args:
        content: a text or a list of parts; any JSON value.
        image_max_length: how many characters the ``data:`` URL of an image may have.
    """
    parts = content if isinstance(content, list) else [content]
    for part in islice(parts, MAX_FLATTENED_PARTS):
        if isinstance(part, dict):
            yield from _part(part, image_max_length)
        else:
            yield from build_text_part("text", part)


def build_text_part(part_type: str, text: object) -> Iterator[JsonObject]:
    """One part that is all text, none where there is no text."""
    if (content := non_empty_text(text)) is not None:
        yield {"type": part_type, "content": content}


def build_call_part(call: ToolCall) -> JsonObject:
    """A call of a tool; one whose name never came has an empty one, for the schema wants it."""
    part: JsonObject = {"type": "tool_call", "name": call.name or ""}
    if call.id is not None:
        part["id"] = call.id
    if call.arguments:
        is_text = call.type == "custom"
        part["arguments"] = call.arguments if is_text else _parse(call.arguments)
    return part


def build_response_part(message: JsonObject) -> JsonObject:
    """What a tool answered, as it came; ``null`` where it said nothing."""
    content = message.get("content")
    response = content[:MAX_FLATTENED_PARTS] if isinstance(content, list) else content
    part: JsonObject = {"type": "tool_call_response", "response": response}
    if (call_id := non_empty_text(message.get("tool_call_id"))) is not None:
        part["id"] = call_id
    return part


def _part(part: JsonObject, image_max_length: int) -> Iterator[JsonObject]:
    part_type = part.get("type")
    if not isinstance(part_type, str):
        return
    said = part.get(part_type)
    modality = part_type.removesuffix("_url")
    if part_type in {"text", "refusal"}:
        yield from build_text_part("text", said)
    elif part_type == "input_audio":
        yield from _audio(_object(said))
    elif part_type == "file":
        yield from _file(_object(said), image_max_length)
    elif part_type != modality and modality in _LINKED:
        url = non_empty_text(said if isinstance(said, str) else _object(said).get("url"))
        if url is not None:
            yield _located(modality, url, image_max_length)
    else:
        yield part  # rule 2


def _audio(audio: JsonObject) -> Iterator[JsonObject]:
    data, audio_format = (non_empty_text(audio.get(name)) for name in ("data", "format"))
    if data is not None:
        mime_type = "audio/mpeg" if audio_format == "mp3" else f"audio/{audio_format}"  # RFC 3003
        yield _blob("audio", data, mime_type if audio_format else None)


def _file(file: JsonObject, image_max_length: int) -> Iterator[JsonObject]:
    data, file_id = (non_empty_text(file.get(name)) for name in ("file_data", "file_id"))
    if data is not None and data[:8].lower().startswith(_URL_SCHEMES):
        header = data[:16].lower()
        kinds = (kind for kind in _LINKED if header.startswith(f"{_DATA_SCHEME}{kind}/"))
        yield _located(next(kinds, _DOCUMENT), data, image_max_length)
    elif data is not None:
        yield _blob(_DOCUMENT, data, None)  # bare base64
    elif file_id is not None:
        yield {"type": "file", "modality": _DOCUMENT, "file_id": file_id}


def _located(modality: str, url: str, image_max_length: int) -> JsonObject:
    """What a URL holds itself (RFC 2397), or where it is."""
    comma = url.find(",")
    header = url[: max(comma, 0)].lower()
    if not (header.startswith(_DATA_SCHEME) and header.endswith(";base64")):
        return {"type": "uri", "modality": modality, "uri": url}
    is_hidden = modality == "image" and len(url) > image_max_length  # rule 4
    data = REDACTED if is_hidden else url[comma + 1 :]
    return _blob(modality, data, header.removeprefix(_DATA_SCHEME).partition(";")[0])


def _blob(modality: str, data: str, mime_type: str | None) -> JsonObject:
    typed = {"mime_type": mime_type} if mime_type else {}
    return {"type": "blob", "modality": modality, **typed, "content": data}


def _parse(arguments: str) -> Any:
    # As strict as its readers are: codec.jsontext would let NaN pass, which JSON has no word for.
    if not is_readable(arguments):
        return arguments
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return arguments


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}
