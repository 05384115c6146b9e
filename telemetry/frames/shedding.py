"""What is left out when frames come faster than they are taken: bodies first, calls last (R5).

Rules:

1. Past the first limit bodies are shed (``request_body``, ``response_data``), while ``begin``,
   ``response_head`` and ``end`` still pass: the span exists, marked. Past the second one exchanges
   that begin are left out whole, and counted.
2. Nothing of an answer follows a gap: once a piece was shed, the rest of it is shed too, and the
   ``end`` says so.
3. What is left out is counted, in bytes and in exchanges.
"""

from __future__ import annotations

import msgspec

from telemetry.frames.frame import Begin, End, Frame, RequestBody, ResponseData

__all__ = ("MAX_HELD_BYTES", "Shedding", "body_bytes")

MAX_HELD_BYTES = 96 * 1024 * 1024
"""What may wait in all, but for the ends of open exchanges."""

SHED_SHARE = 2 / 3
"""Which part of it may be bodies: 64 MB are one second of a thousand fast streams; the rest is for
another 20,000 exchanges without bodies, while an observer that is stuck is found out."""


class Shedding:
    """Decides for each frame whether there is room for it.

    Args:
        max_bytes: the second limit of rule 1.
        shed_bytes: the first one; a share of the second where not given.

    Attributes:
        limit_bytes: the first limit of rule 1.
        shed_bytes: bytes of bodies that were left out.
        shed_exchanges: exchanges that were left out whole.
    """

    def __init__(self, max_bytes: int = MAX_HELD_BYTES, *, shed_bytes: int | None = None) -> None:
        self.limit_bytes = int(max_bytes * SHED_SHARE) if shed_bytes is None else shed_bytes
        self._max_bytes = max_bytes
        self._shed: dict[int, int] = {}  # bytes, by the number of an open exchange
        self._left_out: set[int] = set()  # open exchanges
        self.shed_bytes = 0
        self.shed_exchanges = 0

    @property
    def spare_bytes(self) -> int:
        """What the second limit has beyond the first one."""
        return self._max_bytes - self.limit_bytes

    @property
    def has_gaps(self) -> bool:
        """Whether there are open exchanges of which something was left out."""
        return bool(self._shed or self._left_out)

    def admit(self, frame: Frame, held_bytes: int) -> Frame | None:
        """The frame as it passes, ``None`` where it does not.

        Args:
            frame: the next one; an exchange's frames come in their order.
            held_bytes: what waits already.
        """
        number = frame.exchange
        if isinstance(frame, Begin) and held_bytes >= self._max_bytes:
            self._left_out.add(number)
            self.shed_exchanges += 1
        if number in self._left_out:
            if isinstance(frame, End):
                self._left_out.discard(number)
            return None
        size = body_bytes(frame)
        full = held_bytes + size > self.limit_bytes
        if isinstance(frame, ResponseData) and (full or number in self._shed):
            self.shed_bytes += size
            self._shed[number] = self._shed.get(number, 0) + size
            return None
        if isinstance(frame, RequestBody) and full:
            self.shed_bytes += size
            return msgspec.structs.replace(frame, data=None)
        if isinstance(frame, End) and (shed := self._shed.pop(number, 0)):
            return msgspec.structs.replace(frame, shed_bytes=frame.shed_bytes + shed)
        return frame

    def note_gap(self, number: int, missing_bytes: int, *, is_open: bool) -> None:
        """A part of an exchange's answer is missing already: rule 2 holds while it is open."""
        if is_open:
            self._shed[number] = self._shed.get(number, 0) + missing_bytes
        self.shed_bytes += missing_bytes


def body_bytes(frame: Frame) -> int:
    """Size of the body that a frame holds."""
    if isinstance(frame, ResponseData):
        return len(frame.data)
    if isinstance(frame, RequestBody) and frame.data is not None:
        return len(frame.data)
    return 0
