"""``spantap demo`` as a user sees it."""

from __future__ import annotations

import subprocess
import sys


def test_the_demo_shows_every_call_and_one_in_full() -> None:
    """Seven calls in the table, one with messages, tool calls, tokens, finish and first token."""
    done = subprocess.run(
        [sys.executable, "-m", "proxy", "demo"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    recorded = done.stdout.partition("What spantap recorded")[2]
    table, _, full = recorded.partition("One of them in full")
    for words in ("completed", "upstream_error 429", "client_disconnected", "tool_calls"):
        assert words in table
    for words in ("get_weather", "first token after", "tokens", "finish", "tool_calls", "Lisbon"):
        assert words in full
