"""Items, of which requests and answers of the Responses API are lists, as messages of the record.

See ``docs/contract/apis.md#responses``. Each item is a message. If the record has no word for what
an item says, the message has no content: it keeps its place, and the body has the item whole.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from codec.media import read_audio, read_file
from codec.members import list_of, object_of, text_of
from codec.parts import MAX_READ_PARTS, Media, Message, Other, Reasoning, Text, ToolCall, ToolResult
from codec.text.base64_text import MAX_KEPT_CHARS
from codec.text.jsontext import compact_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.parts import Part
    from codec.text.jsontext import JsonObject

__all__ = ("read_input_item", "read_output_item")

_ASSISTANT: Final = "assistant"
_CALL_END: Final = "_call"
_OUTPUT_END: Final = "_output"
_OUTPUTS: Final = ("output", "tools", "result")
"""The members that have the output of a tool: most tools, a search for tools, a program."""

_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
_NAMED_CALLS: Final = frozenset({"mcp_call", "mcp_approval_request"})
_UNREAD_CALLS: Final = frozenset({"mcp_call", "image_generation_call"})
"""Past calls that only keep a message's place (``docs/contract/apis.md#responses-request``)."""

_EXIT_CODE: Final = re.compile(
    r"(?:Chunk ID: \w+\n)?(?:Wall time: [0-9.]+ seconds\n)?"
    r"(?:Process exited with code|Exit code:) (?P<code>-?[0-9]{1,10})\n"
)
_EXIT_CODE_BEHIND: Final = re.compile(
    r'"metadata":\{"exit_code":(?P<code>-?[0-9]{1,10})[,}][^{}]{0,99}\}?\}\Z'
)
"""The exit code at the head or the end of what Codex's shell says to the model."""

_SHOWN: Final = ("input_image", "computer_screenshot")
"""Types of images in the outputs of tools."""

_ASKED: Final = ("arguments", "action", "operation", "actions")
"""Members that say what the model asked of one of the provider's tools. ``queries`` and ``code``
are read under their names."""


def read_input_item(item: Any) -> Message:
    """Read an item of a request; anything but an object is a message without a role."""
    if type(item) is not dict:
        return Message(None)
    kind = text_of(item.get("type"))
    if kind is None or kind == "message":
        return _read_message(item, text_of(item.get("role")))
    if kind.endswith(_CALL_END) and kind not in _UNREAD_CALLS:
        return Message(_ASSISTANT, (_read_call(item, kind),))
    if kind == "reasoning":
        return Message(_ASSISTANT, (_read_reasoning(item),))
    if kind.endswith(_OUTPUT_END):
        value = next((item[name] for name in _OUTPUTS if name in item), None)
        text = value if isinstance(value, str) else None if value is None else compact_text(value)
        result = ToolResult(
            id=text_of(item.get("call_id")),
            content=text or None,
            value=value,
            is_error=isinstance(value, str) and _has_failed(value),
            pictures=_read_pictures(value),
        )
        return Message("tool", (result,))
    return Message(text_of(item.get("role")) or _ASSISTANT)


def _has_failed(output: str) -> bool:
    """Tell whether a command failed, by its exit code. The API has no member for that.

    See ``docs/contract/apis.md#exit-codes``.
    """
    found = _EXIT_CODE.match(output)
    if found is None and output.startswith('{"output":'):
        found = _EXIT_CODE_BEHIND.search(output, max(0, len(output) - 200))
    return found is not None and int(found["code"]) != 0


def read_output_item(item: Any) -> Message:
    """Read an item of an answer."""
    if type(item) is not dict:
        return Message(None)
    kind = text_of(item.get("type")) or ""
    if kind == "message":
        return _read_message(item, text_of(item.get("role")))
    if kind in _CALLS or kind in _NAMED_CALLS or kind.endswith(_CALL_END):
        part = _read_image(item) if kind == "image_generation_call" else _read_call(item, kind)
        return Message(_ASSISTANT, (part,))
    if kind == "reasoning":
        return Message(_ASSISTANT, (_read_reasoning(item),))
    return Message(_ASSISTANT)


