"""The table of programs: each row is whole, and its data send calls where they went."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from proxy.launches.programs import read_packages, read_programs
from proxy.launches.tools import TOOLS
from proxy.launches.variables import read_variables
from proxy.upstream_entry import check_url
from tests.agents.tasks import GROK, TASKS
from tests.docs.blocks import DOCS

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.launches.programs import Program

PROGRAMS = read_programs()
VARIABLES = {row.name for row in read_variables()}


@pytest.mark.parametrize("row", PROGRAMS.values(), ids=PROGRAMS)
def test_a_row_is_whole(row: Program) -> None:
    """Its variables are set in a launch, it has a source and a day, and its page is there."""
    assert VARIABLES.issuperset(row.reads)
    assert {default.variable for default in row.defaults} <= {*row.reads}
    for default in row.defaults:
        assert check_url(default.url).startswith("https://")
        assert default.needs
    assert row.source.startswith("https://")
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", row.date)
    assert row.sets
    assert row.advice
    assert bool(row.changes) == bool(row.mend)
    if row.page:
        text = (DOCS / "quickstarts" / f"{row.page}.md").read_text(encoding="utf-8")
        assert row.title in text
        assert row.mend.partition("=")[0].partition(",")[0] in text


def test_what_is_tried_has_a_task() -> None:
    """``make agents`` runs it with the real program."""
    assert {name for name, row in PROGRAMS.items() if row.tried} == {
        task.agent for task in (*TASKS, GROK)
    }


def test_every_program_with_functions_has_a_row() -> None:
    """And each package belongs to one."""
    assert TOOLS.keys() <= PROGRAMS.keys()
    packages = [package for row in PROGRAMS.values() for package in row.packages]
    assert len(packages) == len(set(packages)) == len(read_packages())


DASHSCOPE = "https://dashscope.aliyuncs.com/compatible-mode/v1"
KIMI = {"KIMI_MODEL_NAME": "m", "KIMI_MODEL_API_KEY": "k"}


@pytest.mark.parametrize(
    ("program", "environ", "files", "wanted"),
    [
        ("kimi", KIMI, {}, {"KIMI_MODEL_BASE_URL": "https://api.moonshot.ai/v1"}),
        ("kimi", KIMI | {"KIMI_MODEL_BASE_URL": "https://mine.example"}, {}, {}),
        ("kimi", KIMI | {"KIMI_MODEL_PROVIDER_TYPE": "openai"}, {}, {}),
        ("kimi", KIMI | {"KIMI_MODEL_NAME": ""}, {}, {}),
        ("grok", {}, {}, {}),
        ("grok", {"XAI_API_KEY": "k"}, {}, {"GROK_MODELS_BASE_URL": "https://api.x.ai/v1"}),
        ("grok", {"XAI_API_KEY": "k"}, {".grok/auth.json": {}}, {}),
        ("grok", {"GROK_API_KEY": "k"}, {}, {"GROK_BASE_URL": "https://api.x.ai/v1"}),
        (
            "grok",
            {"GROK_API_KEY": "k"},
            {".grok/user-settings.json": {"baseURL": "https://mine.example/v1"}},
            {"GROK_BASE_URL": "https://mine.example/v1"},
        ),
        ("qwen", {"OPENAI_API_KEY": "k"}, {}, {"OPENAI_BASE_URL": DASHSCOPE}),
        (
            "qwen",
            {"OPENAI_API_KEY": "k"},
            {".qwen/settings.json": {"security": {"auth": {"baseUrl": "https://mine.example"}}}},
            {"OPENAI_BASE_URL": "https://mine.example"},
        ),
        (
            "qwen",
            {"OPENAI_API_KEY": "k"},
            {".qwen/settings.json": {"security": []}},
            {"OPENAI_BASE_URL": DASHSCOPE},
        ),
        ("claude", {}, {}, {}),
    ],
)
def test_a_program_s_own_base_url_is_known_where_its_key_goes_there(
    program: str,
    environ: dict[str, str],
    files: dict[str, object],
    wanted: dict[str, str],
    tmp_path: Path,
) -> None:
    """Another key, a login or settings of the user's lead elsewhere."""
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    assert PROGRAMS[program].find_urls(environ | {"HOME": str(tmp_path)}) == wanted
