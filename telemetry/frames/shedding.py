"""Shedding: which frames are left out when frames come faster than they are read (R5).

There are two limits. Beyond the first one bodies are shed (``request_body``, ``response_data``,
``socket_data``), but ``begin``, ``response_head`` and ``end`` still pass: the span exists, and is
marked. Beyond the second one new exchanges are left out whole.

An answer ends at its first gap: after the first piece that is shed the rest is shed too, and the
``end`` says so.
"""

from __future__ import annotations

import msgspec

from telemetry.frames.frame import (
    BODIES,
    Begin,
    End,
    Frame,
    RequestBody,
    ResponseData,
    SocketData,
)

MAX_HELD_BYTES = 96 * 1024 * 1024
"""The most memory that waiting frames take; the ``end`` frames of open exchanges may take more."""

SHED_SHARE = 2 / 3
"""The share of :data:`MAX_HELD_BYTES` for bodies: 64 MB are one second of a thousand fast streams.
The rest has room for another 20,000 exchanges without bodies, until a stuck observer is noticed."""


class Shedding:
    """Decides for each frame whether there is room for it.

    Args:
        max_bytes: the second limit.
        shed_bytes: the first limit; by default :data:`SHED_SHARE` of the second.

    Attributes:
        limit_bytes: the first limit.
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
        """The difference between the two limits."""
        return self._max_bytes - self.limit_bytes

    @property
    def has_gaps(self) -> bool:
        """Whether something of an open exchange was left out."""
        return bool(self._shed or self._left_out)

    def admit(self, frame: Frame, held_bytes: int) -> Frame | None:
        """Return the part of the next frame that passes while `held_bytes` wait, or ``None``."""
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
        if isinstance(frame, (ResponseData, SocketData)) and (full or number in self._shed):
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
        """Note a gap in an exchange's answer; if it is open, the rest of it is shed, too."""
        if is_open:
            self._shed[number] = self._shed.get(number, 0) + missing_bytes
        self.shed_bytes += missing_bytes


def body_bytes(frame: Frame) -> int:
    """The size of the body that a frame holds."""
    return len(frame.data or b"") if isinstance(frame, BODIES) else 0
