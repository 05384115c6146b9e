"""The supervisor's control socket for launches, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from proxy.commands.listing import find_open_calls
from proxy.launches import joining
from proxy.launches.joining import find_proxy, join_proxy
from proxy.processes.interceptions import Interceptions
from proxy.processes.launch_channel import (
    Join,
    Joined,
    LaunchMessage,
    Left,
    Stored,
    decode_line,
    digest_privacy,
    encode_line,
    find_control_socket,
    pointing_to_control_socket,
)
from proxy.processes.launches import Launches
from proxy.processes.open_calls import NO_CALLS, OpenCalls
from proxy.processes.store_orders import CompactStore, DeleteSpans, Undone
from proxy.settings.settings import Settings
from proxy.settings.spans import hand_over
from proxy.settings.tables import UpstreamConfig
from proxy.upstream.passes import read_pass
from telemetry.errors import ConfigurationError
from telemetry.observing.encryption import OWN_CIPHER
from telemetry.observing.open_call import OpenCall
from telemetry.store.lock import StoreLock
from telemetry.store.rows import DeleteStep

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from proxy.processes.store_orders import StoreAnswer, StoreOrder

OURS = ("127.0.0.1", 4321)
URL = "http://127.0.0.1:4321"
UPSTREAMS = (UpstreamConfig(name="a", url="http://h", prefix="/a"),)


@pytest.fixture(name="control_socket")
def _control_socket() -> Iterator[str]:
    """The path of a socket; short, whatever the test's name."""
    folder = Path("/tmp") / f"door-{uuid4().hex}"
    folder.mkdir(mode=0o700)
    yield str(folder / "launches")
    (folder / "launches").unlink(missing_ok=True)
    folder.rmdir()


OPEN = OpenCalls(
    calls=(OpenCall(span_id="0a" * 8, trace_id="0b" * 16, start_ns=1, api="chat", upstream="a"),),
    count=1,
)


async def tell_open() -> OpenCalls:
    """What the proxy says of open calls."""
    return OPEN


async def answer_nothing(_: StoreOrder) -> None:
    """Telemetry that is not there."""


@contextlib.asynccontextmanager
async def opened(
    control_socket: str,
    first: socket.socket | None = None,
    carry_out: Callable[[StoreOrder], Awaitable[StoreAnswer | None]] = answer_nothing,
    **settings: Any,
) -> AsyncIterator[Launches]:
    """Launches that are let in."""
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(control_socket)
    handed = hand_over(Settings(**settings), os.environ)
    launches = Launches(
        handed,
        OURS,
        URL,
        OWN_CIPHER,
        first,
        interceptions=Interceptions([], (), Path(control_socket).parent),
        tell_open=tell_open,
        carry_out=carry_out,
    )
    await launches.open(sock)
    try:
        yield launches
    finally:
        launches.close()


