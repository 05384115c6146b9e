"""Through forward proxies and TLS to the upstream, over real sockets."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest
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
from tests.proxy.raw_client import ask
from tests.proxy.upstream.peers import server_tls, tiny_proxy

if TYPE_CHECKING:
    from pathlib import Path

    import trustme


# --- TLS


async def test_an_upstream_with_an_additional_authority_is_trusted(
    authority: trustme.CA, ca_file: Path
) -> None:
    """``ca_file`` adds to the system's authorities; connections are kept as without TLS."""
    async with relaying(tls=server_tls(authority), ca_file=ca_file) as (upstream, running):
        for _ in range(2):
            assert (await ask(running.address, request_bytes())).body == ANSWER
    assert upstream.connections == 1


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
