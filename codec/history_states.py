"""States: what a history is known by, one for each of its beginnings.

Rules (``docs/contract/conversations.md#c5``):

1. A state is a keyed digest of the state before it and of the next item: one pass gives the states
   of all beginnings of a history, as vLLM chains its blocks, and reads each text once.
2. Two histories have the same state where their items are the same; nothing can be told of a
   history by its states without the key.
3. There are two chains. One leaves the ids of calls out. The other is the same up to the first id,
   and from there on a digest of the first chain's states and the ids.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.history_items import HistoryItem

__all__ = ("KEY_BYTES", "START", "STATE_BYTES", "Digests", "States")

KEY_BYTES: Final = 32

STATE_BYTES: Final = 16
"""Two of a billion histories share a state by one chance in 10^20."""


SLICE_CHARS: Final = 262_144
"""Characters that are copied at once: a text may have 60 million."""


class States(NamedTuple):
    """The states of a history.

    Attributes:
        with_ids: before the first item, and after each.
        without_ids: likewise, by the chain that leaves ids out; the same list where there are none.
    """

    with_ids: list[bytes]
    without_ids: list[bytes]

    @property
    def last(self) -> tuple[bytes, bytes]:
        """The states of the whole history, by either chain."""
        return self.with_ids[-1], self.without_ids[-1]


START: Final = (bytes(STATE_BYTES), bytes(STATE_BYTES))
"""The states of no history."""


class Digests:
    """Makes digests that can be compared with those of the same key alone.

    Args:
        key: of up to :data:`KEY_BYTES` bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._keyed = hashlib.blake2b(digest_size=STATE_BYTES, key=key)

    def make(self, data: bytes) -> bytes:
        """Make the digest of bytes."""
        made = self._keyed.copy()  # the key is read once
        made.update(data)
        return made.digest()

    def make_of_text(self, text: str) -> bytes:
        """Make the digest of a text alone, such as the system messages of a request."""
        return self.make(text.encode("utf-8", "surrogatepass"))

    def make_of_item(self, item: HistoryItem) -> bytes:
        """Make the digest of an item alone, without its id."""
        return self._go_on(b"", item)

    def _go_on(self, state: bytes, item: HistoryItem) -> bytes:
        """Make the next state of the chain without ids; a long text is read in slices (R5)."""
        kind, role, _, text = item
        made = self._keyed.copy()
        if len(text) <= SLICE_CHARS:  # as most are
            made.update(state + f"{kind}{len(role)}:{role}{text}".encode("utf-8", "surrogatepass"))
            return made.digest()
        made.update(state + f"{kind}{len(role)}:{role}".encode("utf-8", "surrogatepass"))
        for at in range(0, len(text), SLICE_CHARS):
            made.update(text[at : at + SLICE_CHARS].encode("utf-8", "surrogatepass"))
        return made.digest()

    def go_on(self, start: tuple[bytes, bytes], items: Sequence[HistoryItem]) -> States:
        """Chain the states of items on those of what was before them.

        Args:
            start: the states before, :data:`START` at a beginning.
            items: what follows.
        """
        state, bare = start
        without_ids, same = [bare], state == bare
        has_ids = not same
        for item in items:
            bare = self._go_on(bare, item)
            without_ids.append(bare)
            has_ids = has_ids or item.id is not None
        if not has_ids:
            return States(without_ids, without_ids)
        with_ids = [state]
        for item, bare in zip(items, without_ids[1:], strict=True):
            same = same and item.id is None
            if same:
                state = bare
            else:
                told = "-" if item.id is None else f"+{item.id}"
                state = self.make(state + bare + told.encode("utf-8", "surrogatepass"))
            with_ids.append(state)
        return States(with_ids, without_ids)
