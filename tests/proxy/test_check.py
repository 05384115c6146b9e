"""What ``spantap check`` says of the store, without making one."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from proxy.commands.check import run_check
from proxy.settings import Settings
from telemetry.store import Store
from tests.otlp_sink import HttpSink, SinkAnswer


def check(store: Path) -> str:
    """The line about the store; the upstream has no one to answer, which is another's line."""
    out = io.StringIO()
    run_check(Settings(upstream="http://127.0.0.1:1", store=store), environ={}, out=out)
    lines = [line for line in out.getvalue().splitlines() if line[6:].startswith("store: ")]
    assert len(lines) == 1
    return lines[0]


def test_a_store_that_is_not_there_yet_is_good_and_is_not_made(tmp_path: Path) -> None:
    """Neither the file nor its folders."""
    store = tmp_path / "a" / "b" / "traces.db"
    assert check(store) == f"ok    store: {store} will be made when served"
    assert not any(tmp_path.iterdir())


def test_an_empty_file_is_as_good_as_none(tmp_path: Path) -> None:
    """``serve`` makes a store of it."""
    store = tmp_path / "traces.db"
    store.touch()
    assert check(store) == f"ok    store: {store} will be made when served"


def test_a_store_that_nobody_uses_is_good_and_stays_free(tmp_path: Path) -> None:
    """What was locked to find out is let go."""
    store = tmp_path / "traces.db"
    Store.open(store).close()
    assert check(store) == f"ok    store: {store}"
    Store.open(store).close()


def test_a_store_in_use_is_good_and_its_user_is_named(tmp_path: Path) -> None:
    """Whoever checks while a proxy runs has found that proxy."""
    store = tmp_path / "traces.db"
    with Store.open(store):
        line = check(store)
    assert line.startswith("ok ")
    assert f"in use by process {os.getpid()}" in line
    assert "while `spantap serve` runs" in line


def test_a_file_that_is_no_store_is_bad(tmp_path: Path) -> None:
    """And what to do about it is said."""
    store = tmp_path / "traces.db"
    store.write_text("these are notes of mine, not a database at all " * 40)
    line = check(store)
    assert line.startswith("bad ")
    assert "no SQLite database" in line
    assert "name another file" in line


@pytest.mark.parametrize("place", ["file/traces.db", "file/sub/traces.db", "folder"])
def test_a_place_that_cannot_hold_a_file_is_bad(place: str, tmp_path: Path) -> None:
    """A folder that is a file, also further up, and a file that is a folder."""
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    line = check(tmp_path / place)
    assert line.startswith("bad ")
    assert "--store" in line


@pytest.mark.parametrize("exists", [True, False])
def test_a_place_that_may_not_be_written_is_bad(
    *, exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder, or the file in it; nothing is tried, for root may write everywhere."""
    store = tmp_path / "traces.db"
    closed = store if exists else tmp_path
    if exists:
        Store.open(store).close()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed and access(path, mode))
    line = check(store)
    assert line.startswith("bad ")
    assert str(store) in line
    assert "--store" in line


def lines_about(what: str, environ: dict[str, str], **settings: Any) -> list[str]:
    """The lines about one thing, by an environment of its own."""
    out = io.StringIO()
    store = Path("/nowhere/traces.db")
    chosen = Settings(upstream="http://127.0.0.1:1", store=store, **settings)
    run_check(chosen, environ=environ, out=out)
    return [line for line in out.getvalue().splitlines() if line[6:].startswith(f"{what}: ")]


@pytest.mark.parametrize(
    ("environ", "settings", "line"),
    [
        ({}, {}, "ok    spans: all content is recorded"),
        ({}, {"content": False}, "ok    spans: no content is recorded"),
        (
            {"OPENINFERENCE_HIDE_INPUTS": "true"},
            {"redact": ["email"]},
            "ok    spans: content is recorded, with hide_inputs; what the patterns find is hidden",
        ),
        (
            {"OPENINFERENCE_HIDE_INPUTS": "1"},
            {},
            "bad   spans: OPENINFERENCE_HIDE_INPUTS is '1', but must be true or false",
        ),
    ],
)
def test_what_of_content_is_recorded_is_told(
    environ: dict[str, str], settings: dict[str, Any], line: str
) -> None:
    """So that nobody has to send a chat to find out."""
    assert lines_about("spans", environ, **settings) == [line]


def test_backends_of_spans_and_of_metrics_are_probed() -> None:
    """Each by a request that holds nothing."""
    with HttpSink() as spans, HttpSink() as metrics:
        metrics.rule = lambda _: SinkAnswer(status=405)
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": spans.url,
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{metrics.url}/v1/metrics",
        }
        good, bad = lines_about("OTLP", environ)
    assert good == f"ok    OTLP: {spans.url} takes spans"
    assert bad.startswith(f"bad   OTLP: {metrics.url} does not take metrics: HTTP 405")
    assert bad.endswith("or set OTEL_METRICS_EXPORTER=none")


@pytest.mark.parametrize("name", ["OTEL_TRACES_SAMPLER", "OTEL_METRICS_EXPORTER"])
def test_variables_that_would_end_the_start_are_told(name: str) -> None:
    """As ``serve`` tells them."""
    [line] = lines_about("OTLP", {name: "sometimes"})
    assert line.startswith(f"bad   OTLP: {name} is 'sometimes'")
