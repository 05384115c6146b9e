"""A worker's surroundings in one thread: its client, its upstream, telemetry, and the time.

The worker is the product's own (:class:`proxy.app.Proxy` with its frame link), its connections are
real ones on loopback. What surrounds it acts only where its loop would wait, one step at a time,
and time passes only where a step says so: so the same call takes the same turns of the loop and the
same reads each time, on any machine, at any load.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import socket
import tempfile
from typing import TYPE_CHECKING, TypeAlias

from codec._version import __version__
from proxy.app import Proxy
from proxy.processes.frame_channel import GATHER_SECONDS, FrameChannel
from proxy.settings.settings import Settings
from telemetry.frames.records import Acks, Hello, encode_acks

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

__all__ = ("HELLO", "START_NS", "Surroundings")

START_NS = 1_700_000_000_000_000_000
"""Since the epoch: when the worker starts."""

HELLO = Hello(worker=1, pid=1, version=__version__, token="c0")

WAIT_SECONDS = 10.0
"""How long a step waits for what the worker has sent, or has been sent, on loopback."""

_READ_BYTES = 1 << 20

Steps: TypeAlias = "Generator[bool, None, None]"
"""What surrounds the worker acts and yields: true where the worker is to get something of it."""


class _Idling(selectors.DefaultSelector):
    """Where a loop that has nothing to do would wait, it lets its surroundings act."""

    def __init__(self, act: Callable[[], bool]) -> None:
        super().__init__()
        self._act = act

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As its base, but that it never waits for time to pass."""
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        sent = self._act()
        return super().select(WAIT_SECONDS if sent else 0)


class _Loop(asyncio.SelectorEventLoop):
    """A loop on the clock of its surroundings."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        super().__init__(_Idling(surroundings.act))

    def time(self) -> float:
        """Seconds."""
        return self._surroundings.monotonic_ns() / 1e9


class Surroundings:
    """Runs a worker, and calls on it."""

    def __init__(self) -> None:
        self._passed_ns = 0
        self._steps: Iterator[bool] = iter(())
        self._calls = self._answers = 0

    def monotonic_ns(self) -> int:
        """Of :class:`proxy.clock.Clock`."""
        return self._passed_ns

    def wall_ns(self) -> int:
        """Of :class:`proxy.clock.Clock`."""
        return START_NS + self._passed_ns

    def act(self) -> bool:
        """Take the next step; whether the worker is to get something of it."""
        sent = next(self._steps, None)
        if sent is None:
            self._loop.stop()
        return bool(sent)

    def _run(self, steps: Steps) -> None:
        """Let the worker live through some steps, until it waits after the last."""
        self._steps = steps
        self._loop.run_forever()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the worker, whose last call is followed by the end of the process."""
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            path = f"{folder}/frames"
            listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
            self._upstreams, traffic = map(stack.enter_context, listeners)
            frames = stack.enter_context(socket.socket(socket.AF_UNIX))
            frames.bind(path)
            frames.listen()
            self._loop = _Loop(self)
            asyncio.set_event_loop(self._loop)
            port = self._upstreams.getsockname()[1]
            settings = Settings(upstream=f"http://127.0.0.1:{port}", port=0, linger_seconds=0)
            started = self._loop.create_task(self._start(settings, path, traffic))
            self._run(self._wait(0))
            started.result()
            self._traffic = traffic.getsockname()
            self._client = _connect(self._traffic)
            self._telemetry = stack.enter_context(frames.accept()[0])
            self._upstream: socket.socket | None = None
            for sock in (self._telemetry, self._upstreams):
                sock.settimeout(WAIT_SECONDS)
            self._telemetry.recv(_READ_BYTES)  # the hello
            try:
                yield
            finally:
                self._client.close()
            assert self._answers == self._calls > 0

    async def _start(self, settings: Settings, path: str, traffic: socket.socket) -> None:
        self._link = FrameChannel(path, HELLO)
        self._proxy = Proxy(settings, self._link, clock=self)
        self._linking = asyncio.ensure_future(self._link.run())
        await self._proxy.start(traffic)

    def _wait(self, seconds: float) -> Steps:
        self._passed_ns += int(seconds * 1e9)
        yield False

    def hang_up(self) -> None:
        """End the connections of client and upstream: the next call is made on new ones."""
        for sock in (self._client, self._upstream):
            if sock is not None:
                sock.close()
        self._upstream = None
        self._run(self._wait(0))
        self._client = _connect(self._traffic)

    def relay(self, request: bytes, answer: Sequence[bytes]) -> bytes:
        """One call, from its head to its settled span.

        Args:
            request: as the client sends it.
            answer: as the upstream sends it, each piece once the last one was relayed.

        Returns:
            What the worker sent to telemetry.
        """
        frames: list[bytes] = []
        self._run(self._relay(request, answer, frames))
        return b"".join(frames)

    def _relay(self, request: bytes, answer: Sequence[bytes], frames: list[bytes]) -> Steps:
        self._client.sendall(request)
        yield True
        if self._upstream is None:
            self._upstream = self._upstreams.accept()[0]
            self._upstream.settimeout(WAIT_SECONDS)
            _send_at_once(self._upstream)
            yield False
        self._upstream.recv(_READ_BYTES)
        for piece in answer:
            self._upstream.sendall(piece)
            yield True
            with contextlib.suppress(BlockingIOError):  # what is taken out leaves nothing to read
                self._answers += self._client.recv(_READ_BYTES).startswith(b"HTTP/1.1 200 OK\r\n")
        yield from self._wait(GATHER_SECONDS * 2)
        frames.append(self._telemetry.recv(_READ_BYTES))
        self._calls += 1
        self._telemetry.sendall(encode_acks(Acks([self._calls])))
        yield True


def _connect(address: tuple[str, int]) -> socket.socket:
    """A client's connection, which no read waits for."""
    client = socket.create_connection(address)
    client.setblocking(False)
    _send_at_once(client)
    return client


def _send_at_once(sock: socket.socket) -> None:
    """Else a small piece waits for the acknowledgement of the one before it, 40 ms."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
