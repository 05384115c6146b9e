"""``proxy.processes.supervisor``: the processes of a running ``spantap serve``."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from proxy.processes.child import TELEMETRY_NICENESS
from proxy.processes.scratch import settings_file
from proxy.settings.settings import Settings
from proxy.settings.spans import hand_over
from proxy.signal_numbers import SHUTDOWN_SIGNALS
from telemetry.frames.spool import measure_spool, spool_folder
from telemetry.own_files import hold
from telemetry.reading.stored_calls import open_calls
from tests.e2e.processes import wait_until
from tests.faults.load import Load, run_load
from tests.faults.stage import is_long, running_spantap
from tests.faults.upstreams import running_load_upstream
from tests.proxy.test_serve_command import run


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_two_workers_share_the_port_and_the_numbers(tmp_path: Path) -> None:
    """Both serve, and the admin port speaks for both; nothing is left behind."""
    with (
        running_load_upstream() as upstream,
        tempfile.TemporaryDirectory() as scratch,  # short: a socket's path has some 100 bytes
        running_spantap(
            tmp_path, upstream=upstream, workers=2, environment={"TMPDIR": scratch}
        ) as spantap,
    ):
        assert len(list(Path(scratch).iterdir())) == 1
        assert [len(pids) for pids in spantap.children().values()] == [2, 1]
        result = run_load(Load(port=spantap.port, prefix="m", count=200, connections=20))
        assert result.whole == 200
        wait_until(lambda: spantap.metrics()["spantap_requests_total"] == 200, 20, "counted")
        wait_until(lambda: spantap.metrics()["spantap_spans_recorded_total"] == 200, 20, "stored")
        assert spantap.metrics()["spantap_processes"] == 3
        [telemetry] = spantap.children()["telemetry"]
        niceness = os.getpriority(os.PRIO_PROCESS, spantap.pid)
        assert os.getpriority(os.PRIO_PROCESS, telemetry) == min(niceness + TELEMETRY_NICENESS, 19)
        pids = spantap.pids()
        assert spantap.terminate() == 0
        assert not any(map(is_running, pids))
        assert list(Path(scratch).iterdir()) == []


def test_each_process_loads_what_it_needs_and_nothing_from_where_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Supervisor and telemetry have nothing of the relay; a folder named like ours does not matter.

    Their memory is most of what spantap takes when nobody calls: ``docs/performance.md#goals``.
    """
    (tmp_path / "proxy").mkdir()
    (tmp_path / "proxy" / "__init__.py").write_text("raise SystemExit('not ours')")
    (tmp_path / "codec.py").write_text("raise SystemExit('not ours')")
    monkeypatch.chdir(tmp_path)
    with running_spantap(tmp_path, upstream="http://127.0.0.1:1") as spantap:
        children = spantap.children()
        loaded = {
            pid: Path(f"/proc/{pid}/maps").read_text()
            for pid in (spantap.pid, *children["telemetry"], *children["worker"])
        }
        assert spantap.terminate() == 0, spantap.log
    assert not any("/aiohttp/" in maps for maps in loaded.values())
    heavy = [
        [name in maps for name in ("/httptools/", "/pydantic_core/", "/grpc/")]
        for maps in loaded.values()
    ]
    assert heavy == [[False] * 3, [False] * 3, [True, False, False]]


def test_counters_do_not_fall_when_a_process_is_started_again(tmp_path: Path) -> None:
    """What the dead one had counted is still there, and the restart is counted and said.

    Connections wait meanwhile: the port is the supervisor's, and nobody is refused.
    """
    with (
        running_load_upstream() as upstream,
        running_spantap(tmp_path, upstream=upstream) as spantap,
    ):
        run_load(Load(port=spantap.port, prefix="a", count=20))
        wait_until(lambda: spantap.metrics()["spantap_requests_total"] == 20, 20, "counted")
        wait_until(lambda: spantap.metrics()["spantap_spans_recorded_total"] == 20, 20, "stored")
        for role in ("worker", "telemetry"):
            [pid] = spantap.children()[role]
            os.kill(pid, signal.SIGKILL)
            if role == "worker":
                assert run_load(Load(port=spantap.port, prefix="w", count=1)).whole == 1
                wait_until(lambda: spantap.metrics()["spantap_requests_total"] == 21, 20, "counted")
                wait_until(
                    lambda: spantap.metrics()["spantap_spans_recorded_total"] == 21, 20, "stored"
                )
            wait_until(lambda: spantap.metrics()["spantap_processes"] == 2, 20, "there again")
        assert run_load(Load(port=spantap.port, prefix="b", count=19)).whole == 19
        wait_until(lambda: spantap.metrics()["spantap_spans_recorded_total"] == 40, 20, "stored")
        wait_until(lambda: spantap.metrics()["spantap_requests_total"] == 40, 20, "counted")
        assert spantap.metrics()["spantap_process_restarts_total"] == 2
        assert spantap.terminate() == 0
        assert spantap.log.count("was ended by SIGKILL; it is started again now") == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"SPANTAP_CA_FILE": "/nowhere"}, "ca_file"),
        ({"SPANTAP_REDACT_PATTERNS": '{"bad": "("}'}, "redact"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "carrier-pigeon"}, "OTEL_EXPORTER_OTLP_PROTOCOL"),
    ],
)
def test_settings_that_a_child_cannot_follow_end_all_with_one_sentence(
    settings: dict[str, str], words: str, tmp_path: Path
) -> None:
    """Status 2, whoever of them found it."""
    ports = ("--port", "0", "--admin-port", "0", "--store", str(tmp_path / "t.db"))
    if "OTEL_EXPORTER_OTLP_PROTOCOL" in settings:
        settings = {**settings, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    status, said = run("serve", *ports, **settings)
    assert (status, said.count("\n")) == (2, 1), said
    assert words in said


def test_a_supervisor_that_stands_still_stops_no_traffic(tmp_path: Path) -> None:
    """R2: calls are answered and stored; its numbers come when it moves again."""
    with (
        running_load_upstream() as upstream,
        running_spantap(tmp_path, upstream=upstream) as spantap,
    ):
        os.kill(spantap.pid, signal.SIGSTOP)
        try:
            time.sleep(2)
            result = run_load(Load(port=spantap.port, prefix="s", count=50))
        finally:
            os.kill(spantap.pid, signal.SIGCONT)
        assert result.whole == 50
        wait_until(lambda: spantap.metrics()["spantap_spans_recorded_total"] == 50, 20, "stored")
        assert spantap.terminate() == 0


def test_an_admin_port_that_is_taken_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    """Status 2, and the traffic port is free again."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ("--port", "0", "--admin-port", str(port), "--store", str(tmp_path / "t.db"))
        status, said = run("serve", *arguments)
    assert (status, said.count("\n")) == (2, 1), said
    assert f"127.0.0.1:{port}" in said
    assert not (tmp_path / "t.db").exists()


def test_a_stop_loses_nothing_of_what_telemetry_is_behind_with(tmp_path: Path) -> None:
    """Large calls take it seconds: what it has no time for is recorded after the next start."""
    with (
        running_load_upstream() as upstream,
        running_spantap(tmp_path, upstream=upstream) as spantap,
    ):
        load = Load(port=spantap.port, prefix="large", count=12, pad_bytes=3_000_000)
        assert run_load(load).whole == 12
        assert spantap.terminate() == 0, spantap.log
        spantap.start()
        wait_until(lambda: not measure_spool(spool_folder(spantap.store)), 30, "all is read")
        assert spantap.terminate() == 0, spantap.log
        with open_calls(spantap.store) as reader:
            assert [row.outcome for row in reader.page(20).rows] == ["completed"] * 12


def test_a_proxy_that_is_not_ready_when_its_launch_gives_up_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else knows of it, and it holds the store. Here a worker waits for certificates."""
    os.mkfifo(tmp_path / "certificates")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificates"))
    store = tmp_path / "traces.db"
    settings = Settings(port=0, admin_port=0, page=False, store=store)
    script = (
        "import sys; from proxy.processes import supervisor; supervisor.START_SECONDS = 1.0;"
        "sys.exit(supervisor.main())"
    )
    ours, theirs = socket.socketpair()
    with ours, theirs, settings_file(store, hand_over(settings, os.environ)) as file:
        descriptors = (file.fileno(), theirs.fileno())
        ended = subprocess.run(
            [sys.executable, "-c", script, *map(str, descriptors)],
            pass_fds=descriptors,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1, ended.stderr
    assert "worker 1: not ready within 1 s" in ended.stderr


def test_what_waits_in_the_spool_is_a_number(tmp_path: Path) -> None:
    """None at first; then what is not read to its end, for its writer still holds it."""
    with running_load_upstream() as upstream, running_spantap(tmp_path, upstream=upstream) as one:
        wait_until(lambda: one.metrics().get("spantap_spool_size_bytes") == 0, 20, "told")
        spool = spool_folder(one.store)
        spool.mkdir()
        descriptor = hold(spool / "a1-00000001.blocks")
        os.write(descriptor, bytes(3))
        wait_until(lambda: one.metrics()["spantap_spool_size_bytes"] == 3, 20, "measured")
        os.close(descriptor)
        wait_until(lambda: one.metrics()["spantap_spool_size_bytes"] == 0, 20, "read and deleted")


@pytest.mark.parametrize("content", ["true", "false"])
def test_what_is_hidden_from_spans_is_never_spooled(tmp_path: Path, content: str) -> None:
    """While telemetry stands still such calls wait in memory alone; all are recorded in the end."""
    environment = {"SPANTAP_CONTENT": content}
    with (
        running_load_upstream() as upstream,
        running_spantap(tmp_path, upstream=upstream, environment=environment) as spantap,
    ):
        [telemetry] = spantap.children()["telemetry"]
        os.kill(telemetry, signal.SIGSTOP)
        load = Load(port=spantap.port, prefix="s", count=20, pad_bytes=200_000)
        assert run_load(load).whole == 20
        spool = spool_folder(spantap.store)
        if content == "true":
            wait_until(lambda: measure_spool(spool) > 0, 20, "spooled")
        else:
            time.sleep(1)
            assert not spool.exists()
        os.kill(telemetry, signal.SIGCONT)
        wait_until(lambda: spantap.metrics()["spantap_spans_recorded_total"] == 20, 20, "recorded")


@pytest.mark.parametrize("number", SHUTDOWN_SIGNALS)
def test_a_signal_to_all_processes_ends_them_in_order(
    number: signal.Signals, tmp_path: Path
) -> None:
    """A terminal or a service manager sends it to the children too: an open stream ends whole."""
    with (
        running_load_upstream(chunks=20, pace_seconds=0.1) as upstream,
        running_spantap(tmp_path, upstream=upstream) as spantap,
        socket.create_connection(("127.0.0.1", spantap.port)) as client,
    ):
        send_chat(client, streams=True)
        assert client.recv(65_536).startswith(b"HTTP/1.1 200 OK")
        for pid in spantap.pids():
            os.kill(pid, number)
        assert read_end(client).endswith(b"0\r\n\r\n")
        wait_until(lambda: not spantap.is_running(), 30, "it ends")
        with open_calls(spantap.store) as reader:
            assert [row.outcome for row in reader.page(2).rows] == ["completed"]


def test_a_second_signal_while_draining_cuts_what_is_open(tmp_path: Path) -> None:
    """Far before its drain deadline of ten minutes; the span has what came, and says so."""
    settings = {"SPANTAP_DRAIN_SECONDS": "600"}
    with (
        running_load_upstream(chunks=1000, pace_seconds=0.1) as upstream,
        running_spantap(tmp_path, upstream=upstream, environment=settings) as spantap,
        socket.create_connection(("127.0.0.1", spantap.port)) as client,
    ):
        send_chat(client, streams=True)
        assert client.recv(65_536).startswith(b"HTTP/1.1 200 OK")
        os.kill(spantap.pid, signal.SIGTERM)
        wait_until(lambda: "draining" in spantap.log, 20, "the first signal is obeyed")
        time.sleep(0.5)
        assert spantap.is_running()
        assert spantap.terminate() == 0, spantap.log  # within a minute
        with open_calls(spantap.store) as reader:
            assert [row.outcome for row in reader.page(2).rows] == ["drain_deadline"]


@pytest.mark.skipif(not is_long(), reason="takes half a minute: run `make faults`")
def test_calls_that_telemetry_did_not_store_are_told_and_end_with_status_1(
    tmp_path: Path,
) -> None:
    """It stands still while spantap ends: what it did not take is counted."""
    with (
        running_load_upstream() as upstream,
        running_spantap(tmp_path, upstream=upstream) as spantap,
    ):
        [telemetry] = spantap.children()["telemetry"]
        os.kill(telemetry, signal.SIGSTOP)
        try:
            assert run_load(Load(port=spantap.port, prefix="m", count=5)).whole == 5
            assert spantap.terminate() == 1
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(telemetry, signal.SIGKILL)
        assert "5 calls are lost: telemetry did not store them in time" in spantap.log


def test_no_traffic_is_taken_before_telemetry_is_there(tmp_path: Path) -> None:
    """While the store is busy nobody is served: what a failing start cuts would have no span."""
    store = tmp_path / "t.db"
    with (
        running_load_upstream() as upstream,
        running_spantap(tmp_path, upstream=upstream, store=store) as spantap,
    ):
        assert spantap.terminate() == 0
        with contextlib.closing(
            sqlite3.connect(store, isolation_level=None, check_same_thread=False)
        ) as other:
            other.execute("BEGIN IMMEDIATE")
            release = threading.Timer(2.0, other.execute, ["COMMIT"])
            release.start()
            begun = time.monotonic()
            spantap.start()
            assert time.monotonic() - begun > 1.5
        assert run_load(Load(port=spantap.port, prefix="m", count=1)).whole == 1
        assert spantap.terminate() == 0


def send_chat(client: socket.socket, *, streams: bool = False) -> None:
    """Ask for an answer, or for a stream that is the last of its connection."""
    body = b'{"model":"m","stream":%b,"messages":[]}' % (b"true" if streams else b"false")
    close = b"Connection: close\r\n" if streams else b""
    client.sendall(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n%b"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (close, len(body), body)
    )


def read_end(client: socket.socket) -> bytes:
    """What comes until the connection ends."""
    client.settimeout(30)
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := client.recv(65_536):
            received += data
    return received


@pytest.mark.parametrize("number", range(2))
def test_a_worker_that_starts_when_the_supervisor_dies_answers_nobody(
    number: int, tmp_path: Path
) -> None:
    """Telemetry has gone with the supervisor: whom it answered would have no span (R3)."""
    with (
        running_load_upstream() as upstream,
        running_spantap(tmp_path, upstream=upstream) as spantap,
        contextlib.ExitStack() as stack,
    ):
        [worker] = spantap.children()["worker"]
        os.kill(worker, signal.SIGKILL)
        address = ("127.0.0.1", spantap.port)
        clients = [stack.enter_context(socket.create_connection(address)) for _ in range(6)]
        for client in clients:
            send_chat(client)
        time.sleep(0.05)  # far less than a worker takes to start
        spantap.kill()
        assert [read_end(client) for client in clients] == [b""] * 6


def test_an_orphaned_worker_takes_no_further_request(tmp_path: Path) -> None:
    """On a connection that it has, and though the request was there when it could first know.

    A supervisor that is killed leaves nothing: its children remove the folder of their socket.
    """
    with (
        tempfile.TemporaryDirectory() as scratch,
        running_load_upstream() as upstream,
        running_spantap(tmp_path, upstream=upstream, environment={"TMPDIR": scratch}) as spantap,
        socket.create_connection(("127.0.0.1", spantap.port)) as client,
    ):
        pids = spantap.pids()
        [worker] = spantap.children()["worker"]
        send_chat(client)
        answer = b""
        while not answer.endswith(b"}}"):  # head and body may come apart
            answer += client.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        os.kill(worker, signal.SIGSTOP)
        spantap.kill()
        send_chat(client)
        os.kill(worker, signal.SIGCONT)
        assert read_end(client) == b""
        wait_until(lambda: not any(map(is_running, pids)), 30, "all have ended")
        assert list(Path(scratch).iterdir()) == []
        with open_calls(spantap.store) as reader:
            assert [row.outcome for row in reader.page(9).rows] == ["completed"]
