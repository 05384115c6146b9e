"""Clients that do not trust the run's certificate: what they pay, and when a host is tunnelled."""

from __future__ import annotations

import asyncio
import functools
import ssl
from typing import TYPE_CHECKING

import pytest

from proxy.interception import opened
from proxy.interception.interception import TunnelReason
from proxy.interception.tally import MAX_FAILURES, Tally
from tests.proxy.interception.intercepting import HOST, client_tls, intercepting, upstream_authority
from tests.proxy.interception.test_opened import call_bytes, exchange
from tests.proxy.raw_client import read_to_end, reset, until

if TYPE_CHECKING:
    from tests.proxy.interception.intercepting import Intercepted


def distrusting() -> ssl.SSLContext:
    """A client that knows the upstream's authority alone."""
    return client_tls(upstream_authority()[0])


async def fail(it: Intercepted, how: str) -> None:
    """A client that ends its connection in this way."""
    if how == "alert":
        with pytest.raises(ssl.SSLCertVerificationError):
            await it.secure(tls=distrusting())
        return
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    if how in {"close after", "reset after"}:
        reader, writer = await it.secure(tls=tls)
        if how == "close after":
            writer.close()
            return
    else:
        reader, writer = await it.connect()
        bio = tls.wrap_bio(ssl.MemoryBIO(), outgoing := ssl.MemoryBIO(), server_hostname=HOST)
        with pytest.raises(ssl.SSLWantReadError):
            bio.do_handshake()
        writer.write(outgoing.read())
        await reader.read(1)
        if how == "close":
            writer.close()
            return
    reset(writer)


def has_failed(it: Intercepted, count: int) -> bool:
    """Whether so many connections have failed."""
    return it.port.report().distrusted == {HOST: count}


@pytest.mark.parametrize("how", ["alert", "close", "reset", "close after", "reset after"])
async def test_after_two_failures_a_host_is_tunnelled(how: str) -> None:
    """By an alert, or the end of the connection in the handshake or right after it."""
    async with intercepting() as it:
        for number in range(1, MAX_FAILURES + 1):
            await fail(it, how)
            await until(functools.partial(has_failed, it, number))
            await until(lambda: it.running.server.connection_count == 0)
        answer = await exchange(await it.secure(tls=distrusting()), call_bytes())
        assert answer.status == 200
        report = it.port.report()
        assert report.distrusted == {HOST: MAX_FAILURES}
        [row] = report.tunnelled
        assert (row.host, row.reason) == (HOST, TunnelReason.DISTRUST)
        # It stays so, also for a client that would trust us.
        assert (await exchange(await it.secure(), call_bytes())).status == 200
        assert it.running.sink.frames == []


async def test_a_host_that_was_trusted_once_stays_open() -> None:
    """Before a failure or between two: one program of a run may distrust what others trust."""
    async with intercepting() as it:
        await fail(it, "reset")
        await until(lambda: it.port.report().distrusted)
        assert (await exchange(await it.secure(), call_bytes())).status == 200
        for _ in range(MAX_FAILURES + 1):
            await fail(it, "alert")
        assert (await exchange(await it.secure(), call_bytes())).status == 200
        await it.running.sink.wait_for(2)
        report = it.port.report()
        assert (report.distrusted, report.tunnelled, report.opened) == ({}, (), {HOST: 2})


async def test_a_connection_that_waits_for_its_first_request_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clients connect in advance, and give the connection up later."""
    monkeypatch.setattr(opened, "SOON_SECONDS", 0.05)
    async with intercepting() as it:
        for _ in range(MAX_FAILURES):
            _, writer = await it.secure()
            await asyncio.sleep(0.1)
            writer.close()
        await until(lambda: it.running.server.connection_count == 0)
        assert it.port.report().distrusted == {}


async def test_a_connection_that_we_end_is_no_failure() -> None:
    """The run is over soon after a client has connected in advance."""
    async with intercepting() as it:
        reader, writer = await it.secure()
        await until(lambda: it.port.report().opened == {HOST: 1})
        it.port.tunnel_all()
        assert await read_to_end(reader) == b""
        writer.close()
        await until(lambda: it.running.server.connection_count == 0)
        assert it.port.report().distrusted == {}


async def test_a_client_that_leaves_before_its_first_message_is_no_failure() -> None:
    async with intercepting() as it:
        for _ in range(MAX_FAILURES):
            reader, writer = await it.connect()
            writer.write_eof()
            assert await read_to_end(reader) == b""
            writer.close()
        assert it.port.report().distrusted == {}


def test_a_host_is_judged_by_itself() -> None:
    tally = Tally()
    for _ in range(MAX_FAILURES):
        tally.note_failure("a.test")
    assert tally.is_distrusted("a.test")
    assert not tally.is_distrusted("b.test")
