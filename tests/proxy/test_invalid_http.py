"""What is not valid HTTP, over raw sockets: refused before it is an exchange, and told (R3).

Each message gets an OpenAI-shaped answer and the end of its connection, is counted, and leaves a
log line without a traceback and without what was sent (R7). Nothing reaches the upstream.
"""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from telemetry.observing.exchange import Outcome
from tests.proxy.harness import ANSWER, CHAT, Connection, RunningProxy, relaying, request_bytes
from tests.proxy.raw_client import Address, read_answer, read_to_end, send_raw, split_answer
from tests.proxy.side_by_side import TARGETS

SECRET = b"sk-secret-1234567890"


def refused(running: RunningProxy) -> float:
    """How many requests were refused, as the metrics tell."""
    [series] = running.proxy.metrics.snapshot().numbers["spantap.requests.refused"]
    return series.value


def head(*lines: bytes, line: bytes = b"POST /v1/chat/completions HTTP/1.1") -> bytes:
    """A request's head of these lines, with ``Host``."""
    return b"\r\n".join([line, b"Host: c", b"Authorization: Bearer " + SECRET, *lines, b"", b""])


def line(text: bytes) -> bytes:
    """A request with an odd request line."""
    return head(line=text)


def chunks(data: bytes) -> bytes:
    """A chat in chunks."""
    return head(b"Transfer-Encoding: chunked") + data