class Launch:
    """A launch's end of its connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    @classmethod
    async def come(cls, control_socket: str | socket.socket, **urls: str) -> Launch:
        if isinstance(control_socket, str):
            launch = cls(*await asyncio.open_unix_connection(control_socket))
        else:
            launch = cls(*await asyncio.open_unix_connection(sock=control_socket))
        launch.writer.write(encode_line(Join(urls=urls)))
        return launch

    async def hear(self) -> LaunchMessage | None:
        async with asyncio.timeout(10):
            return decode_line(await self._reader.readline())

    def go(self) -> None:
        self.writer.write_eof()

    async def joined(self) -> Joined:
        message = await self.hear()
        assert isinstance(message, Joined)
        return message


async def test_the_proxy_of_launches_ends_with_the_last(control_socket: str) -> None:
    """The first may go before; one that is killed goes like any other."""
    ours, theirs = socket.socketpair()
    async with opened(control_socket, theirs) as launches:
        first = await Launch.come(ours)
        assert not (await first.joined()).stays
        second = await Launch.come(control_socket)
        await second.joined()
        first.go()
        assert (await first.hear(), await first.hear()) == (Left(stays=True), None)
        assert not launches.are_over.is_set()
        second.writer.transport.abort()
        await asyncio.wait_for(launches.are_over.wait(), 10)
        late = await Launch.come(control_socket)
        assert await late.hear() == Left(stays=False)
    first.writer.close()
    late.writer.close()


async def test_who_asks_for_open_calls_is_no_launch(control_socket: str, tmp_path: Path) -> None:
    """Nothing ends with it; without a control socket, and where nobody answers, there are none."""
    ours, theirs = socket.socketpair()
    store = tmp_path / "traces.db"
    assert await asyncio.to_thread(find_open_calls, store) == NO_CALLS
    async with opened(control_socket, theirs) as launches:
        with pointing_to_control_socket(str(store), control_socket):
            first = await Launch.come(ours)
            await first.joined()
            for _ in range(3):
                assert await asyncio.to_thread(find_open_calls, store) == OPEN
            assert not launches.are_over.is_set()
            first.go()
            assert await first.hear() == Left(stays=False)
            first.writer.close()


async def test_the_last_run_is_told_when_its_calls_are_stored(control_socket: str) -> None:
    """It is the supervisor that knows."""
    ours, theirs = socket.socketpair()
    async with opened(control_socket, theirs) as launches:
        launch = await Launch.come(ours)
        await launch.joined()
        launch.go()
        assert await launch.hear() == Left(stays=False)
        launches.tell_stored()
        assert await launch.hear() == Stored()
    launch.writer.close()


async def test_a_proxy_that_serves_stays(control_socket: str) -> None:
    """Whoever comes and goes; also one who says nothing, or nonsense."""
    async with opened(control_socket) as launches:
        launch = await Launch.come(control_socket)
        assert (await launch.joined()).stays
        launch.go()
        assert (await launch.hear(), await launch.hear()) == (Left(stays=True), None)
        launch.writer.close()
        for nonsense in (b"", b"\n", b"{}\n", b"x" * 1_000_000 + b"\n"):
            _, writer = await asyncio.open_unix_connection(control_socket)
            with contextlib.suppress(OSError):
                writer.write(nonsense)
                writer.write_eof()
            writer.close()
        launch = await Launch.come(control_socket)
        assert (await launch.joined()).stays
        assert not launches.are_over.is_set()
        launch.writer.close()


async def test_orders_are_handed_on_and_answered(control_socket: str) -> None:
    """One after the other, on one connection; a launch that comes meanwhile is served."""
    asked: list[StoreOrder] = []

    async def carry_out(order: StoreOrder) -> StoreAnswer | None:
        asked.append(order)
        return DeleteStep(looked_at=2, deleted=1, unsent=0) if len(asked) < 3 else None

    order = DeleteSpans(seqs=(1, 2))
    async with opened(control_socket, carry_out=carry_out) as launches:
        reader, writer = await asyncio.open_unix_connection(control_socket)
        for _ in range(2):
            writer.write(encode_line(order))
            assert decode_line(await reader.readline()) == DeleteStep(
                looked_at=2, deleted=1, unsent=0
            )
        launch = await Launch.come(control_socket)
        await launch.joined()
        writer.write(encode_line(order))
        answer = decode_line(await reader.readline())
        assert isinstance(answer, Undone)
        assert "telemetry" in answer.words
        assert answer.may_pass
        assert asked == [order] * 3
        launches.close()
        writer.write(encode_line(CompactStore(gives_back=True)))
        answer = decode_line(await reader.readline())
        assert isinstance(answer, Undone)
        assert "just ending" in answer.words
        assert not answer.may_pass
        assert len(asked) == 3
        writer.close()
    launch.writer.close()


@pytest.mark.parametrize("seq", ["-1", str(1 << 63), "1.5", '"1"'])
async def test_numbers_that_are_none_are_no_order(seq: str, control_socket: str) -> None:
    """Nothing is handed on that SQLite could not compare."""
    async with opened(control_socket):
        reader, writer = await asyncio.open_unix_connection(control_socket)
        writer.write(b'{"type":"delete_spans","seqs":[%b]}\n' % seq.encode())
        assert decode_line(await reader.readline()) == Left(stays=True)
        writer.close()


async def test_base_urls_get_a_pass_unless_they_lead_here(control_socket: str) -> None:
    """Those keep their own path, without the name of another launch: nothing goes round."""
    inside = {
        f"{URL}/v1": "/v1",
        "http://localhost:4321/groq/v1/": "/groq/v1",
        f"{URL}": "",
        f"{URL}/~run/outer~~1/v1": "/v1",
        f"{URL}/~run/outer~~1": "",
        f"{URL}/~run/outer/~to/abc": "/~to/abc",
    }
    outside = ("http://127.0.0.1:4322/v1", "https://api.example/v1", "http://[::1", "http://h:x")
    async with opened(control_socket):
        launch = await Launch.come(control_socket, **{url: url for url in (*inside, *outside)})
        paths = (await launch.joined()).paths
        launch.writer.close()
    assert {url: paths[url] for url in inside} == inside
    for url in outside:
        assert read_pass(paths[url].removeprefix("/~to/"), OWN_CIPHER) == url


@pytest.mark.parametrize(
    ("settings", "has_it"),
    [
        ({}, True),
        ({"upstream": "http://h"}, False),
        ({"upstream": "http://h", "catalogue": True}, True),
        ({"catalogue": False}, False),
        ({"upstreams": UPSTREAMS}, True),
        ({"upstreams": (UpstreamConfig(name="b", url="http://h"),)}, False),
    ],
)
async def test_a_run_is_told_whether_the_catalogue_is_there(
    settings: Any, has_it: bool, control_socket: str
) -> None:
    """By the rule of the upstreams' table."""
    async with opened(control_socket, **settings):
        launch = await Launch.come(control_socket)
        assert (await launch.joined()).has_catalogue is has_it
        launch.writer.close()


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({}, "api.anthropic.com"),
        ({"catalogue": False}, "api.anthropic.com"),
        ({"upstream": "https://api.anthropic.com"}, "api.anthropic.com"),
        ({"upstream": "http://gateway.example:8080/x"}, "gateway.example"),
        ({"upstreams": UPSTREAMS}, "api.anthropic.com"),
        ({"upstreams": (UpstreamConfig(name="b", url="http://h"),)}, "h"),
        ({"upstreams": (UpstreamConfig(name="b", url="http://h", prefix="/v1"),)}, "h"),
    ],
)
async def test_a_run_is_told_where_calls_of_anthropics_api_go(
    settings: Any, host: str, control_socket: str
) -> None:
    """It holds for calls that name no other upstream."""
    async with opened(control_socket, **settings):
        launch = await Launch.come(control_socket)
        assert (await launch.joined()).messages_host == host
        launch.writer.close()


