"""Conversations that their clients name: calls of one name are one, whatever they say.

Rules (``docs/contract/conversations.md#names``):

1. A name is a caller's own: others may use the same. Callers that cannot be told apart share
   theirs.
2. The call that another one goes on from is found by content all the same. Where none is found, its
   conversation is known and nothing else: an agent asks for a title beside its work.
3. The newest :data:`MAX_NAMED` names are remembered, long ones by a digest (R5), in memory alone:
   after a restart a name is known again with the first call that is found to go on from another.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from telemetry.conversations.keys import encode_id

MAX_NAMED: Final = 10_000
"""Names at some 250 bytes each: the sessions of a service's day."""


class NamedConversations:
    """The numbers of conversations by their names."""

    def __init__(self) -> None:
        self._numbers: OrderedDict[tuple[bytes, bytes], int] = OrderedDict()

    def find(self, caller: bytes, name: str) -> int | None:
        """The number of a conversation; ``None`` where nobody named one so."""
        return self._numbers.get((caller, encode_id(name)))

    def note(self, caller: bytes, name: str, number: int) -> None:
        """Note the number of a named conversation: that of its newest call."""
        key = caller, encode_id(name)
        self._numbers[key] = number
        self._numbers.move_to_end(key)
        while len(self._numbers) > MAX_NAMED:
            self._numbers.popitem(last=False)
