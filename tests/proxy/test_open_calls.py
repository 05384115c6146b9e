"""Open calls in the list of ``spantap traces``: from a running proxy, below the recorded ones."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import threading
import time
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.text import Text

from codec.text.jsontext import encode_json
from proxy.commands import traces
from proxy.commands.console import open_console
from proxy.commands.listing import ASK_SECONDS, find_open_calls, print_open
from proxy.processes.launch_channel import encode_line, pointing_to_control_socket
from proxy.processes.open_calls import NO_CALLS, OpenCalls
from proxy.reading.record import build_open_record
from telemetry.observing.open_call import OpenCall
from tests.e2e.processes import wait_until
from tests.faults.stage import running_spantap
from tests.proxy.recorded_calls import START_NS, make_exchange, make_store, span_id_of
from tests.proxy.traces_runs import Ran, Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW_NS = START_NS + 12_340_000_000

OPEN = OpenCall(
    span_id="0c" * 8,
    trace_id="0d" * 16,
    start_ns=START_NS,
    api="chat.completions",
    upstream="demo",
    model="gpt-open",
    what="Fix it",
    client="codex",
    http_status=200,
    chunks=17,
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of two calls."""
    return make_store(tmp_path / "traces.db", make_exchange(1), make_exchange(2))


def tell(
    monkeypatch: pytest.MonkeyPatch,
    *calls: OpenCall,
    count: int | None = None,
    web_sockets: int = 0,
) -> None:
    """Let the proxy say that these calls and so many WebSockets are open."""
    count = len(calls) if count is None else count
    told = OpenCalls(calls=calls, count=count, web_sockets=web_sockets)
    monkeypatch.setattr(traces, "find_open_calls", lambda _: told)


def test_open_calls_stand_below_the_recorded_ones(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same columns, with what they have taken so far, whatever the limit."""
    tell(monkeypatch, OPEN)
    lines = Ran(store, limit=1, now_ns=NOW_NS).out.splitlines()
    assert len(lines) == 3
    assert span_id_of(2) in lines[1]
    words = "0c0c0c0c0c0c0c0c gpt-open codex chat.completions Fix it - - - - 12.34 s -"
    words += " open, 17 chunks open"
    assert lines[2].split()[2:] == words.split()
    at = lines[0].index("outcome")
    assert (lines[1][at:].split()[0], lines[2][at:].split()[0]) == ("completed", "open,")


def test_a_store_without_calls_has_open_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call of all, while it takes its time."""
    tell(monkeypatch, OPEN)
    ran = Ran(make_store(tmp_path / "empty.db"), now_ns=NOW_NS)
    assert (ran.status, len(ran.out.splitlines())) == (0, 2)
    assert "gpt-open" in ran.out


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"http_status": None, "chunks": 0}, "open"),
        ({"http_status": 200, "chunks": 0}, "open, 0 chunks"),
        ({"http_status": 200, "chunks": 1}, "open, 1 chunk"),
        ({"http_status": 429, "chunks": 1}, "open 429"),
    ],
)
def test_an_open_call_says_how_far_it_is(members: dict[str, Any], words: str) -> None:
    """Whether an answer has begun, and how much of it has come."""
    known = {name: getattr(OPEN, name) for name in OPEN.__struct_fields__}
    out = io.StringIO()
    call = OpenCall(**(known | members))
    print_open(open_console(out), [call], above=None, now_ns=NOW_NS, zone=UTC)
    header, row = out.getvalue().splitlines()
    assert row[header.index("outcome") : header.index("state")].strip() == words
    assert row.startswith("11-20 14:04:05 ")


