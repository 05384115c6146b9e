"""Events that are one more word of a text, as most are, and those that tell a text again.

They are read as no more than that: their padding, ids and sequence numbers are neither decoded nor
kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from codec.delta_reader import are_short, is_short
from codec.text.jsontext import is_utf8
from codec.text.nesting import has_many_brackets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.delta_reader import Piece
    from codec.text_fold import OpenText

__all__ = ("read_delta", "read_run", "read_told")

_Index = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Delta(msgspec.Struct, gc=False):
    """The members that are read of an event that adds to a text."""

    type: str
    delta: str
    output_index: _Index
    content_index: _Index = 0
    summary_index: _Index = 0
    command_index: _Index = 0


class Told(msgspec.Struct, gc=False):
    """All that is read of an event that may tell a text again; without an index it does not."""

    type: str
    output_index: _Index = -1
    content_index: _Index = 0
    summary_index: _Index = 0
    command_index: _Index = 0

    @property
    def part(self) -> int:
        """The place in the item."""
        return self.content_index or self.summary_index or self.command_index


_decode_delta = msgspec.json.Decoder(Delta).decode
_decode_told = msgspec.json.Decoder(Told).decode
_OTHER = msgspec.MsgspecError


def read_delta(data: bytes) -> Piece | None:
    """Read data that is one more word; ``None`` where it is not."""
    if not is_short(data):
        return None
    try:
        delta = _decode_delta(data)
    except _OTHER:
        return None
    part = delta.content_index or delta.summary_index or delta.command_index
    return delta.type, delta.output_index, part, delta.delta


def read_told(data: bytes) -> Told | None:
    """Read data that may tell a text again; ``None`` where it does not."""
    if has_many_brackets(data) or not is_utf8(data):
        return None
    try:
        return _decode_told(data)
    except _OTHER:
        return None


def read_run(lines: Sequence[bytes], text: OpenText) -> list[str]:
    """Read lines of data that all add to one text: their pieces, or none where one does not."""
    if not are_short(lines):
        return []
    try:
        deltas = [*map(_decode_delta, lines)]
    except _OTHER:
        return []
    kind, index, part = text.kind, text.index, text.part
    pieces = [
        it.delta
        for it in deltas
        if it.type == kind
        and it.output_index == index
        and (it.content_index or it.summary_index or it.command_index) == part
    ]
    return pieces if len(pieces) == len(lines) else []
