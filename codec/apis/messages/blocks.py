"""Blocks, of which messages of Anthropic's API are lists, as parts of the record's messages.

Rules (``docs/contract/apis.md#messages``):

1. A message is the list of its blocks; text that did not come as a block is the message's content.
2. A block that the record has no word for says nothing: it is whole in the body.
3. The result of a tool is a message of its own, with the role ``tool``, where it stands: a message
   has one call that it answers, and a client sends the results of several together.
4. Screenshots that a tool answers with are counted where they are long: an agent that uses a
   computer sends all of them with every call.
5. The results of the provider's own tools are not parts of an answer. What they found is in the
   body.
"""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

from codec.call import Message
from codec.members import list_of, object_of, text_of
from codec.parts import MAX_READ_PARTS, Media, Reasoning, Text, ToolCall, ToolResult
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
    """The type of a block; empty for what is none."""
    return text_of(object_of(block).get("type")) or ""


def split_results(message: Any) -> Sequence[Any]:
    """The messages of the record that one message is (rule 3), as values to be read."""
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
    """Read blocks: the parts of a message, its name, and how many parts came, if not all are read.

    These are what :class:`codec.call.Message` takes behind its role.
    """
    parts = tuple([part for block in islice(blocks, MAX_READ_PARTS) for part in _read_block(block)])
    return parts or None, None, len(blocks) if len(blocks) > MAX_READ_PARTS else 0


def is_result(block: Any) -> bool:
    """Tell whether a block is what a tool answered."""
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
    """Read a call; of a tool that the client runs, or of one that the provider does."""
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
    if isinstance(value, list):
        value = [_without_long_data(inner) for inner in value]
    text = value if isinstance(value, str) else None if value is None else compact_text(value)
    return ToolResult(
        id=text_of(block.get("tool_use_id")),
        content=text or None,
        value=value,
        is_error=block.get("is_error") is True,
    )


def _without_long_data(block: Any) -> Any:
    """A block of a result, as it is, or with the length of its base64 in its place (rule 4)."""
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
