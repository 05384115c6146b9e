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

from typing import TYPE_CHECKING

from telemetry.frame_records import encode_records
from telemetry.kept_frames import KeptFrames, frame_bytes
from telemetry.shedding import Shedding, body_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from telemetry.frames import Frame

__all__ = ("FrameOutbox",)


class _Exchange(KeptFrames):
    """The frames of one exchange, as its outbox counts them."""

    __slots__ = ("_outbox",)

    def __init__(self, number: int, outbox: FrameOutbox) -> None:
        super().__init__(number)
        self._outbox = outbox

    def add(self, frame: Frame, size_bytes: int) -> None:
        """Take the next frame, a busy worker's 25,000 times a second.

        Args:
            frame: of this exchange.
            size_bytes: as :func:`telemetry.kept_frames.frame_bytes` has it; who makes a frame
                knows that sooner.
        """
        outbox = self._outbox
        held_bytes = outbox.held_bytes + size_bytes
        if held_bytes > outbox.free_bytes:
            admitted = outbox.admit(frame, size_bytes)
            if admitted is None:
                return
            frame, size_bytes = admitted, frame_bytes(admitted)
            held_bytes = outbox.held_bytes + size_bytes
        self.frames.append(frame)
        self.size_bytes += size_bytes
        outbox.held_bytes = held_bytes
        if not self.is_queued:
            outbox.queue(self)


class FrameOutbox:
    """Frames in, pieces of a byte stream out.

    Args:
        shedding: with other limits than the usual ones.

    Attributes:
        held_bytes: what is kept, as an estimate of its memory.
        free_bytes: up to here frames are not judged; -1 while of open exchanges something was
            left out.
        shedding: what was left out (rule 2).
        when_unsent: called where frames are to be sent and none were.
    """

    def __init__(self, shedding: Shedding | None = None) -> None:
        self.shedding = Shedding() if shedding is None else shedding
        self.when_unsent: Callable[[], None] = _nothing
        self.held_bytes = 0
        self.free_bytes = self.shedding.limit_bytes
        self._kept: dict[int, _Exchange] = {}  # by exchange, in the order of their begins
        self._unsent: list[_Exchange] = []  # with something to send, or settled
        self._forgettable: dict[int, _Exchange] = {}  # those of which sent bodies are kept

    def __len__(self) -> int:
        """How many exchanges are kept."""
        return len(self._kept)

    def open_exchange(self, number: int) -> _Exchange:
        """Where the frames of a new exchange go; it is kept once one of them is."""
        return _Exchange(number, self)

    def queue(self, kept: _Exchange) -> None:
        """Frames are to be sent of an exchange of which none waited for it."""
        self._kept.setdefault(kept.number, kept)
        kept.is_queued = True
        if not self._unsent:
            self.when_unsent()
        self._unsent.append(kept)

    def admit(self, frame: Frame, size_bytes: int) -> Frame | None:
        """The frame as there is room for it, ``None`` where there is none."""
        is_full = self.held_bytes + size_bytes > self.shedding.limit_bytes
        if is_full and body_bytes(frame):
            self._make_room(frame.exchange, size_bytes)
        admitted = self.shedding.admit(frame, self.held_bytes)
        self._note_gaps()
        return admitted

    def _note_gaps(self) -> None:
        self.free_bytes = -1 if self.shedding.has_gaps else self.shedding.limit_bytes

    @property
    def has_unsent(self) -> bool:
        """Whether :meth:`take` would give something."""
        return bool(self._unsent)

    def take(self, limit_bytes: int) -> list[bytes]:
        """The next pieces to send, of one frame at least, up to about `limit_bytes`.

        The frames of an exchange in their order; those of several may come in any.
        """
        unsent, forgettable = self._unsent, self._forgettable
        taken: list[Frame] = []
        taken_bytes = largest_bytes = 0
        left_count = 0
        for kept in unsent:
            size_bytes = kept.take(taken, limit_bytes - taken_bytes)
            taken_bytes += size_bytes
            if size_bytes > largest_bytes:  # noqa: PLR1730 - a call more for each event of a stream
                largest_bytes = size_bytes
            if kept.has_sent_bodies:
                forgettable[kept.number] = kept
            if kept.is_queued:
                break  # the rest of it comes next
            left_count += 1
            if taken_bytes >= limit_bytes:
                break
        del unsent[:left_count]
        return encode_records(taken, largest_bytes)

    def acknowledge(self, numbers: Iterable[int]) -> None:
        """These exchanges are settled: forget them. One that is not known is nothing."""
        for number in numbers:
            if (kept := self._kept.pop(number, None)) is not None:
                self.held_bytes -= kept.forget()
                self._forgettable.pop(number, None)

    def rewind(self) -> None:
        """The other side has forgotten everything: send it all again (rule 1)."""
        for kept in self._unsent:  # with those that were acknowledged unsent, on another connection
            kept.is_queued = False
        self._unsent.clear()
        self._forgettable.clear()
        for number, kept in self._kept.items():
            before_bytes = kept.size_bytes
            missing_request_bytes, missing_bytes = kept.begin_again()
            self.shedding.shed_bytes += missing_request_bytes
            if missing_bytes:
                self.shedding.note_gap(number, missing_bytes, is_open=not kept.is_ended)
            self.held_bytes += kept.size_bytes - before_bytes
            kept.is_queued = True
            self._unsent.append(kept)
        self._note_gaps()

    def _make_room(self, number: int, size_bytes: int) -> None:
        """Forget bodies that were sent (rule 2): of this exchange, then of those sent long ago."""
        if (own := self._forgettable.pop(number, None)) is not None:
            self.held_bytes -= own.forget_sent_bodies()
        while self._forgettable and self.held_bytes + size_bytes > self.shedding.limit_bytes:
            oldest = self._forgettable.pop(next(iter(self._forgettable)))
            self.held_bytes -= oldest.forget_sent_bodies()


def _nothing() -> None:
    """Nobody is to be told."""
