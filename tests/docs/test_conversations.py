"""What the page on conversations says of runs and of their usage is what is told."""

from __future__ import annotations

import re
from typing import Any

from codec.text.jsontext import decode_json
from telemetry.conversations import runs
from telemetry.conversations.cache_breaks import MIN_CACHED_TOKENS, STEP_TOKENS, UNCHANGED
from telemetry.conversations.memory import BYTES_PER_CALL, MAX_CALLS
from telemetry.conversations.prompt import MAX_COMPARED_ITEMS, MEDIA_CHARS, OPTIONS, OUTSIDE
from telemetry.conversations.repeated_calls import MAX_REPEATED, MAX_SEEN
from telemetry.conversations.run import ENDINGS, MAX_TOOL_NAME_CHARS, RUN_IDLE_SECONDS
from telemetry.conversations.sub_agents import MIN_PROMPT_CHARS
from tests.docs.blocks import DOCS, Page
from tests.telemetry.conversations.talks import answer, calls, result, user
from tests.telemetry.conversations.usage_runs import AgentRun

PAGE = Page(DOCS / "conversations.md")
EXAMPLE: dict[str, Any] = decode_json(
    next(block.text for block in PAGE.blocks if "estimated" in block.text)
)
CLOCK = {"role": "system", "content": "It is 14:04."}


def play() -> dict[str, Any]:
    """The run of the example."""
    read = calls("call_0", name="read_file")
    run = AgentRun(user("Fix it"), answer("I look."))
    run.call(said=read, prompt=5_000, completion=300, cached=4_864)
    run.call(read, result("call_0"), said=read, prompt=13_000, completion=200, cached=8_960)
    body = {"system": CLOCK}
    run.call(read, body=body, said=read, prompt=13_000, completion=200, cached=0)
    run.history[:] = [user("What was said: …")]
    run.call(body=body, said=read, prompt=6_200, completion=200, cached=1_024)
    return run.summarise()


def test_the_example_is_a_run() -> None:
    """But for the estimate, whose parts are the prompt tokens there, too."""
    told = play()
    parts, shown = told.pop("estimated_tokens_by_part"), dict(EXAMPLE)
    of_example = shown.pop("estimated_tokens_by_part")
    assert told == shown
    assert parts.keys() == of_example.keys()
    assert sum(of_example.values()) == shown["prompt_tokens"]


def test_the_table_has_every_member() -> None:
    """Those of the example, and those that are there where lists end or counts are missing."""
    others = {"calls_that_told", "cache_write_tokens", "cache_break_count", "compaction_count"}
    for name in {*EXAMPLE, *others, *OUTSIDE, UNCHANGED}:
        assert f"`{name}`" in PAGE.prose, name
    named = {*re.findall(r"`(\w+)`", PAGE.prose)}
    assert len(named.intersection(OPTIONS)) > 3


def test_figures_are_those_of_the_code() -> None:
    """Limits and steps."""
    for figure in (MIN_CACHED_TOKENS, STEP_TOKENS, MEDIA_CHARS, MAX_COMPARED_ITEMS):
        assert f"{figure:,}" in PAGE.prose, figure
    assert f"{MAX_SEEN + MAX_REPEATED}" in PAGE.prose


def test_every_end_of_a_run_is_told() -> None:
    """In the table of this page, and on that of the terminal."""
    told = Page(DOCS / "terminal.md").prose
    for ending in ENDINGS:
        assert f"\n| `{ending}` |" in PAGE.prose, ending
        assert f"`{ending}`" in told, ending


def test_limits_of_runs_are_those_of_the_code() -> None:
    """How many there may be, how long they rest, and what a sub-agent's prompt has at least."""
    for figure in (
        f"more than {runs.MAX_OPEN_RUNS:,} runs",
        f"more than {runs.MAX_HELD_BYTES >> 20} MiB of memory",
        f"take {BYTES_PER_CALL >> 10} KiB for each on average",
        f"name ({MAX_TOOL_NAME_CHARS} characters at most)",
        f"({MIN_PROMPT_CHARS} characters or more",
        f"last {MAX_CALLS:,} calls",
    ):
        assert figure in PAGE.prose, figure
    assert RUN_IDLE_SECONDS == 10 * 60
    assert "after ten minutes without a call" in PAGE.prose
