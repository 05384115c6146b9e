"""The Autobahn suite through ``spantap serve``, beside a direct connection.

The suite plays a client against an echo server, and a server against a client that echoes, both of
the package ``websockets``. Whatever it does to the other end, and whatever that does about it, must
come out the same. All that its client sends is also read by the observer: the path is that of
Responses.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed, InvalidMessage

from tests.e2e.processes import find_free_port
from tests.faults.stage import running_spantap
from tests.lanes import find_programs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from websockets.asyncio.connection import Connection

    from tests.faults.stage import RunningSpantap

pytestmark = pytest.mark.timeout(7200)

CASES = os.environ.get("SPANTAP_AUTOBAHN_CASES", "*").split(",")
"""Patterns of the cases that are run, as the suite writes them."""

WAYS = ("direct", "relayed")

Outcome = dict[str, object]
"""How the suite judges a case: what came, how the connection was closed, and with which code."""


async def echo(connection: Connection) -> None:
    """Send each message back, as the kind that it was."""
    with contextlib.suppress(ConnectionClosed):
        async for message in connection:
            await connection.send(message)


def write_spec(folder: Path, spec: dict[str, object]) -> Path:
    """Write what the suite does into a new folder; return the file."""
    folder.mkdir()
    path = folder / "spec.json"
    path.write_bytes(
        msgspec.json.encode(spec | {"outdir": str(folder / "outcomes"), "cases": CASES})
    )
    return path


@contextlib.asynccontextmanager
async def suite(folder: Path, mode: str, spec: dict[str, object]) -> AsyncIterator[Path]:
    """The suite at work; gives the file that its outcomes will be in."""
    programs = find_programs("autobahn")
    path = write_spec(folder, spec)
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(programs / "wstest", "--mode", mode, "--spec", path, "--webport", "0"),
            env=os.environ | {"PYTHONUSERBASE": str(programs.parent)},
            stdout=log,
            stderr=log,
        )
        try:
            yield folder / "outcomes" / "index.json"
            if mode == "fuzzingclient":
                await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


def read_outcomes(path: Path) -> dict[str, Outcome]:
    """The outcomes of one way, by case."""
    [(_, cases)] = msgspec.json.decode(path.read_bytes()).items()
    names = ("behavior", "behaviorClose", "remoteCloseCode")
    return {case: {name: told[name] for name in names} for case, told in cases.items()}


def assert_same(direct: dict[str, Outcome], relayed: dict[str, Outcome]) -> None:
    """Each case came out alike. Most passed, or the suite did not reach the other end at all."""
    differing = {
        case: (outcome, relayed.get(case))
        for case, outcome in direct.items()
        if relayed.get(case) != outcome
    }
    print(f"\n{len(direct)} cases directly, {len(relayed)} relayed, {len(differing)} differ")
    assert not differing, differing
    failed = [case for case, outcome in direct.items() if outcome["behavior"] == "FAILED"]
    assert len(failed) < len(direct) / 2, failed


def assert_unhurt(spantap: RunningSpantap, before: dict[str, list[int]]) -> None:
    """No process of spantap has ended, and nothing is logged that it did not expect."""
    assert spantap.children() == before
    said = spantap.log
    print(said)
    assert "Traceback" not in said
    assert " ERROR " not in said
    assert spantap.metrics()["spantap_spans_recorded_total"] == 0


async def test_the_suite_s_client_sees_the_same_server_through_us(tmp_path: Path) -> None:
    """In each case, observed."""
    async with serve(echo, "127.0.0.1", 0, max_size=None) as server:
        port = server.sockets[0].getsockname()[1]
        with running_spantap(
            tmp_path,
            upstream=f"http://127.0.0.1:{port}",
            environment={"SPANTAP_WEBSOCKETS": "relay"},
        ) as spantap:
            before = spantap.children()

            async def fuzz(way: str, way_port: int) -> dict[str, Outcome]:
                url = f"ws://127.0.0.1:{way_port}/v1/responses"
                spec: dict[str, object] = {"servers": [{"agent": way, "url": url}]}
                async with suite(tmp_path / way, "fuzzingclient", spec) as outcomes:
                    pass
                return read_outcomes(outcomes)

            ways = zip(WAYS, (port, spantap.port), strict=True)
            assert_same(*await asyncio.gather(*(fuzz(way, to) for way, to in ways)))
            assert_unhurt(spantap, before)


async def test_the_suite_s_server_sees_the_same_client_through_us(tmp_path: Path) -> None:
    """In each case."""
    port = find_free_port()
    spec: dict[str, object] = {"url": f"ws://127.0.0.1:{port}"}
    with running_spantap(
        tmp_path,
        upstream=f"http://127.0.0.1:{port}",
        environment={"SPANTAP_WEBSOCKETS": "relay"},
    ) as spantap:
        before = spantap.children()
        found = []
        for way, way_port in zip(WAYS, (port, spantap.port), strict=True):
            async with suite(tmp_path / way, "fuzzingserver", spec) as outcomes:
                await wait_for(port)
                await be_fuzzed(f"ws://127.0.0.1:{way_port}", way)
            found.append(read_outcomes(outcomes))
        assert_same(*found)
        assert_unhurt(spantap, before)


async def wait_for(port: int) -> None:
    """Until the suite's server listens."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(ConnectionError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.1)


async def be_fuzzed(url: str, agent: str) -> None:
    """Be the client of each case, and let the outcomes be written."""
    async with connect(f"{url}/getCaseCount") as client:
        count = int(await client.recv())
    for number in range(1, count + 1):
        with contextlib.suppress(InvalidMessage, ConnectionClosed):
            async with connect(
                f"{url}/runCase?case={number}&agent={agent}", max_size=None, ping_interval=None
            ) as client:
                await echo(client)
    async with connect(f"{url}/updateReports?agent={agent}") as client:
        await client.wait_closed()