def test_what_hides_content_is_told_by_a_digest() -> None:
    """Of settings and variables; whatever else is set, and in whatever order."""

    def digest(environ: dict[str, str] | None = None, **settings: Any) -> str:
        return digest_privacy(hand_over(Settings(**settings), {}), environ or {})

    assert digest(port=1, headers={"x-a": "user.id"}) == digest({"HOME": "/x"})
    assert digest(redact={"email", "card"}) == digest(redact={"card", "email"})
    others = [
        digest(),
        digest(content=False),
        digest(redact={"email"}),
        digest(redact_patterns={"a": "b"}),
        digest(record_headers="none"),
        digest(pictures=False),
        digest(raw="all"),
        digest({"OPENINFERENCE_HIDE_INPUTS": "true"}),
    ]
    assert len(set(others)) == len(others)


def test_a_control_socket_is_pointed_to_as_long_as_it_is_open(
    control_socket: str, tmp_path: Path
) -> None:
    """By a file for its owner alone, beside the store that a link leads to."""
    store, link = tmp_path / "s.db", tmp_path / "link.db"
    link.symlink_to(store)
    assert find_control_socket(store) is None
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as sock:
        sock.bind(control_socket)
        with pointing_to_control_socket(str(link), control_socket):
            assert find_control_socket(store) == find_control_socket(link) == control_socket
            assert stat.S_IMODE((tmp_path / "s.db.door").stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [link]


def test_a_control_socket_of_somebody_else_is_not_entered(
    control_socket: str, tmp_path: Path
) -> None:
    """Neither their pointer, nor their socket, nor what is no socket."""
    if os.geteuid():
        pytest.skip("only root may give files away")
    store, pointer = tmp_path / "s.db", tmp_path / "s.db.door"
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as sock:
        sock.bind(control_socket)
        pointer.write_text(control_socket)
        assert find_control_socket(store) == control_socket
        for path in (pointer, Path(control_socket), Path(control_socket).parent):
            os.chown(path, 65534, 65534)
            assert find_control_socket(store) is None
            os.chown(path, 0, 0)
        pointer.write_text(str(tmp_path))
        assert find_control_socket(store) is None
        pointer.write_text("/nowhere\0")
        assert find_control_socket(store) is None
        pointer.unlink()
        pointer.symlink_to(tmp_path / "other")
        (tmp_path / "other").write_text(control_socket)
        assert find_control_socket(store) is None


def test_a_control_socket_behind_which_nobody_is_leads_nowhere(
    control_socket: str, tmp_path: Path
) -> None:
    """All were killed."""
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as sock:
        sock.bind(control_socket)
        (tmp_path / "s.db.door").write_text(control_socket)
        assert find_proxy(tmp_path / "s.db", Join()) is None


def test_a_store_that_accepts_no_launches_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version holds it, or a proxy elsewhere; nobody waits for ever."""
    monkeypatch.setattr(joining, "START_SECONDS", 0.3)
    lock = StoreLock(tmp_path / "s.db")
    words = rf"held by process {os.getpid()}, which accepts no"
    with pytest.raises(ConfigurationError, match=words):
        join_proxy(tmp_path / "s.db", b"", Join())
    lock.release()


def test_a_launch_that_wants_more_than_fits_is_told(tmp_path: Path) -> None:
    """Before anything is started: the proxy would take its words for something else."""
    urls = {str(number): "http://a.test/" + "x" * 1000 for number in range(300)}
    with pytest.raises(ConfigurationError, match=r"take 30\d,\d\d\d bytes, .*: name fewer"):
        join_proxy(tmp_path / "s.db", b"", Join(urls=urls))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Before anything is started."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be"):
        join_proxy(tmp_path / "file" / "s.db", b"", Join())
