"""``proxy.processes.news_server``: news over a real socket, of frames that a worker sends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import stat
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codec._version import __version__
from proxy.processes import news_server
from proxy.processes.scratch import news_path
from telemetry.news import feed
from telemetry.news.messages import (
    Ended,
    Hello,
    Lost,
    News,
    Opened,
    Recorded,
    Refused,
    Said,
    Watch,
    decode_news,
    encode_line,
)
from tests.proxy.processes.channels import Intake, connected, emit, emit_rest, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


class Watcher:
    """One that watches over a socket."""

    def __init__(self, path: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(path)
        self._begun = b""
        self.news: list[News] = []

    def say(self, *texts: str, version: str = __version__) -> None:
        self.sock.sendall(encode_line(Watch(version=version, texts=texts)))

    async def read_until(self, wanted: Callable[[News], bool]) -> News:
        """Read on until there is such a piece of news; the first of them."""
        while True:
            if found := [one for one in self.news if wanted(one)]:
                return found[0]
            data = await asyncio.to_thread(self.sock.recv, 65536)
            assert data, self.news
            *lines, self._begun = (self._begun + data).split(b"\n")
            news = [*map(decode_news, lines)]
            assert None not in news
            self.news += [one for one in news if one is not None]

    async def read(self, kind: type[News]) -> News:
        return await self.read_until(lambda one: isinstance(one, kind))

    def is_let_go(self) -> bool:
        """Whether the server has closed the connection, after all that it said."""
        with contextlib.suppress(ConnectionError):
            while self.sock.recv(65536):
                pass
        return True


@contextlib.contextmanager
def serving(listener: socket.socket) -> Iterator[tuple[Intake, str]]:
    """An intake with a server, each on a thread of its own."""
    intake = Intake(listener)
    path = news_path(listener.getsockname())
    server = intake.open_news_server(path)
    intake.start()
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield intake, path
    server.close()
    thread.join(10)
    intake.finish()


@contextlib.asynccontextmanager
async def watching(path: str, *texts: str) -> AsyncIterator[Watcher]:
    watcher = Watcher(path)
    watcher.say(*texts)
    await watcher.read(Hello)
    try:
        yield watcher
    finally:
        watcher.sock.close()


async def test_a_watcher_sees_a_call_from_its_begin_to_its_row(listener: socket.socket) -> None:
    """Over the worker's socket in, over the server's out."""
    with serving(listener) as (intake, path):
        async with connected(listener) as channel, watching(path, f"{1:016x}") as watcher:
            emit(channel, 1, ended=False)
            assert isinstance(await watcher.read(Opened), Opened)
            said = await watcher.read(Said)
            assert isinstance(said, Said)
            assert said.text == "Hel"
            emit_rest(channel, 1)
            ended = await watcher.read(Ended)
            assert isinstance(ended, Ended)
            assert ended.call is not None
            await watcher.read(Recorded)
            assert intake.is_watched


async def test_the_end_of_a_call_is_told_soon(listener: socket.socket) -> None:
    """The page has 200 ms from there to its row; a machine under load may take longer once."""
    with serving(listener) as (_, path):
        async with connected(listener) as channel, watching(path) as watcher:
            taken = []
            for number in range(1, 6):
                begin = time.monotonic()
                emit(channel, number)
                span_id = f"{number:016x}"
                await watcher.read_until(
                    lambda one, wanted=span_id: isinstance(one, Ended) and one.span_id == wanted  # type: ignore[misc]
                )
                taken.append(time.monotonic() - begin)
            assert sorted(taken)[2] < 0.2


async def test_telemetry_does_nothing_for_nobody(listener: socket.socket) -> None:
    """Before the first has come and after the last has gone, however it went."""
    with serving(listener) as (intake, path):
        known = [intake.is_watched]
        async with watching(path), watching(path):
            known.append(intake.is_watched)
        assert known == [False, True]
        await until(lambda: not intake.is_watched)


async def test_who_reads_nothing_loses_news_and_nobody_waits(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls are recorded, another watcher gets all, and the slow one is told how many it lost."""
    monkeypatch.setattr(feed, "MAX_FEED_BYTES", 16 * 1024)
    with serving(listener) as (intake, path):
        async with connected(listener) as channel, watching(path) as slow, watching(path) as quick:
            slow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            count = 0
            # As much as the kernel keeps for it, and what waits here.
            while count < 350:
                for _ in range(5):
                    count += 1
                    emit(channel, count)
                wanted = f"{count:016x}"
                await quick.read_until(
                    lambda one, wanted=wanted: isinstance(one, Ended) and one.span_id == wanted  # type: ignore[misc]
                )
            await until(lambda: len(intake.outcomes) == count)
            lost = await slow.read(Lost)
            assert isinstance(lost, Lost)
            assert lost.count > 0
            assert not [one for one in quick.news if isinstance(one, Lost)]


async def test_one_more_than_there_may_be_is_told_so(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And has a place when another one goes."""
    assert news_server.MAX_WATCHERS == 32
    with serving(listener) as (_, path), contextlib.ExitStack() as stack:
        watchers = [Watcher(path) for _ in range(32)]
        for watcher in watchers:
            stack.callback(watcher.sock.close)
            watcher.say()
            await watcher.read(Hello)
        late = Watcher(path)
        stack.callback(late.sock.close)
        assert await late.read(Refused) == Refused(reason="watchers")
        assert late.is_let_go()
        watchers[0].sock.close()
        await asyncio.sleep(0.1)
        async with watching(path):
            pass


@pytest.mark.parametrize(
    "said",
    [
        encode_line(Watch(version="0.0.1")),
        b"nonsense\n",
        b'{"type":"hello"}\n',
        b"\xff" * (2 * news_server._MAX_WATCH_BYTES),
        encode_line(Watch(version=__version__)) * 1000,
    ],
    ids=["another version", "nonsense", "another message", "an endless line", "too much"],
)
async def test_who_says_what_is_wrong_is_let_go(listener: socket.socket, said: bytes) -> None:
    """The others see all; one of another version is told."""
    with serving(listener) as (_, path):
        async with connected(listener) as channel, watching(path) as watcher:
            wrong = Watcher(path)
            with contextlib.suppress(ConnectionError):
                wrong.sock.sendall(said)
            if b"0.0.1" in said:
                assert await wrong.read(Refused) == Refused(reason="version")
            assert wrong.is_let_go()
            wrong.sock.close()
            emit(channel, 1)
            await watcher.read(Ended)


async def test_a_line_may_come_in_pieces(listener: socket.socket) -> None:
    """As over any stream."""
    with serving(listener) as (_, path):
        watcher = Watcher(path)
        for byte in encode_line(Watch(version=__version__)):
            watcher.sock.sendall(bytes((byte,)))
        await watcher.read(Hello)
        watcher.sock.close()


async def test_the_socket_of_one_that_was_killed_is_taken_over(listener: socket.socket) -> None:
    """It lies there still; and it is where nobody else can get to."""
    path = news_path(listener.getsockname())
    with socket.socket(socket.AF_UNIX) as former:
        former.bind(path)
    with serving(listener):
        async with watching(path):
            pass
    assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700
