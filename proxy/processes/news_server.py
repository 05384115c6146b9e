"""The news server: sends live news to watchers, over a Unix socket beside that of frames.

The thread that feeds frames makes the news (:mod:`telemetry.news.reporter`), at each of its regular
checks; the thread here only sends it. While nobody watches, it only waits for a connection, and
telemetry does nothing for it. A watcher that reads too slowly loses news, and learns how much
(:mod:`telemetry.news.feed`); nobody waits for it.

Whatever a watcher sends or does affects only itself. Only our user can connect, because the socket
is in a folder that is closed to all others.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codec._version import __version__
from proxy.processes.selector_tasks import SelectorTasks
from telemetry.news.feed import Feed
from telemetry.news.messages import Refused, Watch, decode_watch, encode_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.news.reporter import Reporter

_log = logging.getLogger("spantap.telemetry")

MAX_WATCHERS: Final = 32
"""How many watchers may connect. Each may hold a megabyte of news; the page's process needs one for
all browsers. One more is refused."""

RETRY_SECONDS: Final = 0.1
"""The time between two tries to send to a watcher that has not taken everything."""

_MAX_WATCH_BYTES: Final = 16 * 1024
"""The longest line of a watcher: it has the ids of some dozens of calls, twice."""

_MAX_WATCHES: Final = 64
"""How many requests a watcher may send between two checks; no real one sends more."""

_SEND_BYTES: Final = 64 * 1024
"""How much is taken from a feed at once: as much as a socket accepts."""


class _Watcher:
    """One watcher.

    Attributes:
        feed: its news; ``None`` until it has said what it wants to watch.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.said = b""
        self.unsent = b""
        self.feed: Feed | None = None


class NewsServer:
    """The news server of one telemetry process; :meth:`run` has its own thread.

    Args:
        path: where to listen.
        reporter: makes the news.
        ask: gives work to the thread that makes news (:mod:`proxy.processes.selector_tasks`).

    Raises:
        OSError: it cannot listen there.
    """

    def __init__(
        self, path: str, reporter: Reporter, ask: Callable[[Callable[[], None]], None]
    ) -> None:
        self._reporter = reporter
        self._ask = ask
        Path(path).unlink(missing_ok=True)  # of a telemetry process that was killed
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(path)
            self._listener.listen(MAX_WATCHERS)
        except OSError:
            self._listener.close()
            raise
        self._listener.setblocking(False)  # noqa: FBT003 - its only parameter
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._tasks = SelectorTasks()
        self._selector.register(self._tasks, selectors.EVENT_READ, self._tasks.run)
        self._is_ending = False
        self._watchers: set[_Watcher] = set()
        reporter.deliver = partial(self._tasks.ask, self._deliver_all)

    def close(self) -> None:
        """Deliver what there is, and let :meth:`run` return; any thread may call this."""
        self._is_ending = True
        self._tasks.ask(lambda: None)

    def run(self) -> None:
        """Serve, until it is closed."""
        while not self._is_ending:
            self._step()
        self._deliver_all()
        for watcher in tuple(self._watchers):
            self._let_go(watcher)
        for each in (self._listener, self._tasks, self._selector):
            each.close()

    def _step(self) -> None:
        """Read what watchers send, and deliver news when telemetry asks for it."""
        is_behind = any(watcher.unsent for watcher in self._watchers)
        for key, _ in self._selector.select(RETRY_SECONDS if is_behind else None):
            key.data()
        if is_behind:
            self._deliver_all()

    def _deliver_all(self) -> None:
        for watcher in tuple(self._watchers):
            self._deliver(watcher)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        sock.setblocking(False)  # noqa: FBT003 - its only parameter
        if len(self._watchers) >= MAX_WATCHERS:
            _refuse(sock, "watchers")
            return
        watcher = _Watcher(sock)
        self._watchers.add(watcher)
        self._selector.register(sock, selectors.EVENT_READ, lambda: self._hear(watcher))

    def _hear(self, watcher: _Watcher) -> None:
        """Read what a watcher sends; if it is not a request, disconnect it."""
        try:
            data = watcher.sock.recv(_MAX_WATCH_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, watcher.said = (watcher.said + data).split(b"\n")
        if not data or len(watcher.said) > _MAX_WATCH_BYTES:
            self._let_go(watcher)
            return
        for line in lines:
            if watcher in self._watchers:
                self._follow(watcher, decode_watch(line))

    def _follow(self, watcher: _Watcher, watch: Watch | None) -> None:
        """Begin to send a watcher news, or change what it is sent."""
        feed = watcher.feed
        if watch is None or (feed is not None and len(feed.watches) >= _MAX_WATCHES):
            self._let_go(watcher)
        elif watch.version != __version__:
            with contextlib.suppress(OSError):
                watcher.sock.send(encode_line(Refused(reason="version")))
            self._let_go(watcher)
        elif feed is None:
            watcher.feed = feed = Feed()
            feed.watches.append(watch)
            self._ask(lambda: self._reporter.join(feed))
        else:
            feed.watches.append(watch)

    def _deliver(self, watcher: _Watcher) -> None:
        """Send as much as the socket accepts, without waiting."""
        if watcher.feed is None:
            return
        try:
            while data := watcher.unsent or watcher.feed.take(_SEND_BYTES):
                watcher.unsent = data  # in case the socket accepts nothing
                watcher.unsent = data[watcher.sock.send(data) :]
        except BlockingIOError:
            pass
        except OSError:
            self._let_go(watcher)

    def _let_go(self, watcher: _Watcher) -> None:
        if watcher in self._watchers:
            self._watchers.remove(watcher)
            self._selector.unregister(watcher.sock)
            watcher.sock.close()
            if (feed := watcher.feed) is not None:
                self._ask(lambda: self._reporter.leave(feed))


def _refuse(sock: socket.socket, reason: str) -> None:
    """Say why there is no news."""
    with sock, contextlib.suppress(OSError):
        sock.send(encode_line(Refused(reason=reason)))
