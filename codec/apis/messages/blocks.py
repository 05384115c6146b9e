"""Blocks, of which messages of Anthropic's API are lists, as parts of the record's messages.

See ``docs/contract/apis.md#messages``. A message is the list of its blocks; text that did not come
as a block is the message's content. A block says nothing if the record has no word for it, or if it
is the result of one of the provider's tools: the body has it whole.
"""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

from codec.members import list_of, object_of, text_of
from codec.parts import MAX_READ_PARTS, Media, Message, Reasoning, Text, ToolCall, ToolResult
from codec.text.base64_text import MAX_KEPT_CHARS
from codec.text.jsontext import compact_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.parts import Part
    from codec.text.jsontext import JsonObject

__all__ = ("CALLS", "is_result", "kind_of", "read_blocks", "read_message", "split_results")

CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_RESULTS: Final = frozenset({"tool_result", "mcp_tool_result"})
_MEDIA: Final = {"image": "image", "document": "document", "container_upload": "document"}


def kind_of(block: Any) -> str:
    """The type of a block; empty for a value that is not a block."""
    return text_of(object_of(block).get("type")) or ""


def split_results(message: Any) -> Sequence[Any]:
    """Split one message into the record's messages, as values to be read.

    The result of a tool is a message by itself, with the role ``tool``, in its place: a client
    sends several results together, and a message of the record answers one call.
    """
    content = object_of(message).get("content")
    if not isinstance(content, list) or not any(map(is_result, content)):
        return (message,)
    split: list[JsonObject] = []
    for answers_call, blocks in groupby(content, key=is_result):
        if answers_call:
            split += [{"role": "tool", "content": [block]} for block in blocks]
        else:
            split.append(message | {"content": [*blocks]})
    return split


def read_message(message: Any) -> Message:
    """Read a message of a request; anything but an object is one without a role."""
    if type(message) is not dict:
        return Message(None)
    role, content = text_of(message.get("role")), message.get("content")
    if isinstance(content, str):
        return Message(role, content or None)
    return Message(role, *read_blocks(list_of(content)))


def read_blocks(blocks: Sequence[Any]) -> tuple[tuple[Part, ...] | None, None, int]:
    """Read blocks to the arguments that :class:`codec.parts.Message` takes behind its role.

    Returns:
        The parts, the name, and the number of parts that came if not all are read, else 0.
    """
    parts = tuple([part for block in islice(blocks, MAX_READ_PARTS) for part in _read_block(block)])
    return parts or None, None, len(blocks) if len(blocks) > MAX_READ_PARTS else 0


def is_result(block: Any) -> bool:
    """Tell whether a block is the result of a tool."""
    return kind_of(block) in _RESULTS


def _read_block(block: Any) -> Iterator[Part]:
    block = object_of(block)
    match kind_of(block):
        case "text":
            yield Text(text_of(block.get("text")) or "")
        case "compaction":  # a summary of what was said before
            yield Text(text_of(block.get("content")) or "")
        case "thinking":
            yield Reasoning(
                text=text_of(block.get("thinking")), signature=text_of(block.get("signature"))
            )
        case "redacted_thinking":
            yield Reasoning(text=None, data=text_of(block.get("data")))
        case kind if kind in CALLS:
            yield _read_call(block, kind)
        case kind if kind in _RESULTS:
            yield _read_result(block)
        case kind if kind in _MEDIA:
            yield _read_media(block, _MEDIA[kind])


def _read_call(block: JsonObject, kind: str) -> ToolCall:
    """Read a call, of a tool that the client runs or of one that the provider runs."""
    asked = block.get("input")
    arguments = asked if isinstance(asked, str) else "" if asked is None else compact_text(asked)
    return ToolCall(
        id=text_of(block.get("id")),
        name=text_of(block.get("name")),
        arguments=arguments,
        type="function" if kind == "tool_use" else kind,
    )


def _read_result(block: JsonObject) -> ToolResult:
    value = block.get("content")
    pictures: tuple[Media, ...] = ()
    if isinstance(value, list):
        pictures = tuple(_read_pictures(value))
        value = [_without_long_data(inner) for inner in value]
    text = value if isinstance(value, str) else None if value is None else compact_text(value)
    return ToolResult(
        id=text_of(block.get("tool_use_id")),
        content=text or None,
        value=value,
        is_error=block.get("is_error") is True,
        pictures=pictures,
    )


def _read_pictures(blocks: Sequence[Any]) -> Iterator[Media]:
    """Read the images in a result. Their base64 is not copied, because an agent sends many."""
    for block in islice(blocks, MAX_READ_PARTS):
        source = object_of(object_of(block).get("source"))
        if kind_of(block) == "image" and source.get("type") == "base64":
            yield Media(
                kind="image",
                data=text_of(source.get("data")),
                mime_type=text_of(source.get("media_type")),
            )


def _without_long_data(block: Any) -> Any:
    """Return a block of a result, with the length of its base64 in the place of long base64.

    An agent that uses a computer sends all of its screenshots again with every call.
    """
    source = object_of(object_of(block).get("source"))
    data = source.get("data")
    if source.get("type") != "base64" or not isinstance(data, str) or len(data) <= MAX_KEPT_CHARS:
        return block
    named = f"<{len(data)} base64 characters, {source.get('media_type')}>"
    return block | {"source": source | {"data": named}}


def _read_media(block: JsonObject, kind: str) -> Media:
    """Read an image or a document; the text of a document stays in the body."""
    source = object_of(block.get("source"))
    mime_type, url = text_of(source.get("media_type")), text_of(source.get("url"))
    data = text_of(source.get("data")) if source.get("type") == "base64" else None
    if kind == "image" and data is not None and mime_type is not None:
        url, data = f"data:{mime_type};base64,{data}", None
    return Media(
        kind=kind,
        url=url,
        data=data,
        mime_type=mime_type,
        name=text_of(block.get("title")),
        file_id=text_of(source.get("file_id")) or text_of(block.get("file_id")),
    )
