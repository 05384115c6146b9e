"""Events that are one more word of a text, as most are, and those that tell a text again.

They are read as no more than that: their padding, ids and numbers are neither decoded nor kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.apis.responses.item_fold import OpenText

__all__ = ("Delta", "Told", "read_delta", "read_run", "read_told")

_Index = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Delta(msgspec.Struct, gc=False):
    """All that is read of an event that adds to a text."""

    type: str
    delta: str
    output_index: _Index
    content_index: _Index = 0
    summary_index: _Index = 0


class Told(msgspec.Struct, gc=False):
    """All that is read of an event that may tell a text again."""

    type: str
    output_index: _Index = -1
    content_index: _Index = 0
    summary_index: _Index = 0


_decode_delta = msgspec.json.Decoder(Delta).decode
_decode_deltas = msgspec.json.Decoder(list[tuple[Delta]]).decode
_decode_told = msgspec.json.Decoder(Told).decode
_OTHER = (msgspec.MsgspecError, UnicodeError, RecursionError)


def read_delta(data: bytes) -> Delta | None:
    """Read data that is one more word; ``None`` where it is not."""
    try:
        return _decode_delta(data)
    except _OTHER:
        return None


def read_told(data: bytes) -> Told | None:
    """Read data that may tell a text again; ``None`` where it does not."""
    try:
        return _decode_told(data)
    except _OTHER:
        return None


def read_run(lines: Sequence[bytes], text: OpenText) -> list[str]:
    """Read lines of data, line ends included, that all add to one text: the pieces, or none.

    They are decoded together, each in brackets of its own. A line that is not one value would leave
    a bracket open or empty, or put two values in one; and no string goes on in the next line, for
    its end would be a control character in it (RFC 8259, section 7).
    """
    try:
        deltas = [delta for (delta,) in _decode_deltas(b"[[%b]]" % b"],[".join(lines))]
    except _OTHER:
        return []
    if len(deltas) != len(lines) or not all(
        (
            {it.type for it in deltas} == {text.kind},
            {it.output_index for it in deltas} == {text.index},
            {it.content_index or it.summary_index for it in deltas} == {text.part},
        )
    ):
        return []
    return [it.delta for it in deltas]
