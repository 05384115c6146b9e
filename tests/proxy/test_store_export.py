"""``spantap store export``: calls as lines."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from codec.text.jsontext import decode_json
from proxy.__main__ import main
from proxy.commands.store import export as store_export
from proxy.commands.store.arguments import _FORMATS
from telemetry.spans.otlp.decoding import encode_json_line
from telemetry.store.store import Store
from tests.proxy.recorded_calls import (
    make_exchange,
    make_failed_exchange,
    make_row,
    make_store,
    make_tools_exchange,
    span_id_of,
)
from tests.proxy.store_runs import StoreRunner

if TYPE_CHECKING:
    from pathlib import Path

EXCHANGES = (make_exchange(1), make_tools_exchange(2), make_failed_exchange(3))


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> StoreRunner:
    """On a store of three calls."""
    return StoreRunner(make_store(tmp_path / "traces.db", *EXCHANGES), capsys)


def test_jsonl_is_what_traces_prints(run: StoreRunner, capsys: pytest.CaptureFixture[str]) -> None:
    """With ``--json --full``, byte for byte, oldest first."""
    exported = run("export", "--format", "jsonl")
    assert exported.status == 0
    assert main(["traces", "--json", "--full", "--store", str(run.store)]) == 0
    assert exported.out == capsys.readouterr().out
    assert [record["span_id"] for record in exported.records] == [*map(span_id_of, (1, 2, 3))]


def test_a_dash_is_standard_output(
    run: StoreRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with other programs: no file has that name."""
    monkeypatch.chdir(tmp_path)
    assert len(run("export", "--format", "jsonl", "--out", "-").records) == 3
    assert not (tmp_path / "-").exists()


def test_otlp_is_a_request_a_line(run: StoreRunner) -> None:
    """Each of one span."""
    exported = run("export", "--format", "otlp")
    assert exported.out.splitlines() == [encode_json_line(make_row(e).span) for e in EXCHANGES]


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (("status:error",), (3,)),
        (("-status:error", "--since", "2025-11-20"), (1, 2)),
        (("get_weather",), (2,)),
        (("status:ok", "Lisbon", "OSLO"), (2,)),
        (("model:none",), ()),
    ],
)
def test_a_filter_chooses(
    words: tuple[str, ...], numbers: tuple[int, ...], run: StoreRunner
) -> None:
    """Conditions and texts."""
    ran = run("export", "--format", "jsonl", *words)
    assert (ran.status, ran.err) == (0, "")
    assert [record["span_id"] for record in ran.records] == [*map(span_id_of, numbers)]


def test_there_is_no_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """More than a list has by itself, and than a read has."""
    exchanges = [make_exchange(number) for number in range(1, 200)]
    run = StoreRunner(make_store(tmp_path / "t.db", *exchanges), capsys)
    assert len(run("export", "--format", "jsonl").out.splitlines()) == 199


def test_a_call_is_written_before_the_next_is_read(
    run: StoreRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are recorded meanwhile are not among them, so it ends."""
    with Store.open(run.store, delivers=False) as owner:
        written: list[int] = []

        def write(stored: object) -> str:
            written.append(len(written))
            owner.add([make_row(make_exchange(100 + len(written)))])
            if len(written) == 1:
                owner.delete([2])
            return "{}"

        monkeypatch.setitem(store_export.FORMATS, "jsonl", write)
        assert run("export", "--format", "jsonl").out == "{}\n{}\n", "the second is gone"


def test_a_file_is_for_its_owner_and_never_written_over(run: StoreRunner, tmp_path: Path) -> None:
    """What was done is told on standard error."""
    file = tmp_path / "out.jsonl"
    ran = run("export", "--format", "otlp", "--out", str(file))
    assert (ran.status, ran.out) == (0, "")
    assert ran.err == f"spantap store export: wrote 3 calls to {file}.\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(file.read_text().splitlines()) == 3
    ran = run("export", "--format", "jsonl", "--out", str(file))
    assert ran.status == 2
    assert "is there already" in ran.err
    assert decode_json(file.read_text().splitlines()[0])["resourceSpans"]


def test_a_file_that_is_not_whole_is_removed(
    run: StoreRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And why it is not is told."""

    def fail(_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(store_export.FORMATS, "jsonl", fail)
    ran = run("export", "--format", "jsonl", "--out", str(tmp_path / "out"))
    assert (ran.status, (tmp_path / "out").exists()) == (1, False)
    assert "No space left on device" in ran.err
    ran = run("export", "--format", "jsonl", "--out", str(tmp_path / "no" / "out"))
    assert ran.status == 1
    assert "No such file" in ran.err


def test_a_damaged_call_is_left_out_and_told(run: StoreRunner) -> None:
    """With status 1."""
    with Store.open(run.store) as owner, owner._file.use() as connection:
        connection.execute("UPDATE spans SET checksum = 1 WHERE seq = 2")
    ran = run("export", "--format", "jsonl")
    assert (ran.status, len(ran.records)) == (1, 2)
    assert "1 call left out" in ran.err


def test_mistakes_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A filter that cannot be followed, a store that is not there."""
    run = StoreRunner(tmp_path / "none.db", capsys)
    assert run("export", "--format", "otlp").status == 1
    ran = run("export", "--format", "otlp", "modle:x")
    assert ran.status == 2
    assert ran.err.startswith("spantap store export: unknown key `modle`")


def test_the_formats_are_those_that_there_are() -> None:
    """The parser names them itself, for it does not import them."""
    assert [*store_export.FORMATS] == [*_FORMATS]
