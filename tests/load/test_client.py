"""The load client counts and times every answer, whatever it is: our servers answer by a script."""

from __future__ import annotations

import contextlib
import os
import socket
import socketserver
import struct
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json_object
from tests.e2e.processes import find_free_port
from tests.load.tool import LOAD_TOOL_OBSTACLE, ClientLoad, ClientResult, run_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(LOAD_TOOL_OBSTACLE is not None, reason=LOAD_TOOL_OBSTACLE or "")

JSON_BODY = b'{"choices":[]}'
STAMP = b"0000000000000000001"  # 1 ns after the machine's start
CHUNK = b'data: {"choices":[{"delta":{"content":"@%b"}}]}\n\n' % STAMP
NO_STAMPS = b"data: a@1.example @@\n\n"
STREAM = CHUNK * 3 + b"data: [DONE]\n\n"


def frame(body: bytes, size: int = 1000) -> bytes:
    """A body as HTTP chunks of `size` bytes."""
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""])


def head(*fields: bytes, status: int = 200) -> bytes:
    return b"\r\n".join([b"HTTP/1.1 %d Words" % status, *fields, b"", b""])


SSE = head(b"Transfer-Encoding: chunked")


class ScriptedUpstream(socketserver.ThreadingTCPServer):
    """Answers each request by a script, and keeps the bodies it got."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, script: Callable[[socket.socket], None]) -> None:
        super().__init__(("127.0.0.1", 0), ScriptedConnection)
        self.script = script
        self.bodies: list[dict[str, Any]] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class ScriptedConnection(socketserver.BaseRequestHandler):
    server: ScriptedUpstream

    def handle(self) -> None:
        with contextlib.suppress(OSError), self.request.makefile("rb") as stream:
            while stream.readline():  # of the head; empty at the end of the connection
                fields = iter(lambda: stream.readline().strip(), b"")
                length = [field for field in fields if field.startswith(b"Content-Length:")]
                body = stream.read(int(length[0].split(b":")[1]))
                self.server.bodies.append(decode_json_object(body))
                self.server.script(self.request)


@contextlib.contextmanager
def scripted(script: Callable[[socket.socket], None]) -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream(script) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def send_and_close(answer: bytes) -> Callable[[socket.socket], None]:
    def script(sock: socket.socket) -> None:
        sock.sendall(answer)
        sock.shutdown(socket.SHUT_RDWR)

    return script


def send_and_reset(answer: bytes) -> Callable[[socket.socket], None]:
    def script(sock: socket.socket) -> None:
        sock.sendall(answer)
        time.sleep(0.3)  # a reset may overtake bytes that were not read
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(sock.detach())  # at once, though others hold the object

    return script


def run_against(script: Callable[[socket.socket], None], requests: int = 1) -> ClientResult:
    with scripted(script) as upstream:
        return run_client(ClientLoad(port=upstream.port, mode="stream", requests=requests))


def test_each_request_says_who_it_is() -> None:
    """Users are numbered through over all connections, and the model is as asked for."""
    answer = head(b"Content-Length: %d" % len(JSON_BODY)) + JSON_BODY
    with scripted(lambda sock: sock.sendall(answer)) as upstream:
        run_client(
            ClientLoad(port=upstream.port, mode="json", connections=3, requests=30, model="m.1-a_b")
        )
    assert {body["user"] for body in upstream.bodies} == {f"m.1-a_b-{n}" for n in range(30)}
    assert {body["model"] for body in upstream.bodies} == {"m.1-a_b"}
    assert len(upstream.bodies) == 30


CUT: dict[str, Callable[[socket.socket], None]] = {
    "within a chunk": send_and_close(SSE + frame(STREAM)[:100]),
    "between two chunks": send_and_close(SSE + frame(CHUNK).removesuffix(b"0\r\n\r\n")),
    "after [DONE], framing open": send_and_close(SSE + frame(STREAM).removesuffix(b"0\r\n\r\n")),
    "a clean end without [DONE]": lambda sock: sock.sendall(SSE + frame(CHUNK)),
    "an end by closing without [DONE]": send_and_close(head() + CHUNK),
    "after the head": send_and_close(SSE),
    "an HTTP chunk of no size": send_and_close(SSE + b"zz\r\n"),
    "an HTTP chunk longer than its size": send_and_close(SSE + b"1\r\nabc\r\n"),
    "an HTTP chunk of an absurd size": send_and_close(SSE + b"f" * 17 + b"\r\n"),
    "a reset": send_and_reset(SSE + frame(STREAM)[:100]),
    "a length that is not reached": send_and_close(head(b"Content-Length: 999") + STREAM),
}


@pytest.mark.parametrize("how", CUT)
def test_a_cut_stream_is_counted_as_cut(how: str) -> None:
    """Its head came, and its end did not (rule 1 of client.c)."""
    result = run_against(CUT[how], requests=2)
    assert (result.answered, result.cut, result.unanswered) == (0, 2, 0)
    assert result.cut_numbers == (0, 1)
    assert result.latency.count == 0


UNANSWERED: dict[str, Callable[[socket.socket], None]] = {
    "closed": send_and_close(b""),
    "reset": send_and_reset(b""),
    "half a head": send_and_close(b"HTTP/1.1 200 OK\r\nContent-"),
    "no HTTP": send_and_close(b"SSH-2.0-OpenSSH\r\n"),
    "a status that is none": send_and_close(b"HTTP/1.1 999 Words\r\n\r\n"),
    "a field without colon": send_and_close(head(b"Nonsense")),
    "two framings": send_and_close(head(b"Content-Length: 1", b"Transfer-Encoding: chunked")),
    "two lengths": send_and_close(head(b"Content-Length: 1", b"Content-Length: 1")),
    "a signed length": send_and_close(head(b"Content-Length: -1")),
    "another coding": send_and_close(head(b"Transfer-Encoding: gzip")),
}


@pytest.mark.parametrize("how", UNANSWERED)
def test_a_request_without_head_of_an_answer_is_unanswered(how: str) -> None:
    """The connection rests before its next request, which comes on a new one."""
    result = run_against(UNANSWERED[how], requests=2)
    assert (result.answered, result.cut, result.unanswered) == (0, 0, 2)
    assert result.unanswered_numbers == (0, 1)
    assert result.refused == 0


def test_a_refused_connection_is_counted_and_rests() -> None:
    """No busy loop: at most one request in 0.1 s on each connection."""
    result = run_client(ClientLoad(port=find_free_port(), mode="json", seconds=0.35))
    assert 1 <= result.refused == result.unanswered == result.requests <= 4


def test_answers_of_other_statuses_are_counted_and_not_timed() -> None:
    """The next request goes out on the same connection, or on a new one where that was closed."""
    answers = [
        head(b"Content-Length: 2", status=429) + b"{}",
        head(b"Content-Length: 2", b"Connection: close", status=502) + b"{}",
        head(status=204),
        b"HTTP/1.1 103 Early\r\nLink: a\r\n\r\n" + SSE + frame(STREAM),
    ]
    result = run_against(lambda sock: sock.sendall(answers.pop(0)), requests=4)
    assert result.statuses == {200: 1, 204: 1, 429: 1, 502: 1}
    assert (result.cut, result.unanswered) == (0, 0)
    assert result.latency.count == result.ttfb.count == 1


@pytest.mark.parametrize("size", [1, 2, 7, 53])
def test_stamps_and_the_end_are_found_however_the_answer_is_cut(size: int) -> None:
    """HTTP chunks of any size (a proxy may frame anew), in reads of any size."""

    def script(sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        data = SSE + frame(NO_STAMPS + STREAM, size)
        for at in range(0, len(data), 3):
            sock.sendall(data[at : at + 3])

    before_ns = time.monotonic_ns()
    result = run_against(script)
    assert (result.answered, result.chunk_delay.count) == (1, 3)
    assert before_ns <= result.chunk_delay.max_ns <= time.monotonic_ns()
    assert result.body_bytes == len(NO_STAMPS + STREAM)


def test_percentiles_are_at_most_a_128th_too_high() -> None:
    """Delays known to the nanosecond, up to the time of the read."""
    ages_ns = [10**6 * n for n in range(1, 101)]

    def script(sock: socket.socket) -> None:
        now_ns = time.monotonic_ns()
        body = b"".join(CHUNK.replace(STAMP, b"%019d" % (now_ns - age * 10**3)) for age in ages_ns)
        sock.sendall(SSE + frame(body + STREAM.removeprefix(CHUNK * 3)))

    delay = run_against(script).chunk_delay
    for percentile_ns, age_ns in (
        (delay.p50_ns, ages_ns[49] * 10**3),
        (delay.p90_ns, ages_ns[89] * 10**3),
        (delay.p99_ns, ages_ns[98] * 10**3),
    ):
        assert age_ns <= percentile_ns < (age_ns + 10**9) * 129 / 128
