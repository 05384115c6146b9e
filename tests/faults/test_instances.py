"""More than one: two workers of an instance, and two instances behind nginx that share nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.processes import clean_environment, find_free_port, wait_until
from tests.e2e.spantap import PROGRAM
from tests.faults.row import report
from tests.faults.stage import is_long, running_spantap, scaled
from tests.faults.test_processes import in_words, marks_of, read_store, run
from tests.load.nginx import NGINX_OBSTACLE, configure_nginx
from tests.load.tool import LOAD_TOOL_OBSTACLE, ClientLoad, LoadClient, LoadUpstream

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.skipif(LOAD_TOOL_OBSTACLE is not None, reason=LOAD_TOOL_OBSTACLE or ""),
    pytest.mark.timeout(600),
]

STREAMS = scaled(200, least=20)
CHUNKS = 100 if is_long() else 30
CHUNKS_PER_SECOND = 20
ROUNDS = 10 if is_long() else 15  # longer than both restarts, on a loaded machine too

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx" / "spantap.conf"
"""What is documented is what is tested."""


class Balancer:
    """nginx with the project's own configuration.

    Args:
        folder: for what it writes.
        instances: the ports of those behind it.

    Attributes:
        port: where clients connect.
    """

    def __init__(self, folder: Path, instances: list[int]) -> None:
        self.port = find_free_port()
        configuration = CONFIGURATION.read_text()
        assert configuration.count("listen 8080;") == 1
        own = configuration.replace("listen 8080;", f"listen 127.0.0.1:{self.port};")
        (folder / "spantap.conf").write_text(own)
        self._command = configure_nginx(folder, "include spantap.conf;")
        lines = [f"server 127.0.0.1:{port} max_fails=0;\n" for port in instances]
        (folder / "spantap-instances.conf").write_text("".join(lines))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Until the end of the block."""
        with subprocess.Popen(self._command) as process:
            try:
                wait_until(lambda: _listens(self.port), 30, "nginx listens")
                yield
            finally:
                process.terminate()


def _listens(port: int) -> bool:
    """Whether somebody does on loopback."""
    return f":{port:04X} 00000000:0000 0A" in Path("/proc/net/tcp").read_text()


@pytest.mark.skipif(NGINX_OBSTACLE is not None, reason=NGINX_OBSTACLE or "")
def test_two_instances_are_restarted_in_turn_behind_nginx(tmp_path: Path) -> None:
    """No stream breaks, no request is refused, and each call has one span in one of two stores."""
    with ExitStack() as stack:
        upstream = stack.enter_context(LoadUpstream(chunks=CHUNKS, rate=CHUNKS_PER_SECOND))
        instances = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            instances.append(
                stack.enter_context(
                    running_spantap(
                        tmp_path / name,
                        upstream=upstream.url,
                        environment={"SPANTAP_LINGER_SECONDS": "1"},
                    )
                )
            )
        (tmp_path / "nginx").mkdir()
        balancer = Balancer(tmp_path / "nginx", [instance.port for instance in instances])
        stack.enter_context(balancer.running())
        load = ClientLoad(
            port=balancer.port,
            mode="stream",
            connections=STREAMS,
            requests=STREAMS * ROUNDS,
            model="load",
        )
        with LoadClient(load) as client:
            for instance in instances:
                time.sleep(CHUNKS / CHUNKS_PER_SECOND / 2)
                assert instance.terminate() == 0, instance.log
                instance.start()
            assert _runs(client.pid), "not both restarts met open streams"
            result = client.wait(300)
        for instance in instances:
            assert instance.terminate() == 0, instance.log
    first, second = (read_store(instance.store) for instance in instances)
    sent = marks_of(result, "load")
    recorded = first.outcomes | second.outcomes
    report(
        name=f"two instances behind nginx restarted in turn during {STREAMS} streams",
        sent=len(sent),
        lost=len(sent - recorded.keys()),
        client_saw=in_words(result),
        figures={
            "spans in the first store": len(first.outcomes),
            "in the second": len(second.outcomes),
        },
    )
    assert result.statuses == {200: result.requests}
    assert recorded == dict.fromkeys(sent, "OK")
    assert not first.twice + second.twice
    assert not first.outcomes.keys() & second.outcomes.keys()
    assert first.outcomes
    assert second.outcomes


