"""Requests that two servers might read differently, and use of the proxy for other ends.

Beside the messages of :mod:`tests.proxy.test_invalid_http`. Every vector is refused in OpenAI's
shape and its connection closed, or what it tries is neutralised: the upstream then sees exactly one
request, well formed, and the words of no second one outside its body.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest

from proxy.settings.tables import UpstreamConfig
from tests.proxy.harness import (
    CHAT,
    Connection,
    ScriptedUpstream,
    relaying,
    request_bytes,
    running_proxy,
)
from tests.proxy.raw_client import ask, read_to_end, send_raw, split_answer

if TYPE_CHECKING:
    from collections.abc import Sequence

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: c\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked"
LINE = b"POST /v1/chat/completions HTTP/1.1"

_WELL_FORMED = re.compile(
    rb"[A-Z]+ [!-~]+ HTTP/1\.1\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: ?[\t -~\x80-\xff]*\r\n)+\r\n"
)


def head(*lines: bytes, line: bytes = LINE) -> bytes:
    """A request's head of these lines, with ``Host``, the last request of its connection."""
    return b"\r\n".join([line, b"Host: c", b"Connection: close", *lines, b"", b""])


def chunk(data: bytes, size: bytes | None = None) -> bytes:
    return b"%b\r\n%b\r\n" % (b"%x" % len(data) if size is None else size, data)


def assert_well_formed(sent: Connection, *, body: bytes | None = None) -> None:
    """One request as any server reads it: one ``Host``, one framing, no odd bytes."""
    assert _WELL_FORMED.fullmatch(sent.head), sent.head
    names = [name.lower() for name, _ in sent.fields]
    assert names.count(b"host") == 1
    assert names.count(b"content-length") + names.count(b"transfer-encoding") <= 1
    if body is not None:
        assert sent.body == body


async def seen_by_upstream(data: bytes) -> tuple[bytes, Sequence[Connection]]:
    """The answers to these bytes on one connection, and the requests they came to."""
    async with relaying() as (upstream, running):
        answers = await send_raw(running.address, data)
    return answers, list(upstream.requests)


