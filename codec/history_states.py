"""States: what a history is known by, one for each of its beginnings.

Rules (``page-and-conversations.md`` 1.3, C5):

1. A state is a keyed digest of the state before it and of the next unit's digest: one pass gives
   the states of all beginnings of a history, as vLLM chains its blocks, and reads each text once.
2. Two histories have the same state where their units are the same; nothing can be told of a
   history by its states without the key.
3. A second chain leaves the ids of calls out; it is the same as the first one up to the first id.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.units import Unit

__all__ = ("KEY_BYTES", "START", "STATE_BYTES", "Digests", "States")

KEY_BYTES: Final = 32

STATE_BYTES: Final = 16
"""Two of a billion histories share a state by one chance in 10^20."""


SLICE_CHARS: Final = 262_144
"""Characters that are copied at once: a text may have 60 million."""


class States(NamedTuple):
    """The states of a history.

    Attributes:
        with_ids: before the first unit, and after each.
        without_ids: likewise, by the second chain (rule 3).
        units: the digest of each unit, without its id.
    """

    with_ids: list[bytes]
    without_ids: list[bytes]
    units: list[bytes]

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

    def _make_of_unit(self, unit: Unit) -> bytes:
        """Make the digest of a unit without its id; a long text is read in slices (R5)."""
        kind, role, _, text = unit
        head = f"{kind}{len(role)}:{role}"
        if len(text) <= SLICE_CHARS:  # as most are
            return self.make(f"{head}{text}".encode("utf-8", "surrogatepass"))
        made = self._keyed.copy()
        made.update(head.encode("utf-8", "surrogatepass"))
        for at in range(0, len(text), SLICE_CHARS):
            made.update(text[at : at + SLICE_CHARS].encode("utf-8", "surrogatepass"))
        return made.digest()

    def go_on(self, start: tuple[bytes, bytes], units: Sequence[Unit]) -> States:
        """Chain the states of units on those of what was before them.

        Args:
            start: the states before, :data:`START` at a beginning.
            units: what follows.
        """
        make = self.make
        state, bare = start
        with_ids, without_ids, digests = [state], [bare], []
        for unit in units:
            call_id = unit.id
            digest = self._make_of_unit(unit)
            digests.append(digest)
            same = state == bare and call_id is None
            bare = make(bare + digest)
            without_ids.append(bare)
            if same:
                state = bare
            elif call_id is None:
                state = make(state + digest)
            else:
                state = make(state + make(digest + call_id.encode("utf-8", "surrogatepass")))
            with_ids.append(state)
        return States(with_ids, without_ids, digests)
