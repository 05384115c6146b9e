"""``docs/run.md``: its commands are run as its reader would, and its tables say what is there."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from proxy.launches.variables import read_variables
from telemetry.launch_labels import MAX_NAME_CHARS
from telemetry.reading.stored_calls import open_calls
from tests.docs.blocks import DOCS, Page
from tests.docs.programs import build_page
from tests.docs.provider import running_provider
from tests.docs.reader import run
from tests.e2e.processes import clean_environment

PAGE = Page(DOCS / "run.md")

ASK = f"""\
#!{sys.executable}
import json, os, urllib.request
messages = [{{"role": "user", "content": "hi"}}]
chat = json.dumps({{"model": "gpt-demo", "messages": messages}}).encode()
urllib.request.urlopen(os.environ["OPENAI_BASE_URL"] + "/chat/completions", chat).read()
"""

COMMANDS = "".join(
    block.text for block in PAGE.blocks if block.language == "sh" and "codex" not in block.text
)
"""All but Codex's, which ``make agents`` runs (``tests/agents``)."""


@pytest.mark.timeout(120)
async def test_the_commands_of_the_page_do_what_they_say(tmp_path: Path) -> None:
    """One after the other, in a folder with the programs that they name."""
    for name in ("app.py", "job.sh"):
        (tmp_path / name).write_text(ASK)
        (tmp_path / name).chmod(0o700)
    async with running_provider("openai") as provider:
        environment = clean_environment() | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "SPANTAP_STORE": str(tmp_path / "traces.db"),
            "SPANTAP_UPSTREAM": provider.url,
        }
        printed = await run(f"{COMMANDS}\necho $OLLAMA_HOST", tmp_path, environment)
    with open_calls(tmp_path / "traces.db") as reader:
        assert [
            it.summary.launch and it.summary.launch.partition("~~")[0] for it in reader.newest(9)
        ] == [
            "python",
            "nightly",
        ]
    assert len(re.findall(r" gpt-demo .* completed ", printed)) == 1  # of the run that was named
    assert printed.endswith("\nhttp://127.0.0.1:4000\n")


def test_the_table_has_every_variable() -> None:
    """In the order of the data, and what each of them leads to."""
    rows = [*PAGE.rows("Variable")]
    assert [name.strip("`") for name, _ in rows] == [row.name for row in read_variables()]
    lines = dict(zip((row.name for row in read_variables()), table_lines("Variable"), strict=True))
    for row in read_variables():
        if row.url is not None:
            assert f"`{row.url}`" in lines[row.name]
        else:
            assert ("only if it is set" in lines[row.name]) is (row.path is None)


def test_the_table_of_programs_has_those_that_are_known() -> None:
    """And the length of a name is the one that is taken."""
    assert build_page() == PAGE.text, "python -m tests.docs.programs writes it"
    assert f"A name has {MAX_NAME_CHARS} characters at most" in PAGE.text


def table_lines(title: str) -> list[str]:
    """The rows of a table, whole."""
    table = PAGE.text.partition(f"\n| {title} |")[2].partition("\n\n")[0]
    return table.splitlines()[2:]
