"""A worker's frames until they are acknowledged, or written to the spool, sans-IO.

Rules (``design.md`` section 3, "Processes"; R2, R5, R8):

1. An exchange's frames are kept until it is acknowledged, whether they were sent or not. After
   :meth:`FrameOutbox.rewind` all that is kept is to be sent again, in its order; that is harmless,
   for span ids are stable.
2. What is kept is bounded. Where room lacks, bodies that were sent already are forgotten first:
   that costs nothing, unless telemetry dies before it has stored their span, which then says that
   it was cut. Then what was not sent goes to the spool. Only where that is not possible are new
   bodies left out, by :mod:`telemetry.frames.shedding`.
3. Nothing here waits, and frames are encoded when they are sent, many at a time. A rewind costs a
   step for each exchange, and only where something was forgotten one for each frame: a worker with
   thousands of open streams serves them meanwhile. Each body is forgotten once.
4. All frames of an exchange go one way: to telemetry, or to the spool. One that changes over goes
   there from its beginning, and whoever reads the spool forgets what came the other way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from telemetry.frames.content_header import asks_no_content
from telemetry.frames.frame import Begin, End
from telemetry.frames.kept import KeptFrames, frame_bytes
from telemetry.frames.records import encode_records
from telemetry.frames.shedding import Shedding, body_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from telemetry.frames.frame import Frame

__all__ = ("FrameOutbox", "Way")


class Way:
    """One of the two ways that frames go.

    Attributes:
        unsent: exchanges with something to send, or settled.
        taken: those of which frames were taken, until it is known what became of these.
        when_unsent: called where frames are to be sent and none were.
    """

    __slots__ = ("taken", "unsent", "when_unsent")

    def __init__(self) -> None:
        self.unsent: list[_Exchange] = []
        self.taken: list[_Exchange] = []
        self.when_unsent: Callable[[], None] = _nothing

    def queue(self, kept: _Exchange) -> None:
        """Frames are to be sent of an exchange of which none waited for it."""
        kept.is_queued = True
        if not self.unsent:
            self.when_unsent()
        self.unsent.append(kept)

    def take(self, limit_bytes: int) -> list[bytes]:
        """The next pieces to send, of one frame at least, up to about `limit_bytes`.

        The frames of an exchange in their order; those of several may come in any.
        """
        unsent = self.unsent
        frames: list[Frame] = []
        taken_bytes = largest_bytes = 0
        left_count = taken_count = 0
        for kept in unsent:
            size_bytes = kept.take(frames, limit_bytes - taken_bytes)
            taken_bytes += size_bytes
            if size_bytes > largest_bytes:  # noqa: PLR1730 - a call more for each event of a stream
                largest_bytes = size_bytes
            taken_count += 1
            if kept.is_queued:
                break  # the rest of it comes next
            left_count += 1
            if taken_bytes >= limit_bytes:
                break
        self.taken += unsent[:taken_count]
        del unsent[:left_count]
        return encode_records(frames, largest_bytes)


class _Exchange(KeptFrames):
    """The frames of one exchange, as its outbox counts them."""

    __slots__ = ("_outbox", "way")

    def __init__(self, number: int, outbox: FrameOutbox, way: Way) -> None:
        super().__init__(number)
        self._outbox = outbox
        self.way = way

    def add(self, frame: Frame, size_bytes: int) -> None:
        """Take the next frame, a busy worker's 25,000 times a second.

        Args:
            frame: of this exchange.
            size_bytes: as :func:`telemetry.frames.kept.frame_bytes` has it; who makes a frame
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
        if type(frame) is End:
            if self.way is outbox.to_telemetry:
                outbox.last_ended = self.number
            outbox.when_ended()