@pytest.mark.skipif(NGINX_OBSTACLE is not None, reason=NGINX_OBSTACLE or "")
def test_nginx_passes_an_upload_on_as_it_comes(tmp_path: Path) -> None:
    """Part of it arrives while the rest is still to come: it does not wait on a disk."""
    part = b"x" * 100_000
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: nginx\r\nContent-Length: 1000000\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as instance:
        instance.settimeout(10)
        balancer = Balancer(tmp_path, [instance.getsockname()[1]])
        with balancer.running(), socket.create_connection(("127.0.0.1", balancer.port)) as client:
            client.sendall(head + part)
            connection, _ = instance.accept()
            with connection, connection.makefile("rb") as request:
                connection.settimeout(10)
                while request.readline() != b"\r\n":
                    pass
                assert request.read(len(part)) == part


def test_two_workers_share_a_load(tmp_path: Path) -> None:
    """Streams and whole answers; each does some of it, and every call has one span."""
    with (
        LoadUpstream(chunks=CHUNKS, rate=CHUNKS_PER_SECOND) as upstream,
        running_spantap(tmp_path, upstream=upstream.url, workers=2) as spantap,
    ):
        before = [_cpu_seconds(pid) for pid in spantap.children()["worker"]]
        streams = ClientLoad(
            port=spantap.port,
            mode="stream",
            connections=STREAMS,
            requests=2 * STREAMS,
            model="streams",
        )
        with LoadClient(streams) as client:
            whole = run(
                ClientLoad(
                    port=spantap.port,
                    mode="json",
                    connections=STREAMS,
                    requests=scaled(5000, least=300),
                    model="whole",
                )
            )
            streamed = client.wait(300)
        after = [_cpu_seconds(pid) for pid in spantap.children()["worker"]]
        assert spantap.terminate() == 0, spantap.log
    recorded = read_store(spantap.store)
    sent = marks_of(streamed, "streams") | marks_of(whole, "whole")
    used = [round(late - early, 2) for early, late in zip(before, after, strict=True)]
    report(
        name=f"two workers, {STREAMS} streams beside whole answers",
        sent=len(sent),
        lost=len(sent - recorded.outcomes.keys()),
        client_saw=f"{in_words(streamed)}; {in_words(whole)}",
        figures={"CPU seconds of each worker": f"{used[0]} and {used[1]}"},
    )
    assert (streamed.answered, whole.answered) == (streamed.requests, whole.requests)
    assert recorded.outcomes == dict.fromkeys(sent, "OK")
    assert not recorded.twice
    assert min(used) > 0, "one of them has nothing to do"


def _runs(pid: int) -> bool:
    """Whether this child has not ended; whoever waits for it can still do so."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _cpu_seconds(pid: int) -> float:
    """What a process has used so far, all its threads."""
    return time.clock_gettime(~pid << 3 | 2)


def test_a_store_has_one_owner_whoever_comes_second(tmp_path: Path) -> None:
    """The second ends with status 2 and names the first, whose calls go on and are recorded."""
    with (
        LoadUpstream(chunks=CHUNKS, rate=CHUNKS_PER_SECOND) as upstream,
        running_spantap(tmp_path, upstream=upstream.url) as first,
    ):
        load = ClientLoad(
            port=first.port,
            mode="stream",
            connections=STREAMS,
            requests=STREAMS * ROUNDS,
            model="load",
        )
        with LoadClient(load) as client:
            begun = time.monotonic()
            ends = [_serve_second(first.store) for _ in range(scaled(10, least=2))]
            seconds = (time.monotonic() - begun) / len(ends)
            assert _runs(client.pid), "the others met no open streams"
            result = client.wait(300)
        assert first.terminate() == 0, first.log
    found = read_store(first.store)
    sent = marks_of(result, "load")
    report(
        name="further owners come to a store during streams",
        sent=len(sent),
        lost=len(sent - found.outcomes.keys()),
        client_saw=in_words(result),
        figures={"came": len(ends), "seconds until each had ended": round(seconds, 2)},
    )
    for status, said in ends:
        assert status == 2
        assert f"is in use by process {first.pid}" in said
    assert result.statuses == {200: result.requests}
    assert found.outcomes == dict.fromkeys(sent, "OK")
    assert not found.twice


def _serve_second(store: Path) -> tuple[int, str]:
    """Start ``spantap serve`` on a store that has an owner; its status and what it said."""
    ports = {name: str(find_free_port()) for name in ("SPANTAP_PORT", "SPANTAP_ADMIN_PORT")}
    ended = subprocess.run(
        [PROGRAM, "serve", "--no-page", "--store", str(store)],
        env=clean_environment() | ports,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr
