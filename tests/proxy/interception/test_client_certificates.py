"""Hosts that want a client certificate: how that shows, and that the client's next try works."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from proxy.interception.interception import TunnelReason
from tests.proxy.harness import CHAT
from tests.proxy.interception.intercepting import (
    HOST,
    OTHER_HOST,
    all_names_lead_to,
    client_tls,
    intercepting,
)
from tests.proxy.interception.test_opened import call_bytes, exchange
from tests.proxy.raw_client import read_to_end, until
from tests.proxy.upstream.peers import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.proxy.interception.intercepting import Intercepted
    from tests.proxy.raw_client import Address

OUTSIDE = trustme.CA()
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


class _Handler(BaseHTTPRequestHandler):
    """Says which certificate its client has shown."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        shown: Any = self.connection.getpeercert()
        body = b"shown" if shown else b"none"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def server(version: ssl.TLSVersion, mode: ssl.VerifyMode, ciphers: str = "") -> Iterator[Address]:
    """A server of OpenSSL on threads: asyncio's closes a connection without its alert."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    OUTSIDE.issue_cert(HOST, OTHER_HOST).configure_cert(tls)
    OUTSIDE.configure_trust(tls)
    tls.verify_mode = mode
    tls.minimum_version = tls.maximum_version = version
    if ciphers:
        tls.set_ciphers(ciphers)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as listening:
        listening.daemon_threads = True
        listening.socket = tls.wrap_socket(listening.socket, server_side=True)
        thread = threading.Thread(target=listening.serve_forever, args=[0.01])
        thread.start()
        try:
            host, port = listening.socket.getsockname()
            yield host, port
        finally:
            listening.shutdown()
            thread.join()


@contextlib.asynccontextmanager
async def before(
    version: ssl.TLSVersion, mode: ssl.VerifyMode = ssl.CERT_REQUIRED, **options: Any
) -> AsyncIterator[Intercepted]:
    """A port before such a server."""
    with server(version, mode, **options) as address:
        async with (
            serving(functools.partial(pass_on, address)) as port,
            intercepting(hosts=(HOST, OTHER_HOST), upstream_ca=OUTSIDE.cert_pem.bytes()) as it,
        ):
            with all_names_lead_to(("127.0.0.1", port)):
                yield it


async def pass_on(
    address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """A network: what is sent takes some time, so that much is sent before an alert comes back."""

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                await asyncio.sleep(0.01)
                target.write(data)
                await target.drain()
        target.close()

    far_reader, far_writer = await asyncio.open_connection(*address)
    try:
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
    finally:
        far_writer.transport.abort()


def with_certificate(it: Intercepted) -> ssl.SSLContext:
    """A client that trusts the run and the host, and has a certificate."""
    tls = client_tls(it.interception.ca_certificate, OUTSIDE.cert_pem.bytes())
    OUTSIDE.issue_cert("client.test").configure_cert(tls)
    return tls


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size_bytes", [0, 2_000_000])
@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/api/settings"])
async def test_the_first_request_says_so_and_the_next_connection_is_tunnelled(
    version: ssl.TLSVersion, size_bytes: int, path: bytes
) -> None:
    """Whether the request is a call or another one, and however long it is."""
    data = call_bytes(CHAT + b" " * size_bytes, target=path)
    async with before(version) as it:
        tls = with_certificate(it)
        answer = await exchange(await it.secure(tls=tls), data)
        assert (answer.status, answer.error["code"]) == (502, "upstream_wants_certificate")
        assert answer.error["message"].startswith(
            f"Upstream '{HOST}' (https://{HOST}): it wants a client certificate ("
        )
        assert "can connect again" in answer.error["message"]
        for _ in range(2):
            answer = await exchange(await it.secure(tls=tls), data)
            assert (answer.status, answer.body) == (200, b"shown")
        [row] = it.port.report().tunnelled
        assert (row.host, row.reason) == (HOST, TunnelReason.CLIENT_CERTIFICATE)
        assert row.tunnel_count == 2


async def test_a_host_that_only_asks_for_a_certificate_is_opened() -> None:
    """Python's CERT_OPTIONAL: many servers ask, and serve those who have none."""
    for version in VERSIONS:
        async with before(version, ssl.CERT_OPTIONAL) as it:
            answer = await exchange(await it.secure(tls=with_certificate(it)), call_bytes())
            assert (answer.status, answer.body) == (200, b"none")
            assert it.port.report().tunnelled == ()
            await it.running.sink.wait_for()


async def test_a_handshake_that_fails_for_another_reason_leaves_its_host_opened() -> None:
    """Without a common cipher suite, TLS 1.2 sends the same alert, but chooses none before it."""
    ours = {suite["name"] for suite in ssl.create_default_context().get_ciphers()}
    assert "AES128-SHA256" not in ours
    async with before(VERSIONS[0], ssl.CERT_NONE, ciphers="AES128-SHA256") as it:
        answer = await exchange(await it.secure(tls=with_certificate(it)), call_bytes())
        assert (answer.status, answer.error["code"]) == (502, "upstream_tls_error")
        assert "HANDSHAKE_FAILURE" in answer.error["message"]
        assert "can connect again" not in answer.error["message"]
        await it.secure(tls=with_certificate(it))
        await until(lambda: it.port.report().opened == {HOST: 2})


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_hosts_opened_connections_end_and_other_hosts_stay(
    version: ssl.TLSVersion,
) -> None:
    """A client with kept connections would else get a 502 on each."""
    async with before(version) as it:
        tls = with_certificate(it)
        kept = await it.secure(tls=tls)
        other = await it.secure(f"{OTHER_HOST}:443", tls=tls)
        await exchange(await it.secure(tls=tls), call_bytes())
        assert await read_to_end(kept[0]) == b""
        kept[1].close()
        answer = await exchange(other, call_bytes(host=OTHER_HOST))
        assert answer.error["code"] == "upstream_wants_certificate"
