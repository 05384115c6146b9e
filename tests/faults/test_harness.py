"""The harness itself: it sees what it is to see, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.processes import wait_until
from tests.faults.backend import Ledger, SentSpan
from tests.faults.load import Load, run_load
from tests.faults.stage import running_spantap

if TYPE_CHECKING:
    from tests.faults.stage import RunningSpantap


def test_spantap_is_seen_from_outside_and_started_again(load_upstream: str, tmp_path: Path) -> None:
    """Numbers, memory, files, log; killed and started again it has its ports and its store."""
    with running_spantap(tmp_path, upstream=f"{load_upstream}/v1") as spantap:
        first = spantap.pid
        load = Load(port=spantap.port, prefix="seen", count=20, chunks=20)
        assert run_load(load).in_words == "every answer, byte for byte"
        wait_for_number(spantap, "spantap_spans_recorded_total", 20)
        assert spantap.rss_bytes()[first] > 1 << 20
        assert spantap.open_files()[first] > 3
        assert set(spantap.children()) == {"worker", "telemetry"}
        spantap.kill()
        assert not spantap.is_running()
        spantap.start()
        assert spantap.pid != first
        wait_for_number(spantap, "spantap_store_spans", 20)
        assert spantap.terminate() == 0
        spantap.start()
        pids = spantap.pids()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_load_tells_a_changed_answer(load_upstream: str) -> None:
    """Two chunks were expected, twenty came."""
    port = int(load_upstream.rpartition(":")[2])
    result = run_load(Load(port=port, prefix="changed", count=3, chunks=2))
    assert result.in_words == "0 of 3 answers; 3 changed"


def test_the_ledger_tells_repeats_from_changes() -> None:
    """A span that comes again the same is one; one that says something else is told."""
    one, other, changed = (
        SentSpan(span_id=span_id, mark=mark, digest=digest)
        for span_id, mark, digest in (("1", "a", b"x"), ("2", "a", b"y"), ("1", "a", b"z"))
    )
    ledger = Ledger()
    ledger.hold([one])
    ledger.hold([one, other])
    assert (ledger.span_ids, ledger.again, ledger.changed) == (["1", "2"], 1, set())
    assert ledger.marks == {"a": 2}
    ledger.hold([changed])
    assert ledger.changed == {"1"}


def wait_for_number(spantap: RunningSpantap, name: str, value: float) -> None:
    """Each process tells its numbers now and then."""
    wait_until(lambda: spantap.metrics().get(name) == value, 20, f"{name} is {value}")