class FrameOutbox:
    """Frames in, pieces of two byte streams out: to telemetry, and to the spool.

    Args:
        shedding: with other limits than the usual ones.

    Attributes:
        held_bytes: what is kept, as an estimate of its memory.
        free_bytes: up to here frames are not judged; -1 while of open exchanges something was
            left out.
        shedding: what was left out (rule 2).
        to_telemetry: the usual way.
        to_spool: the other one.
        last_ended: the exchange that ended last of those that go to telemetry; -1 before.
        when_ended: called after the last frame of each exchange.
        when_written: called after the spool has taken something.
        can_spool: whether there is a spool, and it takes something.
        spools: whether exchanges that begin now go to the spool.
    """

    def __init__(self, shedding: Shedding | None = None) -> None:
        self.shedding = Shedding() if shedding is None else shedding
        self.held_bytes = 0
        self.free_bytes = self.shedding.limit_bytes
        self.to_telemetry = Way()
        self.to_spool = Way()
        self.last_ended = -1
        self.when_ended: Callable[[], None] = _nothing
        self.when_written: Callable[[], None] = _nothing
        self.can_spool = self.spools = False
        # By exchange, in the order of their begins.
        self._kept: dict[int, _Exchange] = {}
        self._spooled: dict[int, _Exchange] = {}
        self._forgettable: dict[int, _Exchange] = {}  # those of which sent bodies are kept

    def __len__(self) -> int:
        """How many exchanges are kept, or are open in the spool."""
        return len(self._kept) + len(self._spooled)

    def keeps(self, number: int) -> bool:
        """Whether an exchange waits to be acknowledged."""
        return number in self._kept

    @property
    def has_spooled(self) -> bool:
        """Whether exchanges are open that go to the spool."""
        return bool(self._spooled)

    def open_exchange(self, number: int) -> _Exchange:
        """Open a place for the frames of a new exchange; it is kept once one of them is."""
        return _Exchange(number, self, self.to_spool if self.spools else self.to_telemetry)

    def queue(self, kept: _Exchange) -> None:
        """Frames are to be sent of an exchange of which none waited for it."""
        if kept.way is self.to_telemetry:
            self._kept.setdefault(kept.number, kept)
        elif kept.number not in self._spooled:
            if _may_be_written(kept):
                self._spooled[kept.number] = kept
            else:
                kept.way = self.to_telemetry
                self._kept[kept.number] = kept
        kept.way.queue(kept)

    def admit(self, frame: Frame, size_bytes: int) -> Frame | None:
        """The frame as there is room for it, ``None`` where there is none."""
        spared_bytes = 0
        if body_bytes(frame) and self.held_bytes + size_bytes > self.shedding.limit_bytes:
            if self.can_spool:
                self.divert_unsent()
                # That is written soon, and then forgotten: until then it may take more.
                spared_bytes = self.shedding.spare_bytes
            self._make_room(frame.exchange, size_bytes - spared_bytes)
        admitted = self.shedding.admit(frame, self.held_bytes - spared_bytes)
        self._note_gaps()
        return admitted

    def _note_gaps(self) -> None:
        self.free_bytes = -1 if self.shedding.has_gaps else self.shedding.limit_bytes

    @property
    def has_unsent(self) -> bool:
        """Whether :meth:`take` would give something."""
        return bool(self.to_telemetry.unsent)

    def take(self, limit_bytes: int) -> list[bytes]:
        """The next pieces for telemetry, see :meth:`Way.take`."""
        way = self.to_telemetry
        pieces = way.take(limit_bytes)
        forgettable = self._forgettable
        for kept in way.taken:
            if kept.has_sent_bodies and kept.way is way:
                forgettable[kept.number] = kept
        return pieces

    def note_sent(self) -> None:
        """What was taken for telemetry is on its way."""
        self.to_telemetry.taken.clear()

    def acknowledge(self, numbers: Iterable[int]) -> None:
        """Forget exchanges, which are settled; one that is not known is nothing."""
        for number in numbers:
            if (kept := self._kept.pop(number, None)) is not None:
                self.held_bytes -= kept.forget()
                self._forgettable.pop(number, None)

    def rewind(self) -> None:
        """The other side has forgotten everything: send it all again (rule 1)."""
        unsent = self.to_telemetry.unsent
        for kept in unsent:  # with those that were acknowledged unsent, on another connection
            kept.is_queued = False
        unsent.clear()
        self.note_sent()
        self._forgettable.clear()
        for number, kept in self._kept.items():
            before_bytes = kept.size_bytes
            missing_request_bytes, missing_bytes = kept.begin_again()
            self.shedding.shed_bytes += missing_request_bytes
            if missing_bytes:
                self.shedding.note_gap(number, missing_bytes, is_open=not kept.is_ended)
            self.held_bytes += kept.size_bytes - before_bytes
            kept.is_queued = True
            unsent.append(kept)
        self._note_gaps()

    def divert(self) -> None:
        """Telemetry does not follow: what begins, and what has not begun to be sent, is spooled."""
        self.spools = self.can_spool
        self._change_over(kept for kept in self.to_telemetry.unsent if kept.is_unsent)

    def divert_unsent(self) -> None:
        """The memory is full: what has something to send is spooled."""
        self.spools = self.can_spool
        self._change_over(self.to_telemetry.unsent)

    def divert_all(self) -> None:
        """Let all that is not acknowledged be spooled, sent or not: this process ends."""
        self._change_over(self._kept.values())

    def _change_over(self, exchanges: Iterable[_Exchange]) -> None:
        """Let them go to the spool, those that can (rule 4)."""
        if not self.can_spool:
            return
        # The begin of what is being sent now may come later than that from the spool.
        sending = {kept.number for kept in self.to_telemetry.taken if kept.took_begin}
        for kept in tuple(exchanges):
            if (
                kept.number in self._kept
                and kept.number not in sending
                and kept.is_whole
                and _may_be_written(kept)
            ):
                del self._kept[kept.number]
                self._forgettable.pop(kept.number, None)
                kept.begin_again()
                kept.way = self.to_spool
                self.queue(kept)
        unsent = self.to_telemetry.unsent
        unsent[:] = [kept for kept in unsent if kept.way is self.to_telemetry]

    def note_written(self) -> None:
        """What was taken for the spool is in it: forget it."""
        written, self.to_spool.taken = self.to_spool.taken, []
        for kept in written:
            freed_bytes, is_ended = kept.drop_sent()
            self.held_bytes -= freed_bytes
            if is_ended:
                self._spooled.pop(kept.number, None)
        self.when_written()

    def note_unwritten(self) -> None:
        """What was taken for the spool is not in it: it comes again.

        What has its beginning in the spool goes there; all else goes to telemetry after all.
        """
        self.can_spool = self.spools = False
        unwritten, self.to_spool.taken = self.to_spool.taken, []
        for kept in unwritten:
            kept.begin_again()
            if not kept.is_queued:
                self.to_spool.queue(kept)
        for kept in tuple(self._spooled.values()):
            if kept.frames and isinstance(kept.frames[0], Begin):
                del self._spooled[kept.number]
                kept.way = self.to_telemetry
                self.queue(kept)
        unsent = self.to_spool.unsent
        unsent[:] = [kept for kept in unsent if kept.way is self.to_spool]

    def _make_room(self, number: int, size_bytes: int) -> None:
        """Forget bodies that were sent (rule 2): of this exchange, then of those sent long ago."""
        limit_bytes = self.shedding.limit_bytes
        if (own := self._forgettable.pop(number, None)) is not None:
            self.held_bytes -= own.forget_sent_bodies()
        while self._forgettable and self.held_bytes + size_bytes > limit_bytes:
            oldest = self._forgettable.pop(next(iter(self._forgettable)))
            self.held_bytes -= oldest.forget_sent_bodies()


def _may_be_written(kept: _Exchange) -> bool:
    """Whether the client lets the content be recorded, which the spool would hold for a while."""
    begin = kept.frames[0]
    return not (isinstance(begin, Begin) and asks_no_content(begin.headers))


def _nothing() -> None:
    """Nobody is to be told."""