REFUSED = {
    # Framing: two servers would find different ends of the body.
    "an underscore in a number": (400, head(b"Content-Length: 3_6") + SMUGGLED),
    "a negative length": (400, head(b"Content-Length: -1")),
    "negative nothing": (400, head(b"Content-Length: -0")),
    "a length and a vertical tab": (400, head(b"Content-Length: 2\x0b") + b"{}"),
    "a length in other digits": (400, head("Content-Length: \u0663".encode()) + b"{}}"),
    "a length and a semicolon": (400, head(b"Content-Length: 2;a") + b"{}"),
    "a length in quotes": (400, head(b'Content-Length: "2"') + b"{}"),
    "a length of two words": (400, head(b"Content-Length: 2 2") + b"{}"),
    "chunks after a tab, and a length": (
        400, head(b"Transfer-Encoding:\tchunked", b"Content-Length: 2") + b"{}"),
    "chunks in capitals, and a length": (
        400, head(b"TRANSFER-ENCODING: CHUNKED", b"content-length: 2") + b"{}"),
    "chunks with a space before the colon": (
        400, head(b"Transfer-Encoding : chunked", b"Content-Length: 2")),
    "chunks with a vertical tab": (
        400, head(b"Transfer-Encoding: \x0bchunked", b"Content-Length: 2")),
    "chunks in quotes": (400, head(b'Transfer-Encoding: "chunked"')),
    "xchunked": (400, head(b"Transfer-Encoding: xchunked")),
    "chunked and a parameter": (400, head(b"Transfer-Encoding: chunked;a=b")),
    "chunked and a comma": (400, head(b"Transfer-Encoding: chunked,")),
    "chunked, identity": (400, head(b"Transfer-Encoding: chunked, identity")),
    "identity, then chunked": (400, head(b"Transfer-Encoding: identity", CHUNKED)),
    "a folded transfer encoding": (400, head(b"Transfer-Encoding:", b" chunked")),
    "a null byte in chunked": (400, head(b"Transfer-Encoding: chunked\x00")),
    "an empty transfer encoding": (400, head(b"Transfer-Encoding:", b"Content-Length: 2") + b"{}"),
    # Chunks.
    "a chunk size of a mile": (400, head(CHUNKED) + b"0" * 70_000 + b"2\r\n{}\r\n0\r\n\r\n"),
    "a negative chunk": (400, head(CHUNKED) + b"-2\r\n{}\r\n0\r\n\r\n"),
    "a chunk size with an underscore": (400, head(CHUNKED) + chunk(b"x" * 16, b"1_0")),
    "a space before a chunk size": (400, head(CHUNKED) + b" 2\r\n{}\r\n0\r\n\r\n"),
    "a carriage return in a chunk extension": (400, head(CHUNKED) + b"2;a\rb\r\n{}\r\n0\r\n\r\n"),
    "a last chunk with a bare line feed": (400, head(CHUNKED) + b"2\r\n{}\r\n0\n\n" + SMUGGLED),
    "a chunk that ends in a line feed": (400, head(CHUNKED) + b"2\r\n{}\n0\r\n\r\n"),
    "a trailer that is folded": (400, head(CHUNKED) + b"0\r\nX-A: 1\r\n 2\r\n\r\n"),
    "a length in a trailer": (400, head(CHUNKED) + b"0\r\nContent-Length: 9\r\n\r\n"),
    "a coding in a trailer": (400, head(CHUNKED) + b"0\r\nTransfer-Encoding: gzip\r\n\r\n"),
    "a trailer with a space in its name": (400, head(CHUNKED) + b"0\r\nX A: 1\r\n\r\n"),
    # The head.
    "a header before Host": (400, b"GET / HTTP/1.1\r\n X-A: 1\r\nHost: c\r\n\r\n"),
    "a line feed in a field": (400, head(b"X-A: 1\nTransfer-Encoding: chunked")),
    "a carriage return before a name": (400, head(b"\rTransfer-Encoding: chunked")),
    "a null byte in a name": (400, head(b"X\x00A: 1")),
    "a tab in a name": (400, head(b"X\tA: 1")),
    "a bracket in a name": (400, head(b"X(A): 1")),
    "a colon in front": (400, head(b":authority: c")),
    "delete in a value": (400, head(b"X-A: \x7f")),
    # The request line.
    "a tab for a space": (400, head(line=b"GET\t/ HTTP/1.1")),
    "a space in front": (400, head(line=b" GET / HTTP/1.1")),
    "a space behind": (400, head(line=b"GET / HTTP/1.1 ")),
    "a word too many": (400, head(line=b"GET / HTTP/1.1 HTTP/1.1")),
    "a request in the target": (400, head(line=b"GET / HTTP/1.1\rHost: d\r\n HTTP/1.1")),
    "a null byte in the target": (400, head(line=b"GET /\x00 HTTP/1.1")),
    "another protocol": (400, head(line=b"GET / HTTPS/1.1")),
    "a version in small letters": (400, head(line=b"GET / http/1.1")),
    "a version of three parts": (400, head(line=b"GET / HTTP/1.1.1")),
    "a version of two digits": (400, head(line=b"GET / HTTP/1.10")),
    "HTTP/0.9 and a body": (400, b"POST /v1/chat/completions\r\n\r\n" + CHAT),
    # No open proxy.
    "an absolute target": (400, head(line=b"GET http://169.254.169.254/latest/meta-data HTTP/1.1")),
    "an absolute target of TLS": (400, head(line=b"GET HTTPS://evil.example/ HTTP/1.1")),
    "an authority": (400, head(line=b"GET evil.example:80 HTTP/1.1")),
    "a user and a host": (400, head(line=b"GET @evil.example/ HTTP/1.1")),
    "a scheme alone": (400, head(line=b"GET file:///etc/passwd HTTP/1.1")),
    "CONNECT to a path": (405, head(line=b"CONNECT / HTTP/1.1")),
    "CONNECT to ourselves": (405, head(line=b"CONNECT localhost:4001 HTTP/1.1")),
}  # fmt: skip
"""Name: status, bytes."""


@pytest.mark.parametrize(("status", "data"), REFUSED.values(), ids=REFUSED)
async def test_what_could_be_read_in_two_ways_is_refused(status: int, data: bytes) -> None:
    """One answer of ours and the end of the connection; the upstream gets no whole request."""
    answers, sent = await seen_by_upstream(data)
    line, fields, _ = split_answer(answers)
    assert line.startswith(b"HTTP/1.1 %d " % status), answers
    assert (b"Connection", b"close") in fields
    assert answers.count(b"HTTP/1.1 %d " % status) == 1
    assert b'"type": "invalid_request_error"' in answers
    assert sent == []


