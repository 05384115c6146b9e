"""Conversations while telemetry is killed and spantap is restarted, with real processes."""

from __future__ import annotations

import json
import os
import signal
import threading
import urllib.request
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from telemetry.reading.stored_calls import open_calls
from tests.e2e.processes import wait_until
from tests.faults.stage import running_spantap

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.faults.stage import RunningSpantap

WORDS = "alpha bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike november"
TALKS = range(12)
TURNS = 4


class Answering(BaseHTTPRequestHandler):
    """Answers with its own words and the user's last."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))  # noqa: TID251
        said = f"{WORDS} {body['messages'][-1]['content']}"
        message = {"role": "assistant", "content": said}
        told = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        data = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def running_upstream() -> Iterator[str]:
    """An upstream, and its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(port: int, talk: int, turn: int) -> None:
    """Ask the next question of a talk, of a caller of its own."""
    messages: list[dict[str, str]] = []
    for number in range(turn + 1):
        asked = f"question {number} of {talk}"
        messages.append({"role": "user", "content": asked})
        if number < turn:
            messages.append({"role": "assistant", "content": f"{WORDS} {asked}"})
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps({"model": "m", "messages": messages}).encode(),
        {"content-type": "application/json", "authorization": f"Bearer sk-caller-{talk:012d}"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        assert response.status == 200
        response.read()


def kill_telemetry(spantap: RunningSpantap) -> None:
    """Kill telemetry, and wait until it is started again."""
    [killed] = spantap.children()["telemetry"]
    os.kill(killed, signal.SIGKILL)
    wait_until(
        lambda: spantap.children().get("telemetry", []) not in ([], [killed]), 30, "there again"
    )


def read_talks(store: Path) -> list[list[int | None]]:
    """The turns of each conversation, in order."""
    talks: dict[int | None, list[int | None]] = {}
    with open_calls(store) as reader:
        for stored in reader.newest(1_000):
            columns = stored.summary.columns
            talks.setdefault(columns.conversation, []).append(columns.turn)
    return [*talks.values()]


def test_talks_go_on_while_telemetry_is_killed_and_spantap_restarted(tmp_path: Path) -> None:
    """Each is one conversation with all of its turns, once: nothing is lost or doubled."""
    store = tmp_path / "t.db"
    with running_upstream() as upstream:
        for first in (0, TURNS // 2):
            with running_spantap(tmp_path, upstream=upstream, store=store) as spantap:
                for turn in range(first, first + TURNS // 2):
                    for talk in TALKS:
                        ask(spantap.port, talk, turn)
                        if talk == len(TALKS) // 2:  # of what is on its way some is stored
                            kill_telemetry(spantap)
                assert spantap.terminate() == 0, spantap.log
    talks = read_talks(store)
    assert Counter(len(turns) for turns in talks) == {TURNS: len(TALKS)}
    assert all(turns == [*range(1, TURNS + 1)] for turns in talks)
