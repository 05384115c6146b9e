"""TLS on the traffic port: what is spoken, what is refused, and how connections end."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from proxy.configure import build_listener_tls
from proxy.downstream import tls_port
from proxy.settings.settings import Settings, load_settings
from telemetry.errors import ConfigurationError
from telemetry.observing.exchange import Outcome
from tests.proxy.harness import (
    ANSWER,
    DONE,
    STREAM,
    STREAMED_CHAT,
    USAGE_EVENT,
    Connection,
    RunningProxy,
    relaying,
    request_bytes,
    running_proxy,
)
from tests.proxy.raw_client import parse_answer, read_answer, read_with_end, send_raw

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CA = trustme.CA()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a chain, its key, the same key with a password, another one, and junk."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, other = CA.issue_cert("127.0.0.1"), CA.issue_cert("127.0.0.1")
    for blob in certificate.cert_chain_pems:
        blob.write_to_path(folder / "cert.pem", append=True)
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    certificate.private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    other.private_key_pem.write_to_path(folder / "other.pem")
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    encrypted = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"canary")
    )
    (folder / "encrypted.pem").write_bytes(encrypted)
    (folder / "junk.pem").write_text("canary")
    return folder


@pytest.fixture
def tls(files: Path) -> dict[str, Any]:
    return {"tls_cert": files / "cert.pem", "tls_key": files / "key.pem"}


@pytest.fixture(autouse=True)
def _no_errors(caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest) -> Iterator[None]:
    """No test leaves a traceback or an error in the log, asyncio's own included."""
    caplog.set_level(logging.DEBUG)
    yield
    assert_quiet(caplog)


def assert_quiet(caplog: pytest.LogCaptureFixture) -> None:
    bad = [r for r in caplog.get_records("call") if r.exc_info or r.levelno >= logging.ERROR]
    assert not bad, caplog.text