NEUTRALISED = {
    "the length with white space": (head(b"Content-Length: \t 59 \t") + CHAT, CHAT),
    "the length with zeros": (head(b"Content-Length: 0059") + CHAT, CHAT),
    "a request in the body": (head(b"Content-Length: %d" % len(SMUGGLED)) + SMUGGLED, SMUGGLED),
    "a request in a chunk": (head(CHUNKED) + chunk(SMUGGLED) + b"0\r\n\r\n", SMUGGLED),
    "a chunk extension": (head(CHUNKED) + chunk(CHAT, b'3B;a="b";c') + b"0\r\n\r\n", CHAT),
    "zeros before a chunk size": (head(CHUNKED) + chunk(CHAT, b"0000003b") + b"0\r\n\r\n", CHAT),
    "zeros for the last chunk": (head(CHUNKED) + chunk(CHAT) + b"0000\r\n\r\n", CHAT),
    "chunks in capitals": (head(b"Transfer-Encoding: CHUNKED") + chunk(CHAT) + b"0\r\n\r\n", CHAT),
    "trailers that route": (
        head(CHUNKED) + chunk(CHAT) + b"0\r\nX-Forwarded-Host: evil\r\n"
        b"Authorization: Bearer other\r\nContent-Type: text/evil\r\n\r\n",
        CHAT,
    ),
    "fields that almost frame": (
        head(b"Content_Length: 5", b"Transfer_Encoding: chunked", b"X-Content-Length: 7",
             b"Content-Length: 59") + CHAT,
        CHAT,
    ),
    "framing named as an option": (
        head(b"Connection: content-length, host, transfer-encoding", b"Content-Length: 59") + CHAT,
        CHAT,
    ),
    "an upgrade to HTTP/2": (
        head(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk",
             b"Content-Length: 59") + CHAT,
        CHAT,
    ),
    "trailers asked for": (head(b"TE: trailers, chunked", b"Content-Length: 59") + CHAT, CHAT),
    "two spaces in the request line": (
        head(b"Content-Length: 59", line=LINE.replace(b" ", b"  ", 1)) + CHAT, CHAT),
    "a blank line before it": (b"\r\n" + head(b"Content-Length: 59") + CHAT, CHAT),
    "bytes after it": (head(b"Content-Length: 59") + CHAT + b"}}garbage", CHAT),
    "a GET with a body": (
        head(b"Content-Length: %d" % len(SMUGGLED), line=b"GET /v1/models HTTP/1.1") + SMUGGLED,
        SMUGGLED,
    ),
    "bytes that are no ASCII in a field": (
        head(b"X-A: \xff\xe9", b"Content-Length: 59") + CHAT, CHAT),
    "a line end in the path, escaped": (
        head(line=b"GET /v1/models%0d%0aHost:%20evil%0d%0a%0d%0a HTTP/1.1"), b""),
    "a line end in the query, escaped": (
        head(line=b"GET /v1/models?a=%0D%0AX-A:%201 HTTP/1.1"), b""),
    "a trace of odd words": (
        head(b"traceparent: 00-\xe9-zz-01\t%0d%0aX-A: 1", b"tracestate: a=\xff,b=c%0d%0a",
             b"Content-Length: 59") + CHAT,
        CHAT,
    ),
    "an odd tracestate of a real parent": (
        head(b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
             b"tracestate: a=\xff\xfe,b=\tc,=,," + b"d=1," * 40, b"Content-Length: 59") + CHAT,
        CHAT,
    ),
    "HTTP/1.0 without a host": (b"GET /v1/models HTTP/1.0\r\n\r\n", b""),
}  # fmt: skip
"""Name: bytes, the body that the upstream gets."""


@pytest.mark.parametrize(("data", "body"), NEUTRALISED.values(), ids=NEUTRALISED)
async def test_what_is_odd_but_plain_reaches_the_upstream_as_one_request(
    data: bytes, body: bytes
) -> None:
    """Framed once, with nothing in its head that came from another place than the head."""
    answers, sent = await seen_by_upstream(data)
    assert answers.startswith(b"HTTP/1.1 200 OK\r\n"), answers
    [request] = sent
    assert_well_formed(request, body=body)
    dropped = {b"http2-settings", b"upgrade", b"te", b"trailer", b"connection"}
    assert not dropped & {name.lower() for name, _ in request.fields}
    assert b"evil" not in request.head.partition(b"\r\n")[2]
    assert b"Bearer other" not in request.head


