"""``GET /api/calls/ID/messages/I`` and ``…/tools/I``: texts in slices, and the pictures of a call.

A slice has :data:`MAX_SLICE_CHARACTERS` at most, whatever a client sent.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, TypeVar

from codec.text.jsontext import compact_text
from codec.text.pictures import find_picture_type
from proxy.page.api.answers import Download
from proxy.page.api.found_calls import find_call
from proxy.page.api.messages import read_picture, write_message
from proxy.page.errors import PageError
from proxy.reading.message_digests import list_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.asked import Tool
    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from proxy.reading.flat_messages import RecordedMessage
    from telemetry.reading.calls import Calls

MAX_SLICE_CHARACTERS: Final = 65_536

MESSAGE_PARAMETERS: Final = ("of", "part", "from")

PICTURE_PARAMETERS: Final = ("of", "part")

TOOL_PARAMETERS: Final = ("from",)

_CALL = re.compile(r"call-([0-9]{1,6})", re.ASCII)

_T = TypeVar("_T")


def read_message_text(reader: Calls, parameters: Parameters) -> JsonObject:
    """Read a slice of a part of a message, of a call in it, or by default of the whole message."""
    message = _find_message(reader, parameters)
    name = parameters.text("part")
    if not name:
        text = write_message(message)
    elif found := _CALL.fullmatch(name):
        text = _pick(message.tool_calls, int(found[1]), "call").arguments
    else:
        text = _pick(list_parts(message), parameters.number("part", 0), "part").text
    return _slice(text, parameters)


def read_tool_text(reader: Calls, parameters: Parameters) -> JsonObject:
    """Read a slice of the definition of a tool."""
    tools = find_call(reader, parameters).tools
    return _slice(write_tool(_pick(tools, parameters.index("index"), "tool")), parameters)


def read_part_picture(reader: Calls, parameters: Parameters) -> Download:
    """Read a picture in a message, if its bytes are of a type that browsers draw."""
    message = _find_message(reader, parameters)
    part = _pick(list_parts(message), parameters.number("part", 0), "part")
    found = read_picture(part.text)
    if found is None:
        raise PageError("not_found", "this part is not a picture of type png, jpeg, gif or webp")
    return Download(*found)


def read_kept_picture(reader: Calls, parameters: Parameters) -> Download:
    """Read a picture that is kept beside the span of a call, by the digest of its bytes."""
    stored = reader.one(parameters.span_id())
    data = None if stored is None else reader.picture(stored.summary.seq, parameters.part("digest"))
    kind = None if data is None else find_picture_type(data)
    if data is None or kind is None:
        raise PageError("not_found", "this call has no picture of that digest; it may be too old")
    return Download(kind, data)


def write_tool(tool: Tool) -> str:
    """Write the definition of a tool as it came, for people."""
    try:
        return json.dumps(tool.value, ensure_ascii=False, indent=2)
    except (ValueError, TypeError, RecursionError):
        return compact_text(tool.value)


def _find_message(reader: Calls, parameters: Parameters) -> RecordedMessage:
    call = find_call(reader, parameters)
    is_input = parameters.word("of", ("input", "answer")) == "input"
    messages = call.input_messages if is_input else call.output_messages
    return _pick(messages, parameters.index("index"), "message")


def _pick(items: Sequence[_T], at: int, what: str) -> _T:
    if at >= len(items):
        raise PageError("not_found", f"there is no {what} {at} here: there are {len(items)}")
    return items[at]


def _slice(text: str, parameters: Parameters) -> JsonObject:
    start = parameters.number("from", 0)
    end = start + MAX_SLICE_CHARACTERS
    return {
        "text": text[start:end],
        "from": start,
        "next": end if end < len(text) else None,
        "chars": len(text),
    }