def _read_message(item: JsonObject, role: str | None) -> Message:
    content = item.get("content")
    if isinstance(content, str):
        return Message(role, content or None)
    if not isinstance(content, list) or not content:
        return Message(role)
    count = len(content) if len(content) > MAX_READ_PARTS else 0
    parts = tuple([_read_part(part) for part in islice(content, MAX_READ_PARTS)])
    return Message(role, parts, part_count=count)


def _read_part(part: Any) -> Part:
    part = object_of(part) or {"value": part}
    match part.get("type"):
        case "input_text" | "output_text" | "text" | "summary_text":
            return Text(text_of(part.get("text")) or "")
        case "refusal":
            return Text(text_of(part.get("refusal")) or "")
        case "reasoning_text":
            return Reasoning(text=text_of(part.get("text")))
        case "input_image":
            url = part.get("image_url")
            url = object_of(url).get("url") if isinstance(url, dict) else url
            return Media(kind="image", url=text_of(url), file_id=text_of(part.get("file_id")))
        case "input_audio" | "output_audio" | "audio":
            kept = part.get("audio")  # by a session
            sound = read_audio(object_of(part.get("input_audio")) or object_of(kept))
            is_kept = isinstance(kept, dict)
            words = text_of(part.get("transcript"))
            return replace(sound, transcript=words, is_of_session=is_kept)
        case "input_file":
            data = text_of(part.get("file_data")) or text_of(part.get("file_url"))
            return read_file(part | {"file_data": data})
        case _:
            return Other(part)


def _read_pictures(output: Any) -> tuple[Media, ...]:
    """Read the images in the output of a tool: parts of a list, or the screenshot of a computer."""
    if type(output) is str:
        return ()
    parts = output if isinstance(output, list) else [output]
    images = (part for part in map(object_of, parts) if part.get("type") in _SHOWN)
    urls = (text_of(image.get("image_url")) for image in islice(images, MAX_READ_PARTS))
    return tuple([Media(kind="image", url=url) for url in urls if url is not None])


def _read_reasoning(item: JsonObject) -> Reasoning:
    text = "\n".join(_texts(item.get("summary"))) or "\n".join(_texts(item.get("content")))
    return Reasoning(
        text=text or None,
        id=text_of(item.get("id")),
        encrypted=text_of(item.get("encrypted_content")),
    )


def _texts(parts: Any) -> Iterator[str]:
    for part in islice(list_of(parts), MAX_READ_PARTS):
        if (text := text_of(object_of(part).get("text"))) is not None:
            yield text


def _read_call(item: JsonObject, kind: str) -> ToolCall:
    """Read a call, of the client's tools or of the provider's own.

    Its id is ``call_id``, which its output repeats; ``id`` may change from event to event. A tool
    of the provider has the item's type as its name. Arguments are verbatim if they came as text,
    else the JSON of what the model asked.
    """
    call_id = text_of(item.get("call_id")) or text_of(item.get("id"))
    name = text_of(item.get("name"))
    arguments = _read_arguments(item, kind)
    if kind in _CALLS:
        return ToolCall(id=call_id, name=name, arguments=arguments)
    if kind in _NAMED_CALLS:
        return ToolCall(id=call_id, name=name, arguments=arguments, type=kind)
    return ToolCall(id=call_id, name=kind, arguments=arguments, type=kind)


def _read_arguments(item: JsonObject, kind: str) -> str:
    if kind == "custom_tool_call":
        return compact_text({"input": item["input"]}) if "input" in item else ""
    for name in _ASKED:
        asked = item.get(name)
        if asked is not None:
            return asked if isinstance(asked, str) else compact_text(asked)
    named = {name: item[name] for name in ("queries", "code") if item.get(name) is not None}
    return compact_text(named) if named else ""


def _read_image(item: JsonObject) -> Media:
    """Read a generated image; it has a URL unless it was too long to be kept."""
    data = text_of(item.get("result"))
    if data is None or data.startswith("<") or len(data) > MAX_KEPT_CHARS:
        return Media(kind="image", shortened=data)
    form = text_of(item.get("output_format")) or "png"
    return Media(kind="image", url=f"data:image/{form};base64,{data}")
