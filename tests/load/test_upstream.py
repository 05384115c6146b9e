"""The load upstream against requests of ours, and the tool's two sides together."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json_object
from tests.load.tool import LOAD_TOOL_OBSTACLE, ClientLoad, LoadUpstream, run_client

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(LOAD_TOOL_OBSTACLE is not None, reason=LOAD_TOOL_OBSTACLE or "")

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"


def read_answer(sock: socket.socket) -> tuple[bytes, bytes]:
    """Head and body of one answer, which is framed as the upstream frames."""
    data = bytearray()
    while b"\r\n\r\n" not in data:
        data += receive(sock)
    answer_head, _, body = data.partition(b"\r\n\r\n")
    if length := re.search(rb"Content-Length: (\d+)", answer_head):
        while len(body) < int(length[1]):
            body += receive(sock)
        return bytes(answer_head), bytes(body)
    while not body.endswith(b"0\r\n\r\n"):
        body += receive(sock)
    return bytes(answer_head), b"".join(re.split(rb"\r\n[0-9a-f]+\r\n", b"\r\n" + body))


def receive(sock: socket.socket) -> bytes:
    data = sock.recv(65536)
    assert data, "the upstream closed"
    return data


def ask(sock: socket.socket, body: bytes, *fields: bytes, pieces: int = 1000) -> list[Any]:
    """Send a request in pieces; the events of its answer, or the answer."""
    framing = fields or (b"Content-Length: %d" % len(body),)
    data = HEAD + b"\r\n".join([*framing, b"", b""]) + body
    for at in range(0, len(data), pieces):
        sock.sendall(data[at : at + pieces])
    answer_head, answer = read_answer(sock)
    if b"application/json" in answer_head:
        return [decode_json_object(answer)]
    events = [event.removeprefix("data: ") for event in answer.decode().split("\n\n")]
    assert events[-2].strip() == "[DONE]"
    return [decode_json_object(event) for event in events[:-2]]


@pytest.fixture
def upstream() -> Iterator[LoadUpstream]:
    with LoadUpstream(chunks=3) as running:
        yield running


@pytest.fixture
def sock(upstream: LoadUpstream) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", upstream.port), timeout=20) as connected:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield connected


def test_usage_comes_where_it_was_asked_for(sock: socket.socket) -> None:
    """A role, three chunks with stamps, a finish reason, usage; as OpenAI sends them."""
    plain = ask(sock, b'{"stream": true}')
    asked = ask(sock, b'{"stream":true,"stream_options":{"include_usage": true}}')
    assert [event["choices"][0]["finish_reason"] for event in plain] == [None] * 4 + ["stop"]
    assert not any("usage" in event for event in plain)
    assert plain[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    contents = [event["choices"][0]["delta"]["content"] for event in plain[1:4]]
    assert len(set(contents)) == 3
    assert all(re.fullmatch(r"@\d{19}x{12}", content) for content in contents)
    assert [event["usage"] for event in asked[:-1]] == [None] * 5
    assert asked[-1]["choices"] == []
    assert asked[-1]["usage"] == {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}


def test_a_request_may_come_byte_by_byte_and_in_chunks(sock: socket.socket) -> None:
    """What is looked for is found across reads and chunks; a false one is not taken for it."""
    body = b'{"user":"\\"stream\\":true", "stream" : true}'
    framed = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:33], body[33:], b""))
    assert len(ask(sock, body, pieces=1)) == 5
    assert len(ask(sock, framed, b"Transfer-Encoding: chunked", pieces=3)) == 5
    (answer,) = ask(sock, b'{"user":"\\"stream\\":true","stream":false}')
    assert answer["object"] == "chat.completion"
    assert answer["usage"]["total_tokens"] == 16


def test_a_slow_reader_gets_a_large_stream_whole_and_hinders_nobody() -> None:
    """What the socket does not take is kept, and goes on when there is room (rule 4)."""
    with LoadUpstream(chunks=40, chunk_bytes=250_000) as upstream, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.settimeout(20)
        slow.connect(("127.0.0.1", upstream.port))
        slow.sendall(HEAD + b'Content-Length: 15\r\n\r\n{"stream":true}')
        beside = run_client(ClientLoad(port=upstream.port, mode="stream", requests=2))
        _, body = read_answer(slow)
    assert (beside.answered, beside.chunk_delay.count) == (2, 80)
    assert body.count(b"x" * 200_000) == 40
    assert body.count(b'"content":"@') == 40
    assert upstream.counts.aborted == 0


def test_a_stream_whose_reader_leaves_is_counted_as_aborted() -> None:
    """And one that the end of the upstream cuts is not."""
    with LoadUpstream(chunks=100, rate=10) as upstream:
        address = ("127.0.0.1", upstream.port)
        request = HEAD + b'Content-Length: 15\r\n\r\n{"stream":true}'
        with (
            socket.create_connection(address) as leaves,
            socket.create_connection(address) as stays,
        ):
            leaves.sendall(request)
            stays.sendall(request)
            receive(leaves)
            receive(stays)
            leaves.close()
            run_client(ClientLoad(port=upstream.port, mode="json", requests=20))
            counts = upstream.stop()
    assert (counts.streams, counts.aborted) == (2, 1)


# --- both sides together


def test_every_json_request_is_answered_and_counted() -> None:
    """Kept connections, one stamp and one latency for each answer."""
    with LoadUpstream(json_bytes=5000) as upstream:
        result = run_client(
            ClientLoad(port=upstream.port, mode="json", connections=7, requests=100)
        )
        counts = upstream.stop()
    assert (result.requests, result.statuses) == (100, {200: 100})
    assert result.chunk_delay.count == result.ttfb.count == result.latency.count == 100
    assert result.body_bytes > 100 * 5000
    assert (counts.connections, counts.requests, counts.streams) == (7, 100, 0)
    assert (counts.aborted, counts.broken) == (0, 0)


@pytest.mark.parametrize("rate", [0, 2000])
def test_every_stream_is_answered_and_each_of_its_chunks_timed(rate: float) -> None:
    """Written in large pieces or chunk by chunk."""
    with LoadUpstream(chunks=150, rate=rate, chunk_bytes=1000) as upstream:
        result = run_client(
            ClientLoad(port=upstream.port, mode="stream", connections=5, requests=20)
        )
    assert (result.answered, result.cut, result.unanswered) == (20, 0, 0)
    assert result.chunk_delay.count == upstream.counts.chunks == 20 * 150
    assert upstream.counts.streams == result.latency.count == 20
    delay = result.chunk_delay
    assert 0 < delay.p50_ns <= delay.p90_ns <= delay.p99_ns <= delay.max_ns
    assert result.ttfb.max_ns <= result.latency.max_ns


def test_a_load_ends_after_its_time_and_keeps_its_rate() -> None:
    """At 100 a second, no more than 40 requests are due within 0.4 s."""
    with LoadUpstream() as upstream:
        result = run_client(
            ClientLoad(port=upstream.port, mode="json", connections=3, seconds=0.4, rate=100)
        )
    assert 1 <= result.requests <= 40
    assert result.answered == result.requests
