"""Dialling as its two ends see it: what a client is told of each failure, what a peer is sent.

One row for each cause and phase, through the whole relay and over real sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import re
import ssl
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from yarl import URL

from proxy.upstream.dialler import Dialler
from proxy.upstream.errors import UpstreamError
from proxy.upstream.request import UpstreamTimeouts
from tests.proxy.harness import ANSWER, request_bytes, running_proxy
from tests.proxy.raw_client import ask, until
from tests.proxy.upstream import peers
from tests.proxy.upstream.peers import know_names, server_tls, serving, tiny_proxy

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.proxy.raw_client import Answer

CONNECT_SECONDS = 0.3
"""In the rows of timeouts; in the others everything may take as long as it does."""

NAMES = {
    "one": ("127.0.0.1",),
    "six": ("::1",),
    "both": ("::1", "127.0.0.1"),
    "slow": None,
}
"""Names under ``.test`` that the system knows, with their addresses; it never answers for one."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A dial that fails.

    Attributes:
        scheme: of the upstream, as is `host`; its port is that of `peer`.
        peer: what listens there: see :func:`open_peer`.
        proxy: what the forward proxy is: a peer too, or what it replies to CONNECT; ``None``
            without one.
        proxy_scheme: of the forward proxy, as is `proxy_host`.
        says: what the client is told, with ``{port}`` for the port and ``{refused}`` for the
            number that the system has for a refused connection.
    """

    scheme: str = "http"
    host: str = "127.0.0.1"
    peer: str = "answers"
    proxy: str | bytes | None = None
    proxy_scheme: str = "http"
    proxy_host: str = "127.0.0.1"
    status: int = 502
    code: str
    says: str


def refused(says: str, **where: str) -> Row:
    return Row(code="upstream_unreachable", says=f"no connection ({says})", **where)  # type: ignore[arg-type]


def unsecured(says: str, **where: str | bytes) -> Row:
    words = f"the TLS connection failed ({says})"
    return Row(code="upstream_tls_error", says=words, scheme="https", **where)  # type: ignore[arg-type]


def timed_out(**where: str | bytes) -> Row:
    says = "no connection within the connect timeout"
    return Row(status=504, code="upstream_connect_timeout", says=says, **where)  # type: ignore[arg-type]


def not_proxied(proxy: str | bytes, cause: str = "", **where: str) -> Row:
    says = "the forward proxy (HTTPS_PROXY, HTTP_PROXY) did not connect" + cause
    return Row(code="forward_proxy_error", says=says, proxy=proxy, **where)  # type: ignore[arg-type]


CONNECTED = b"HTTP/1.1 200 Connected\r\n\r\n"
HANGS_UP = Row(
    code="upstream_unreachable", says="no connection", scheme="https", peer="hangs up"
)  # the system has no words for it

ROWS = {
    # Names and TCP.
    "nobody listens": refused("Connect call failed ('127.0.0.1', {port})", peer="closed"),
    "nobody listens, by IPv6": refused(
        "Connect call failed ('::1', {port}, 0, 0)", host="[::1]", peer="closed6"
    ),
    "nobody listens at a name": refused(
        "Connect call failed ('127.0.0.1', {port})", host="one.test", peer="closed"
    ),
    "nobody listens at any address of a name": refused(
        "Multiple exceptions: [Errno {refused}] Connect call failed ('::1', {port}, 0, 0), "
        "[Errno {refused}] Connect call failed ('127.0.0.1', {port})",
        host="both.test",
        peer="closed",
    ),
    "no such name": refused("Name or service not known", host="none.test"),
    # TLS.
    "an unknown authority": unsecured(
        "certificate verify failed: unable to get local issuer certificate", peer="untrusted"
    ),
    "another's name": unsecured(
        "certificate verify failed: IP address mismatch, certificate is not valid for '127.0.0.1'.",
        peer="misnamed",
    ),
    "another's name, at a name": unsecured(
        "certificate verify failed: Hostname mismatch, certificate is not valid for 'one.test'.",
        host="one.test",
        peer="misnamed",
    ),
    "an old certificate": unsecured(
        "certificate verify failed: certificate has expired", peer="expired"
    ),
    "no TLS": unsecured("wrong version number", peer="speaks plainly"),
    "TLS that ends": HANGS_UP,
    "TLS that breaks off": refused("Connection reset by peer", scheme="https", peer="breaks off"),
    # The forward proxy.
    "no proxy listens": not_proxied("closed"),
    "no proxy listens, for TLS": not_proxied("closed", scheme="https"),
    "no such proxy": not_proxied("answers", proxy_host="none.test"),
    "the proxy hangs up": not_proxied("hangs up", scheme="https"),
    "the proxy breaks off": not_proxied("breaks off", scheme="https"),
    "the proxy speaks nonsense": not_proxied(b"no http\r\n\r\n", scheme="https"),
    "the proxy wants a login": not_proxied(
        b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 2\r\n\r\nno",
        " (407)",
        scheme="https",
    ),
    "the proxy cannot": not_proxied(b"HTTP/1.1 503 Busy\r\n\r\n", " (503)", scheme="https"),
    "the proxy's 204": not_proxied(b"HTTP/1.1 204 None\r\n\r\n", " (204)", scheme="https"),
    "an unknown proxy of https": not_proxied("untrusted", proxy_scheme="https", scheme="https"),
    "a proxy of https without TLS": not_proxied(
        "speaks plainly", proxy_scheme="https", scheme="https"
    ),
    # TLS inside its tunnel.
    "another's name, in a tunnel": unsecured(
        "certificate verify failed: IP address mismatch, certificate is not valid for '127.0.0.1'.",
        peer="misnamed",
        proxy=CONNECTED,
    ),
    "no TLS in a tunnel": unsecured("wrong version number", peer="speaks plainly", proxy=CONNECTED),
    "TLS that ends in a tunnel": replace(HANGS_UP, proxy=CONNECTED),
    # Each phase against the one timeout.
    "TCP that hangs": timed_out(peer="full"),
    "a name that hangs": timed_out(host="slow.test"),
    "TLS that hangs": timed_out(scheme="https", peer="silent"),
    "TCP to a proxy that hangs": timed_out(proxy="full"),
    "a proxy's name that hangs": timed_out(proxy="answers", proxy_host="slow.test"),
    "TLS to a proxy that hangs": timed_out(proxy="silent", proxy_scheme="https"),
    "CONNECT that hangs": timed_out(scheme="https", proxy="silent"),
    "TLS in a tunnel that hangs": timed_out(scheme="https", peer="silent", proxy=CONNECTED),
}


async def open_peer(
    stack: contextlib.AsyncExitStack, authority: trustme.CA, peer: str | bytes
) -> int:
    """Have a peer of this kind listen; its port. Bytes are a forward proxy's reply to CONNECT."""
    if isinstance(peer, bytes):
        return (await stack.enter_async_context(tiny_proxy(peer))).address[1]
    match peer:
        case "closed":
            return stack.enter_context(peers.closed_port())
        case "closed6":
            return stack.enter_context(peers.closed_port("::1"))
        case "full":
            return stack.enter_context(peers.full_port())
    serve, tls = {
        "answers": (peers.answer, None),
        "silent": (peers.stay_silent, None),
        "hangs up": (peers.hang_up, None),
        "breaks off": (peers.break_off, None),
        "speaks plainly": (peers.speak_plainly, None),
        "untrusted": (peers.answer, server_tls(trustme.CA())),
        "misnamed": (peers.answer, server_tls(authority, "else.example")),
        "expired": (peers.answer, server_tls(authority, expired=True)),
    }[peer]
    return await stack.enter_async_context(serving(serve, tls))