@pytest.mark.parametrize("body", [b"", CHAT], ids=["no body", "a body"])
async def test_a_host_in_a_trailer_goes_nowhere(body: bytes) -> None:
    """Refused as a second one or dropped as a trailer: the parser decides."""
    data = head(CHUNKED) + (chunk(body) if body else b"") + b"0\r\nHost: evil\r\n\r\n"
    answers, sent = await seen_by_upstream(data)
    assert answers.startswith((b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 400 Bad Request\r\n"))
    for request in sent:
        assert_well_formed(request, body=body)
        assert b"evil" not in request.head


async def test_pipelined_requests_are_so_many_requests() -> None:
    """Each framed by itself, whatever stands in their bodies; in order, none joined or lost."""
    first = head(CHUNKED).replace(b"Connection: close\r\n", b"") + chunk(SMUGGLED) + b"0\r\n\r\n"
    second = request_bytes(SMUGGLED, close=False)
    third = request_bytes(CHAT, target=b"/v1/models")
    answers, sent = await seen_by_upstream(first + second + third)
    assert answers.count(b"HTTP/1.1 200 OK") == 3
    assert [request.body for request in sent] == [SMUGGLED, SMUGGLED, CHAT]
    for request in sent:
        assert_well_formed(request)


@pytest.mark.parametrize("length", [len(CHAT) - 5, len(CHAT) + 5], ids=["too short", "too long"])
async def test_a_length_that_is_wrong_costs_nobody_elses_request(length: int) -> None:
    """What is left over is refused as a request of its own; what lacks is waited for."""
    is_short = length < len(CHAT)
    data = head(b"Content-Length: %d" % length).replace(b"Connection: close\r\n", b"") + CHAT
    async with relaying() as (upstream, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(data)
        if not is_short:
            await asyncio.sleep(0.05)
            writer.write_eof()
        answers = await read_to_end(reader)
        writer.transport.abort()
        # The other client's, over what may be the same connection to the upstream.
        assert (await ask(running.address, request_bytes())).status == 200
        bodies = [request.body for request in upstream.requests]
    assert bodies == ([CHAT[:length], CHAT] if is_short else [CHAT])
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == ([b"200", b"400"] if is_short else [])


async def test_a_chunk_that_never_ends_is_no_request() -> None:
    """2^64 - 1 bytes are announced, a request is among those that come, and the client leaves."""
    data = head(CHUNKED) + b"ffffffffffffffff\r\n" + SMUGGLED
    async with relaying() as (upstream, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(data)
        await asyncio.sleep(0.05)
        writer.write_eof()
        assert await read_to_end(reader) == b""
        writer.transport.abort()
    assert upstream.requests == []


# No open proxy


@pytest.mark.parametrize(
    "host", [b"evil.example", b"169.254.169.254:80", b"localhost:4001", b"", b"c:99999", b"[::1]"]
)
async def test_the_host_that_a_client_names_chooses_nothing(host: bytes) -> None:
    """The upstream is the configured one, under its own name."""
    data = b"GET /v1/models HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n" % host
    async with relaying() as (upstream, running):
        assert (await ask(running.address, data)).status == 200
    assert upstream.last.field(b"host") == upstream.url.removeprefix("http://").encode()


@pytest.mark.parametrize(
    "target",
    [
        b"//evil.example/v1/chat/completions",
        b"///evil.example",
        b"/@evil.example/",
        b"/\\evil.example/",
        b"/../../etc/passwd",
        b"/%2e%2e/%2f%2fevil.example",
        b"/http://evil.example/",
        b"/?@evil.example",
        b"/;@evil.example:80/",
    ],
)
@pytest.mark.parametrize("prefix", [b"", b"/a"])
async def test_no_path_leads_to_another_host(target: bytes, prefix: bytes) -> None:
    """It stays a path, as it came, at the configured upstream (R1)."""
    async with ScriptedUpstream(Connection.answer) as upstream:
        table = UpstreamConfig(name="a", prefix="/a", url=upstream.url + "/base")
        async with running_proxy(upstream.url, upstreams=(table,)) as running:
            request = request_bytes(b"", method=b"GET", target=prefix + target)
            assert (await ask(running.address, request)).status == 200
        base = b"/base" if prefix else b""
        assert upstream.last.request_line == b"GET %b%b HTTP/1.1" % (base, target)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("target", [b"/v1/chat/completions", b"/v1/files"])
async def test_a_redirect_is_the_clients_to_follow(status: int, target: bytes) -> None:
    """Relayed as it is, its cookie not kept; where it leads to hears nothing, and gets no key."""
    async with ScriptedUpstream(Connection.answer) as elsewhere:
        location = f"{elsewhere.url}/else".encode()

        async def redirect(connection: Connection) -> None:
            field = b"Location: %b\r\nSet-Cookie: a=b\r\n" % location
            await connection.answer(b"moved", status=b"%d Moved" % status, head=field)

        async with relaying(redirect) as (upstream, running):
            head_of_key = b"Authorization: Bearer sk-own\r\n"
            request = request_bytes(head=head_of_key, target=target)
            await ask(running.address, request)
            answer = await ask(running.address, request)
            assert len(upstream.requests) == 2
            assert upstream.last.field(b"cookie") is None
        assert elsewhere.connections == 0
    assert (answer.status, answer.body) == (status, b"moved")
    assert answer.field(b"location") == location
