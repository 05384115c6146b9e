"""Folds the blocks of a streamed message, and the texts in them that come in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codec.growing_text import GrowingText, TextKind
from codec.members import text_of
from codec.text.json_size import decoded_bytes
from codec.text.jsontext import decode_json, join_text

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from codec.budget import Budget
    from codec.text.jsontext import JsonObject

__all__ = ("COMPACTION", "PIECES", "BlockFold")

COMPACTION: Final = "compaction_delta"
"""The type of deltas that have members of their block, and a piece of its text."""

PIECES: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "thinking"),
    "input_json_delta": ("partial_json", "tool_use"),
    COMPACTION: ("content", "compaction"),
}
"""The types of deltas that add to a text: the member with the piece, and the block's type."""

_ARGUMENTS: Final = "input_json_delta"
_MEMBERS: Final = {kind: member for kind, (member, _) in PIECES.items()} | {_ARGUMENTS: "input"}
"""The member of a block that the pieces of such a delta make."""

_KINDS: Final = {
    "text_delta": TextKind.TEXT,
    "thinking_delta": TextKind.REASONING,
    _ARGUMENTS: TextKind.ARGUMENTS,
    COMPACTION: TextKind.TEXT,
}
"""The types of deltas whose texts people read; a signature is not one."""

_SMALL_BYTES: Final = 512
"""The memory of smaller values is not estimated: a call with a member or two."""


class BlockFold:
    """A block under way.

    Attributes:
        value: what it began with, and the members that its deltas added.
        texts: the pieces of its texts, by the type of their deltas.
        is_done: the event that ends the block came.
    """

    __slots__ = ("is_done", "texts", "value")

    def __init__(self, value: JsonObject) -> None:
        self.value = value
        self.texts: dict[str, list[str]] = {}
        self.is_done = False

    @property
    def is_empty(self) -> bool:
        """Whether only its type is known, and it has not ended."""
        has_members = any(value for name, value in self.value.items() if name != "type")
        return not (self.is_done or has_members or any(self.texts.values()))

    def is_begun_by(self, value: JsonObject) -> bool:
        """Tell whether a further beginning is this block's: it has the id of this call."""
        name = text_of(value.get("id"))
        return name is not None and name == self.value.get("id") and not self.is_done

    def look(self, key: Hashable) -> Iterator[GrowingText]:
        """Look at the texts of the block, if it has any.

        Args:
            key: what distinguishes this block from all others of the answer.
        """
        for delta, kind in _KINDS.items():
            begun, pieces = self.value.get(_MEMBERS[delta]), self.texts.get(delta)
            if isinstance(begun, str) and begun and delta != _ARGUMENTS:
                pieces = [begun, *(pieces or ())]
                yield GrowingText((key, delta), kind, pieces, grows=False)
            elif pieces is not None:
                name = text_of(self.value.get("name")) if delta == _ARGUMENTS else None
                yield GrowingText((key, delta), kind, pieces, name)

    def body(self, budget: Budget) -> JsonObject:
        """The block as far as it is known.

        Args:
            budget: sets aside the room for the value of the arguments.
        """
        body = dict(self.value)
        for kind, pieces in self.texts.items():
            text, member = join_text(pieces), _MEMBERS[kind]
            if kind == _ARGUMENTS:
                if text.strip():
                    body[member] = _read_arguments(text, budget)
            else:
                begun = body.get(member)
                body[member] = (begun if isinstance(begun, str) else "") + text
        return body


def _read_arguments(text: str, budget: Budget) -> Any:
    """The value of arguments; their text if it is not JSON, or if there is no room."""
    need_bytes = decoded_bytes(text.encode("utf-8", "surrogatepass"))
    if need_bytes > _SMALL_BYTES and not budget.reserve(0, need_bytes):
        return text
    try:
        value = decode_json(text)
    except ValueError:
        return text
    return text if isinstance(value, str) else value  # verbatim, quotes and all
