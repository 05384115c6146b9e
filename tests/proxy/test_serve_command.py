"""``spantap serve`` and its siblings as processes: start, signals, exit status."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
import requests

from proxy.settings.settings import Settings
from telemetry.reading.stored_calls import open_calls
from telemetry.store.store import Store
from tests.e2e.processes import ServerProcess, clean_environment, find_free_port, get, wait_until
from tests.faults.stage import running_spantap
from tests.faults.upstreams import running_load_upstream
from tests.otlp_sink import HttpSink
from tests.proxy.plain_server import answering
from tests.telemetry.span_rows import make_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ANY_PORTS = ("--port", "0", "--admin-port", "0")
CHAT = {"model": "gpt-demo", "messages": [{"role": "user", "content": "hi"}]}
DOCKER_SECONDS = 10.0
"""What Docker gives before it kills. Of it 7.5 s were taken, and 7.9 with five times as many busy
processes as cores."""
IDLE_END_SECONDS = 4.0
"""Of a server without calls: less than the drain, which nobody waits for then."""
NO_SPOOL = "no spool, because content is hidden from spans"
PROGRAM = [sys.executable, "-m", "proxy"]


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """The URL of an upstream for chats."""
    with running_load_upstream() as url:
        yield url


def ask(port: int, path: str = "/v1/chat/completions") -> int:
    """The status of the answer to a chat."""
    with requests.Session() as session:
        session.trust_env = False
        return session.post(f"http://127.0.0.1:{port}{path}", json=CHAT, timeout=10).status_code


def outcomes(store: Path) -> list[str]:
    """Of the spans in a store, newest first."""
    with open_calls(store) as reader:
        return [str(row.outcome) for row in reader.page(10).rows]


def test_a_start_tells_what_the_store_has_lost(upstream: str, tmp_path: Path) -> None:
    """In the log and in the metrics, where the write-ahead log is gone."""
    with Store.open(tmp_path / "before.db") as killed:
        killed.add(make_rows(range(60)))
        for suffix in ("", ".lock"):
            shutil.copy(f"{killed.path}{suffix}", tmp_path / f"traces.db{suffix}")
    with running_spantap(tmp_path, upstream=upstream) as spantap:
        wait_until(lambda: spantap.metrics()["spantap_spans_dropped_total"] == 60, 20, "told")
        admin = f"http://127.0.0.1:{spantap.admin_port}/metrics"
        assert 'spantap_spans_dropped_total{reason="store_damaged"} 60' in get(admin).text
        assert spantap.terminate() == 0
    assert "lacks the last 60 spans" in spantap.log


def test_a_start_tells_of_unknown_variables_and_of_a_spool_that_is_not_there(
    upstream: str, tmp_path: Path
) -> None:
    """In the form that is asked for, without a value; else spans without bodies surprise people."""
    environment = {
        "SPANTAP_LISTEN_PORT": "canary",
        "SPANTAP_LOG_FORMAT": "json",
        "OPENINFERENCE_HIDE_INPUT_IMAGES": "true",
    }
    with running_spantap(tmp_path, upstream=upstream, environment=environment) as spantap:
        first = json.loads(spantap.log.splitlines()[0])  # noqa: TID251 - an independent reader
        assert spantap.log.count(NO_SPOOL) == 1
    assert first["level"] == "WARNING"
    assert first["message"] == (
        "SPANTAP_LISTEN_PORT is not a setting and changes nothing; is SPANTAP_ADMIN_PORT meant?"
    )
    assert "canary" not in spantap.log


def test_a_running_serve_has_a_store_that_others_read_and_do_not_take(
    upstream: str, tmp_path: Path
) -> None:
    """``traces`` reads it, a second serve is named the holder; the end writes what is counted last.

    A call that is not observed is in the log and the store, though the end comes before its number.
    """
    with running_spantap(tmp_path, upstream=upstream) as spantap:
        assert spantap.log.count(NO_SPOOL) == 0
        assert ask(spantap.port) == 200
        wait_until(lambda: outcomes(spantap.store) == ["completed"], 20, "it is stored")
        listed = run("traces", "--json", "--store", str(spantap.store))[1]
        status, said = run("serve", *ANY_PORTS, "--store", str(spantap.store))
        assert status == 2
        assert str(spantap.pid) in said
        ask(spantap.port, "/v1/converse?key=canary")
        assert spantap.terminate() == 0
    assert json.loads(listed)["outcome"] == "completed"  # noqa: TID251 - an independent reader
    assert outcomes(spantap.store) == ["completed"]
    with open_calls(spantap.store) as reader:
        [told] = reader.unobserved()
    assert told[:2] == ("/v1/converse", 1)
    assert spantap.log.count("POST /v1/converse is relayed and not recorded: ") == 1
    assert "canary" not in spantap.log


@pytest.mark.parametrize(
    ("keep", "said"),
    [("", "nothing is recorded: OTEL_TRACES_SAMPLER is always_off"), ("errors", "recorded in /")],
)
def test_the_log_says_where_nothing_is_recorded(
    upstream: str, tmp_path: Path, keep: str, said: str
) -> None:
    """A rule that keeps calls which are not sampled still records some.

    If no spool is wanted, nothing warns that it is missing.
    """
    variables = {"OTEL_TRACES_SAMPLER": "always_off", "SPANTAP_KEEP": keep}
    variables |= {"OPENINFERENCE_HIDE_INPUT_IMAGES": "true", "SPANTAP_MAX_SPOOL_BYTES": "0"}
    with running_spantap(tmp_path, upstream=upstream, environment=variables) as spantap:
        assert said in next(line for line in spantap.log.splitlines() if "recorded" in line)
        assert spantap.log.count(NO_SPOOL) == 0


def test_the_admin_port_tells_alive_ready_and_numbers(tmp_path: Path) -> None:
    """And the traffic port has none of its paths."""
    with (
        answering(404, of_chats=200) as upstream,
        running_spantap(tmp_path, upstream=upstream) as spantap,
    ):
        admin = f"http://127.0.0.1:{spantap.admin_port}"
        ask(spantap.port)
        assert get(f"{admin}/healthz").text == "ok\n"
        assert get(f"{admin}/readyz").text == "ready\n"
        wanted = "# TYPE spantap_requests_total counter\nspantap_requests_total 1\n"
        wait_until(lambda: wanted in get(f"{admin}/metrics").text, 10, "numbers are told")
        assert "spantap_exchanges_open 0" in get(f"{admin}/metrics").text
        assert get(f"{spantap.url}/healthz").status_code == 404
        assert run("healthcheck", "--admin-port", str(spantap.admin_port))[0] == 0


def test_while_lingering_readiness_says_no_and_requests_are_answered(
    upstream: str, tmp_path: Path
) -> None:
    """``SPANTAP_LINGER_SECONDS``: a balancer has time to notice."""
    lingering = {"SPANTAP_LINGER_SECONDS": "1.5"}
    with running_spantap(tmp_path, upstream=upstream, environment=lingering) as spantap:
        os.kill(spantap.pid, signal.SIGTERM)
        time.sleep(0.3)
        ready = get(f"http://127.0.0.1:{spantap.admin_port}/readyz")
        assert (ready.status_code, ready.text) == (503, "draining\n")
        assert get(f"http://127.0.0.1:{spantap.admin_port}/healthz").ok
        assert ask(spantap.port) == 200
        assert spantap.wait() == 0


def test_a_terminal_is_not_kept_waiting(upstream: str, tmp_path: Path) -> None:
    """Ctrl-C is nobody's who takes it out of a balancer: it does not linger, and idle it ends."""
    lingering = {"SPANTAP_LINGER_SECONDS": "600"}
    with running_spantap(tmp_path, upstream=upstream, environment=lingering) as spantap:
        started = time.monotonic()
        os.kill(spantap.pid, signal.SIGINT)
        assert spantap.wait() == 0, spantap.log
        took = time.monotonic() - started
    print(f"ended {took:.2f} s after SIGINT")
    assert took < IDLE_END_SECONDS


