"""The secret, the key and the certificate are in nothing that is said, whatever fails."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import traceback
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from proxy.downstream.request_faults import BadRequest
from proxy.interception import leaf_contexts
from proxy.interception.authority import Authority
from proxy.interception.connect_head import read_connect
from proxy.interception.interception import Interception
from proxy.processes.intercept_orders import InterceptNews, OpenIntercept
from tests.proxy.interception.intercepting import (
    HOST,
    OTHER_HOST,
    SECRET,
    connect_bytes,
    credentials,
    intercepting,
    run_authority,
)
from tests.proxy.interception.test_client_hello import real_hello
from tests.proxy.interception.test_distrust import distrusting
from tests.proxy.interception.test_opened import call_bytes, exchange, read_span
from tests.proxy.raw_client import read_to_end, send_raw, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from tests.proxy.interception.intercepting import Intercepted

    Scenario = Callable[[Intercepted, pytest.MonkeyPatch], Awaitable[object]]

PROOF = b"Proxy-Authorization: " + credentials() + b"\r\n"


def find_canaries(interception: Interception) -> Iterator[str]:
    """Whatever would give something away, in the forms in which it could be said."""
    yield SECRET
    yield base64.b64encode(f"spantap:{SECRET}".encode()).decode()
    for pem in (interception.ca_key, interception.ca_certificate):
        yield from pem.decode().split("\n")[1:-2]
        yield repr(ssl.PEM_cert_to_DER_cert(_as_certificate(pem)))[2:-1]


def _as_certificate(pem: bytes) -> str:
    return pem.decode().replace("PRIVATE KEY", "CERTIFICATE")


def check_silent(interception: Interception, *said: object) -> None:
    text = "\n".join(map(repr, said)) + "\n".join(map(str, said))
    for canary in find_canaries(interception):
        assert len(canary) > 8
        assert canary not in text


async def refused(it: Intercepted, *data: bytes) -> list[bytes]:
    return [await send_raw(it.address, each) for each in data]


async def bad_heads(it: Intercepted, _: pytest.MonkeyPatch) -> object:
    return await refused(
        it,
        connect_bytes(f"{HOST}:443", None),
        connect_bytes(f"{HOST}:443", SECRET + "x"),
        connect_bytes(f"{HOST}:443", SECRET[:-1]),
        connect_bytes(f"{HOST}:443") + b"x",
        connect_bytes(f"{HOST}:443", head=PROOF),
        connect_bytes(f"{HOST}:443", head=b"X:" + credentials() + b"\0\r\n"),
        connect_bytes(f"{SECRET}:443/"),
        connect_bytes("[...]:443"),
        b"GET http://spantap:%b@x/ HTTP/1.1\r\n%b\r\n" % (SECRET.encode(), PROOF),
        b"%b %b HTTP/1.1\r\n\r\n" % (SECRET.encode(), SECRET.encode()),
    )


async def no_way(it: Intercepted, patch: pytest.MonkeyPatch) -> object:
    patch.setattr("proxy.interception.state.MAX_TUNNELS", 1)
    await it.connect(f"127.0.0.1:{it.upstream.address[1]}")
    full = await refused(it, connect_bytes(f"{OTHER_HOST}:443"))
    patch.setattr("proxy.interception.state.MAX_TUNNELS", 9)
    return full + await refused(
        it, connect_bytes("127.0.0.1:1"), connect_bytes(f"127.0.0.1:{it.address[1]}")
    )


async def bad_tls(it: Intercepted, _: pytest.MonkeyPatch) -> object:
    said = []
    for hello in (b"\x16\x03\x01\0\x05\2\0\0\1\0", real_hello(OTHER_HOST), real_hello(HOST)[:-1]):
        reader, writer = await it.connect()
        writer.write(hello)
        writer.write_eof()
        said.append(await read_to_end(reader))
        writer.close()
    with pytest.raises(ssl.SSLCertVerificationError) as error:
        await it.secure(tls=distrusting())
    return [*said, error.value]


async def other_host(it: Intercepted, _: pytest.MonkeyPatch) -> object:
    return (await exchange(await it.secure(), call_bytes(host="x.test", head=PROOF))).raw


async def no_upstream(it: Intercepted, patch: pytest.MonkeyPatch) -> object:
    def find(*_: object, **__: object) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    patch.setattr(socket, "getaddrinfo", find)
    said = (await exchange(await it.secure(), call_bytes(head=PROOF))).raw
    await it.running.sink.wait_for()
    return said


async def faults(it: Intercepted, patch: pytest.MonkeyPatch) -> object:
    """Faults of ours: in dialling, in relaying, and where asyncio catches them."""

    async def fail(*_: object) -> Any:
        raise RuntimeError("some fault")

    patch.setattr(it.port._state, "dial", fail)
    patch.setattr(it.port._state, "relay", fail)
    said = await refused(it, connect_bytes(f"{OTHER_HOST}:443"))
    answer = await exchange(await it.secure(), call_bytes(head=PROOF))
    assert (answer.status, answer.error["code"]) == (500, "internal_error")
    said.append(answer.raw)

    def no_files(_: bytes) -> Any:
        raise OSError(24, "Too many open files")

    it.port._state.contexts._contexts.clear()
    patch.setattr(leaf_contexts, "_as_file", no_files)
    reader, writer = await it.connect()
    writer.write(real_hello(HOST))
    said.append(await read_to_end(reader))
    writer.close()
    return said


async def all_right(it: Intercepted, _: pytest.MonkeyPatch) -> object:
    said = (await exchange(await it.secure(), call_bytes(head=PROOF))).raw
    recorded = await it.running.sink.wait_for()
    assert it.upstream.last.field(b"proxy-authorization") is None
    assert SECRET.encode() not in it.upstream.last.head
    return said, recorded, read_span(recorded)


@pytest.mark.parametrize(
    "scenario", [bad_heads, no_way, bad_tls, other_host, no_upstream, faults, all_right]
)
async def test_nothing_says_the_secret_the_key_or_the_certificate(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No answer, line (asyncio's own at the lowest level), span, frame, report or repr."""
    asyncio.get_running_loop().set_debug(True)
    async with intercepting() as it:
        said = await scenario(it, monkeypatch)
        state, news = it.port._state, InterceptNews(number=1, report=it.port.report())
        order = OpenIntercept(number=1, interception=it.interception)
        check_silent(it.interception, said, caplog.text, it.running.sink.frames, order, news)
        check_silent(it.interception, it.interception, it.port, state, state.contexts, state.tally)
        for writer in it.writers:
            writer.close()
        await until(lambda: it.running.server.connection_count == 0)
    check_silent(it.interception, caplog.text)
    caplog.clear()


def test_what_is_parsed_and_loaded_does_not_show_it() -> None:
    """A CONNECT, an authority, and the errors of both and of a message between processes."""
    certificate, key = run_authority(HOST)
    interception = Interception(
        secret=SECRET, ca_certificate=certificate, ca_key=key, hosts=frozenset({HOST})
    )
    head = connect_bytes(f"{HOST}:443").removesuffix(b"\r\n\r\n")
    authority = Authority(certificate, key)
    check_silent(interception, read_connect(head), authority, vars(authority))
    broken = msgspec.json.encode(interception).replace(b'"hosts":[', b'"hosts":[1,')
    failing: list[Callable[[], object]] = [
        lambda: read_connect(head + b"\r\n" + PROOF.removesuffix(b"\r\n")),
        lambda: Authority(certificate, run_authority(OTHER_HOST)[1]),
        lambda: Authority(certificate[:-60], key),
        lambda: Authority(certificate, key[:-60]),
        lambda: Authority(key, certificate),
        lambda: msgspec.json.decode(broken, type=Interception),
    ]
    for fail in failing:
        with pytest.raises((ValueError, BadRequest)) as error:
            fail()
        check_silent(interception, *traceback.format_exception(error.value))
