"""``spantap demo`` as a user sees it."""

from __future__ import annotations

import os
import subprocess
import sys

# What a user's shell may hold that would send spans or chats elsewhere, or hide them.
POISON = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "https_proxy": "nonsense",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "nonsense",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "abc",
    "OTEL_TRACES_SAMPLER": "always_off",
    "SPANTAP_UPSTREAM": "nonsense",
}


def test_the_demo_shows_every_call_and_one_in_full() -> None:
    """Seven in the table, one with messages, calls, tokens and times, whatever the shell says."""
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
    for words in ("completed", "upstream_error 429", "client_disconnected", "tool_calls"):
        assert words in table
    for words in ("get_weather", "first token after", "tokens", "finish", "tool_calls", "Lisbon"):
        assert words in full
