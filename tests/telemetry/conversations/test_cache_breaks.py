"""Breaks of a cache: which are told, what broke it, and where nothing is to be told."""

from __future__ import annotations

from typing import Any

import pytest

from telemetry.conversations.prompt import MAX_COMPARED_ITEMS
from telemetry.conversations.run_usage import RunUsage
from tests.telemetry.conversations.talks import answer, calls, result, user
from tests.telemetry.conversations.usage_runs import (
    DIGESTS,
    SYSTEM,
    TOOLS,
    AgentRun,
    ask,
    say,
    say_message,
    tool,
)

CLOCK = {"role": "system", "content": "It is 14:04. " * 40}
BROKE = "cache_broke_at"


def start(*, prompt: int = 5_000, cached: int | None = 4_992) -> AgentRun:
    """A run whose first call read from a cache."""
    run = AgentRun(user("Fix it"))
    told: dict[str, Any] = {} if cached is None else {"cached": cached}
    run.call(prompt=prompt, **told)
    run.history += [calls("call_0"), result("call_0", "text " * 20)]
    return run


def test_a_cache_that_holds_is_not_told() -> None:
    """A step less is the step in which tokens are counted."""
    for cached in (4_992, 5_120, 4_864):
        assert BROKE not in start().call(prompt=5_200, cached=cached)


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ({"system": CLOCK}, "system"),
        ({"tools": [*TOOLS, tool("more")]}, "tools"),
        ({"tools": TOOLS[::-1]}, "tools"),
        ({"model": "m-2"}, "model"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"reasoning_effort": "high"}, "reasoning_effort"),
        ({"prompt_cache_key": "other"}, "prompt_cache_key"),
        ({"model": "m-2", "system": CLOCK}, "model"),
        ({"tool_choice": "required", "system": CLOCK}, "system"),
        ({}, "expired_or_evicted"),
        ({"temperature": 0.5, "metadata": {"at": "14:04"}}, "expired_or_evicted"),
    ],
)
def test_what_broke_the_cache_is_the_first_thing_that_differs(
    body: dict[str, Any], at: str
) -> None:
    """In the order in which providers read a prompt; options are behind the history."""
    assert start().call(body=body, prompt=5_200, cached=0)[BROKE] == at


def test_a_message_is_told_by_its_place_on_the_span_and_its_role() -> None:
    """System messages count, as they do on the span."""
    run = start()
    run.history[0] = user("Fix that")
    told = run.call(user("Go on"), prompt=5_300, cached=1_024)
    assert told[BROKE] == "message 1 (user)"
    assert told["cache_expected_tokens"] == 5_000


def test_an_option_is_behind_the_history() -> None:
    """Where a message differs, too, that is what is told."""
    run = start()
    run.history[0] = user("Fix that")
    told = run.call(body={"tool_choice": "required"}, prompt=5_300, cached=1_024)
    assert told[BROKE] == "message 1 (user)"


def test_the_place_of_a_message_with_several_items_is_its_own() -> None:
    """A message with two calls is two items."""
    run = AgentRun(user("Fix it"), calls("a", "b"), result("a"), result("b"))
    run.call(prompt=5_000, cached=4_992)
    run.history[3] = result("b", "something else")
    assert run.call(answer("Hm"), user("?"), prompt=5_100, cached=0)[BROKE] == "message 4 (tool)"
    run.history[1] = calls("a", "c")
    assert run.call(prompt=5_100, cached=0)[BROKE] == "message 2 (assistant)"


def test_a_role_of_the_clients_own_is_not_told() -> None:
    """It may say anything."""
    run = AgentRun({"role": "c4n4ry", "content": "a"}, answer("b"))
    run.call(prompt=5_000, cached=4_992)
    run.history[0] = {"role": "c4n4ry", "content": "c"}
    assert run.call(user("?"), prompt=5_000, cached=0)[BROKE] == "message 1"


def test_what_reminders_say_is_not_compared() -> None:
    """A reminder changed in front, and items do not have it."""
    run = AgentRun(user("<system-reminder>1</system-reminder>Fix it"))
    run.call(prompt=5_000, cached=4_992)
    run.history[0] = user("<system-reminder>2</system-reminder>Fix it")
    assert run.call(prompt=5_000, cached=0)[BROKE] == "expired_or_evicted"


