"""``spantap demo`` as a user sees it."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from proxy.commands.demo import _find_command

if TYPE_CHECKING:
    from pathlib import Path

# What a user's shell may hold that would send spans or chats elsewhere, or hide them.
POISON = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "https_proxy": "nonsense",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "nonsense",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "abc",
    "OTEL_TRACES_SAMPLER": "always_off",
    "SPANTAP_UPSTREAM": "nonsense",
}


CALLS = 21
"""Those of the demo: chats of all kinds, and each other API."""


def test_the_demo_shows_every_call_and_one_in_full() -> None:
    """All in the table, one with messages, calls, tokens and times, whatever the shell says."""
    done = subprocess.run(
        [sys.executable, "-m", "proxy", "demo"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **POISON},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    recorded = done.stdout.partition("What spantap recorded")[2]
    table, _, full = recorded.partition("One of them in full")
    for words in ("completed", "upstream_error 429", "client_disconnected"):
        assert words in table
    assert len([line for line in table.splitlines() if "-demo" in line]) == CALLS
    for words in ("get_weather", "first token after", "tokens", "finish", "tool_calls", "Lisbon"):
        assert words in full
    called = re.findall(
        r"`(\S+) (?:run -- python app\.py|serve|traces)`", done.stdout.replace("\n", " ")
    )
    assert len(called) == 3
    assert all(shutil.which(command) for command in called)


def test_the_last_screen_of_the_demo_has_a_tree_a_cost_and_the_address_of_a_page() -> None:
    """On a terminal of 80 x 24, below all that was printed before."""
    ours, theirs = pty.openpty()
    environ = {
        **os.environ,
        "SPANTAP_PORT": "4444",
        "SPANTAP_PAGE_PORT": "4555",
        "COLUMNS": "80",
        "LINES": "24",
        "LC_ALL": "C.UTF-8",
    }
    command = [sys.executable, "-m", "proxy", "demo"]
    seen = b""
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, env=environ) as process:
        os.close(theirs)
        with contextlib.suppress(OSError):  # Linux says so at the end
            while piece := os.read(ours, 4096):
                seen += piece
    os.close(ours)
    assert process.returncode == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", seen.decode())
    screen = text.splitlines()[-23:]  # the prompt comes below
    assert max(map(len, screen)) <= 80
    tree = [line for line in screen if "├ " in line or "└ " in line]
    names = ["gpt-demo", "get_weather", "get_weather", "gpt-demo"]
    assert [line.replace("└", "├").partition("├ ")[2].split()[0] for line in tree] == names
    assert any(re.match(r"\$0\.\d+, 3 calls have no price", line) for line in screen)
    below = "".join(screen)
    for url in ("http://127.0.0.1:4444/v1", "http://127.0.0.1:4555"):
        assert url in below, "those of the user's own settings"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in a folder that is not on the path, below where the user is."""
    script = tmp_path / "my env" / "bin" / "spantap"
    script.parent.mkdir(parents=True)
    script.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(script), "demo"])
    return script


def test_the_demo_names_a_command_that_is_there(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its name where that finds this very program, else by its path from here."""
    assert _find_command() == "'my env/bin/spantap'"
    (tmp_path / "spantap").touch(mode=0o755)
    assert _find_command() == "'my env/bin/spantap'", "the name is another program's"
    monkeypatch.setenv("PATH", str(script.parent))
    assert _find_command() == "spantap"
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.chdir(script.parent)
    assert _find_command() == f"'{script}'"


def test_the_demo_of_a_module_names_the_program_beside_its_interpreter(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or that module, where no program was installed."""
    monkeypatch.setattr(sys, "argv", ["/somewhere/proxy/__main__.py", "demo"])
    monkeypatch.setattr(sys, "executable", str(script.with_name("python")))
    assert _find_command() == "'my env/bin/spantap'"
    script.unlink()
    assert _find_command() == f"'{script.with_name('python')}' -m spantap"
