"""Rows of connections to an upstream: TLS that fails, and an upstream that takes no request.

Each call goes through the real ``spantap serve``. The client gets an error that names the cause;
each call has one span that says how it ended; others are served meanwhile.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import socket
import socketserver
import ssl
import struct
import threading
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from codec.text.jsontext import encode_json
from proxy.tasks import spawn
from tests.faults.raw import added_latency, ask_all, make_call, seen_alike, wait_for_spans
from tests.faults.row import report_calls
from tests.faults.scripted import Stage, running_stage
from tests.faults.stage import is_long, scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Script = Callable[[socket.socket, threading.Event], None]

pytestmark = pytest.mark.timeout(600 if is_long() else 120)

TIMEOUT_SECONDS = 1.0
"""For a connection, and for an upstream that reads nothing."""

BODY_BYTES = 16 << 20
"""More than the kernel's buffers of two connections hold."""

TLS_ERROR = (502, "upstream_tls_error", "connect_error")
UNREACHABLE = (502, "upstream_unreachable", "connect_error")

TLS_FAULTS = {
    "untrusted": ("has a certificate that nobody trusts", *TLS_ERROR),
    "wrong_name": ("has another host's certificate", *TLS_ERROR),
    "expired": ("has a certificate that has expired", *TLS_ERROR),
    "no_tls": ("speaks no TLS", *TLS_ERROR),
    "closes": ("closes within the handshake", *UNREACHABLE),
    "resets": ("resets within the handshake", *UNREACHABLE),
    "hangs": ("hangs within the handshake", 504, "upstream_connect_timeout", "timeout"),
}
"""Script: what it does, status and code of the error, outcome of the span."""


def _answer(sock: socket.socket, _: threading.Event) -> None:
    """Answer as if all were well: no client may come so far."""
    sock.recv(1)
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


def _close(sock: socket.socket, _: threading.Event) -> None:
    sock.recv(1)