@pytest.mark.parametrize(("before", "now"), [(None, None), (4_992, None), (None, 0), (0, 0)])
def test_nothing_is_told_of_a_cache_that_nobody_knows(before: int | None, now: int | None) -> None:
    """No count, or never a cached token: a provider without a cache."""
    told: dict[str, Any] = {} if now is None else {"cached": now}
    run = start(cached=before)
    assert BROKE not in run.call(body={"system": CLOCK}, prompt=5_200, **told)
    assert run.summarise()["prompt_changes"] == {"system": 1}


def test_a_prompt_below_the_least_that_is_cached_breaks_nothing() -> None:
    """After a compaction, for example."""
    run = start()
    assert BROKE not in run.call(body={"system": CLOCK}, prompt=1_000, cached=0)


def test_a_cache_that_never_held_is_told_once_it_had_one() -> None:
    """A clock in the system prompt, after a call that had a cache."""
    run = start()
    for minute in range(3):
        system = {"role": "system", "content": f"It is 14:0{minute}. " * 40}
        told = run.call(body={"system": system}, prompt=5_200 + minute, cached=0)
        assert told[BROKE] == "system"
    assert [one["call"] for one in run.summarise()["cache_breaks"]] == [2, 3, 4]


def test_a_cache_that_only_grows_slowly_is_not_broken() -> None:
    """Caching is best effort, and a call that reads as much as before lost nothing."""
    run = start(cached=1_024)
    assert BROKE not in run.call(prompt=9_000, cached=1_024)


def test_a_history_that_was_cut_at_its_end_is_no_difference() -> None:
    """The whole prompt is the beginning of the one before."""
    run = start()
    run.call(user("And?"), prompt=5_200, cached=4_992)
    run.history.pop()
    assert run.call(prompt=5_150, cached=0)[BROKE] == "expired_or_evicted"


def test_anthropic_caches_what_is_marked() -> None:
    """What was read or written before is expected, and no more."""
    usage = RunUsage(DIGESTS)

    def call(fresh: int, read: int, written: int, system: str = "a", **body: Any) -> Any:
        asked = ask(user("hi"), api="messages", system=system, **body)
        return usage.add(asked, say_message(fresh=fresh, read=read, written=written))

    assert BROKE not in call(5_000, 0, 0)  # no marks
    assert BROKE not in call(5_000, 0, 0, "b")
    assert BROKE not in call(10, 0, 5_000)
    assert BROKE not in call(10, 5_000, 200)
    told = call(10, 0, 5_300, "c")
    assert (told[BROKE], told["cache_expected_tokens"]) == ("system", 5_200)
    assert BROKE not in call(10, 5_300, 0, "c")
    told = call(1_000, 4_000, 300, "c", thinking={"type": "enabled", "budget_tokens": 1_024})
    assert told[BROKE] == "thinking"


def test_an_option_alone_does_not_make_one_expect_all_of_the_prompt() -> None:
    """OpenAI's choice of a tool is no part of the prompt."""
    run = start(cached=1_024)
    assert BROKE not in run.call(body={"tool_choice": "required"}, prompt=5_200, cached=1_024)


def test_prompts_that_the_provider_keeps_are_not_compared() -> None:
    """A request with new items alone has another beginning, and lost nothing."""
    usage = RunUsage(DIGESTS)
    for number in range(3):
        asked = ask(api="responses", input=f"n {number}", previous_response_id=f"r-{number}")
        told = usage.add(asked, say(prompt=9_000 - number, cached=(9_000, 0, 0)[number]))
        assert told == {}
    assert set(usage.summarise()) == {"prompt_tokens", "cached_tokens", "context"}


def test_behind_what_is_kept_nothing_is_told() -> None:
    """R5: a history of thousands of items that is cut far behind, or expired: nobody knows."""
    run = AgentRun(*[user(str(number)) for number in range(MAX_COMPARED_ITEMS + 10)])
    run.call(prompt=50_000, cached=49_920)
    run.history[-2] = user("other")
    assert BROKE not in run.call(prompt=50_000, cached=0)
    run.history[-20] = user("other")
    told = run.call(prompt=50_000, cached=0)
    assert told[BROKE] == f"message {MAX_COMPARED_ITEMS - 9} (user)"


def test_a_system_message_in_the_history_is_a_message() -> None:
    """One that does not stand in front."""
    run = AgentRun(user("hi"), SYSTEM)
    run.call(prompt=5_000, cached=4_992)
    run.history[1] = CLOCK
    assert run.call(prompt=5_000, cached=0)[BROKE] == "message 2 (system)"
