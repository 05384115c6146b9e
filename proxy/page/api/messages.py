"""Heads of messages: who said how much, and how it begins. The rest comes in slices.

A picture in the span, or kept beside it, is described by type and size, one elsewhere by its
address; nothing is fetched. Only bytes that begin as a picture does are served
(:mod:`codec.text.pictures`), because a stranger wrote the type beside them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codec.text.pictures import decode_base64, find_base64, find_picture_type
from proxy.reading.message_digests import digest_message, list_parts, measure_message
from proxy.reading.tool_results import find_error, name_calls
from telemetry.spans.wrappers import split_added

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from codec.parts import ToolCall
    from codec.text.jsontext import JsonObject
    from proxy.reading.flat_messages import ContentPart, RecordedMessage
    from telemetry.store.rows import CallPicture

MAX_PREVIEW_CHARACTERS: Final = 2_048
"""The longest preview, about a screen: 200 messages are then at most some 400 KB, and usually a
tenth of that."""

TEXT_KINDS: Final = frozenset({"text", "reasoning", "refusal", "transcript"})
"""Kinds of parts that are texts; all others are media."""

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://")


def build_heads(
    messages: Sequence[RecordedMessage],
    earlier: Iterable[RecordedMessage] = (),
    failed: Mapping[str, Sequence[str]] | None = None,
) -> list[JsonObject]:
    """Build the heads of messages; each has its place in the list, to ask for the rest.

    Args:
        messages: those of a request, or of an answer.
        earlier: an answer whose tool calls they may answer.
        failed: the results of failed tools (:func:`~proxy.reading.tool_results.read_failed`);
            ``None`` if nobody knows which tools failed.
    """
    steps = name_calls(messages, earlier)
    return [
        _build_head(
            at, message, step, find_error(message, failed or {}), is_known=failed is not None
        )
        for at, (message, step) in enumerate(zip(messages, steps, strict=True))
    ]


def write_message(message: RecordedMessage) -> str:
    """Write a message as one text: its parts, then its calls."""
    lines = [part.text for part in list_parts(message)]
    lines += [f"{call.name or ''}({call.arguments})" for call in message.tool_calls]
    return "\n".join(lines)


def _build_head(
    at: int, message: RecordedMessage, step: str | None, error: str | None, *, is_known: bool
) -> JsonObject:
    return {
        "index": at,
        "place": message.index,
        "role": message.role,
        "name": message.name,
        "tool_call_id": message.tool_call_id,
        "step": step,
        "failed": None if step is None or not is_known else error is not None,
        "error": None if error is None else error[:MAX_PREVIEW_CHARACTERS],
        "chars": measure_message(message),
        "digest": digest_message(message),
        "parts": [*_build_parts(message)],
        "tool_calls": _build_calls(message.tool_calls),
    }


def _build_parts(message: RecordedMessage) -> Iterator[JsonObject]:
    """Build the parts; of a user's text with what an agent put around it, the user's own words."""
    parts = list_parts(message)
    texts = [part.text for part in parts if part.kind == "text"]
    pieces = iter(split_added(texts) if message.role == "user" else [[] for _ in texts])
    for part in parts:
        split = next(pieces) if part.kind == "text" else []
        own = "".join(one.text for one in split if not one.is_added).strip()
        yield _build_part(part, own if any(one.is_added for one in split) else None)


def _build_part(part: ContentPart, own: str | None) -> JsonObject:
    is_text = part.kind in TEXT_KINDS
    is_address = not is_text and _ADDRESS.match(part.text) is not None
    picture = None
    if part.picture is not None:
        picture = _describe_kept(part.picture)
    elif not (is_text or is_address):
        picture = _describe_picture(part.text)
    is_bytes = not is_text and (part.picture is not None or part.text.startswith("data:"))
    return {
        "kind": part.kind,
        "chars": 0 if part.picture is not None else len(part.text),
        "preview": "" if is_address or is_bytes else part.text[:MAX_PREVIEW_CHARACTERS],
        "own": None if own is None else own[:MAX_PREVIEW_CHARACTERS],
        "url": part.text[:MAX_PREVIEW_CHARACTERS] if is_address else None,
        "image": picture,
    }


def _build_calls(calls: Iterable[ToolCall]) -> list[JsonObject]:
    return [
        {
            "id": call.id,
            "name": call.name,
            "arguments": call.arguments[:MAX_PREVIEW_CHARACTERS],
            "chars": len(call.arguments),
        }
        for call in calls
    ]


_MARK_CHARACTERS: Final = 16
"""How many characters of Base64 are read for the type: twelve bytes are enough for each."""


def _describe_kept(picture: CallPicture) -> JsonObject:
    """Describe a picture that is kept beside the span, or say why it is not."""
    return {
        "type": picture.type,
        "bytes": picture.size_bytes or None,
        "digest": picture.digest,
        "left_out": None if picture.left_out is None else picture.left_out.words,
    }


def _describe_picture(url: str) -> JsonObject | None:
    """Find type and size of a picture in a ``data:`` URL; ``None`` if it is not a picture."""
    found = find_base64(url)
    if found is None:
        return None
    found = found.strip()
    kind = find_picture_type(decode_base64(found[:_MARK_CHARACTERS]))
    if kind is None:
        return None
    size_bytes = len(found.rstrip("=")) * 3 // 4
    return {"type": kind, "bytes": size_bytes, "digest": None, "left_out": None}


def read_picture(url: str) -> tuple[str, bytes] | None:
    """Read type and bytes of a picture; ``None`` if it is not a picture."""
    found = find_base64(url)
    data = b"" if found is None else decode_base64(found)
    kind = find_picture_type(data)
    return None if kind is None else (kind, data)