def test_by_default_the_end_takes_less_than_docker_gives(tmp_path: Path) -> None:
    """Ten seconds, though a stream does not end and the backend hangs; its span is stored."""
    with (
        socket.create_server(("127.0.0.1", 0)) as hanging,
        running_load_upstream(chunks=1000, pace_seconds=0.1) as upstream,
        running_spantap(
            tmp_path,
            upstream=upstream,
            endpoint=f"http://127.0.0.1:{hanging.getsockname()[1]}",
            environment={"SPANTAP_DRAIN_SECONDS": str(Settings().drain_seconds)},
        ) as spantap,
    ):
        assert ask(spantap.port) == 200  # its span is being sent, for ever
        client = http.client.HTTPConnection("127.0.0.1", spantap.port)
        client.request("POST", "/v1/chat/completions", b'{"model":"m","stream":true}')
        client.getresponse().read(100)
        started = time.monotonic()
        assert spantap.terminate() == 0, spantap.log
        took = time.monotonic() - started
        client.close()
    print(f"ended {took:.2f} s after SIGTERM")
    assert took < 2 * DOCKER_SECONDS  # on a machine that does four things at once
    assert outcomes(spantap.store) == ["drain_deadline", "completed"]


def test_a_second_signal_ends_at_once(upstream: str, tmp_path: Path) -> None:
    """Whoever insists waits neither for the linger nor for a backend that hangs."""
    with (
        socket.create_server(("127.0.0.1", 0)) as hanging,
        running_spantap(
            tmp_path,
            upstream=upstream,
            endpoint=f"http://127.0.0.1:{hanging.getsockname()[1]}",
            environment={"SPANTAP_LINGER_SECONDS": "600"},
        ) as spantap,
    ):
        ask(spantap.port)
        os.kill(spantap.pid, signal.SIGTERM)
        time.sleep(0.3)
        os.kill(spantap.pid, signal.SIGINT)
        assert spantap.wait() == 0, spantap.log
    with open_calls(spantap.store) as reader:
        assert [row.state.value for row in reader.page(10).rows] == ["pending"]