def _reset(sock: socket.socket, _: threading.Event) -> None:
    sock.recv(1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _hang(sock: socket.socket, _: threading.Event) -> None:
    while sock.recv(1 << 16):
        pass


def _never_read(_: socket.socket, over: threading.Event) -> None:
    """Read nothing for longer than the row takes: the peer's end would wait behind its data."""
    over.wait(5 * TIMEOUT_SECONDS)


class _Server(socketserver.ThreadingTCPServer):
    """A server on loopback, each of whose connections has a thread."""

    request_queue_size = 128

    def __init__(self, script: Script, context: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self.over = threading.Event()
        self._script = script
        self._context = context

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer one connection; the client may end it at any point."""
        with contextlib.suppress(OSError):
            if self._context is None:
                self._script(request, self.over)
                return
            with self._context.wrap_socket(request, server_side=True) as secured:
                self._script(secured, self.over)


def _with_certificate(cert: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    cert.configure_cert(context)
    return context


@contextlib.contextmanager
def _serving(script: Script, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server on a thread; its port."""
    with _Server(script, context) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.over.set()
            server.shutdown()
            thread.join(10)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One for all rows: what a row does must not hurt the next."""
    folder: Path = tmp_path_factory.mktemp("connections")
    trusted, stranger = trustme.CA(), trustme.CA()
    trusted.cert_pem.write_to_path(str(folder / "ca.pem"))
    past = dt.datetime.now(dt.UTC) - dt.timedelta(days=2)
    right = _with_certificate(trusted.issue_cert("127.0.0.1"))
    servers: dict[str, tuple[Script, ssl.SSLContext | None]] = {
        "untrusted": (_answer, _with_certificate(stranger.issue_cert("127.0.0.1"))),
        "wrong_name": (_answer, _with_certificate(trusted.issue_cert("other.example"))),
        "expired": (
            _answer,
            _with_certificate(trusted.issue_cert("127.0.0.1", not_after=past)),
        ),
        "no_tls": (_answer, None),
        "closes": (_close, None),
        "resets": (_reset, None),
        "hangs": (_hang, None),
        "trusted": (_answer, right),
        "never_reads": (_never_read, None),
    }
    with contextlib.ExitStack() as stack:
        ports = {name: stack.enter_context(_serving(*row)) for name, row in servers.items()}
        upstreams = [
            {
                "name": name.replace("_", "-"),
                "prefix": f"/{name}",
                "url": f"{'http' if name == 'never_reads' else 'https'}://127.0.0.1:{port}",
            }
            for name, port in ports.items()
        ]
        environment = {
            "SPANTAP_CA_FILE": str(folder / "ca.pem"),
            "SPANTAP_CONNECT_TIMEOUT_SECONDS": str(TIMEOUT_SECONDS),
            "SPANTAP_UPSTREAM_STALL_TIMEOUT_SECONDS": str(TIMEOUT_SECONDS),
            "SPANTAP_UPSTREAMS": encode_json(upstreams),
        }
        spantap = tmp_path_factory.mktemp("spantap")
        with running_stage(spantap, {}, environment) as running:
            yield running


@pytest.mark.parametrize("script", TLS_FAULTS)
async def test_tls_that_fails_is_an_error_that_names_the_cause(stage: Stage, script: str) -> None:
    """OpenAI-shaped 502 or 504, at once or at the timeout; one ERROR span each."""
    name, status, code, outcome = TLS_FAULTS[script]
    calls = [make_call(script) for _ in range(scaled(100, least=4))]
    seen = await ask_all(stage.spantap.port, calls, at_once=25)
    messages = set()
    for answer in seen:
        error = json.loads(answer.body)["error"]  # noqa: TID251 - as a client would
        assert (answer.code, error["code"], answer.whole) == (status, code, True)
        assert "https://127.0.0.1:" in error["message"]
        messages.add(error["message"].partition(": ")[2])
    spans = wait_for_spans(stage.spantap.store, calls)
    assert {(span.outcome, span.status) for span in spans.values()} == {(outcome, "ERROR")}
    slowest = max(answer.seconds for answer in seen)
    report_calls(
        f"upstream's TLS {name}",
        calls,
        spans,
        client_saw=f"{status} {code}, OpenAI-shaped, naming upstream and cause",
        added_latency=f"slowest answer {slowest:.2f} s",
        figures={"spans": f"ERROR {outcome}", "said": min(messages)},
    )
    await stage.assert_healthy()


async def test_a_certificate_that_is_trusted_is_taken(stage: Stage) -> None:
    """The same upstream with the right certificate answers: the rows fail for their faults."""
    [seen] = await ask_all(stage.spantap.port, [make_call("trusted")])
    assert (seen.code, seen.body) == (200, b"{}")


async def test_an_upstream_that_never_reads_is_given_up(stage: Stage) -> None:
    """A 504 at the stall timeout, each request held once, and others are served meanwhile."""
    text = b"x" * BODY_BYTES
    body = b'{"model":"m","input":"%b"}' % text
    calls = [
        make_call("never_reads", body, target="/v1/responses") for _ in range(scaled(4, least=2))
    ]
    others = [make_call("healthy") for _ in range(scaled(400, least=20))]
    alone = await ask_all(stage.upstream.port, others, at_once=2)
    idle_bytes = sum(stage.spantap.rss_bytes()[pid] for pid in stage.spantap.children()["worker"])
    stuck = spawn(ask_all(stage.spantap.port, calls, at_once=len(calls)), name="stuck")
    beside = await ask_all(stage.spantap.port, others, at_once=2)
    held_bytes = sum(stage.spantap.rss_bytes()[pid] for pid in stage.spantap.children()["worker"])
    seen = await stuck
    assert seen_alike(alone, beside) == len(others)
    for answer in seen:
        error = json.loads(answer.body)["error"]  # noqa: TID251 - as a client would
        assert (answer.code, error["code"]) == (504, "upstream_timeout")
    spans = wait_for_spans(stage.spantap.store, [*calls, *others], 120)
    assert {spans[call.trace_id].outcome for call in calls} == {"timeout"}
    assert {spans[call.trace_id].outcome for call in others} == {"completed"}
    report_calls(
        f"upstream never reads a request of {BODY_BYTES >> 20} MiB",
        [*calls, *others],
        spans,
        client_saw=f"504 upstream_timeout; {len(others)} others the same as directly",
        added_latency=f"of the others: {added_latency(alone, beside)}; slowest 504 "
        f"{max(answer.seconds for answer in seen):.2f} s, the timeout being {TIMEOUT_SECONDS} s",
        figures={"memory for each": f"{(held_bytes - idle_bytes) / len(calls) / 1024:.0f} KiB"},
    )
    # A request is held until its upstream has it (``SPANTAP_MAX_BODIES_BYTES``), and once.
    assert held_bytes - idle_bytes < len(calls) * BODY_BYTES * 1.5
    await stage.assert_healthy()