def test_open_calls_are_marked_for_programs(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each a line, with the words that recorded calls have for the same."""
    tell(monkeypatch, OPEN)
    first, second, last = Ran(store, as_json=True, now_ns=NOW_NS).records
    assert last == build_open_record(OPEN, NOW_NS)
    assert (last["open"], last["duration_ms"], last["chunks"]) == (True, 12_340.0, 17)
    assert "open" not in first
    assert last.keys() - second.keys() == {"open", "chunks"}


@pytest.mark.parametrize(
    "options",
    [
        {"words": ["status:ok"]},
        {"words": ['"Hello"']},
        {"since": "2025-01-01"},
        {"sort": "slow"},
        {"launch": "app"},
    ],
)
def test_a_list_of_some_calls_has_no_open_ones(
    options: dict[str, Any], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they will come to is not known."""
    tell(monkeypatch, OPEN)
    assert "gpt-open" not in Ran(store, now_ns=NOW_NS, **options).out


def test_more_open_calls_than_are_told_are_counted(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On standard error."""
    tell(monkeypatch, OPEN, count=41)
    assert Ran(store).err == "spantap traces: 40 older calls are open, too.\n"


@pytest.mark.parametrize(
    ("count", "words"), [(1, "1 WebSocket is open."), (1234, "1,234 WebSockets are open.")]
)
def test_open_websockets_are_counted_even_without_a_call(
    count: int, words: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On standard error."""
    tell(monkeypatch, web_sockets=count)
    assert Ran(store).err == f"spantap traces: {words}\n"


def test_an_open_call_cannot_steer_the_terminal(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever model is asked for; and each is one line."""
    bad = "\x1b]0;pwned\x07\n\u202e"
    known = {name: getattr(OPEN, name) for name in OPEN.__struct_fields__}
    tell(monkeypatch, OpenCall(**(known | {"model": bad, "client": bad, "what": bad})))
    for width in ("34", "80", "220"):
        monkeypatch.setenv("COLUMNS", width)
        shown = Ran(store, out=Terminal(), now_ns=NOW_NS).out
        assert "\x1b]" not in shown
        assert "\u202e" not in shown
        lines = Text.from_ansi(shown).plain.splitlines()
        assert "open" in lines[-1]
        assert max(map(len, lines)) <= int(width)


@contextlib.contextmanager
def control_socket(folder: Path, store: Path, answer: bytes | None) -> Iterator[None]:
    """A control socket that gives everybody this answer, or none."""
    path = str(folder / "door")
    with socket.socket(socket.AF_UNIX) as sock, pointing_to_control_socket(str(store), path):
        sock.bind(path)
        sock.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = sock.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer or b"")

        if answer is not None:
            threading.Thread(target=serve, daemon=True).start()
        yield


@pytest.mark.parametrize(
    ("answer", "calls"),
    [
        (
            encode_line(OpenCalls(calls=(OPEN,), count=1)) + b'{"type":"left","stays":true}\n',
            (OPEN,),
        ),
        (b'{"type":"left","stays":true}\n', ()),
        (b"", ()),
        (b"nonsense\n", ()),
        (encode_line(OpenCalls(calls=(OPEN,), count=1))[:50], ()),
        (b"x" * 1_000_000, ()),
        (None, ()),
    ],
)
def test_a_proxy_that_does_not_answer_is_passed_over(
    answer: bytes | None, calls: tuple[OpenCall, ...], tmp_path: Path
) -> None:
    """One of an older version says that it stays; a stopped one says nothing."""
    with control_socket(tmp_path, tmp_path / "t.db", answer):
        begin = time.monotonic()
        assert find_open_calls(tmp_path / "t.db").calls == calls
        assert time.monotonic() - begin < ASK_SECONDS + 0.5


def is_stopped(pid: int) -> bool:
    """Whether all threads of a process stand still."""
    states = [file.read_text().rpartition(")")[2].split()[0] for file in tasks(pid)]
    return set(states) == {"T"}


def tasks(pid: int) -> list[Path]:
    """The files that say how the threads of a process are."""
    return [*Path(f"/proc/{pid}/task").glob("*/stat")]


class Hanging:
    """An upstream that begins an answer and goes on when it is told."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.goes_on = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._listener.accept()
            with sock:
                sock.recv(65536)
                sock.sendall(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                    b"connection: close\r\n\r\n"
                )
                for _ in range(2):
                    time.sleep(0.1)  # two reads
                    sock.sendall(b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n')
                self.goes_on.wait(60)
                sock.sendall(b"data: [DONE]\n\n")

    def close(self) -> None:
        """End it."""
        self.goes_on.set()
        self._listener.close()


@pytest.mark.timeout(120)
def test_a_running_proxy_tells_of_its_open_calls(tmp_path: Path) -> None:
    """While one is under way it is listed, and when it has ended it is a recorded one."""
    body = encode_json({"model": "gpt-open", "stream": True, "messages": []}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nuser-agent: codex/1\r\n"
        f"authorization: Bearer sk-canary-0123456789\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with (
        contextlib.closing(Hanging()) as upstream,
        running_spantap(tmp_path, upstream=upstream.url) as spantap,
        socket.create_connection(("127.0.0.1", spantap.port)) as client,
    ):
        assert find_open_calls(spantap.store) == NO_CALLS
        client.sendall(head.encode() + body)

        def listed() -> list[dict[str, Any]]:
            return Ran(spantap.store, as_json=True).records

        wait_until(lambda: [one.get("chunks") for one in listed()] == [2], 20, "two chunks came")
        [record] = listed()
        assert (record["model"], record["client"]) == ("gpt-open", "codex")
        assert (record["open"], record["http_status"]) == (True, 200)
        assert 0 < record["duration_ms"] < 60_000
        assert "canary" not in repr(record)
        # Telemetry stands still: it is passed over, and asked again later.
        [telemetry] = spantap.children()["telemetry"]
        os.kill(telemetry, signal.SIGSTOP)
        try:
            wait_until(lambda: is_stopped(telemetry), 20, "telemetry stands still")
            begin = time.monotonic()
            assert listed() == []
            assert time.monotonic() - begin < ASK_SECONDS + 1
        finally:
            os.kill(telemetry, signal.SIGCONT)
        wait_until(lambda: len(listed()) == 1, 20, "it is told again")
        upstream.goes_on.set()
        wait_until(lambda: [one.get("open") for one in listed()] == [None], 20, "it is recorded")
        assert listed()[0]["span_id"] == record["span_id"]
        assert find_open_calls(spantap.store) == NO_CALLS
        assert spantap.terminate() == 0
    assert find_open_calls(spantap.store) == NO_CALLS
