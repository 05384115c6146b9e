"""``spantap serve`` and its siblings as processes: start, signals, exit status."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from telemetry.store.reader import StoreReader
from telemetry.store.store import Store
from tests.faults.upstreams import running_load_upstream
from tests.otlp_sink import HttpSink
from tests.telemetry.span_rows import make_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ANY_PORTS = ("--port", "0", "--admin-port", "0")
CHAT = {"model": "gpt-demo", "messages": [{"role": "user", "content": "hi"}]}
LISTENING = re.compile(r"listen(?:s|ing) on http://[\w.]+:(\d+)(?:.*admin on http://[\w.]+:(\d+))?")


class Command:
    """A ``spantap`` process, and what it says."""

    def __init__(
        self, line: list[str], environment: dict[str, str], cwd: Path | None = None
    ) -> None:
        self.process = subprocess.Popen(
            line,
            cwd=cwd,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        self.said: list[str] = []

    def wait_listening(self) -> tuple[int, int]:
        """Its traffic and admin port (0 where it has none)."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if match := LISTENING.search(line):
                return int(match[1]), int(match[2] or 0)
        raise AssertionError(self.said)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Signal it and wait; its exit status."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=20)
        self.said.append(errors)
        return self.process.returncode


def command(*arguments: str, **environment: str) -> contextlib.AbstractContextManager[Command]:
    return command_line([sys.executable, "-m", "proxy", *arguments], None, **environment)


@contextlib.contextmanager
def command_line(line: list[str], cwd: Path | None = None, **environment: str) -> Iterator[Command]:
    running = Command(line, environment, cwd)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.process.communicate(timeout=10)
        if running.process.poll() is None:
            running.process.kill()
            running.process.communicate()


@pytest.fixture
def upstream() -> Iterator[int]:
    """The demo upstream's port."""
    with command("upstream", "--port", "0") as running:
        yield running.wait_listening()[0]


@contextlib.contextmanager
def serve(upstream: int, store: Path, **environment: str) -> Iterator[Command]:
    arguments = ["--port", "0", "--admin-port", "0", "--store", str(store)]
    settings = {"SPANTAP_UPSTREAM": f"http://127.0.0.1:{upstream}"}
    with command("serve", *arguments, **(settings | environment)) as running:
        yield running


def post(port: int, body: dict[str, Any]) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, data


def get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_a_chat_is_in_the_store_when_serve_has_ended(upstream: int, tmp_path: Path) -> None:
    """SIGTERM loses nothing and ends with 0."""
    store = tmp_path / "traces.db"
    with serve(upstream, store) as running:
        port, _ = running.wait_listening()
        status, _ = post(port, CHAT)
        assert status == 200
        assert running.end() == 0
    with StoreReader(store) as reader:
        assert [row.outcome for row in reader.latest(10)] == ["completed"]


def test_a_start_tells_what_the_store_has_lost(upstream: int, tmp_path: Path) -> None:
    """In the log and in the metrics, where the write-ahead log is gone."""
    with Store.open(tmp_path / "before.db") as killed:
        killed.add(make_rows(range(60)))
        for suffix in ("", ".lock"):
            shutil.copy(f"{killed.path}{suffix}", tmp_path / f"traces.db{suffix}")
    with serve(upstream, tmp_path / "traces.db") as running:
        _, admin = running.wait_listening()
        told = 'spantap_spans_dropped_total{reason="store_damaged"} 60'
        until = time.monotonic() + 20
        while told not in get(admin, "/metrics")[1]:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert running.end() == 0
    assert "lacks the last 60 spans" in "".join(running.said)


def test_a_variable_that_changes_nothing_is_in_the_log(tmp_path: Path) -> None:
    """In the form that was asked for, and without its value."""
    environment = {"SPANTAP_LISTEN_PORT": "canary", "SPANTAP_LOG_FORMAT": "json"}
    with serve(1, tmp_path / "traces.db", **environment) as running:
        running.wait_listening()
    first = json.loads(running.said[0])  # noqa: TID251 - an independent reader
    assert first["level"] == "WARNING"
    assert first["message"] == (
        "SPANTAP_LISTEN_PORT is no setting and changes nothing; is SPANTAP_ADMIN_PORT meant?"
    )
    assert "canary" not in "".join(running.said)


def test_a_call_that_is_not_observed_is_in_the_log_and_the_store(
    upstream: int, tmp_path: Path
) -> None:
    """Also where the end comes before anybody has told its number."""
    store = tmp_path / "traces.db"
    with serve(upstream, store) as running:
        port, _ = running.wait_listening()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("POST", "/v1/converse?key=canary", "{}")
        connection.getresponse().read()
        connection.close()
        assert running.end() == 0
    with StoreReader(store) as reader:
        [told] = reader.unobserved()
    assert told[:2] == ("/v1/converse", 1)
    log = "".join(running.said)
    assert log.count("POST /v1/converse is relayed and not recorded: ") == 1
    assert "canary" not in log


def test_traces_reads_the_store_while_serve_runs(upstream: int, tmp_path: Path) -> None:
    """The last line of the quick start."""
    store = tmp_path / "traces.db"
    with serve(upstream, store) as running:
        port, _ = running.wait_listening()
        post(port, CHAT)
        time.sleep(0.3)
        listed = subprocess.run(
            [sys.executable, "-m", "proxy", "traces", "--json", "--store", str(store)],
            capture_output=True,
            text=True,
            check=True,
        )
    record = json.loads(listed.stdout)  # noqa: TID251 - an independent reader
    assert record["outcome"] == "completed"


@pytest.mark.parametrize(
    ("keep", "said"),
    [("", "nothing is recorded: OTEL_TRACES_SAMPLER is always_off"), ("errors", "recorded in /")],
)
def test_the_log_says_where_nothing_is_recorded(
    upstream: int, tmp_path: Path, keep: str, said: str
) -> None:
    """A rule that keeps calls which are not sampled still records some."""
    variables = {"OTEL_TRACES_SAMPLER": "always_off", "SPANTAP_KEEP": keep}
    with serve(upstream, tmp_path / "traces.db", **variables) as running:
        assert running.process.stderr is not None
        assert said in next(line for line in running.process.stderr if "recorded" in line)


def test_the_admin_port_tells_alive_ready_and_numbers(upstream: int, tmp_path: Path) -> None:
    """And the traffic port has none of its paths."""
    with serve(upstream, tmp_path / "traces.db") as running:
        port, admin = running.wait_listening()
        post(port, CHAT)
        assert get(admin, "/healthz") == (200, "ok\n")
        assert get(admin, "/readyz") == (200, "ready\n")
        wanted = "# TYPE spantap_requests_total counter\nspantap_requests_total 1\n"
        deadline = time.monotonic() + 10
        text = ""
        while wanted not in text or "\ngen_ai_client_token_usage_count{" not in text:
            assert time.monotonic() < deadline  # numbers are some seconds old
            status, text = get(admin, "/metrics")
            assert status == 200
        assert "spantap_exchanges_open 0" in text
        assert get(port, "/healthz")[0] == 404
        healthy = subprocess.run(
            [sys.executable, "-m", "proxy", "healthcheck", "--admin-port", str(admin)], check=False
        )
        assert healthy.returncode == 0


def test_while_lingering_readiness_says_no_and_requests_are_answered(
    upstream: int, tmp_path: Path
) -> None:
    """``SPANTAP_LINGER_SECONDS``: a balancer has time to notice."""
    with serve(upstream, tmp_path / "t.db", SPANTAP_LINGER_SECONDS="1.5") as running:
        port, admin = running.wait_listening()
        running.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert get(admin, "/readyz") == (503, "draining\n")
        assert get(admin, "/healthz")[0] == 200
        assert post(port, CHAT)[0] == 200
        running.process.communicate(timeout=10)
        assert running.process.returncode == 0


def test_a_terminal_is_not_kept_waiting(upstream: int, tmp_path: Path) -> None:
    """Ctrl-C is nobody's who takes it out of a balancer: it does not linger."""
    with serve(upstream, tmp_path / "t.db", SPANTAP_LINGER_SECONDS="60") as running:
        running.wait_listening()
        assert running.end(signal.SIGINT) == 0, running.said  # within 20 s


def test_by_default_the_end_takes_less_than_docker_gives(tmp_path: Path) -> None:
    """Ten seconds, though a stream does not end and the backend hangs; its span is stored."""
    store = tmp_path / "t.db"
    with (
        socket.create_server(("127.0.0.1", 0)) as hanging,
        running_load_upstream(chunks=1000, pace_seconds=0.1) as upstream,
    ):
        backend = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        settings = {"SPANTAP_UPSTREAM": upstream, "OTEL_EXPORTER_OTLP_ENDPOINT": backend}
        with serve(0, store, **settings) as running:
            port, _ = running.wait_listening()
            assert post(port, CHAT)[0] == 200  # its span is being sent, for ever
            client = http.client.HTTPConnection("127.0.0.1", port)
            client.request("POST", "/v1/chat/completions", b'{"model":"m","stream":true}')
            client.getresponse().read(100)
            started = time.monotonic()
            assert running.end() == 0, running.said  # within 20 s, for this machine may be busy
            took = time.monotonic() - started
            client.close()
    print(f"ended {took:.2f} s after SIGTERM")
    with StoreReader(store) as reader:
        assert [row.outcome for row in reader.latest(10)] == ["drain_deadline", "completed"]


def test_a_second_signal_ends_at_once(upstream: int, tmp_path: Path) -> None:
    """Whoever insists waits neither for the linger nor for a backend that hangs."""
    store = tmp_path / "t.db"
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        backend = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        environment = {"SPANTAP_LINGER_SECONDS": "60", "OTEL_EXPORTER_OTLP_ENDPOINT": backend}
        with serve(upstream, store, **environment) as running:
            port, _ = running.wait_listening()
            post(port, CHAT)
            running.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            started = time.monotonic()
            assert running.end(signal.SIGINT) == 0, running.said
            took = time.monotonic() - started
    print(f"ended {took:.2f} s after the second signal")
    assert took < 30  # far less than the linger; the figure is printed
    with StoreReader(store) as reader:
        assert [row.state.value for row in reader.latest(10)] == ["pending"]


def test_at_the_limit_of_open_files_the_log_stays_readable(upstream: int, tmp_path: Path) -> None:
    """One line now and then, no traceback, and the next client is served again."""
    limited = "ulimit -n 40; exec "
    arguments = f"{sys.executable} -m proxy serve --port 0 --admin-port 0 --store {tmp_path}/t.db"
    with command_line(
        ["sh", "-c", limited + arguments],
        SPANTAP_UPSTREAM=f"http://127.0.0.1:{upstream}",
        SPANTAP_LINGER_SECONDS="0",
    ) as running:
        port, _ = running.wait_listening()
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
        time.sleep(1.5)
        for client in clients:
            client.close()
        deadline = time.monotonic() + 10
        while post(port, CHAT)[0] != 200:  # those that are gone are counted until they are read
            assert time.monotonic() < deadline
        assert running.end() == 0
    said = "".join(running.said)
    assert said.count("no more connections can be accepted") == 1
    assert "Traceback" not in said


def run(*arguments: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "proxy", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, **environment},
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr + done.stdout


def test_misconfiguration_ends_with_status_2_and_one_sentence(tmp_path: Path) -> None:
    """Bad URL, unknown key, unreadable file, port taken, unusable store, unknown dialect."""
    store = ("--store", str(tmp_path / "t.db"))
    config = tmp_path / "bad.toml"
    config.write_text("prot = 1\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        cases = [
            (("serve", *store, "--upstream", "nonsense"), "upstream"),
            (("serve", *store, "--config", str(config)), "unknown setting 'prot'"),
            (("serve", *store, "--config", str(tmp_path / "none.toml")), "none.toml"),
            (("serve", *store, "--port", port, "--admin-port", "0"), f"127.0.0.1:{port}"),
            (("serve", "--store", str(config / "t.db"), "--port", "0"), "bad.toml"),
            (("upstream", "--dialect", "klingon"), "klingon"),
            (("traces", "--follow", "show", "0a", *store), "--follow"),
        ]
        for arguments, words in cases:
            status, said = run(*arguments)
            assert (status, said.count("\n")) == (2, 1), (arguments, said)
            assert words in said


def test_a_held_key_that_no_header_can_hold_ends_with_status_2(tmp_path: Path) -> None:
    """One sentence that names the variable and not the key (R7)."""
    config = tmp_path / "spantap.toml"
    config.write_text("[[upstream]]\nname = 'a'\nurl = 'http://a'\napi_key_env = 'DEMO_KEY'\n")
    arguments = ("serve", "--store", str(tmp_path / "t.db"), "--config", str(config))
    status, said = run(*arguments, DEMO_KEY="sk-canary\u00e9")
    assert (status, said.count("\n")) == (2, 1), said
    assert "DEMO_KEY" in said
    assert "canary" not in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "nonsense"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "abc"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
    ],
)
def test_a_wrong_otel_variable_ends_with_status_2(name: str, value: str, tmp_path: Path) -> None:
    """The sentence names the variable, also where the SDK would raise while it is imported."""
    status, said = run("serve", "--store", str(tmp_path / "t.db"), **{name: value})
    assert (status, said.count("\n")) == (2, 1)
    assert name in said


def test_a_second_serve_on_one_store_is_told_who_has_it(upstream: int, tmp_path: Path) -> None:
    """Exit status 2, with the holder's process id."""
    store = tmp_path / "traces.db"
    with serve(upstream, store) as running:
        running.wait_listening()
        status, said = run("serve", "--port", "0", "--admin-port", "0", "--store", str(store))
        assert status == 2
        assert str(running.process.pid) in said


def test_healthcheck_says_no_where_nothing_listens() -> None:
    """Status 1 and a line."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    status, said = run("healthcheck", "--admin-port", str(port))
    assert status == 1
    assert str(port) in said


def test_check_says_what_is_good(upstream: int, tmp_path: Path) -> None:
    """A backend that takes spans, an upstream that wants a key, and one that is ill."""
    config = tmp_path / "spantap.toml"
    with HttpSink() as sink, answering(401) as wants_key, answering(503) as ill:
        config.write_text(
            f"[[upstream]]\nname = 'a'\nurl = 'http://127.0.0.1:{upstream}'\n"
            f"[[upstream]]\nname = 'b'\nprefix = '/b'\nurl = 'http://127.0.0.1:{wants_key}'\n"
            f"[[upstream]]\nname = 'c'\nprefix = '/c'\nurl = 'http://127.0.0.1:{ill}'\n"
        )
        status, said = run(
            "check",
            *ANY_PORTS,
            *ANY_PORTS,
            "--config",
            str(config),
            "--store",
            str(tmp_path / "t.db"),
            OTEL_EXPORTER_OTLP_ENDPOINT=sink.url,
        )
    assert status == 0, said
    for words in ("takes spans", "wants a key", "answers with status 503"):
        assert words in said
    status, said = run(
        "check",
        *ANY_PORTS,
        "--config",
        str(config),
        OTEL_EXPORTER_OTLP_PROTOCOL="http/json",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1",
    )
    assert status == 1
    assert "OTEL_EXPORTER_OTLP_PROTOCOL" in said


@contextlib.contextmanager
def answering(status: int) -> Iterator[int]:
    """The port of a server that answers everything with one status."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_healthcheck_says_no_to_another_answer_than_200() -> None:
    """Something else may listen on the admin port."""
    with answering(503) as port:
        status, said = run("healthcheck", "--admin-port", str(port))
    assert status == 1
    assert "status 503" in said


def test_check_explains_what_it_finds(upstream: int, tmp_path: Path) -> None:
    """Reachable upstream: 0. Unreachable upstream and backend: 1, with reasons."""
    store = ("--store", str(tmp_path / "t.db"))
    status, said = run("check", *ANY_PORTS, *store, "--upstream", f"http://127.0.0.1:{upstream}/v1")
    assert status == 0, said
    assert f"goes to http://127.0.0.1:{upstream}/v1/chat/completions" in said
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    status, said = run(
        "check",
        *ANY_PORTS,
        *store,
        "--upstream",
        f"http://127.0.0.1:{closed}",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{closed}",
    )
    assert status == 1
    assert said.count("bad ") == 2
