"""``spantap help``: the documentation, wherever spantap is installed."""

from __future__ import annotations

import io
import re
import tomllib
from pathlib import Path

import pytest

from proxy.__main__ import main
from proxy.commands.help import TOPICS, run_help

ROOT = Path(__file__).parents[2]


def test_a_topic_is_printed_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe: nothing is wrapped, so that it can be searched."""
    for topic in TOPICS:
        assert main(["help", topic]) == 0
        assert capsys.readouterr().out == (ROOT / "docs" / f"{topic}.md").read_text()


def test_without_a_topic_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """All of them, with what each is about."""
    assert main(["help"]) == 0
    listed = capsys.readouterr().out
    for topic, about in TOPICS.items():
        assert re.search(rf"^  {topic} +{re.escape(about)}$", listed, re.MULTILINE)


@pytest.mark.parametrize(
    ("topic", "advice"),
    [
        ("setings", "did you mean settings?"),
        ("traces", "`spantap traces --help` lists the flags of that command"),
        ("xyz", "`spantap help` lists the pages"),
    ],
)
def test_an_unknown_topic_gets_advice(
    topic: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And status 2, as other wrong usage."""
    assert main(["help", topic]) == 2
    assert capsys.readouterr().err == f"spantap: no page is named '{topic}'; {advice}\n"


def test_a_page_is_set_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tables are drawn, and its lines are no wider than the terminal."""
    monkeypatch.setenv("COLUMNS", "72")
    monkeypatch.setenv("TERM", "xterm")
    out = _Terminal()
    assert run_help("run", out=out) == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).split("\n")
    assert max(map(len, lines)) <= 72
    assert not [line for line in lines if line.startswith(("#", "|--"))]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_wheel_gets_the_same_pages() -> None:
    """``pyproject.toml`` names each, because hatch takes no pattern there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included == {f"docs/{topic}.md": f"proxy/help/{topic}.md" for topic in TOPICS}


def test_every_page_that_a_message_names_is_there() -> None:
    """And no message names a file of the checkout."""
    for package in ("codec", "telemetry", "proxy"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            named = set(re.findall(r"`spantap help ([a-z-]+)", text))
            assert named <= {*TOPICS}, path
            # Docstrings and comments write a path between two backquotes.
            assert not re.findall(r"(?<![`/\w])docs/[a-z-]+\.md", text), path
