"""What ``spantap check`` says of the two ports."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from proxy.commands.check.findings import Verdict
from proxy.commands.check.ports import check_ports
from proxy.downstream.listening import bind, listen
from proxy.settings.settings import Settings
from tests.e2e.processes import find_free_port
from tests.proxy.plain_server import answering

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.commands.check.findings import Finding

SPANTAP = {"/healthz": b"ok\n", "/readyz": b"ready\n"}


@contextlib.contextmanager
def admin_port(pages: dict[str, bytes]) -> Iterator[int]:
    """A port where somebody answers with these pages, and with 503 for others."""
    with answering(503, pages=pages) as url:
        yield int(url.rpartition(":")[2])


@contextlib.contextmanager
def taken_port(answer: bytes = b"") -> Iterator[int]:
    """A port where somebody listens who says these bytes to one caller."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                caller, _ = server.accept()
                with caller:
                    caller.recv(1024)
                    caller.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)  # ends an accept; closing would not
            thread.join()


def look(port: int, admin: int, **hosts: Any) -> list[Finding]:
    return list(check_ports(Settings(port=port, admin_port=admin, **hosts)))


def verdicts(findings: list[Finding]) -> list[Verdict]:
    return [finding.verdict for finding in findings]


def test_free_ports_are_good_and_stay_free() -> None:
    """Also where any port will do."""
    port = find_free_port()
    traffic, admin = look(port, 0)
    assert verdicts([traffic, admin]) == [Verdict.GOOD] * 2
    assert traffic.words == f"127.0.0.1:{port} is free"
    assert admin.words == "any free port of 127.0.0.1 is free"
    socket.create_server(("127.0.0.1", port)).close()


def test_a_port_is_looked_at_without_listening(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ``serve`` that starts just then gets it, and no client is taken and dropped."""
    port = find_free_port()
    started = []

    def bind_beside_one_that_starts(what: str, host: str, number: int) -> socket.socket:
        sock = bind(what, host, number)
        if what == "traffic":
            started.append(listen(what, host, number))
        return sock

    monkeypatch.setattr("proxy.commands.check.ports.bind", bind_beside_one_that_starts)
    assert verdicts(look(port, 0)) == [Verdict.GOOD] * 2
    started[0].close()


def test_ports_of_a_running_spantap_are_good() -> None:
    """Whoever checks while a proxy runs has found that proxy; it is asked on its admin port."""
    with taken_port() as port, admin_port(SPANTAP) as admin:
        findings = look(port, admin)
        assert verdicts(findings) == [Verdict.GOOD] * 2
        assert "a spantap runs there" in findings[0].words
        # One that listens on every address is asked on this machine.
        findings = look(port, admin, host="0.0.0.0", admin_host="0.0.0.0")
        assert verdicts(findings) == [Verdict.GOOD] * 2


def test_a_running_spantap_that_is_not_ready_is_told_of() -> None:
    """While it goes down, or comes up."""
    with taken_port() as port, admin_port({"/healthz": b"ok\n"}) as admin:
        findings = look(port, admin)
    assert verdicts(findings) == [Verdict.GOOD, Verdict.GOOD, Verdict.NOTE]
    assert "not ready" in findings[2].words


def test_a_traffic_port_of_another_program_is_bad() -> None:
    """Both ways out are named."""
    with taken_port() as port:
        traffic, admin = look(port, 0)
    assert verdicts([traffic, admin]) == [Verdict.BAD, Verdict.GOOD]
    assert traffic.words == f"127.0.0.1:{port} is in use by another program"
    assert traffic.mend == "stop that one, or name another port with --port or SPANTAP_PORT"


def test_an_admin_port_of_another_spantap_is_bad_where_the_traffic_port_is_free() -> None:
    """``serve`` would fail on it."""
    with admin_port(SPANTAP) as port:
        traffic, admin = look(0, port)
    assert verdicts([traffic, admin]) == [Verdict.GOOD, Verdict.BAD]
    assert "by another spantap" in admin.words
    assert admin.mend.endswith("with --admin-port or SPANTAP_ADMIN_PORT")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"220 mail.example ESMTP\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 3\r\n\r\nok\n",
    ],
)
def test_two_ports_of_other_programs_are_bad_whatever_they_say(answer: bytes) -> None:
    """A mail server is no spantap."""
    with taken_port() as port, taken_port(answer) as admin:
        findings = look(port, admin)
    assert verdicts(findings) == [Verdict.BAD] * 2
    assert all("by another program" in finding.words for finding in findings)


def test_a_host_that_is_not_ours_is_bad() -> None:
    """In the words of ``serve``."""
    traffic, _ = look(0, 0, host="192.0.2.1")  # RFC 5737: nobody's
    assert traffic.verdict is Verdict.BAD
    assert "cannot listen on 192.0.2.1:0" in traffic.words
    assert "name a host of this machine" in traffic.mend


def test_one_port_for_both_is_bad() -> None:
    """``serve`` would find the second one taken, by itself."""
    [finding] = look(free := find_free_port(), free)
    assert finding.verdict is Verdict.BAD
    assert "both ports" in finding.words
