"""``proxy.admin``: alive, ready, metrics, on threads."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from typing import TYPE_CHECKING

import pytest

from proxy import admin
from proxy.admin import AdminServer
from proxy.downstream.listening import listen
from telemetry.metrics.registry import MetricsRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def serving(*, ready: bool = True) -> Iterator[int]:
    """An admin server; gives its port."""
    listener = listen("admin", "127.0.0.1", 0)
    server = AdminServer(
        listener, is_ready=lambda: ready, metrics=MetricsRegistry(now_ns=lambda: 1).snapshot
    )
    port: int = listener.getsockname()[1]
    server.start()
    try:
        yield port
    finally:
        server.close()


def ask(port: int, path: str, method: str = "GET") -> tuple[int, str, str | None]:
    """Status, body and content type of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body, answer.getheader("Content-Type")


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/healthz", 200, "ok\n"),
        ("/healthz?verbose=1", 200, "ok\n"),
        ("/readyz", 200, "ready\n"),
        ("/metrics", 200, "# TYPE spantap_requests_total counter\n"),
        ("/nothing", 404, "there are /healthz, /readyz and /metrics\n"),
    ],
)
def test_the_three_pages(path: str, status: int, words: str) -> None:
    """And a word for every other path; HEAD has no body."""
    with serving() as port:
        seen, body, _ = ask(port, path)
        assert (seen, words in body) == (status, True)
        assert ask(port, path, "HEAD")[:2] == (status, "")


def test_readiness_says_no_and_health_yes_while_draining() -> None:
    """A balancer turns away, and nobody restarts what is about to end well."""
    with serving(ready=False) as port:
        assert ask(port, "/readyz")[:2] == (503, "draining\n")
        assert ask(port, "/healthz")[0] == 200


def test_metrics_have_the_type_that_prometheus_wants() -> None:
    """The text format, with its version."""
    with serving() as port:
        assert ask(port, "/metrics")[2] == "text/plain; version=0.0.4; charset=utf-8"


def test_who_answers_tells_no_versions() -> None:
    """The library's banner would name Python's."""
    with serving() as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/healthz")
        assert connection.getresponse().getheader("Server") == "spantap"
        connection.close()


@pytest.mark.parametrize("count", [admin.MAX_REQUESTS, 2 * admin.MAX_REQUESTS])
def test_health_is_told_while_slow_clients_hold_the_port(count: int) -> None:
    """As many as are served at a time, or more: the oldest has to go. The end waits for none."""
    with contextlib.ExitStack() as stack:
        begun = time.monotonic()
        with serving() as port:
            for _ in range(count):
                client = socket.create_connection(("127.0.0.1", port))
                stack.callback(client.close)
                client.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
            assert ask(port, "/healthz")[0] == 200
        assert time.monotonic() - begun < admin.REQUEST_SECONDS + 10


def test_a_request_has_a_time_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then does not prolong it."""
    monkeypatch.setattr(admin, "REQUEST_SECONDS", 0.3)
    with serving() as port, socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(20)
        client.sendall(b"GET /healthz HTTP/1.1\r\n")
        with contextlib.suppress(OSError):
            while True:
                client.sendall(b"X")
                time.sleep(0.05)
        with contextlib.suppress(ConnectionError):
            assert client.recv(10) == b""
