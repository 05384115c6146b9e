"""Events that are one more word of a block, as most are, read as no more than that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from codec.delta_reader import are_short, is_short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.delta_reader import Piece
    from codec.text_fold import OpenText

__all__ = ("read_delta", "read_run")

_EVENT: Final = "content_block_delta"


class Inner(msgspec.Struct, gc=False):
    """The piece that an event adds: one of these texts."""

    type: str
    text: str = ""
    thinking: str = ""
    partial_json: str = ""


class Delta(msgspec.Struct, gc=False):
    """The members that are read of an event that adds to a block."""

    type: str
    index: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    delta: Inner


_decode = msgspec.json.Decoder(Delta).decode
_MEMBERS: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "partial_json",
}


def read_delta(data: bytes) -> Piece | None:
    """Read data that is one more word; ``None`` where it is not."""
    if not is_short(data):
        return None
    try:
        event = _decode(data)
    except msgspec.MsgspecError:
        return None
    delta = event.delta
    member = _MEMBERS.get(delta.type)
    if event.type != _EVENT or member is None:
        return None
    return delta.type, event.index, 0, getattr(delta, member)


def read_run(lines: Sequence[bytes], text: OpenText) -> list[str]:
    """Read lines of data that all add to one text: their pieces, or none where one does not."""
    member = _MEMBERS.get(text.kind)
    if member is None or not are_short(lines):
        return []
    try:
        events = [*map(_decode, lines)]
    except msgspec.MsgspecError:
        return []
    kind, index = text.kind, text.index
    pieces = [
        getattr(it.delta, member)
        for it in events
        if it.type == _EVENT and it.index == index and it.delta.type == kind
    ]
    return pieces if len(pieces) == len(lines) else []