def test_at_the_limit_of_open_files_the_log_stays_readable(upstream: str, tmp_path: Path) -> None:
    """One line now and then, no traceback, and the next client is served again."""
    port, admin = find_free_port(), find_free_port()
    serve = [*PROGRAM, "serve", "--port", str(port), "--admin-port", str(admin)]
    limited = ["sh", "-c", 'ulimit -n 40; exec "$@"', "sh", *serve]
    settings = {"SPANTAP_UPSTREAM": upstream, "SPANTAP_STORE": str(tmp_path / "t.db")}
    with ServerProcess(limited, environment=settings, log=tmp_path / "serve.log") as running:
        running.wait_for(f"http://127.0.0.1:{admin}/readyz", 30)
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
        time.sleep(1.5)
        for client in clients:
            client.close()
        # Clients that are gone are counted until they are read.
        wait_until(lambda: ask(port) == 200, 10, "there is room again")
        assert running.end() == 0
        assert running.output.count("no more connections can be accepted") == 1
        assert "Traceback" not in running.output


def run(*arguments: str, **environment: str) -> tuple[int, str]:
    """Exit status and output of a command, which must not be a traceback."""
    done = subprocess.run(
        [*PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**clean_environment(), **environment},
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
            (("serve", *ANY_PORTS, *store, "--upstream", "nonsense"), "upstream"),
            (("serve", *ANY_PORTS, *store, "--config", str(config)), "unknown setting 'prot'"),
            (("serve", *ANY_PORTS, *store, "--config", str(tmp_path / "none.toml")), "none.toml"),
            (("serve", *store, "--port", port, "--admin-port", "0"), f"127.0.0.1:{port}"),
            (("serve", *ANY_PORTS, "--store", str(config / "t.db")), "bad.toml"),
            (("upstream", "--dialect", "klingon"), "klingon"),
            (("traces", "--follow", "show", "0a", *store), "--follow"),
            (("traces", "--full", *store), "--full"),
        ]
        for arguments, words in cases:
            status, said = run(*arguments)
            assert (status, said.count("\n")) == (2, 1), (arguments, said)
            assert words in said