async def fail(row: Row, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Answer, str, str]:
    """Dial as a row says; the answer, its error's message, and what that should be."""
    know_names(monkeypatch, **NAMES)
    authority, ca_file = trustme.CA(), folder / "ca.pem"
    authority.cert_pem.write_to_path(ca_file)
    async with contextlib.AsyncExitStack() as stack:
        port = await open_peer(stack, authority, row.peer)
        if row.proxy is not None:
            proxy_port = await open_peer(stack, authority, row.proxy)
            url = f"{row.proxy_scheme}://me:secret@{row.proxy_host}:{proxy_port}"
            monkeypatch.setenv(f"{row.scheme.upper()}_PROXY", url)
        origin = f"{row.scheme}://{row.host}:{port}"
        running = await stack.enter_async_context(
            running_proxy(
                origin,
                ca_file=ca_file,
                connect_timeout_seconds=CONNECT_SECONDS if row.status == 504 else 30,
            )
        )
        got = await ask(running.address, request_bytes(), seconds=30)
        exchange = await running.sink.wait_for()
    assert exchange.error_type == ("timeout" if row.status == 504 else "connection_error")
    says = row.says.format(port=port, refused=errno.ECONNREFUSED)
    return got, str(got.error["message"]), f"Upstream 'default' ({origin}): {says}."


