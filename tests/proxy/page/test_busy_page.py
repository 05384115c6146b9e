"""A page's process that many ask much of at once: lists are still answered, and memory is held."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
import pytest

from proxy.page.unread import MAX_UNREAD_BYTES
from proxy.page_access.address import find_page
from proxy.page_access.token_file import token_path
from tests.e2e.processes import ServerProcess, wait_until
from tests.proxy.recorded_calls import make_exchange, make_store, span_id_of
from tests.telemetry.conversations.talks import user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

LARGE = span_id_of(2)
OTHER = span_id_of(1)
UNREAD = 60  # of 3.7 MB each


class Page(NamedTuple):
    """A page's process."""

    pid: int
    host: str
    port: int
    token: str

    @property
    def peak_bytes(self) -> int:
        """The most memory that it has had."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two calls of 5 MB, of which all messages differ, and two hundred small ones."""
    chosen = random.Random(7)
    histories = [
        [user(" ".join(chosen.choices("abcd", k=4_000))) for _ in range(600)] for _ in range(2)
    ]
    large = [
        make_exchange(number, request_json={"model": "gpt-demo", "messages": history})
        for number, history in enumerate(histories, 1)
    ]
    path = tmp_path_factory.mktemp("busy") / "traces.db"
    return make_store(path, *large, *(make_exchange(number) for number in range(3, 203)))


@pytest.fixture
def page(store: Path, tmp_path: Path) -> Iterator[Page]:
    """The page of that store, in a process of its own."""
    command = [sys.executable, "-m", "proxy", "page", "--store", str(store)]
    command += ["--port", "0", "--no-browser"]
    with ServerProcess(command, environment={}, log=tmp_path / "log"):
        wait_until(lambda: find_page(store) is not None, 20, "the page is there")
        found = find_page(store)
        assert found is not None
        host, _, port = found.url.rpartition("/")[2].rpartition(":")
        yield Page(found.pid, host, int(port), token_path(store).read_text().strip())


@contextlib.asynccontextmanager
async def asking(page: Page) -> AsyncIterator[aiohttp.ClientSession]:
    """A client that takes as many connections as it likes."""
    async with aiohttp.ClientSession(
        f"http://{page.host}:{page.port}",
        headers={"Authorization": f"Bearer {page.token}"},
        connector=aiohttp.TCPConnector(limit=0),
    ) as session:
        yield session


async def ask(session: aiohttp.ClientSession, path: str) -> int:
    """Return the status of an answer, once all of it is there."""
    async with session.get(f"/api/{path}") as response:
        await response.read()
        return response.status


async def test_lists_are_answered_beside_all_that_takes_long(page: Page) -> None:
    """Eighty comparisons of large calls, and searches, sums, bodies and heads beside them."""
    heavy = [f"calls/{LARGE}/diff?with={OTHER}"] * 80
    for more in (f"calls/{LARGE}", f"calls/{LARGE}/raw?part=span", f"calls/{LARGE}/messages/9"):
        heavy += [more] * 10
    heavy += ["calls?filter=nowhere", "stats", "conversations?filter=nowhere"] * 8
    async with asking(page) as session:
        assert await ask(session, "calls") == 200
        waiting = [asyncio.ensure_future(ask(session, path)) for path in heavy]
        await asyncio.sleep(0.1)
        for _ in range(20):
            for path in ("calls", "status", "conversations"):
                assert await ask(session, path) == 200
        done, left = await asyncio.wait(waiting, timeout=0.1)
        for one in left:
            one.cancel()
    assert len(left) > 20  # none of the sixty lists waited for all that was asked before it
    statuses = Counter(one.result() for one in done)
    assert statuses.keys() == {200, 503}


async def test_downloads_that_nobody_reads_hold_64_mb(page: Page) -> None:
    """What does not fit beside the others is refused, and lists are answered."""
    head = f"GET /api/calls/{LARGE}/raw?part=span HTTP/1.1\r\nHost: {page.host}:{page.port}\r\n"
    head += f"Authorization: Bearer {page.token}\r\n\r\n"
    async with asking(page) as session:
        path = f"calls/{LARGE}/raw?part=span"
        read = await asyncio.gather(*(ask(session, path) for _ in range(8)))
        assert {*read} == {200}
        before = page.peak_bytes
        with contextlib.ExitStack() as stack:
            for _ in range(UNREAD):
                unread = stack.enter_context(socket.socket())
                unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                unread.connect((page.host, page.port))
                unread.sendall(head.encode())
            until = time.monotonic() + 60
            while await ask(session, path) == 200:
                assert time.monotonic() < until
            assert await ask(session, "calls") == 200
            grown = page.peak_bytes - before
        while await ask(session, path) == 503:
            assert time.monotonic() < until
    assert grown < MAX_UNREAD_BYTES + 32 * 1024 * 1024  # what is read meanwhile, and sockets
