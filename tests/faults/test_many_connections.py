"""The row of many connections: ten thousand clients that keep theirs open."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import ssl
from typing import TYPE_CHECKING

import pytest
import trustme

from tests.faults.raw import (
    added_latency,
    ask_all,
    connected,
    make_call,
    parse_answer,
    seen_alike,
    wait_for_spans,
)
from tests.faults.row import report, report_calls
from tests.faults.scripted import Stage, running_stage
from tests.faults.stage import is_long, scaled
from tests.proxy.raw_client import read_answer
from tests.proxy.relay.test_web_socket import HELLO, MASKED_HELLO, SWITCH, handshake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.faults.raw import Call
    from tests.faults.scripted import UpstreamThread
    from tests.proxy.harness import Connection

pytestmark = pytest.mark.timeout(900 if is_long() else 120)

COUNT = min(10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 2 - 500)
"""Ten thousand, where the system lets a process open as many files: each call has two of them."""

AT_ONCE = 64

BYTES_EACH = 64 << 10
"""The most that all processes together may hold of a connection that is quiet."""


WEBSOCKET_BYTES = 25_000
"""Likewise of a WebSocket that is quiet, without TLS."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage that takes as many, and lets them be quiet for as long as the row takes."""
    environment = {
        "SPANTAP_MAX_CONNECTIONS": str(COUNT + 1_000),
        "SPANTAP_HEADER_TIMEOUT_SECONDS": "600",
    }
    with running_stage(tmp_path_factory.mktemp("many"), {}, environment) as running:
        yield running


@pytest.fixture(autouse=True)
def _descriptors() -> Iterator[None]:
    """As many files as the system gives this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_ten_thousand_connections_stay_open_and_hurt_nobody(stage: Stage) -> None:
    """Each has a call and then is quiet; others are served beside them, and every call is told."""
    count = scaled(COUNT)
    direct, *_ = await ask_all(stage.upstream.port, [make_call("healthy")])
    await ask_all(stage.spantap.port, [make_call("healthy") for _ in range(AT_ONCE)])
    before_bytes = sum(stage.spantap.rss_bytes().values())
    calls = [make_call("healthy", close=False) for _ in range(count)]
    others = [make_call("healthy") for _ in range(scaled(400, least=20))]
    alone = await ask_all(stage.upstream.port, others, at_once=2)
    async with contextlib.AsyncExitStack() as stack:
        turns = asyncio.Semaphore(AT_ONCE)

        async def call_and_stay(call: Call) -> bytes:
            async with turns:
                reader, writer = await stack.enter_async_context(connected(stage.spantap.port))
                writer.write(call.data)
                return await read_answer(reader)

        answers = await asyncio.gather(*map(call_and_stay, calls))
        spans = wait_for_spans(stage.spantap.store, calls, 120)
        held_bytes = sum(stage.spantap.rss_bytes().values()) - before_bytes
        beside = await ask_all(stage.spantap.port, others, at_once=2)
        assert max(stage.spantap.open_files().values()) >= count
    assert seen_alike(alone, beside) == len(others)
    assert {parse_answer(answer).body for answer in answers} == {direct.body}
    spans |= wait_for_spans(stage.spantap.store, others)
    assert {span.outcome for span in spans.values()} == {"completed"}
    report_calls(
        f"{count:,} clients keep their connections open",
        [*calls, *others],
        spans,
        client_saw=f"the same as directly, {count} of them and {len(others)} others",
        added_latency=f"of the others: {added_latency(alone, beside)}",
        figures={"memory for each, all processes": f"{held_bytes / count / 1024:.0f} KiB"},
    )
    if is_long():
        assert held_bytes < count * BYTES_EACH
    await stage.assert_healthy()


async def switch(_: UpstreamThread, connection: Connection) -> None:
    """Agree on a WebSocket, greet, wait for a greeting, and be quiet."""
    await connection.send(SWITCH + HELLO)
    assert await connection.reader.readexactly(len(MASKED_HELLO)) == MASKED_HELLO
    await connection.reader.read()
    connection.writer.close()


@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "TLS"])
async def test_ten_thousand_websockets_are_quiet(tmp_path: Path, *, has_tls: bool) -> None:
    """Each has a message each way, and then costs little; one too many is refused with a 503."""
    count = scaled(COUNT)
    environment = {"SPANTAP_WEBSOCKETS": "relay", "SPANTAP_MAX_CONNECTIONS": str(count)}
    tls = None
    if has_tls:
        authority = trustme.CA()
        pem = tmp_path / "port.pem"
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(pem)
        environment["SPANTAP_TLS_CERT"] = str(pem)
        tls = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    head = make_call("switch").data.partition(b"traceparent:")[2].partition(b"\r\n")[0]
    request = handshake(b"traceparent:" + head, target=b"/switch/v1/responses")
    with running_stage(tmp_path, {"switch": switch}, environment) as stage:
        port = stage.spantap.port
        before_bytes = sum(stage.spantap.rss_bytes().values())
        writers: list[asyncio.StreamWriter] = []
        turns = asyncio.Semaphore(AT_ONCE)

        async def greet() -> bytes:
            async with turns:
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
                writers.append(writer)
                writer.write(request)
                answer = await reader.readuntil(b"\r\n\r\n")
                if answer == SWITCH:
                    assert await reader.readexactly(len(HELLO)) == HELLO
                    writer.write(MASKED_HELLO)
                return answer

        assert set(await asyncio.gather(*(greet() for _ in range(count)))) == {SWITCH}
        await asyncio.sleep(3)  # until telemetry has read what passed
        held_bytes = sum(stage.spantap.rss_bytes().values()) - before_bytes
        assert (await greet()).startswith(b"HTTP/1.1 503 ")
        for writer in writers:
            writer.transport.abort()
    report(
        f"{count:,} WebSockets are quiet{', over TLS' if has_tls else ''}",
        sent=count,
        lost=0,
        client_saw="each its greeting, and one more a 503",
        figures={"memory for each, all processes": f"{held_bytes / count / 1000:.1f} kB"},
    )
    if is_long() and not has_tls:
        assert held_bytes < count * WEBSOCKET_BYTES
