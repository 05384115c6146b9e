"""States: what a history is known by, one for each of its beginnings.

Rules (``page-and-conversations.md`` 1.3, C5):

1. A state is a keyed digest of the state before it and of the next unit: one pass gives the states
   of all beginnings of a history, as vLLM chains its blocks.
2. Two histories have the same state where their units are the same; nothing can be told of a
   history by its states without the key.
3. A second chain leaves the ids of calls out.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codec.units import Unit

__all__ = ("KEY_BYTES", "START", "STATE_BYTES", "States", "go_on", "make_digest")

KEY_BYTES: Final = 32

STATE_BYTES: Final = 16
"""Two of a billion histories share a state by one chance in 10^20."""


class States(NamedTuple):
    """The states of a history.

    Attributes:
        with_ids: before the first unit, and after each.
        without_ids: likewise, by the second chain (rule 3).
    """

    with_ids: list[bytes]
    without_ids: list[bytes]

    @property
    def last(self) -> tuple[bytes, bytes]:
        """The states of the whole history, by either chain."""
        return self.with_ids[-1], self.without_ids[-1]


START: Final = (bytes(STATE_BYTES), bytes(STATE_BYTES))
"""The states of no history."""


def go_on(key: bytes, start: tuple[bytes, bytes], units: Iterable[Unit]) -> States:
    """Chain the states of units on those of what was before them.

    Args:
        key: of up to :data:`KEY_BYTES` bytes; the same for all that are to be compared.
        start: the states before, :data:`START` at a beginning.
        units: what follows.
    """
    state, bare = start
    with_ids, without_ids = [state], [bare]
    digest = hashlib.blake2b
    for unit in units:
        said = _encode(f"{unit.kind}{len(unit.role)}:{unit.role}{unit.text}")
        bare = digest(bare + said, digest_size=STATE_BYTES, key=key).digest()
        if unit.id is not None:
            said = _encode(f"{len(unit.id)}:{unit.id}") + said
        state = digest(state + said, digest_size=STATE_BYTES, key=key).digest()
        with_ids.append(state)
        without_ids.append(bare)
    return States(with_ids, without_ids)


def make_digest(key: bytes, text: str) -> bytes:
    """Make a digest of a text alone, such as the system messages of a request."""
    return hashlib.blake2b(_encode(text), digest_size=STATE_BYTES, key=key).digest()


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
