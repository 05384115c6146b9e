"""``docs/terminal.md``: its commands are run on a store, and its tables are those of the code.

So are those of the README that find a call.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from proxy.__main__ import main
from proxy.commands import table
from telemetry.finding.keys import describe_keys
from telemetry.span_identity import SpanIdentity
from telemetry.store.store import Store
from tests.docs.blocks import DOCS, ROOT, Page
from tests.proxy.recorded_calls import make_exchange, make_failed_exchange, make_store
from tests.telemetry.run_rows import make_agent_run

if TYPE_CHECKING:
    from pathlib import Path

PAGE = Page(DOCS / "terminal.md")
README = Page(ROOT / "README.md")
TOUR = "spantap traces status:error"
"""How the block of the README begins."""

COMMANDS = [
    line
    for block in (*PAGE.blocks, *(one for one in README.blocks if one.text.startswith(TOUR)))
    if block.language == "sh" and block.reason is None
    for line in block.text.splitlines()
]

ID = "2dd5cb58"


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store with some calls, one of them with the id of the page, and the runs of the page."""
    identity = SpanIdentity(trace_id="0f" * 16, span_id=f"{ID}00000001")
    exchanges = (make_exchange(1), make_exchange(2, identity=identity), make_failed_exchange(3))
    monkeypatch.chdir(tmp_path)  # where files are named
    path = make_store(tmp_path / "traces.db", *exchanges)
    with Store.open(path) as store:
        store.add([replace(row, launch="nightly") for row in make_agent_run(812).rows])
    monkeypatch.setenv("SPANTAP_STORE", str(path))
    monkeypatch.delenv("SPANTAP_CONFIG", raising=False)


@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_of_the_page_work(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is understood, and those that name a call show it."""
    program, *words = shlex.split(line, comments=True)
    assert (program, main(words)) == ("spantap", 0)
    if ID in words:
        assert f"{ID}00000001" in capsys.readouterr().out


def test_what_the_page_shows_is_what_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a filter that cannot be followed."""
    texts = [block.text for block in PAGE.blocks if block.language == "text"]
    (shown,) = [text for text in texts if text.startswith("$ spantap ")]
    command, _, said = shown.partition("\n")
    assert main(shlex.split(command.removeprefix("$ spantap "))) == 2
    assert capsys.readouterr().err == said


def test_the_table_has_every_key() -> None:
    """In the words of the help."""
    lines = PAGE.text.partition("| Word |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [re.fullmatch(r"\| `([^`]+)` \| (.+) \|", line) for line in lines]
    assert [(row[1], row[2]) for row in rows if row is not None] == describe_keys()


def test_columns_are_left_out_in_the_order_that_the_page_gives() -> None:
    """The last of them first."""
    by_rank = sorted(table.COLUMNS, key=lambda column: column.rank)
    assert ", ".join(f"`{column.title}`" for column in by_rank) in PAGE.text
