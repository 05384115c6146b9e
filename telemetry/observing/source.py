"""The frames of one worker, and the state of its exchanges.

An exchange is settled once the end of this process can no longer lose any of it: its span is
committed, or given up for good and counted, or not wanted. Only then may its sender forget the
frames (R8). The calls of a WebSocket are exchanges that only this side knows
(:mod:`telemetry.observing.socket_calls`): the connection is settled once it has ended, and all of
them are. What was read on it is acknowledged while it is open, by a state that takes its place.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from codec.apis.table import SESSIONS
from telemetry.frames.ending import EndKind
from telemetry.frames.frame import Begin, End, SocketData, SocketState
from telemetry.frames.kept import frame_bytes
from telemetry.frames.records import Acks
from telemetry.observing.socket_calls import SocketCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from telemetry.frames.frame import Frame
    from telemetry.observing.exchange import Exchange
    from telemetry.observing.observation import Observation
    from telemetry.observing.observer import Observer
    from telemetry.observing.open_call import OpenExchange


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """A receipt for an exchange: settled when its span is."""

    settled: list[int]
    number: int

    def settle(self) -> None:
        """Report the exchange as settled."""
        self.settled.append(self.number)


UNACKNOWLEDGED_BYTES: Final = 64 * 1024
"""How much memory a sender needs for what was read of a WebSocket before its state is made; if the
last state was larger, as much as that. So states cost little, and a sender keeps little."""


class _Socket:
    """A WebSocket, its calls that are not settled, and its next state.

    Attributes:
        unsettled: the numbers of its calls that were recorded, and may still be lost.
        settled: the numbers of calls that were settled meanwhile.
        has_ended: no more calls come.
    """

    def __init__(self, calls: SocketCalls) -> None:
        self.calls = calls
        self.settled: list[int] = []
        self.has_ended = False
        self._unsettled: set[int] = set()
        self._state: SocketState | None = None
        self._before_state: set[int] = set()  # the calls that were unsettled when it was made
        self._kept_bytes = 0  # by the sender, since the last state
        self._next_bytes = UNACKNOWLEDGED_BYTES

    def note_recorded(self, number: int) -> None:
        """Note a call that was recorded."""
        self._unsettled.add(number)

    def note_read(self, frame: Frame) -> None:
        """Make a state if it is time, and possible."""
        self._kept_bytes += frame_bytes(frame)
        if self._state is not None or self._kept_bytes < self._next_bytes:
            return
        if (state := self.calls.state) is not None:
            self._state = state
            self._before_state = {*self._unsettled}
            self.wait_after(state)

    def pop_state(self) -> SocketState | None:
        """Return a state before which all is settled, once."""
        self._unsettled.difference_update(self.settled)
        self.settled.clear()
        state = self._state
        if state is None or not self._before_state.isdisjoint(self._unsettled):
            return None
        self._state = None
        return state

    def wait_after(self, state: SocketState) -> None:
        """Let the next state wait for some bytes after this one."""
        self._kept_bytes = 0
        self._next_bytes = max(UNACKNOWLEDGED_BYTES, len(state.data))

    @property
    def is_settled(self) -> bool:
        """Whether nothing of it can be lost any more."""
        return self.has_ended and self._unsettled.issubset(self.settled)


class FrameSource:
    """The frames of one worker. Like its service, it is not safe for concurrent calls.

    Args:
        observer: observes only this worker's exchanges, which the worker has numbered.
        record: called with each record, and the receipt to settle.
        on_unread: called once for each WebSocket that cannot be read any more.
    """

    def __init__(
        self,
        observer: Observer,
        record: Callable[[Exchange, Receipt | None], None],
        on_unread: Callable[[], None] = lambda: None,
    ) -> None:
        self._observer = observer
        self._record = record
        self._on_unread = on_unread
        self._settled: list[int] = []
        self._sockets: dict[int, _Socket] = {}  # by the number of the connection
        self._call_numbers = itertools.count(-1, -1)  # the worker's own numbers are positive

    def __len__(self) -> int:
        """Count the exchanges that are open."""
        return len(self._observer)

    def look(self) -> list[OpenExchange]:
        """Look at all that is open; any thread may."""
        return self._observer.look()

    def observations(self) -> Sequence[Observation]:
        """Return all that is open, as it came."""
        return self._observer.observations()

    def feed(self, *frames: Frame) -> None:
        """Observe frames; the span of an exchange that ends waits for the next commit."""
        observe = self._observer.feed
        for frame in frames:
            if type(frame) is Begin and frame.is_socket:
                self._begin_socket(frame)
                continue
            if self._sockets and (socket := self._sockets.get(frame.exchange)) is not None:
                self._feed_socket(socket, frame)
                continue
            exchange = observe(frame)
            if type(frame) is not End:
                continue
            if exchange is not None:
                self._record(exchange, Receipt(self._settled, frame.exchange))
            else:
                self._settled.append(frame.exchange)  # not begun, or it failed: no span comes

    def _begin_socket(self, begin: Begin) -> None:
        """Begin to read a WebSocket; one that comes again is read from its beginning."""
        self.forget(begin.exchange)
        open_session = SESSIONS.get(begin.endpoint)
        if open_session is None:
            return  # a later version knows more
        calls = SocketCalls(
            begin,
            partial(open_session, keeps_sound=self._observer.keeps_sound),
            lambda: next(self._call_numbers),
            self._observer.bodies,
        )
        self._sockets[begin.exchange] = _Socket(calls)

    def end_due(self, now_ns: int) -> None:
        """End the calls of WebSockets that wait for nothing any more."""
        for socket in self._sockets.values():
            self._record_calls(socket, socket.calls.end_due(now_ns))

    def _feed_socket(self, socket: _Socket, frame: Frame) -> None:
        was_unread = socket.calls.is_unread
        self._record_calls(socket, socket.calls.feed(frame))
        if socket.calls.is_unread and not was_unread:
            self._on_unread()
        socket.has_ended = type(frame) is End
        if type(frame) is SocketData:
            try:
                socket.note_read(frame)
            except Exception as error:  # noqa: BLE001 - without a state its sender keeps more
                self._observer.on_failure(error)
        elif type(frame) is SocketState:
            socket.wait_after(frame)

    def _record_calls(self, socket: _Socket, frames: Iterable[Frame]) -> None:
        """Observe the frames of a connection's calls, and record those that end."""
        try:
            self._observe_calls(socket, frames)
        except Exception as error:  # noqa: BLE001 - no frame makes the source raise
            self._observer.on_failure(error)
            self._observe_calls(socket, socket.calls.fail())

    def _observe_calls(self, socket: _Socket, frames: Iterable[Frame]) -> None:
        for own in frames:
            exchange = self._observer.feed(own)
            if exchange is not None:
                socket.note_recorded(own.exchange)
                self._record(exchange, Receipt(socket.settled, own.exchange))

    def pop_acks(self) -> Acks:
        """Return what may be forgotten since the last call."""
        numbers = self._settled[:]
        self._settled.clear()
        states = []
        for number, socket in tuple(self._sockets.items()):
            if socket.is_settled:
                del self._sockets[number]
                numbers.append(number)
            elif (state := socket.pop_state()) is not None:
                states.append(state)
        return Acks(numbers, states)

    def lose(self, at_ns: int, message: str) -> int:
        """End all open exchanges as ``worker_lost``, because the worker is gone; count them (R3).

        The `message` says how the worker ended; the end was noticed at `at_ns`.
        """
        for number, socket in self._sockets.items():
            if not socket.has_ended:
                end = End(exchange=number, at_ns=at_ns, kind=EndKind.WORKER_LOST, message=message)
                self._feed_socket(socket, end)
        exchanges = self._observer.lose(at_ns, message)
        for number, exchange in exchanges:
            self._record(exchange, Receipt(self._settled, number))
        return len(exchanges)

    def forget(self, number: int) -> None:
        """Forget an exchange without a record: another source has its frames from the beginning."""
        if (socket := self._sockets.pop(number, None)) is not None:
            socket.calls.close()
            for own in socket.calls.open_numbers:
                self._observer.forget(own)
        self._observer.forget(number)

    def forget_all(self) -> None:
        """Forget all that is open without a record: its worker sends it again."""
        for socket in self._sockets.values():
            socket.calls.close()
        self._sockets.clear()
        self._observer.forget_all()
