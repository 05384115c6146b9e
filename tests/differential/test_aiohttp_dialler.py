"""Why the dialler and the admin port are not aiohttp's, though no private name would be needed.

aiohttp's connector holds each row of ``tests/proxy/upstream/test_dialling.py`` but two, and costs
more than is allowed (5 %). The tests of what it does not hold are strict: the day it does one of
them says so.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from codec.text.jsontext import decode_json
from proxy.upstream import client
from tests.differential.aiohttp_dialler import AiohttpDialler
from tests.e2e.processes import clean_environment
from tests.proxy.harness import request_bytes, running_proxy
from tests.proxy.raw_client import ask
from tests.proxy.upstream import peers
from tests.proxy.upstream.test_dialling import ROWS, dial_many, fail, strip_place

AT_MOST = 1.05
"""How much more than today dialling, a process's memory and its start may cost."""


@pytest.fixture
def _by_aiohttp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "Dialler", AiohttpDialler)


@pytest.mark.usefixtures("_by_aiohttp")
@pytest.mark.parametrize("name", ROWS)
async def test_it_fails_in_the_same_words(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cause, and each phase against the timeout."""
    row = ROWS[name]
    got, message, expected = await fail(row, tmp_path, monkeypatch)
    assert (got.status, got.error["code"]) == (row.status, row.code)
    assert strip_place(message) == expected
    assert b"secret" not in got.raw


async def test_it_leaves_nothing_behind() -> None:
    """However dials end."""
    await dial_many(280, AiohttpDialler)


@pytest.mark.xfail(strict=True, raises=AssertionError)
@pytest.mark.usefixtures("_by_aiohttp")
async def test_it_takes_an_address_written_in_any_way() -> None:
    """It refuses ``127.1``, which the system and curl know."""
    async with (
        peers.serving(peers.answer) as port,
        running_proxy(f"http://127.1:{port}") as running,
    ):
        assert (await ask(running.address, request_bytes())).status == 200


@pytest.mark.xfail(strict=True, raises=AssertionError)
@pytest.mark.usefixtures("_by_aiohttp")
async def test_it_tells_a_proxy_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """It adds ``User-Agent`` with its version and Python's, and fields of a request to CONNECT."""
    async with peers.tiny_proxy(b"HTTP/1.1 403 No\r\n\r\n") as tiny:
        monkeypatch.setenv("HTTPS_PROXY", tiny.url)
        async with running_proxy("https://127.0.0.1") as running:
            await ask(running.address, request_bytes())
    assert tiny.heads == [b"CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: 127.0.0.1:443\r\n\r\n"]


def run_python(*arguments: str) -> str:
    """What a program prints, in a process where no other tracer is."""
    environment = {
        name: value
        for name, value in clean_environment().items()
        if not name.startswith(("COVERAGE_", "PYTHON"))
    }
    ended = subprocess.run(
        [sys.executable, *arguments],
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout


@pytest.mark.xfail(strict=True, raises=AssertionError)
def test_a_dial_by_it_costs_no_more() -> None:
    """Bytecodes, without TLS; with it the handshake is most of a dial."""
    costs = decode_json(run_python("-m", "tests.differential.dial_costs"))
    assert costs["aiohttp"] <= costs["ours"] * AT_MOST


MEASURE = """\
import importlib, pathlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    print(pathlib.Path("/proc/self/statm").read_text().split()[1])
"""
"""Prints the resident pages after each import."""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux tells it")
@pytest.mark.xfail(strict=True, raises=AssertionError)
@pytest.mark.parametrize(
    ("process", "part"),
    [("proxy.processes.worker", "aiohttp"), ("proxy.processes.supervisor", "aiohttp.web")],
)
def test_a_process_with_it_takes_no_more_memory(process: str, part: str) -> None:
    """A worker would have it to dial, the supervisor for the admin port."""
    before, behind = map(int, run_python("-c", MEASURE, process, part).split())
    assert behind <= before * AT_MOST
