"""Who is let in, what is no CONNECT, and what of the secret is ever said."""

from __future__ import annotations

import asyncio
import base64
import socket

import msgspec
import pytest

from proxy.downstream.listening import listen
from proxy.interception.interception import Interception, Refusal
from telemetry.errors import ConfigurationError
from tests.proxy.harness import request_bytes
from tests.proxy.interception.intercepting import (
    HOST,
    OTHER_HOST,
    SECRET,
    connect_bytes,
    credentials,
    intercepting,
)
from tests.proxy.raw_client import ask


def shown(value: bytes) -> bytes:
    return b"Proxy-Authorization: %b\r\n" % value


NO_SECRET = Refusal.NO_SECRET
WRONG_SECRET = Refusal.WRONG_SECRET


@pytest.mark.parametrize(
    ("head", "refusal"),
    [
        (b"", NO_SECRET),
        (shown(credentials("wrong")), WRONG_SECRET),
        (shown(credentials("")), WRONG_SECRET),
        (shown(credentials(SECRET + "x")), WRONG_SECRET),
        (shown(credentials(SECRET[:-1])), WRONG_SECRET),
        (shown(b"Bearer " + SECRET.encode()), NO_SECRET),
        (shown(b"Basic " + base64.b64encode(SECRET.encode())), WRONG_SECRET),
        (shown(b"Basic %%%"), NO_SECRET),
        (b"Authorization: %b\r\n" % credentials(), NO_SECRET),
    ],
)
@pytest.mark.parametrize("host", [HOST, OTHER_HOST])
async def test_without_the_secret_nothing_is_opened_tunnelled_or_resolved(
    head: bytes, refusal: Refusal, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """407, with the challenge that a client needs to send it."""
    async with intercepting() as it:
        asked = []

        def find(*names: object, **_: object) -> list[object]:
            asked.append(names)
            return []

        monkeypatch.setattr(socket, "getaddrinfo", find)
        answer = await ask(it.address, connect_bytes(f"{host}:443", None, head))
        assert (answer.status, answer.error["code"]) == (407, "no_secret")
        assert answer.field(b"proxy-authenticate") == b'Basic realm="spantap"'
        assert asked == []
        assert it.upstream.connections == 0
        report = it.port.report()
        assert (report.opened, report.tunnelled) == ({}, ())
        assert report.refused == {refusal: 1}


@pytest.mark.parametrize("user", ["spantap", "", "any one"])
async def test_the_secret_is_the_password_of_any_user(user: str) -> None:
    async with intercepting() as it:
        value = b"basic " + base64.b64encode(f"{user}:{SECRET}".encode())
        data = connect_bytes(f"{HOST}:443", None, shown(value))
        reader, writer = await asyncio.open_connection(*it.address)
        writer.write(data)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        writer.close()


@pytest.mark.parametrize(
    "data",
    [
        request_bytes(target=b"http://api.model.test/v1/models"),
        request_bytes(),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
async def test_plain_http_is_refused_with_what_to_change(data: bytes) -> None:
    """A program that has HTTP_PROXY set to this port sends it."""
    async with intercepting() as it:
        answer = await ask(it.address, data)
        assert (answer.status, answer.error["code"]) == (501, "connect_only")
        assert "HTTP_PROXY" in answer.error["message"]
        assert it.port.report().refused == {Refusal.NO_CONNECT: 1}
        assert it.upstream.connections == 0


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (connect_bytes(f"{HOST}:443") + b"x", 400),
        (connect_bytes(f"{HOST}:443") + connect_bytes(f"{OTHER_HOST}:443"), 400),
        (connect_bytes(f"{HOST}:443", head=b"Content-Length: 5\r\n"), 400),
        (connect_bytes(f"{HOST}:443", head=b"Transfer-Encoding: chunked\r\n"), 400),
        (connect_bytes(f"{HOST}:443", head=shown(credentials())), 400),
        (connect_bytes(f"{HOST}:443", head=b"X: a\nY: b\r\n"), 400),
        (connect_bytes(f"{HOST}:443", head=b"X: a\r\n folded\r\n"), 400),
        (connect_bytes(f"{HOST}:443", head=b"X : a\r\n"), 400),
        (connect_bytes(f"{HOST}:443", head=b"X: \0\r\n"), 400),
        (connect_bytes(f"{HOST}:443", head=b"X: %b\r\n" % bytes(8192).replace(b"\0", b"a")), 431),
        (connect_bytes(HOST), 400),
        (connect_bytes(f"{HOST}:0"), 400),
        (connect_bytes(f"{HOST}:65536"), 400),
        (connect_bytes(f"{HOST}:443@x"), 400),
        (connect_bytes(f"http://{HOST}:443"), 400),
        (connect_bytes(f"..{HOST}:443"), 400),
        (connect_bytes("a" * 64 + ".test:443"), 400),
        (connect_bytes("[api.model.test]:443"), 400),
        (connect_bytes("[...]:443"), 400),
        (connect_bytes("[1:2:3]:443"), 400),
        (connect_bytes("[127.0.0.1]:443"), 400),
        (connect_bytes(f"{HOST}:443", head=b"Host: other.test\r\n"), 400),
        (connect_bytes(f"{HOST}:443", head=b"Content-Length: 0\r\n" * 2), 400),
        (b"CONNECT api.model.test:443 HTTP/2.0\r\n\r\n", 400),
        (b"CONNECT  api.model.test:443 HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"a" * 8193, 431),
    ],
)
async def test_what_could_be_read_in_two_ways_is_refused(data: bytes, status: int) -> None:
    """No byte of it reaches anybody, and no word of it is in the answer."""
    async with intercepting() as it:
        answer = await ask(it.address, data)
        assert answer.status == status
        assert it.port.report().refused == {Refusal.BAD_CONNECT: 1}
        assert it.upstream.connections == 0


async def test_only_loopback_listens() -> None:
    async with intercepting() as it:
        open_to_all = listen("interception", "0.0.0.0", 0)
        with open_to_all, pytest.raises(ConfigurationError, match="loopback"):
            await it.running.proxy.intercept(it.interception, open_to_all)


async def test_an_interception_can_be_handed_to_another_process() -> None:
    """As JSON, secret and all: the channel is the supervisor's own."""
    async with intercepting() as it:
        data = msgspec.json.encode(it.interception)
        assert msgspec.json.decode(data, type=Interception) == it.interception
