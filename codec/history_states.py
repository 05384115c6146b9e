"""The states of a history, one for each of its beginnings, by which it is recognised.

See ``docs/contract/conversations.md#c5``. A state is a keyed digest of the state before it and of
the next item: one pass gives the states of all beginnings of a history, as vLLM chains its blocks,
and reads each text once. Two histories have the same state if their items are the same. Without the
key, states say nothing about a history.

There are two chains. One leaves out the ids of calls. The other is the same up to the first id;
from there on it is a digest of the first chain's states and the ids.
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
"""Among a billion histories, two share a state by a chance of one in 10^20."""


SLICE_CHARS: Final = 262_144
"""How many characters are copied at once: a text may have 60 million."""


class States(NamedTuple):
    """The states of a history.

    Attributes:
        with_ids: the states before the first item and after each.
        without_ids: the same by the chain that leaves out ids; the same list if there are no ids.
    """

    with_ids: list[bytes]
    without_ids: list[bytes]

    @property
    def last(self) -> tuple[bytes, bytes]:
        """The states of the whole history, by either chain."""
        return self.with_ids[-1], self.without_ids[-1]


START: Final = (bytes(STATE_BYTES), bytes(STATE_BYTES))
"""The states of an empty history."""


class Digests:
    """Makes digests that can be compared only with digests of the same key.

    Args:
        key: a key of up to :data:`KEY_BYTES` bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._keyed = hashlib.blake2b(digest_size=STATE_BYTES, key=key)

    def make(self, data: bytes) -> bytes:
        """Make the digest of bytes."""
        made = self._keyed.copy()  # so that the key is read only once
        made.update(data)
        return made.digest()

    def make_of_text(self, text: str) -> bytes:
        """Make the digest of a text alone, such as the system messages of a request."""
        return self.make(text.encode("utf-8", "surrogatepass"))

    def make_of_item(self, item: HistoryItem) -> bytes:
        """Make the digest of an item alone, without its id."""
        return self._extend(b"", item)

    def _extend(self, state: bytes, item: HistoryItem) -> bytes:
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
        """Continue the states of a history with further items.

        Args:
            start: the states before; :data:`START` for a new history.
            items: the items that follow.
        """
        state, bare = start
        without_ids, same = [bare], state == bare
        has_ids = not same
        for item in items:
            bare = self._extend(bare, item)
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
                mark = "-" if item.id is None else f"+{item.id}"
                state = self.make(state + bare + mark.encode("utf-8", "surrogatepass"))
            with_ids.append(state)
        return States(with_ids, without_ids)
