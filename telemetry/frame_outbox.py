"""A worker's frames until they are acknowledged, sans-IO.

Rules (``design.md`` section 3, "Processes"; R2, R5, R8):

1. An exchange's frames are kept until it is acknowledged, whether they were sent or not. After
   :meth:`FrameOutbox.rewind` all that is kept is to be sent again, in its order; that is harmless,
   for span ids are stable.
2. What is kept is bounded. Where room lacks, bodies that were sent already are forgotten first:
   that costs nothing, unless telemetry dies before it has stored their span, which then says that
   it was cut. Only where nothing more can be forgotten, because telemetry does not keep up, are
   new bodies left out, by :mod:`telemetry.shedding`.
3. Nothing here waits, and frames are encoded when they are sent, many at a time. A rewind costs a
   step for each exchange, and only where something was forgotten one for each frame: a worker with
   thousands of open streams serves them meanwhile. Each body is forgotten once.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from telemetry.frame_records import encode_records
from telemetry.frames import ResponseData
from telemetry.kept_frames import OBJECT_BYTES, KeptFrames, frame_bytes
from telemetry.shedding import Shedding, body_bytes

if TYPE_CHECKING:
    from telemetry.frames import Frame

__all__ = ("FrameOutbox",)


class FrameOutbox:
    """Frames in, pieces of a byte stream out.

    Args:
        shedding: with other limits than the usual ones.

    Attributes:
        held_bytes: what is kept, as an estimate of its memory.
        shedding: what was left out (rule 2).
    """

    def __init__(self, shedding: Shedding | None = None) -> None:
        self.shedding = Shedding() if shedding is None else shedding
        self.held_bytes = 0
        self._sheds = False  # of some open exchanges something was left out: all frames are judged
        self._kept: dict[int, KeptFrames] = {}  # by exchange, in the order of their begins
        self._unsent: deque[KeptFrames] = deque()  # each once, of those with something to send
        self._forgettable: dict[int, KeptFrames] = {}  # those of which sent bodies are kept

    def __len__(self) -> int:
        """How many exchanges are kept."""
        return len(self._kept)

    def emit(self, frame: Frame) -> None:
        """Take one frame."""
        # Written out, as a busy worker does it 25,000 times a second, for this kind of frame.
        if type(frame) is ResponseData:
            size_bytes = OBJECT_BYTES + len(frame.data)
        else:
            size_bytes = frame_bytes(frame)
        if self._sheds or self.held_bytes + size_bytes > self.shedding.limit_bytes:
            admitted = self._admit(frame, size_bytes)
            if admitted is None:
                return
            frame = admitted
            size_bytes = frame_bytes(frame)
        kept = self._kept.get(frame.exchange)
        if kept is None:
            kept = self._kept[frame.exchange] = KeptFrames(frame.exchange)
        kept.frames.append(frame)
        kept.size_bytes += size_bytes
        self.held_bytes += size_bytes
        if not kept.is_queued:
            kept.is_queued = True
            self._unsent.append(kept)

    def _admit(self, frame: Frame, size_bytes: int) -> Frame | None:
        """The frame as there is room for it, ``None`` where there is none."""
        is_full = self.held_bytes + size_bytes > self.shedding.limit_bytes
        if is_full and body_bytes(frame):
            self._make_room(frame.exchange, size_bytes)
        admitted = self.shedding.admit(frame, self.held_bytes)
        self._sheds = self.shedding.has_gaps
        return admitted

    def take(self, limit_bytes: int) -> list[bytes]:
        """The next pieces to send, of one frame at least, up to about `limit_bytes`.

        The frames of an exchange in their order; those of several may come in any.
        """
        taken: list[Frame] = []
        taken_bytes = 0
        while self._unsent and taken_bytes < limit_bytes:
            kept = self._unsent[0]
            frames, size_bytes, is_more = kept.take(limit_bytes - taken_bytes)
            taken += frames
            taken_bytes += size_bytes
            if kept.has_sent_bodies and kept.number in self._kept:
                self._forgettable[kept.number] = kept
            if not is_more:
                self._unsent.popleft().is_queued = False
        return encode_records(taken, taken_bytes)

    def acknowledge(self, number: int) -> None:
        """The exchange is settled: forget it. One that is not known is nothing."""
        if (kept := self._kept.pop(number, None)) is not None:
            self.held_bytes -= kept.size_bytes
            self._forgettable.pop(number, None)

    def rewind(self) -> None:
        """The other side has forgotten everything: send it all again (rule 1)."""
        while self._unsent:  # with those that were acknowledged unsent, on another connection
            self._unsent.popleft().is_queued = False
        self._forgettable.clear()
        for number, kept in self._kept.items():
            before_bytes = kept.size_bytes
            missing_request_bytes, missing_bytes = kept.begin_again()
            self.shedding.shed_bytes += missing_request_bytes
            if missing_bytes:
                self.shedding.note_gap(number, missing_bytes, is_open=not kept.is_ended)
            self.held_bytes += kept.size_bytes - before_bytes
            self._sheds = self.shedding.has_gaps
            kept.is_queued = True
            self._unsent.append(kept)

    def _make_room(self, number: int, size_bytes: int) -> None:
        """Forget bodies that were sent (rule 2): of this exchange, then of those sent long ago."""
        if (own := self._forgettable.pop(number, None)) is not None:
            self.held_bytes -= own.forget_sent_bodies()
        while self._forgettable and self.held_bytes + size_bytes > self.shedding.limit_bytes:
            oldest = self._forgettable.pop(next(iter(self._forgettable)))
            self.held_bytes -= oldest.forget_sent_bodies()