def client_context(*protocols: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    CA.configure_trust(context)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


async def connect(
    running: RunningProxy, context: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        *running.address, ssl=context or client_context(), limit=1 << 22
    )


async def breaks_off(connection: Connection) -> None:
    """A stream that its upstream does not bring to an end."""
    await connection.begin_stream()
    await connection.send_chunks(STREAM[0], end=False)
    connection.reset()


async def read_once(running: RunningProxy, request: bytes) -> tuple[bytes, bool]:
    """What comes in answer, and whether the end was a reset."""
    reader, writer = await connect(running)
    writer.write(request)
    async with asyncio.timeout(5):
        answer = await read_with_end(reader)
    writer.transport.abort()
    return answer


# The context


def test_without_a_certificate_the_port_speaks_plain_http() -> None:
    """The default."""
    assert build_listener_tls(Settings()) is None


def test_tls_is_1_2_at_least_and_speaks_http_1_1(tls: dict[str, Any]) -> None:
    """RFC 9325, section 3.1.1."""
    context = build_listener_tls(Settings(**tls))
    assert context is not None
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_key_and_certificate_may_be_in_one_file(files: Path) -> None:
    """As many tools write them."""
    assert build_listener_tls(Settings(tls_cert=files / "both.pem")) is not None


@pytest.mark.parametrize(
    ("cert", "key", "words"),
    [
        ("none.pem", "key.pem", "cannot be read: No such file"),
        ("cert.pem", "none.pem", "cannot be read: No such file"),
        ("junk.pem", "key.pem", "cannot be used: it holds none of the PEM"),
        ("cert.pem", "junk.pem", "cannot be used: it holds none of the PEM"),
        ("cert.pem", None, "cannot be used: it holds none of the PEM"),
        ("cert.pem", "other.pem", "cannot be used: KEY VALUES MISMATCH"),
        ("cert.pem", "encrypted.pem", "has a password; give a key without one"),
    ],
)
def test_files_that_cannot_be_used_are_told_in_a_sentence(
    files: Path, cert: str, key: str | None, words: str
) -> None:
    """Which files, and why; nothing that is in them, and nobody is asked for a password."""
    settings = Settings(tls_cert=files / cert, tls_key=files / key if key else None)
    with pytest.raises(ConfigurationError) as caught:
        build_listener_tls(settings)
    message = str(caught.value)
    assert message.startswith("setting 'tls_cert': ")
    assert cert in message
    assert (key or "") in message
    assert words in message
    assert "canary" not in message


@pytest.mark.parametrize("setting", ["tls_cert", "tls_key"])
def test_files_that_are_no_regular_ones_are_refused(
    setting: str, tls: dict[str, Any], tmp_path: Path
) -> None:
    """The start would wait for somebody who writes into the FIFO."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(ConfigurationError) as caught:
        build_listener_tls(Settings(**tls | {setting: fifo}))
    assert str(caught.value) == f"setting '{setting}': {fifo} is not a regular file"


def test_a_key_without_its_certificate_is_refused() -> None:
    """The port would speak plain HTTP, and nobody would know."""
    with pytest.raises(ConfigurationError, match="tls_key needs tls_cert"):
        load_settings({"tls_key": "/k.pem"})


# Over the wire


async def test_a_chat_and_a_stream_go_through_tls(tls: dict[str, Any]) -> None:
    """On one connection, kept; the same bytes as without it, and their records."""

    async def script(connection: Connection) -> None:
        if b'"stream":true' in connection.body:
            await connection.stream(*STREAM, USAGE_EVENT, DONE)
        else:
            await connection.answer()

    async with relaying(script, **tls) as (_, running):
        reader, writer = await connect(running, client_context("h2", "http/1.1"))
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        writer.write(request_bytes(close=False))
        chat = parse_answer(await read_answer(reader), reset=False)
        writer.write(request_bytes(STREAMED_CHAT, close=False))
        stream = parse_answer(await read_answer(reader), reset=False)
        writer.close()
        await running.sink.wait_for(2)
    assert (chat.status, chat.body) == (200, ANSWER)
    assert (stream.status, stream.body) == (200, b"".join([*STREAM, DONE]))
    assert [e.outcome for e in running.sink.exchanges] == [Outcome.COMPLETED] * 2


async def test_old_tls_is_not_spoken(tls: dict[str, Any]) -> None:
    """A client that knows 1.1 at most gets no connection, and the log no traceback."""
    context = client_context()
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with running_proxy("http://127.0.0.1:9", **tls) as running:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await connect(running, context)
        reader, writer = await connect(running)  # the next one is served
        writer.write(b"garbage\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
        writer.transport.abort()


@pytest.mark.parametrize(
    "data", [request_bytes(), b"\x00" * 100, b"\r\n\r\n", b""], ids=["chat", "zeros", "4", "0"]
)
async def test_a_plain_client_on_the_tls_port_is_cut_off(
    data: bytes, tls: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, or when a handshake should be over; perhaps with an alert, never an answer."""
    monkeypatch.setattr(tls_port, "HANDSHAKE_SECONDS", 0.2)
    async with relaying(**tls) as (upstream, running):
        assert b"HTTP/" not in await send_raw(running.address, data)
    assert upstream.connections == 0


async def test_a_tls_client_on_the_plain_port_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """The other way round: an answer that no TLS client can read, and one line that explains it."""
    async with running_proxy("http://127.0.0.1:9") as running:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await connect(running)
        assert running.server.state.refused_count == 1
    assert "TLS was sent to a port that speaks plain HTTP" in caplog.text


async def test_a_client_that_leaves_mid_stream_cancels_the_upstream(tls: dict[str, Any]) -> None:
    """By TLS's own end, close_notify, as much as by a plain one."""
    left = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.begin_stream()
        await connection.send_chunks(STREAM[0], end=False)
        await connection.wait_closed_by_peer()
        left.set()

    async with relaying(script, **tls) as (_, running):
        for end in ("close", "abort"):
            left.clear()
            reader, writer = await connect(running)
            writer.write(request_bytes(STREAMED_CHAT))
            await reader.readuntil(b"data: ")
            getattr(writer.transport, end)()
            async with asyncio.timeout(5):
                await left.wait()
        exchange = await running.sink.wait_for(2)
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED


async def test_a_stream_that_breaks_does_not_seem_to_end(tls: dict[str, Any]) -> None:
    """Its last chunk never comes."""
    async with relaying(breaks_off, **tls) as (_, running):
        raw, reset = await read_once(running, request_bytes(STREAMED_CHAT))
        exchange = await running.sink.wait_for()
    assert not parse_answer(raw, reset=reset).clean
    assert exchange.outcome is Outcome.TRUNCATED


async def test_a_body_that_only_the_end_delimits_is_cut_visibly(
    tls: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """HTTP/1.0 over TLS: the connection is reset."""
    request = request_bytes(STREAMED_CHAT).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    async with relaying(breaks_off, **tls) as (_, running):
        raw, reset = await read_once(running, request)
    assert raw.endswith(STREAM[0])
    assert reset
    assert_quiet(caplog)


REFUSALS = {
    "no HTTP": (400, b"garbage\r\n\r\n"),
    "no key": (401, request_bytes()),
}


@pytest.mark.parametrize(("status", "data"), REFUSALS.values(), ids=REFUSALS)
async def test_a_refusal_over_tls_is_whole(status: int, data: bytes, tls: dict[str, Any]) -> None:
    """TLS has no half-close; the answer is there, and the client's close ends the connection."""
    async with running_proxy(
        "http://127.0.0.1:9", inbound_keys=["inbound-canary-0123456789"], **tls
    ) as running:
        reader, writer = await connect(running)
        writer.write(data)
        answer = parse_answer(await read_answer(reader), reset=False)
        writer.close()
        async with asyncio.timeout(5):
            await writer.wait_closed()
            while running.server.connections:
                await asyncio.sleep(0.005)
    assert answer.status == status
    assert answer.clean
    assert answer.error["message"]