CHUNKED = b"Transfer-Encoding: chunked"
INVALID = {
    "length and chunks": (400, head(b"Content-Length: 5", CHUNKED) + b"0\r\n\r\n"),
    "chunks and length": (400, head(CHUNKED, b"Content-Length: 5") + b"0\r\n\r\n"),
    "two lengths": (400, head(b"Content-Length: 2", b"content-length: 3") + b"{}"),
    "the same length twice": (400, head(b"Content-Length: 2", b"Content-Length: 2") + b"{}"),
    "a list of lengths": (400, head(b"Content-Length: 2, 2") + b"{}"),
    "a signed length": (400, head(b"Content-Length: +2") + b"{}"),
    "a hexadecimal length": (400, head(b"Content-Length: 0x2") + b"{}"),
    "an empty length": (400, head(b"Content-Length:")),
    "a length past 64 bits": (400, head(b"Content-Length: 99999999999999999999")),
    "a folded field": (400, head(b"X-A: 1", b" " + SECRET)),
    "two hosts": (400, head(b"Host: d")),
    "two hosts of different case": (400, head(b"hOST: c")),
    # Valid by itself, but the parser accepts these fields once only: not transparent, and told so.
    "two content types": (400, head(b"Content-Type: a/b", b"Content-Type: a/b")),
    "two user agents": (400, head(b"User-Agent: a", b"user-agent: b")),
    "no host": (400, b"GET / HTTP/1.1\r\nX-A: 1\r\n\r\n"),
    "line feeds only": (400, b"GET / HTTP/1.1\nHost: c\n\n"),
    "one line feed": (400, head(b"X-A: 1\nX-B: 2")),
    "a carriage return in a value": (400, head(b"X-A: 1\r2")),
    "a zero in a value": (400, head(b"X-A: %b\x00" % SECRET)),
    "a control character in a value": (400, head(b"X-A: \x01")),
    "a space before the colon": (400, head(b"Authorization : Bearer " + SECRET)),
    "a space in a name": (400, head(b"X A: 1")),
    "a name that is no ASCII": (400, head(b"X-\xe9: 1")),
    "no name": (400, head(b": 1")),
    "no colon": (400, head(SECRET)),
    "an unknown transfer encoding": (400, head(b"Transfer-Encoding: gzip")),
    "identity": (400, head(b"Transfer-Encoding: identity")),
    "one more transfer encoding": (501, head(b"Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n"),
    "chunked twice": (400, head(CHUNKED, CHUNKED)),
    "chunked twice in a list": (400, head(b"Transfer-Encoding: chunked, chunked")),
    "chunked in HTTP/1.0": (400, head(CHUNKED, line=b"POST / HTTP/1.0") + b"0\r\n\r\n"),
    "CONNECT": (405, b"CONNECT api.openai.com:443 HTTP/1.1\r\nHost: c\r\n\r\n"),
    "CONNECT and more": (405, b"CONNECT h:443 HTTP/1.1\r\nHost: c\r\n\r\n\x16\x03\x01"),
    "TRACE": (405, line(b"TRACE /v1/models HTTP/1.1")),
    "TRACE of an observed path": (405, line(b"TRACE /v1/chat/completions HTTP/1.1")),
    "TRACK": (400, line(b"TRACK /v1/models HTTP/1.1")),
    "an absolute target": (400, line(b"POST http://h/v1/chat/completions HTTP/1.1")),
    "a target without a slash": (400, line(b"GET v1 HTTP/1.1")),
    "a star that is not for OPTIONS": (400, line(b"GET * HTTP/1.1")),
    "a space in the target": (400, line(b"GET /a b HTTP/1.1")),
    "a tab in the target": (400, line(b"GET /a\tb HTTP/1.1")),
    "a target that is no ASCII": (400, line(b"GET /\xc3\xa9?%b HTTP/1.1" % SECRET)),
    "a control character in the target": (400, line(b"GET /\x01 HTTP/1.1")),
    "a method in lower case": (400, line(b"post / HTTP/1.1")),
    "an unknown method": (400, line(b"FROB / HTTP/1.1")),
    "no version": (400, b"GET /\r\n\r\n"),
    "HTTP/0.9": (400, line(b"GET / HTTP/0.9")),
    "HTTP/1.2": (400, line(b"GET / HTTP/1.2")),
    "HTTP/2.0": (400, line(b"GET / HTTP/2.0")),
    "HTTP/9": (400, line(b"GET / HTTP/9")),
    "the HTTP/2 preface": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00"),
    "a TLS client hello": (400, bytes.fromhex("16030100c8010000c40303") + bytes(200)),
    "garbage": (400, b"\x00\xff" + SECRET + b"\r\n\r\n"),
    "an answer": (400, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    "a WebSocket": (426, head(b"Connection: Upgrade", b"Upgrade: WebSocket")),
    "a WebSocket among others": (426, head(b"Connection: Upgrade", b"Upgrade: h2c, websocket")),
    "a target over the limit": (431, line(b"GET /%b HTTP/1.1" % (SECRET * 4000))),
    "a field over the limit": (431, head(b"X-A: " + SECRET * 4000)),
    "a name over the limit": (431, head(b"a" * 70_000 + b": 1")),
    "too many fields": (431, head(*[b"X-A: 1"] * 300)),
    "a megabyte of fields": (431, head(*[b"X-A: %b" % (b"a" * 4000)] * 260)),
    "a chunk of no size": (400, chunks(b"\r\n")),
    "a chunk of odd size": (400, chunks(b"zz\r\n" + SECRET)),
    "a signed chunk size": (400, chunks(b"+2\r\n{}\r\n0\r\n\r\n")),
    "a chunk size with 0x": (400, chunks(b"0x2\r\n{}\r\n0\r\n\r\n")),
    "a chunk size past 64 bits": (400, chunks(b"f" * 17 + b"\r\n")),
    "a chunk that is too long": (400, chunks(b"2\r\n{}}\r\n0\r\n\r\n")),
    "a chunk without its end": (400, chunks(b"2\r\n{}0\r\n\r\n")),
    "a chunk size and a line feed": (400, chunks(b"2\n{}\r\n0\r\n\r\n")),
    "a chunk size and a space": (400, chunks(b"2 \r\n{}\r\n0\r\n\r\n")),
    "an empty chunk extension": (400, chunks(b"2;\r\n{}\r\n0\r\n\r\n")),
    "a line feed in a chunk extension": (400, chunks(b"2;a\nb\r\n{}\r\n0\r\n\r\n")),
    "a control character in a chunk extension": (400, chunks(b"2;a\x01\r\n{}\r\n0\r\n\r\n")),
}
"""Name: status, bytes."""

ALL_INVALID = pytest.mark.parametrize(("status", "data"), INVALID.values(), ids=INVALID.keys())


LAST_FIELDS = {
    False: [(b"Connection", b"close")],
    True: [(b"Upgrade", b"HTTP/1.1"), (b"Connection", b"close, upgrade")],
}
"""By whether the client wants to speak something else: then it is told what it may speak (RFC 9110
section 15.5.22), and Codex for one falls back to HTTP at once."""


def assert_refusal(answer: bytes, status: int) -> None:
    """A whole answer in OpenAI's shape, none of aiohttp's, which tells no secret."""
    line, fields, body = split_answer(answer)
    assert line.startswith(b"HTTP/1.1 %d " % status)
    assert fields == [
        (b"Content-Type", b"application/json"),
        (b"Content-Length", b"%d" % len(body)),
        *([(b"Allow", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")] if status == 405 else []),
        *LAST_FIELDS[status == 426],
    ]
    error = json.loads(body)["error"]  # noqa: TID251 - as a client would
    assert list(error) == ["message", "type", "param", "code"]
    assert error["type"] == "invalid_request_error"
    assert error["message"]
    assert SECRET not in answer


def assert_one_line(caplog: pytest.LogCaptureFixture, status: int = 400) -> None:
    """One line says so, without a traceback and without what was sent.

    For a WebSocket it says where it was to lead, and is no warning if calls go there.
    """
    if status == 426:
        assert SECRET.decode() not in caplog.text
        assert not [one for one in caplog.records if one.name != "spantap.handler"]
        return
    [record] = caplog.records
    assert (record.name, record.levelno) == ("spantap.downstream", logging.WARNING)
    assert record.getMessage().startswith("refused a request: ")
    assert record.exc_info is None
    assert SECRET.decode() not in caplog.text
    assert "\n" not in record.getMessage()


@ALL_INVALID
async def test_an_invalid_message_is_refused(
    status: int, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Answered, closed, counted, told, and not passed on; nobody's exchange."""
    async with relaying() as (upstream, running):
        answer = await send_raw(running.address, data)
        assert refused(running) == 1
    assert upstream.connections == 0
    assert_refusal(answer, status)
    assert_one_line(caplog, status)
    assert running.sink.frames == []


@ALL_INVALID
async def test_a_valid_request_before_an_invalid_one_is_answered_first(
    status: int, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """In one write, so that both are in one read: the first has its answer and its record."""
    valid = request_bytes(CHAT, close=False)
    async with relaying() as (upstream, running):
        answers = await send_raw(running.address, valid + data)
        assert refused(running) == 1
    assert len(upstream.requests) == 1
    assert split_answer(answers)[0] == b"HTTP/1.1 200 OK"
    first, found, second = answers.partition(ANSWER)
    assert first
    assert found
    assert_refusal(second, status)
    assert_one_line(caplog, status)
    assert len(running.sink.exchanges) == 1


@ALL_INVALID
async def test_an_invalid_message_is_refused_however_it_is_cut(status: int, data: bytes) -> None:
    """Two reads, cut where it hurts: before the last bytes of the head."""
    async with relaying() as (upstream, running):
        reader, writer = await asyncio.open_connection(*running.address)
        cut = max(data.find(b"\r\n\r\n"), 1)
        for begin in range(cut - 1, cut + 3):
            writer.write(data[:begin])
            await asyncio.sleep(0.01)
            writer.write(data[begin:])
            assert_refusal(await read_to_end(reader), status)
            writer.transport.abort()
            reader, writer = await asyncio.open_connection(*running.address)
        writer.transport.abort()
        assert refused(running) == 4
        assert not [r for r in upstream.requests if r.body]


async def test_a_flood_of_invalid_messages_leaves_one_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """All are counted; the next line, later, says how many there were."""
    async with relaying() as (_, running):
        for _ in range(20):
            assert_refusal(await send_raw(running.address, b"garbage\r\n\r\n"), 400)
        assert refused(running) == 20
    assert_one_line(caplog)


async def test_a_refusal_of_head_has_no_body() -> None:
    """RFC 9110 section 9.3.2; its length is told all the same."""
    raw = b"HEAD /ws HTTP/1.1\r\nHost: c\r\nUpgrade: websocket\r\n\r\n"
    async with relaying() as (_, running):
        line, fields, body = split_answer(await send_raw(running.address, raw))
    assert line == b"HTTP/1.1 426 Upgrade Required"
    assert int(dict(fields)[b"Content-Length"]) > 0
    assert body == b""


async def test_a_refusal_reaches_a_client_that_is_still_sending() -> None:
    """A reset would take the answer from it: we read on until it has closed."""
    async with relaying() as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(head(b"X-A : 1"))
        for _ in range(20):
            writer.write(b"x" * 100_000)
            await writer.drain()
            await asyncio.sleep(0.005)
        assert_refusal(await read_to_end(reader), 400)
        writer.transport.abort()


async def send_broken_upload(address: Address, target: bytes, *, pause: float) -> bytes:
    """Chunks, a pause, and no chunk."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(b"POST %b HTTP/1.1\r\nHost: c\r\n%b\r\n\r\n3\r\nabc\r\n" % (target, CHUNKED))
        await asyncio.sleep(pause)
        writer.write(b"zz\r\n" + SECRET)
        async with asyncio.timeout(5):
            return await read_to_end(reader)
    finally:
        writer.transport.abort()


@TARGETS
@pytest.mark.parametrize("pause", [0.0, 0.05])
async def test_an_upload_whose_chunks_break_later_is_answered_and_not_passed_on(
    target: bytes, pause: float, caplog: pytest.LogCaptureFixture
) -> None:
    """The upstream sees no request, or a broken one; the client an answer, at once."""
    async with relaying() as (upstream, running):
        answer = await send_broken_upload(running.address, target, pause=pause)
        assert refused(running) == 1
    assert all(request.body == b"" for request in upstream.requests)
    if target.endswith(b"completions"):
        assert upstream.connections == 0
        if exchanges := running.sink.exchanges:
            [exchange] = exchanges
            assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
    assert_refusal(answer, 400)
    assert_one_line(caplog)


async def test_an_upload_that_breaks_after_its_answer_ends_quietly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The upstream answered early; what breaks then is only the connection."""

    async def script(connection: Connection) -> None:
        await connection.reader.readexactly(3)
        await connection.answer(status=b"413 Too Large")

    async with relaying(script, reads_body=False) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(b"PUT /x HTTP/1.1\r\nHost: c\r\n%b\r\n\r\n3\r\nabc\r\n" % CHUNKED)
        status, _, _ = split_answer(await read_answer(reader))
        assert status == b"HTTP/1.1 413 Too Large"
        writer.write(b"zz\r\n")
        assert await read_to_end(reader) == b""
        writer.transport.abort()
    assert_one_line(caplog)


async def test_nothing_is_read_after_the_first_fault() -> None:
    """Where the next request begins is anybody's guess: the one that follows is not taken."""
    valid = request_bytes(CHAT)
    async with relaying() as (upstream, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(b"garbage\r\n\r\n")
        await asyncio.sleep(0.02)
        writer.write(valid)
        assert_refusal(await read_to_end(reader), 400)
        writer.transport.abort()
        assert upstream.connections == 0
