"""Orders for a store that a running ``spantap serve`` has: the whole way, with real processes."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from proxy.commands.store import owner as store_owner
from proxy.commands.store.owner import open_owner
from telemetry.errors import StoreUnavailable
from telemetry.reading.stored_calls import open_calls
from telemetry.store.store import Store
from tests.e2e.processes import wait_until
from tests.e2e.spantap import running_upstream
from tests.faults.stage import running_spantap
from tests.proxy.store_runs import StoreRunner
from tests.telemetry.reading.asking import where
from tests.telemetry.span_rows import make_row
from tests.telemetry.store.test_minutes import check

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.faults.stage import RunningSpantap

CANARY = "Zebra-Canary"

COUNT = 1_000


@pytest.fixture
def spantap(tmp_path: Path) -> Iterator[RunningSpantap]:
    """A proxy on a store that has calls of somebody already."""
    store = tmp_path / "traces.db"
    now_ns = time.time_ns()
    with Store.open(store, delivers=False) as owner:
        for number in range(COUNT):
            row = make_row(number, padding_bytes=3_000, recorded_ns=now_ns)
            user = f"{CANARY}-{number // 10 % 2}"
            columns = replace(row.columns, user=user, preview=f"by {user}")
            owner.add([replace(row, columns=columns, span=row.span + user.encode())])
    folder = tmp_path / "proxy"
    folder.mkdir()
    with (
        running_upstream(tmp_path) as port,
        running_spantap(folder, upstream=f"http://127.0.0.1:{port}/v1", store=store) as running,
    ):
        yield running


@pytest.fixture
def run(spantap: RunningSpantap, capsys: pytest.CaptureFixture[str]) -> StoreRunner:
    """Commands on its store."""
    return StoreRunner(spantap.store, capsys)


def call(spantap: RunningSpantap) -> None:
    """One call through the proxy."""
    chat = {"model": "gpt-demo", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    request = urllib.request.Request(
        f"{spantap.url}/v1/chat/completions",
        json.dumps(chat).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status == 200
        answer.read()


def count(store: Path, user: str) -> int:
    """How many calls a user has."""
    with open_calls(store) as reader:
        return reader.that(where(f"user:{user}")).count()


def test_a_running_proxy_deletes_what_is_asked_and_goes_on_recording(
    spantap: RunningSpantap, run: StoreRunner
) -> None:
    """Calls are made all the while, and none is lost; no byte of the others is left."""
    (record,) = run("info", "--json").records
    assert (record["owner"], record["takes_orders"]) == (str(spantap.pid), True)
    done, made = threading.Event(), 0

    def go_on() -> None:
        nonlocal made
        while not done.is_set():
            call(spantap)
            made += 1

    calling = threading.Thread(target=go_on)
    calling.start()
    try:
        ran = run("delete", f"user:{CANARY}-0", "--yes")
    finally:
        done.set()
        calling.join()
    assert (ran.status, ran.out) == (0, f"deleted {COUNT // 2} calls\n")
    assert "once no proxy runs" in ran.err
    call(spantap)
    wait_until(
        lambda: spantap.metrics()["spantap_spans_recorded_total"] == made + 1, 20, "all is stored"
    )
    assert count(spantap.store, f"{CANARY}-0") == 0
    assert count(spantap.store, f"{CANARY}-1") == COUNT // 2
    assert sum(sums.calls for sums in check(spantap.store)) == COUNT // 2 + made + 1
    files = [path for path in spantap.store.parent.iterdir() if path.is_file()]
    left = b"".join(path.read_bytes() for path in files)
    assert f"{CANARY}-0".encode() not in left
    assert f"{CANARY}-1".encode() in left
    before_bytes = spantap.store.stat().st_size
    ran = run("compact")
    assert (ran.status, ran.err) == (0, "")
    assert spantap.store.stat().st_size < before_bytes - 1_000_000
    assert spantap.terminate() == 0
    assert "ERROR" not in spantap.log
    with sqlite3.connect(spantap.store) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_telemetry_that_dies_meanwhile_does_the_rest_when_it_is_back(
    spantap: RunningSpantap, run: StoreRunner
) -> None:
    """What went is gone, the rest is whole, and the same order is given to its successor."""
    [telemetry] = spantap.children()["telemetry"]
    with open_owner(spantap.store) as owner:
        assert owner.own is None
        assert owner.delete([1, 3, 5]).deleted == 3
        os.kill(telemetry, signal.SIGSTOP)
        ender = threading.Timer(0.5, os.kill, (telemetry, signal.SIGKILL))
        ender.start()
        assert owner.delete([1, 3, 5, 7]).looked_at == 4
        ender.join()
    assert spantap.children()["telemetry"] != [telemetry]
    assert run("delete", f"user:{CANARY}-0", "--yes").status == 0
    assert count(spantap.store, f"{CANARY}-0") == 0
    assert sum(sums.calls for sums in check(spantap.store)) == COUNT // 2


def test_telemetry_that_does_not_come_back_is_told(
    spantap: RunningSpantap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for ever."""
    monkeypatch.setattr(store_owner, "WAIT_SECONDS", 0.1)
    [telemetry] = spantap.children()["telemetry"]
    with open_owner(spantap.store) as owner:
        os.kill(telemetry, signal.SIGSTOP)
        ender = threading.Timer(0.5, os.kill, (telemetry, signal.SIGKILL))
        ender.start()
        with pytest.raises(StoreUnavailable, match="telemetry process"):
            owner.delete([1, 3, 5, 7])
        ender.join()
    wait_until(lambda: spantap.children()["telemetry"] not in ([], [telemetry]), 20, "again")


def test_an_order_costs_recording_no_more_than_a_moment(spantap: RunningSpantap) -> None:
    """Each step of a thousand calls' deletion is short, the supervisor's way included."""
    took: list[float] = []
    with open_owner(spantap.store) as owner:
        seqs = [*range(1, COUNT + 1)]
        while seqs:
            began = time.monotonic()
            step = owner.delete(seqs[:200])
            took.append(time.monotonic() - began)
            seqs = seqs[step.looked_at :]
    assert len(took) >= 5
    # Half of what is measured here is the pause that the command makes; a loaded machine is slow.
    assert sorted(took)[len(took) // 2] < 0.5, took