def test_beside_another_spantap_it_says_so(upstream: str, tmp_path: Path) -> None:
    """Which process, and its page; with another store other ports are a way out."""
    with running_spantap(tmp_path, upstream=upstream) as spantap:
        ports = ("--port", str(spantap.port), "--admin-port", str(spantap.admin_port))
        status, said = run("serve", *ports, "--store", str(tmp_path / "traces.db"))
        assert (status, said.count("\n")) == (2, 1), said
        assert f"127.0.0.1:{spantap.port} (traffic port)" in said
        assert f"a spantap uses this store already (process {spantap.pid}" in said
        assert "another program" not in said
        status, said = run("serve", *ports, "--store", str(tmp_path / "other.db"))
        assert (status, said.count("\n")) == (2, 1), said
        assert "another spantap, with another store, is running" in said
        assert "--admin-port" in said


def test_a_held_key_that_no_header_can_hold_ends_with_status_2(tmp_path: Path) -> None:
    """One sentence that names the variable and not the key (R7)."""
    config = tmp_path / "spantap.toml"
    config.write_text("[[upstream]]\nname = 'a'\nurl = 'http://a'\napi_key_env = 'DEMO_KEY'\n")
    arguments = ("--store", str(tmp_path / "t.db"), "--config", str(config))
    status, said = run("serve", *ANY_PORTS, *arguments, DEMO_KEY="sk-canary\u00e9")
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
    status, said = run("serve", *ANY_PORTS, "--store", str(tmp_path / "t.db"), **{name: value})
    assert (status, said.count("\n")) == (2, 1)
    assert name in said


def test_healthcheck_says_no_where_nothing_listens() -> None:
    """Status 1 and a line."""
    port = str(find_free_port())
    status, said = run("healthcheck", "--admin-port", port)
    assert status == 1
    assert port in said


def test_healthcheck_says_no_to_another_answer_than_200() -> None:
    """Something else may listen on the admin port."""
    with answering(503) as url:
        status, said = run("healthcheck", "--admin-port", url.rpartition(":")[2])
    assert status == 1
    assert "status 503" in said


def test_check_says_what_is_good(tmp_path: Path) -> None:
    """A backend that accepts spans, an upstream that wants a key, and one that is ill."""
    config = tmp_path / "spantap.toml"
    with HttpSink() as sink, answering(401) as wants_key, answering(503) as ill:
        config.write_text(
            f"[[upstream]]\nname = 'b'\nprefix = '/b'\nurl = '{wants_key}'\n"
            f"[[upstream]]\nname = 'c'\nurl = '{ill}'\n"
        )
        arguments = ("--config", str(config), "--store", str(tmp_path / "t.db"))
        status, said = run("check", *ANY_PORTS, *arguments, OTEL_EXPORTER_OTLP_ENDPOINT=sink.url)
    assert status == 0, said
    for words in ("accepts spans", "wants a key", "answers with status 503"):
        assert words in said


def test_check_explains_what_it_finds(tmp_path: Path) -> None:
    """Unreachable upstream and backend: 1, with reasons."""
    nowhere = f"http://127.0.0.1:{find_free_port()}"
    arguments = ("--store", str(tmp_path / "t.db"), "--upstream", nowhere)
    status, said = run("check", *ANY_PORTS, *arguments, OTEL_EXPORTER_OTLP_ENDPOINT=nowhere)
    assert status == 1
    assert said.count("bad ") == 2
