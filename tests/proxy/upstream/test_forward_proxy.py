"""Through forward proxies and TLS to the upstream, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import trustme
from yarl import URL

from proxy.upstream.forward_proxy import ForwardProxy
from telemetry.errors import ConfigurationError
from tests.proxy.harness import (
    ANSWER,
    Connection,
    ScriptedUpstream,
    relaying,
    request_bytes,
    running_proxy,
)
from tests.proxy.raw_client import Address, ask

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

VARIABLES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine has set."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


def server_tls(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
    return context


@dataclass
class TinyProxy:
    """A forward proxy: CONNECT tunnels, and absolute-form requests are noted and answered.

    Attributes:
        heads: what it was asked.
        reply: answers CONNECT, whatever it is asked.
    """

    heads: list[bytes] = field(default_factory=list)
    reply: bytes = b"HTTP/1.1 200 Connected\r\n\r\n"
    address: Address = ("", 0)

    @property
    def url(self) -> str:
        return "http://{}:{}".format(*self.address)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, BrokenPipeError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            method, target, _ = head.split(b" ", 2)
            if method != b"CONNECT":
                await reader.readuntil(b"}]}")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi!")
            elif b" 200 " not in self.reply:
                writer.write(self.reply)
            else:
                writer.write(self.reply)
                host, _, port = target.decode().rpartition(":")
                far_reader, far_writer = await asyncio.open_connection(host, int(port))
                await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
        writer.close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def tiny_proxy(
    reply: bytes = TinyProxy.reply, tls: ssl.SSLContext | None = None
) -> AsyncIterator[TinyProxy]:
    tiny = TinyProxy(reply=reply)
    async with await asyncio.start_server(tiny.serve, "127.0.0.1", 0, ssl=tls) as server:
        tiny.address = server.sockets[0].getsockname()[:2]
        yield tiny
        server.close()


# --- TLS


async def test_an_upstream_with_an_additional_authority_is_trusted(
    authority: trustme.CA, ca_file: Path
) -> None:
    """``ca_file`` adds to the system's authorities; connections are kept as without TLS."""
    async with relaying(tls=server_tls(authority), ca_file=ca_file) as (upstream, running):
        for _ in range(2):
            assert (await ask(running.address, request_bytes())).body == ANSWER
    assert upstream.connections == 1


@pytest.mark.parametrize("fault", ["authority", "name"])
async def test_an_upstream_whose_certificate_does_not_hold_is_a_502(
    fault: str, authority: trustme.CA, ca_file: Path
) -> None:
    """An unknown authority, or a certificate for another name; no request is sent."""
    tls = (
        server_tls(trustme.CA()) if fault == "authority" else server_tls(authority, "else.example")
    )
    async with relaying(tls=tls, ca_file=ca_file) as (upstream, running):
        got = await ask(running.address, request_bytes())
        exchange = await running.sink.wait_for()
    assert got.status == 502
    assert got.error["code"] == "upstream_tls_error"
    assert "certificate" in got.error["message"]
    assert upstream.url in got.error["message"]
    assert exchange.error_type == "connection_error"
    assert not upstream.requests


@pytest.mark.parametrize("separate_key", [True, False])
async def test_a_client_certificate_is_shown(
    *, separate_key: bool, authority: trustme.CA, ca_file: Path, tmp_path: Path
) -> None:
    """Certificate and key from one file or two."""
    tls = server_tls(authority)
    tls.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(tls)
    issued = authority.issue_cert("client@spantap.example")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    if separate_key:
        issued.cert_chain_pems[0].write_to_path(cert)
        issued.private_key_pem.write_to_path(key)
    else:
        issued.private_key_and_cert_chain_pem.write_to_path(cert)
    async with ScriptedUpstream(Connection.answer, tls=tls) as upstream:
        async with running_proxy(
            upstream.url,
            ca_file=ca_file,
            client_cert=cert,
            client_key=key if separate_key else None,
        ) as running:
            assert (await ask(running.address, request_bytes())).body == ANSWER
        async with running_proxy(upstream.url, ca_file=ca_file) as running:
            got = await ask(running.address, request_bytes())
    assert got.status == 502
    assert len(upstream.requests) == 1


# --- forward proxies