def strip_place(message: str) -> str:
    """The message without what differs between versions of OpenSSL, and of Python's binding."""
    message = re.sub(r" \(_ssl\.c:\d+\)", "", message)
    message = re.sub(r"\[SSL(: [A-Z_]+)?\] ", "", message)
    return message.replace("record layer failure", "wrong version number")


@pytest.mark.parametrize("name", ROWS)
async def test_each_failure_has_its_status_code_and_words(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a proxy has a password nobody is told it (R7)."""
    row = ROWS[name]
    got, message, expected = await fail(row, tmp_path, monkeypatch)
    assert (got.status, got.error["code"]) == (row.status, row.code)
    assert strip_place(message) == expected
    assert b"secret" not in got.raw


# --- what a peer is sent


@pytest.mark.parametrize(
    ("host", "listens_at", "server_name"),
    [
        ("127.0.0.1", "127.0.0.1", None),
        ("[::1]", "::1", None),
        ("one.test", "127.0.0.1", "one.test"),
        ("one.test.", "127.0.0.1", "one.test"),
        ("six.test", "::1", "six.test"),
    ],
)
async def test_tls_is_asked_for_by_name_and_without_a_protocol(
    host: str,
    listens_at: str,
    server_name: str | None,
    authority: trustme.CA,
    ca_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An address is no name to ask for (RFC 6066 section 3); HTTP/1.1 needs no ALPN."""
    know_names(monkeypatch, **NAMES)
    seen: list[object] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await peers.answer(reader, writer)

    tls = server_tls(authority, host.strip("[]").rstrip("."))
    tls.set_alpn_protocols(["h2", "http/1.1"])
    tls.sni_callback = lambda _socket, name, _context: seen.append(name)
    async with (
        serving(serve, tls, listens_at) as port,
        running_proxy(f"https://{host}:{port}", ca_file=ca_file) as running,
    ):
        assert (await ask(running.address, request_bytes())).body == ANSWER
    assert seen == [server_name, None]


@pytest.mark.parametrize(
    ("host", "listens_at"),
    [("[::1]", "::1"), ("127.1", "127.0.0.1"), ("2130706433", "127.0.0.1")],
)
async def test_an_address_may_be_written_in_any_way(host: str, listens_at: str) -> None:
    """As the system reads it: it is not looked up."""
    async with (
        serving(peers.answer, host=listens_at) as port,
        running_proxy(f"http://{host}:{port}") as running,
    ):
        assert (await ask(running.address, request_bytes())).body == ANSWER


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "one.test"])
@pytest.mark.parametrize(
    ("login", "field"),
    [
        ("", b""),
        ("me:p%40ss@", b"Proxy-Authorization: Basic bWU6cEBzcw==\r\n"),
        ("me@", b"Proxy-Authorization: Basic bWU6\r\n"),
        ("m%C3%A9:s@", b"Proxy-Authorization: Basic bcOpOnM=\r\n"),
    ],
)
async def test_a_proxy_is_asked_for_a_tunnel_and_told_nothing_else(
    host: str, login: str, field: bytes, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither who asks nor anything of the request."""
    know_names(monkeypatch, **NAMES)
    async with tiny_proxy(b"HTTP/1.1 403 No\r\n\r\n") as tiny:
        monkeypatch.setenv("HTTPS_PROXY", tiny.url.replace("//", f"//{login}"))
        async with running_proxy(f"https://{host}") as running:
            await ask(running.address, request_bytes())
    authority_form = f"{host}:443".encode()
    assert tiny.heads == [
        b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (authority_form, authority_form, field)
    ]


async def test_an_address_that_does_not_answer_holds_up_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next one is tried beside it (RFC 8305), long before the timeout."""
    async with serving(peers.answer) as port:
        with peers.full_port("127.0.0.2", port):
            know_names(monkeypatch, two=("127.0.0.2", "127.0.0.1"))
            async with running_proxy(f"http://two.test:{port}") as running:
                began = time.monotonic()
                assert (await ask(running.address, request_bytes())).body == ANSWER
    assert time.monotonic() - began < 5


# --- what is left of many dials


def count_open_files() -> int:
    """Of this process."""
    return len([*Path("/dev/fd").iterdir()])


async def dial_many(count: int, make_dialler: Callable[..., Any] = Dialler) -> None:
    """Dial so many times in every way, a quarter of them given up; nothing of it is left open."""
    authority, tls = trustme.CA(), ssl.create_default_context()
    authority.configure_trust(tls)
    open_before = count_open_files()
    async with contextlib.AsyncExitStack() as stack:
        plain = await stack.enter_async_context(serving(peers.stay_silent))
        secured = await stack.enter_async_context(serving(peers.stay_silent, server_tls(authority)))
        misnamed = await stack.enter_async_context(
            serving(peers.stay_silent, server_tls(authority, "else.example"))
        )
        tiny = await stack.enter_async_context(tiny_proxy())
        refusing = await stack.enter_async_context(tiny_proxy(b"HTTP/1.1 403 No\r\n\r\n"))
        closed = stack.enter_context(peers.closed_port())
        diallers = [
            make_dialler(
                URL(origin),
                proxy and URL(proxy),
                tls=tls,
                timeouts=UpstreamTimeouts(),
                max_header_bytes=65536,
            )
            for origin, proxy in [
                (f"http://127.0.0.1:{plain}", None),
                (f"http://localhost:{plain}", None),
                (f"https://127.0.0.1:{secured}", None),
                (f"https://127.0.0.1:{secured}", tiny.url),
                (f"https://127.0.0.1:{secured}", refusing.url),
                (f"https://127.0.0.1:{misnamed}", None),
                (f"http://127.0.0.1:{closed}", None),
            ]
        ]
        seen: Counter[str] = Counter()
        turns = asyncio.Semaphore(32)

        async def dial(number: int) -> None:
            async with turns:
                dialling = asyncio.ensure_future(diallers[number % len(diallers)].dial())
                if number % 4 == 3:  # give up, somewhere on the way
                    for _ in range(number // 4 % 20):
                        await asyncio.sleep(0)
                    dialling.cancel()
                try:
                    (await dialling).abort()
                    seen["connected"] += 1
                except UpstreamError:
                    seen["failed"] += 1
                except asyncio.CancelledError:
                    seen["given up"] += 1

        await asyncio.gather(*map(dial, range(count)))
        assert min(seen[how] for how in ("connected", "failed", "given up")) >= count / 10, seen
        for dialler in diallers:
            await dialler.close()
    gc.collect()  # a transport that nobody closed warns now, which fails the test
    await until(lambda: count_open_files() <= open_before)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_dials_leave_nothing_behind() -> None:
    """Whether they succeed, fail or are given up; ``tests/faults`` has ten thousand of them."""
    await dial_many(280)
