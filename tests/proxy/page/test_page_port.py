"""The page's port: a process while somebody looks, and none else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import msgspec

from proxy.page.page_settings import PageSettings
from proxy.page.process import NICENESS
from proxy.page_access.digests import digest_token
from proxy.processes import page_port as module
from proxy.processes.messages import Start
from proxy.processes.page_listener import pick_page_settings
from proxy.processes.page_port import PagePort
from proxy.settings.settings import Settings
from proxy.settings.spans import hand_over

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import pytest

_TOKEN = f"sha256:{digest_token('a-token-of-this-test').hex()}"


@contextlib.asynccontextmanager
async def _watching(store: Path, **settings: object) -> AsyncIterator[tuple[PagePort, str]]:
    """A port that is watched, and its URL."""
    handed = msgspec.json.encode({"store": str(store), "page_token": _TOKEN, **settings})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        start = Start(settings=handed, number=0, frames_path="", cipher_key=b"")
        port = PagePort(listener, start)
        port.begin()
        try:
            yield port, f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            await port.end()


async def _ask(url: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status


def _assert_none(port: PagePort) -> None:
    assert port.pid is None


async def _until_none(port: PagePort) -> None:
    async with asyncio.timeout(20):
        while port.pid is not None:
            await asyncio.sleep(0.05)


def _read_environ(pid: int | None) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def _is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


async def test_a_connection_starts_the_process_and_the_end_ends_it(tmp_path: Path) -> None:
    """Nothing runs before, and nothing afterwards."""
    async with _watching(tmp_path / "traces.db") as (port, url):
        await asyncio.sleep(0.2)
        _assert_none(port)
        assert await _ask(url) == 200
        pid = port.pid
        assert pid is not None
        assert await _ask(url) == 200
        assert port.pid == pid
        assert port.is_ready
        ours = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, pid) == min(ours + NICENESS, 19)
    assert not _is_running(pid)
    assert not port.is_ready


async def test_it_ends_when_nobody_watches_and_comes_again(tmp_path: Path) -> None:
    """A connection that is only kept open is nobody who watches."""
    async with (
        _watching(tmp_path / "traces.db", page_idle_seconds=0.3) as (port, url),
        aiohttp.ClientSession() as session,
    ):
        async with session.get(url) as response:
            assert response.status == 200
            await response.read()
        first = port.pid
        await _until_none(port)
        assert await _ask(url) == 200
        assert port.pid not in {None, first}


async def test_one_that_is_killed_is_started_by_the_next_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """That is said once, and costs nobody anything."""
    async with _watching(tmp_path / "traces.db") as (port, url):
        assert await _ask(url) == 200
        first = port.pid
        assert first is not None
        await asyncio.sleep(module.STEADY_SECONDS)
        os.kill(first, signal.SIGKILL)
        await _until_none(port)
        await asyncio.sleep(0.2)
        _assert_none(port)
        assert (port.is_ready, port.restarts) == (False, 1)
        assert await _ask(url) == 200
        assert port.pid not in {None, first}
        assert (port.is_ready, port.restarts) == (True, 1)
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"the page process {first} was ended by SIGKILL; the next connection starts it again"
    ]


async def test_one_that_cannot_start_turns_away_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody hangs, and a wait keeps it from being tried without end."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho x >> {tmp_path}/tries\nexit 3\n")
    program.chmod(0o700)
    async with _watching(tmp_path / "traces.db") as (_, url):
        with monkeypatch.context() as context:
            context.setattr(sys, "executable", str(program))
            context.setattr(module, "FIRST_WAIT_SECONDS", 0.5)
            for _ in range(2):
                # By hand: a client asks again by itself where a connection ends.
                number = int(url.rstrip("/").rpartition(":")[2])
                reader, writer = await asyncio.open_connection("127.0.0.1", number)
                async with asyncio.timeout(10):
                    assert await reader.read() == b""
                writer.close()
            assert (tmp_path / "tries").read_text().count("x") == 2
        assert await _ask(url) == 200
    assert "ended with status 3" in caplog.text


async def test_it_is_given_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it need not know, nobody can get out of it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=of-the-backend")
    async with _watching(tmp_path / "traces.db") as (port, url):
        assert await _ask(url) == 200
        environ = _read_environ(port.pid)
    assert b"PATH=" in environ
    assert b"of-the-user" not in environ
    assert b"of-the-backend" not in environ


def test_names_of_secrets() -> None:
    """By what they are called, in either case."""
    environ: Mapping[str, str] = {"HF_TOKEN": "", "my_secret": "", "DB_PASSWORD": "", "LANG": ""}
    assert module.without_secrets(environ) == {"LANG": ""}


def test_the_process_is_told_what_it_needs_and_no_more() -> None:
    """Of all settings those that it reads, none of which is a key's digest."""
    handed = hand_over(Settings(inbound_keys=("sk-a-key-of-16-characters",), page_hosts=("p",)), {})
    picked = msgspec.json.decode(pick_page_settings(handed))
    fields = set(PageSettings.__struct_fields__) - {"page_idle_seconds"}
    assert set(picked) == fields
    assert PageSettings.decode(pick_page_settings(handed)).page_hosts == ("p",)