@pytest.mark.parametrize("user", ["", "me:p%40ss@"])
async def test_tls_is_tunnelled_through_the_proxy(
    user: str, authority: trustme.CA, ca_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONNECT with the proxy's credentials; the upstream's own TLS inside, kept alive."""
    async with (
        tiny_proxy() as tiny,
        ScriptedUpstream(Connection.answer, tls=server_tls(authority)) as upstream,
    ):
        monkeypatch.setenv("HTTPS_PROXY", tiny.url.replace("//", f"//{user}"))
        async with running_proxy(upstream.url, ca_file=ca_file) as running:
            for _ in range(2):
                assert (await ask(running.address, request_bytes())).body == ANSWER
    assert upstream.connections == len(tiny.heads) == 1
    [head] = tiny.heads
    assert head.startswith(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n" % upstream.address[1])
    # base64 of "me:p@ss"
    assert (b"\r\nProxy-Authorization: Basic bWU6cEBzcw==\r\n" in head) == bool(user)
    assert upstream.last.field(b"proxy-authorization") is None
    assert upstream.last.field(b"authorization") is None


async def test_tls_goes_through_a_proxy_of_tls(
    authority: trustme.CA, ca_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS in TLS: one for the proxy, and the upstream's own inside."""
    async with (
        tiny_proxy(tls=server_tls(authority)) as tiny,
        ScriptedUpstream(Connection.answer, tls=server_tls(authority)) as upstream,
    ):
        monkeypatch.setenv("HTTPS_PROXY", tiny.url.replace("http:", "https:"))
        async with running_proxy(upstream.url, ca_file=ca_file) as running:
            for _ in range(2):
                assert (await ask(running.address, request_bytes())).body == ANSWER
    assert upstream.connections == len(tiny.heads) == 1


async def test_the_certificate_behind_a_tunnel_is_the_upstreams(
    authority: trustme.CA, ca_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for another name is refused, and the proxy is not blamed."""
    async with (
        tiny_proxy() as tiny,
        ScriptedUpstream(Connection.answer, tls=server_tls(authority, "else.example")) as upstream,
    ):
        monkeypatch.setenv("HTTPS_PROXY", tiny.url)
        async with running_proxy(upstream.url, ca_file=ca_file) as running:
            got = await ask(running.address, request_bytes())
    assert got.error["code"] == "upstream_tls_error"
    assert len(tiny.heads) == 1
    assert not upstream.requests


async def test_plain_http_goes_to_the_proxy_in_absolute_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The path is as raw as ever, and the proxy's credentials are for the proxy."""
    async with tiny_proxy() as tiny:
        monkeypatch.setenv("HTTP_PROXY", tiny.url.replace("//", "//me:secret@"))
        async with running_proxy("http://upstream.invalid:81/base") as running:
            target = b"/v1/../a%2fb?x=%zz"
            got = await ask(running.address, request_bytes(target=target))
    assert got.body == b"hi!"
    [head] = tiny.heads
    assert head.startswith(b"POST http://upstream.invalid:81/base/v1/../a%2fb?x=%zz HTTP/1.1\r\n")
    assert b"\r\nHost: upstream.invalid:81\r\n" in head
    assert b"\r\nProxy-Authorization: Basic bWU6c2VjcmV0\r\n" in head


async def test_no_proxy_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An upstream that NO_PROXY names is reached directly."""
    async with tiny_proxy() as tiny, ScriptedUpstream(Connection.answer) as upstream:
        monkeypatch.setenv("HTTP_PROXY", tiny.url)
        monkeypatch.setenv("NO_PROXY", "else.example,127.0.0.1")
        async with running_proxy(upstream.url) as running:
            assert (await ask(running.address, request_bytes())).body == ANSWER
    assert not tiny.heads


async def test_no_credentials_are_taken_from_netrc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They belong to whoever runs the proxy, not to its clients."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login a password b\ndefault login c password d\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    async with relaying() as (upstream, running):
        await ask(running.address, request_bytes())
    assert upstream.last.field(b"authorization") is None
    async with tiny_proxy() as tiny:
        monkeypatch.setenv("HTTP_PROXY", tiny.url)
        async with running_proxy("http://upstream.invalid") as running:
            await ask(running.address, request_bytes())
    assert b"uthorization" not in tiny.heads[0]


@pytest.mark.parametrize(
    "reply", [b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", b"", b"no http\r\n\r\n"]
)
async def test_a_proxy_that_does_not_connect_is_a_502_that_says_so(
    reply: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses, hangs up, or talks nonsense: nothing of it is the upstream's doing."""
    async with tiny_proxy(reply=reply) as tiny:
        monkeypatch.setenv("HTTPS_PROXY", tiny.url.replace("//", "//me:secret@"))
        async with running_proxy("https://upstream.invalid") as running:
            got = await ask(running.address, request_bytes())
            exchange = await running.sink.wait_for()
    assert got.status == 502
    assert got.error["code"] == "forward_proxy_error"
    assert ("407" in got.error["message"]) == (b"407" in reply)
    assert b"secret" not in got.raw
    assert exchange.error_type == "connection_error"


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:1", "http://no-such-proxy.invalid:3128"])
async def test_a_proxy_that_cannot_be_reached_is_a_502_that_says_so(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused, or without an address: the upstream is not blamed."""
    monkeypatch.setenv("HTTP_PROXY", proxy)
    async with running_proxy("http://upstream.invalid") as running:
        got = await ask(running.address, request_bytes())
    assert got.error["code"] == "forward_proxy_error"


async def test_a_proxy_that_never_answers_is_a_connect_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Names, TCP, TLS and forward proxy share one limit."""

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        async with running_proxy("https://up.invalid", connect_timeout_seconds=0.1) as running:
            got = await ask(running.address, request_bytes())
    assert got.status == 504
    assert got.error["code"] == "upstream_connect_timeout"


@pytest.mark.parametrize(
    "url", ["socks5://127.0.0.1:1080", "http://", "proxy:3128", "http://h:port"]
)
async def test_a_proxy_url_that_cannot_be_used_is_a_configuration_error(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence at start instead of an error for each request."""
    monkeypatch.setenv("HTTPS_PROXY", url)
    with pytest.raises(ConfigurationError, match=r"^HTTPS_PROXY must be an http"):
        async with running_proxy("http://upstream.invalid"):
            pass


@pytest.mark.parametrize(
    ("no_proxy", "proxied"),
    [
        ("", True),
        ("*", False),
        ("api.example", False),
        ("API.EXAMPLE:443", False),
        ("api.example:80", True),
        (".example", False),
        ("other.example, .net", True),
    ],
)
def test_exceptions_are_matched_by_name_suffix_and_port(no_proxy: str, *, proxied: bool) -> None:
    """As the standard library and curl read NO_PROXY."""
    forward = ForwardProxy({"https": "http://proxy:3128", "no": no_proxy})
    assert (forward.find(URL("https://api.example")) is not None) == proxied
    assert forward.find(URL("http://api.example")) is None
