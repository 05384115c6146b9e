"""A worker's frames until they are acknowledged, or written to the spool, sans-IO.

An exchange's frames are kept until it is acknowledged, whether they were sent or not. After
:meth:`FrameOutbox.rewind` they are all sent again. That is harmless, because span ids are stable
(``docs/contract/promises.md#processes``, R2, R5, R8).

The memory of what is kept is bounded. When there is no more room, bodies that were sent are
forgotten first. That costs nothing, unless telemetry dies before it has stored their span: then the
span says that it was cut. Next, frames that were not sent go to the spool. New bodies are left out,
by :mod:`telemetry.frames.shedding`, only if that is impossible.

All frames of an exchange go the same way: to telemetry, or to the spool. If an exchange changes its
way, it is sent from its beginning, and the reader of the spool forgets the frames that came the
other way.

Nothing here waits, and frames are encoded when they are sent, many at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from telemetry.frames.frame import Begin, End, asks_no_content
from telemetry.frames.kept import KeptFrames, frame_bytes
from telemetry.frames.records import encode_records
from telemetry.frames.shedding import Shedding, body_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from telemetry.frames.frame import Frame
    from telemetry.frames.records import Acks


class Way:
    """One of the two ways that frames go.

    Attributes:
        unsent: exchanges with something to send; some may be settled meanwhile.
        in_flight: exchanges whose frames were read, until it is known whether they were sent.
        when_unsent: called when something is to be sent and `unsent` was empty before.
    """

    __slots__ = ("in_flight", "unsent", "when_unsent")

    def __init__(self) -> None:
        self.unsent: list[_Exchange] = []
        self.in_flight: list[_Exchange] = []
        self.when_unsent: Callable[[], None] = _nothing

    def queue(self, kept: _Exchange) -> None:
        """Queue an exchange that has something to send and is not in the queue."""
        kept.is_queued = True
        if not self.unsent:
            self.when_unsent()
        self.unsent.append(kept)

    def read(self, limit_bytes: int) -> list[bytes]:
        """Encode the next frames, at least one, up to about `limit_bytes`, as pieces to send.

        The frames of one exchange come in their order; exchanges may come in any order.
        """
        unsent = self.unsent
        frames: list[Frame] = []
        read_bytes = largest_bytes = 0
        left_count = read_count = 0
        for kept in unsent:
            size_bytes = kept.read(frames, limit_bytes - read_bytes)
            read_bytes += size_bytes
            if size_bytes > largest_bytes:  # noqa: PLR1730 - one more call for each event of a stream
                largest_bytes = size_bytes
            read_count += 1
            if kept.is_queued:
                break  # the rest of it comes next
            left_count += 1
            if read_bytes >= limit_bytes:
                break
        self.in_flight += unsent[:read_count]
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
        """Keep the next frame of this exchange, in a busy worker 25,000 times a second.

        `size_bytes` is what :func:`telemetry.frames.kept.frame_bytes` would return.
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

    Attributes:
        shedding: decides which frames are left out, and counts them.
        held_bytes: the estimated memory of what is kept.
        free_bytes: while `held_bytes` is not above this, every frame is kept; -1 while something of
            an open exchange was left out.
        last_ended: the last exchange to end among those that go to telemetry; -1 if there is none.
        when_ended: called after the last frame of each exchange.
        when_written: called after something was written to the spool.
        can_spool: whether there is a spool that can be written.
        spools: whether new exchanges go to the spool.
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
        # By exchange, in the order in which they began.
        self._kept: dict[int, _Exchange] = {}
        self._spooled: dict[int, _Exchange] = {}
        self._forgettable: dict[int, _Exchange] = {}  # those of which sent bodies are kept

    def __len__(self) -> int:
        """Count the exchanges that are kept here, and the open ones that go to the spool."""
        return len(self._kept) + len(self._spooled)

    def keeps(self, number: int) -> bool:
        """Tell whether an exchange waits to be acknowledged."""
        return number in self._kept

    @property
    def has_spooled(self) -> bool:
        """Whether some of the exchanges that go to the spool are open."""
        return bool(self._spooled)

    def open_exchange(self, number: int) -> _Exchange:
        """Open a place for the frames of a new exchange; the place is kept once it has a frame."""
        return _Exchange(number, self, self.to_spool if self.spools else self.to_telemetry)

    def queue(self, kept: _Exchange) -> None:
        """Queue an exchange that has something to send, and keep it."""
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
        """Make room for a frame; return the part of it that is kept, ``None`` if there is none."""
        spared_bytes = 0
        if body_bytes(frame) and self.held_bytes + size_bytes > self.shedding.limit_bytes:
            if self.can_spool:
                self.divert_unsent()
                # The spool writes it soon, and then it is forgotten. It may take more memory until
                # then.
                spared_bytes = self.shedding.spare_bytes
            self._make_room(frame.exchange, size_bytes - spared_bytes)
        admitted = self.shedding.admit(frame, self.held_bytes - spared_bytes)
        self._note_gaps()
        return admitted

    def _note_gaps(self) -> None:
        self.free_bytes = -1 if self.shedding.has_gaps else self.shedding.limit_bytes

    @property
    def has_unsent(self) -> bool:
        """Whether there is something to send to telemetry."""
        return bool(self.to_telemetry.unsent)

    def read(self, limit_bytes: int) -> list[bytes]:
        """Encode the next pieces for telemetry, see :meth:`Way.read`."""
        way = self.to_telemetry
        pieces = way.read(limit_bytes)
        forgettable = self._forgettable
        for kept in way.in_flight:
            if kept.has_sent_bodies and kept.way is way:
                forgettable[kept.number] = kept
        return pieces

    def note_sent(self) -> None:
        """Note that what was read for telemetry was sent."""
        self.to_telemetry.in_flight.clear()

    def acknowledge(self, acks: Acks) -> None:
        """Forget what need not be kept any more; unknown exchanges are ignored."""
        for number in acks.settled:
            if (kept := self._kept.pop(number, None)) is not None:
                self.held_bytes -= kept.forget()
                self._forgettable.pop(number, None)
        for state in acks.states:
            if (kept := self._kept.get(state.exchange)) is not None:
                self.held_bytes -= kept.keep_state(state)

    def rewind(self) -> None:
        """Send all that is kept again, because the other side has forgotten it.

        This takes one step for each exchange, and one for each frame only if something was
        forgotten. So a worker with thousands of open streams can continue to serve them.
        """
        unsent = self.to_telemetry.unsent
        for kept in unsent:  # some may have been acknowledged before, on another connection
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
        """Spool new exchanges, and those without a sent frame, because telemetry is too slow."""
        self.spools = self.can_spool
        self._change_over(kept for kept in self.to_telemetry.unsent if kept.is_unsent)

    def divert_unsent(self) -> None:
        """Spool every exchange with something to send, because the memory is full."""
        self.spools = self.can_spool
        self._change_over(self.to_telemetry.unsent)

    def divert_all(self) -> None:
        """Spool every exchange that is not acknowledged, sent or not, because this process ends."""
        self._change_over(self._kept.values())

    def _change_over(self, exchanges: Iterable[_Exchange]) -> None:
        """Send these exchanges to the spool from their beginning, as far as they can go there."""
        if not self.can_spool:
            return
        # The `begin` that is being sent now may arrive later than the one from the spool.
        in_flight = self.to_telemetry.in_flight
        sending = {kept.number for kept in in_flight if kept.was_read_from_begin}
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
        """Forget what was read for the spool, because it was written."""
        written, self.to_spool.in_flight = self.to_spool.in_flight, []
        for kept in written:
            freed_bytes, is_ended = kept.drop_sent()
            self.held_bytes -= freed_bytes
            if is_ended:
                self._spooled.pop(kept.number, None)
        self.when_written()

    def note_unwritten(self) -> None:
        """Send what was read for the spool again, because it could not be written.

        Exchanges whose beginning is in the spool still go there, all others to telemetry.
        """
        self.can_spool = self.spools = False
        unwritten, self.to_spool.in_flight = self.to_spool.in_flight, []
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
        """Forget bodies that were sent: first this exchange's, then the oldest. Each goes once."""
        limit_bytes = self.shedding.limit_bytes
        if (own := self._forgettable.pop(number, None)) is not None:
            self.held_bytes -= own.forget_sent_bodies()
        while self._forgettable and self.held_bytes + size_bytes > limit_bytes:
            oldest = self._forgettable.pop(next(iter(self._forgettable)))
            self.held_bytes -= oldest.forget_sent_bodies()


def _may_be_written(kept: _Exchange) -> bool:
    """Tell whether the client allows recording; only then may the spool store its content."""
    begin = kept.frames[0]
    return not (isinstance(begin, Begin) and asks_no_content(begin.headers))


def _nothing() -> None:
    """Do nothing, for an owner that sets no callback."""
