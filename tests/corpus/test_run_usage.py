"""Usage of recorded runs: the calls of each file in their order, as real providers counted them."""

from __future__ import annotations

from typing import Any

import pytest

from codec.history_states import Digests
from telemetry.conversations.run_usage import RunUsage
from tests.corpus.recordings import NEEDS_RECORDINGS
from tests.corpus.test_conversations import CHATS, OTHERS, Recorded, read

pytestmark = NEEDS_RECORDINGS

PARTS = "estimated_tokens_by_part"
DIGESTS = Digests(b"k" * 32)


def follow(name: str) -> tuple[list[tuple[Recorded, dict[str, Any]]], list[dict[str, Any]]]:
    """What is told of each call, and of each run."""
    usages: dict[str, RunUsage] = {}
    calls: list[tuple[Recorded, dict[str, Any]]] = []
    for call in read(name):
        usage = usages.setdefault(call.file, RunUsage(DIGESTS))
        calls.append((call, usage.add(call.asked, call.said)))
    return calls, [usage.summarise() for usage in usages.values()]


def count_prompt(call: Recorded) -> int | None:
    """What the provider counted."""
    usage = None if call.said is None else call.said.usage
    return None if usage is None else usage.prompt


@pytest.mark.parametrize(("name", "least"), [(CHATS, 290), (OTHERS, 960)])
def test_the_parts_of_recorded_prompts_are_their_tokens(name: str, least: int) -> None:
    """Of nine in ten calls that were counted, the prompt is whole; no part is made up (R6)."""
    calls, runs = follow(name)
    estimated = [(call, told[PARTS]) for call, told in calls if PARTS in told]
    assert len(estimated) >= least
    assert all(sum(parts.values()) == count_prompt(call) for call, parts in estimated)
    assert not any(PARTS in told for call, told in calls if count_prompt(call) is None)
    whole = [run for run in runs if PARTS in run]
    assert all(sum(run[PARTS].values()) == run["prompt_tokens"] for run in whole)


def test_one_recorded_cache_breaks() -> None:
    """Five turns that only grow, and the last of them reads nothing from the cache: that is all."""
    assert not any("cache_broke_at" in told for _, told in follow(CHATS)[0])
    [(call, told)] = [pair for pair in follow(OTHERS)[0] if "cache_broke_at" in pair[1]]
    assert call.id.endswith("five_turn_streaming_metadata_roundtrip-7497e3.yaml#4")
    assert told["cache_broke_at"] == "expired_or_evicted"
    assert told["cache_expected_tokens"] == 1_422


def test_recorded_models_repeat_their_calls() -> None:
    """A few do: the same tool with the same arguments within a file."""
    runs = [run["repeated_tool_calls"] for run in follow(CHATS)[1] if "repeated_tool_calls" in run]
    assert len(runs) == 5
    assert all(one["times"] >= 2 and one["name"] for run in runs for one in run)
