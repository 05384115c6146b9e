"""A worker's frames until they are acknowledged, sans-IO.

Rules (``design.md`` section 3, "Processes"; R2, R5, R8):

1. An exchange's frames are kept until it is acknowledged, whether they were sent or not. After
   :meth:`FrameOutbox.rewind` all that is kept is to be sent again, in its order; that is harmless,
   for span ids are stable.
2. What is kept is bounded by the limits of :mod:`telemetry.shedding`: bodies are left out first,
   and the span says so.
3. Nothing here waits, and a frame is encoded once.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING

from telemetry.frame_records import encode_record
from telemetry.shedding import Shedding

if TYPE_CHECKING:
    from telemetry.frames import Frame

__all__ = ("FrameOutbox",)

_PIECE_BYTES = 64
"""What a piece takes beside its bytes: the object, and its places in two lists."""


class FrameOutbox:
    """Frames in, pieces of a byte stream out.

    Args:
        shedding: with other limits than the usual ones.

    Attributes:
        held_bytes: what is kept, as an estimate of its memory.
        shedding: what was left out (rule 2).
    """

    def __init__(self, shedding: Shedding | None = None) -> None:
        self.shedding = shedding or Shedding()
        self.held_bytes = 0
        self._held: dict[int, list[bytes]] = {}  # pieces by exchange, in the order of their begins
        self._unsent: deque[bytes] = deque()

    def __len__(self) -> int:
        """How many exchanges are kept."""
        return len(self._held)

    def emit(self, frame: Frame) -> None:
        """Take one frame."""
        admitted = self.shedding.admit(frame, self.held_bytes)
        if admitted is None:
            return
        pieces = self._held.setdefault(admitted.exchange, [])
        for piece in encode_record(admitted):
            pieces.append(piece)
            self._unsent.append(piece)
            self.held_bytes += len(piece) + _PIECE_BYTES

    def take(self, limit_bytes: int) -> list[bytes]:
        """The next pieces to send, at least one where there is one, up to `limit_bytes`."""
        taken: list[bytes] = []
        size = 0
        while self._unsent and (not taken or size + len(self._unsent[0]) <= limit_bytes):
            piece = self._unsent.popleft()
            taken.append(piece)
            size += len(piece)
        return taken

    def acknowledge(self, number: int) -> None:
        """The exchange is settled: forget it. One that is not known is nothing."""
        for piece in self._held.pop(number, ()):
            self.held_bytes -= len(piece) + _PIECE_BYTES

    def rewind(self) -> None:
        """The other side has forgotten everything: send it all again (rule 1)."""
        self._unsent = deque(chain.from_iterable(self._held.values()))
