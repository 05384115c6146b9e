"""The command line as a process: what it prints where, and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from codec.dialects import DIALECTS
from codec.text.jsontext import decode_json_object
from proxy.__main__ import main
from telemetry.store.store import Store
from tests.proxy.recorded_calls import (
    make_exchange,
    make_failed_exchange,
    make_row,
    make_store,
    span_id_of,
)

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = [sys.executable, "-m", "spantap"]


def test_dialects_are_listed() -> None:
    """On standard output, one a line, and that is no error."""
    done = subprocess.run(
        [*PROGRAM, "upstream", "--dialect", "?"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == list(DIALECTS)
    assert not done.stderr


def test_a_reader_that_has_enough_is_no_error() -> None:
    """As ``spantap upstream --dialect '?' | head -1``: no traceback."""
    with subprocess.Popen(
        [*PROGRAM, "upstream", "--dialect", "?"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 1


def test_what_an_encoding_lacks_is_written_all_the_same(tmp_path: Path) -> None:
    """Not every terminal speaks UTF-8: no traceback, and no call is left out."""
    row = replace(make_row(make_exchange(1)), model="m日")
    with Store.open(tmp_path / "traces.db") as store:
        store.add([row])
    for words in (["traces"], ["stats", "--by", "model"]):
        done = subprocess.run(
            [*PROGRAM, *words, "--store", str(tmp_path / "traces.db")],
            capture_output=True,
            check=True,
            env=os.environ | {"PYTHONIOENCODING": "latin-1"},
        )
        assert rb"m\u65e5" in done.stdout


@pytest.mark.parametrize(
    "arguments", [["traces", "--bogus\x1b[2J"], ["traces", "--config", "/\x1b[2J"]]
)
def test_arguments_steer_no_terminal(arguments: list[str]) -> None:
    """They are shown in complaints, escaped."""
    done = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert "\\x1b[2J" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "show {id} --store {store} --json",
        "show --store {store} --json {id}",
        "show --json {id} --store {store}",
        "--json --store {store} show {id}",
    ],
)
def test_a_call_is_shown_wherever_its_flags_stand(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the id, behind it, and before ``show``."""
    store = make_store(tmp_path / "traces.db", make_exchange(1), make_exchange(2))
    said = words.format(id=span_id_of(1), store=store).split()
    assert main(["traces", *said]) == 0
    record = decode_json_object(capsys.readouterr().out)
    assert record["span_id"] == span_id_of(1)
    assert "request" in record, "in full"


@pytest.mark.parametrize("words", ["--limit 1 --store {store}", "list --limit 1 --store {store}"])
def test_calls_are_listed_with_and_without_the_word(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``list`` is what the command does by itself."""
    store = make_store(tmp_path / "traces.db", make_exchange(1), make_exchange(2))
    assert main(["traces", "--json", *words.format(store=store).split()]) == 0
    assert decode_json_object(capsys.readouterr().out)["span_id"] == span_id_of(2)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("show", "traces show ID"),
        ("show 0a 0b", "traces show ID"),
        ("show 0a --sort slow", "--sort"),
        ("show 0a --since 2h", "--since"),
        ("show 0a --run x", "--run"),
        ("--full", "--json"),
        ("--full status:ok model:m", "--json"),
        ("--raw", "--raw"),
        ("list --raw", "--raw"),
        ("show 0a --raw --json", "--raw"),
        ("show 0a --raw --full", "--raw"),
    ],
)
def test_wrong_words_behind_traces_are_told(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit status 2, in one sentence."""
    assert main(["traces", *words.split()]) == 2
    said = capsys.readouterr().err
    assert said.startswith("spantap: ")
    assert told in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ("list status:error", (3,)),
        ("-status:error", (1, 2)),
        ("--sort slow -http:429 --limit 1", (2,)),
        ("--since 2025-11-20 list", (1, 2, 3)),
    ],
)
def test_a_filter_stands_among_flags(
    words: str, numbers: tuple[int, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also words that begin as a flag does."""
    exchanges = (make_exchange(1), make_exchange(2), make_failed_exchange(3))
    store = make_store(tmp_path / "traces.db", *exchanges)
    assert main(["traces", "--store", str(store), "--json", *words.split()]) == 0
    listed = [decode_json_object(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["span_id"] for record in listed] == [span_id_of(number) for number in numbers]


def test_calls_are_shown_without_the_key_of_an_upstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be in the environment of ``serve`` alone; the file's store counts."""
    store = make_store(tmp_path / "traces.db", make_exchange(1))
    config = tmp_path / "spantap.toml"
    config.write_text(
        f"store = '{store}'\n[[upstream]]\nname = 'a'\nurl = 'http://a'\napi_key_env = 'DEMO_KEY'\n"
    )
    monkeypatch.delenv("DEMO_KEY", raising=False)
    assert main(["traces", "--config", str(config), "--json"]) == 0
    monkeypatch.setenv("SPANTAP_CONFIG", str(config))
    assert main(["traces", "--json"]) == 0
    assert capsys.readouterr().out.count(span_id_of(1)) == 2
