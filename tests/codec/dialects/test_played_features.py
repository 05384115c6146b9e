"""Recordings, or streams written by hand, are the judge of a dialect's way."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pytest

from codec.generator import UsagePolicy
from tests.codec.dialects.features import find_features
from tests.codec.dialects.scripts import POLICIES, SCRIPTS, play
from tests.corpus.recordings import explain_absence, find_folder
from tests.fixtures.dialects import DIALECTS as HAND_WRITTEN

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject


_ALIKE = (
    "avian", "cerebras", "cloudflare", "databricks", "deepseek", "groq", "huggingface", "llama.cpp",
    "mistral", "moonshot", "ollama", "openai", "openrouter", "perplexity", "snowflake", "tgi",
    "together", "venice", "xai", "zai",
)  # fmt: skip
RECORDED = {name: name for name in _ALIKE} | {
    "anthropic-openai-compat": "anthropic",
    "azure-openai": "azure",
    "crusoe-vllm": "crusoe",
    "doubleword-vllm": "doubleword",
    "github-copilot": "copilot",
    "gpustack-vllm": "gpustack",
    "qwen-dashscope": "qwen",
    "vercel-gateway": "vercel",
}
"""Providers of the recordings, and the dialect that each is played by."""

OTHERWISE = {
    ("deepseek", "comments"): "they come while a request waits, which no recorded one did",
    ("moonshot", "usage"): "the recorded model is newer than those that count inside the choice",
    ("perplexity", "CRLF"): "most were recorded in a way that loses it",
    ("huggingface", "usage"): "one of several back ends is played, the one without end marker",
    ("huggingface", "null finish reason"): "as above",
    ("huggingface", "end marker"): "as above",
}
"""Where most of a provider's recordings are otherwise, and why."""


@pytest.mark.parametrize(
    ("dialect", "policy", "unlike"),
    [
        ("vllm", UsagePolicy.CONTINUOUS, set()),
        ("sglang", UsagePolicy.FINAL, {"whole calls"}),  # which differs by version
        ("gemini", UsagePolicy.NONE, {"null finish reason"}),  # of which no fact is known
        ("fireworks", UsagePolicy.NONE, set()),
        ("bedrock-mantle", UsagePolicy.NONE, set()),
    ],
)
def test_hand_written_streams_have_the_same_features(
    dialect: str, policy: UsagePolicy, unlike: set[str]
) -> None:
    """Where there are no recordings, streams written by hand from the same facts are the judge."""
    stream = next(one.stream for one in HAND_WRITTEN if one.name.split(",")[0] == dialect)
    written = find_features(stream)
    script = SCRIPTS["text and two calls" if "call index" in written else "text"]
    played = find_features(play(dialect, script, policy))
    assert {name for name in written.keys() & played if written[name] != played[name]} == unlike


def _recorded_streams() -> dict[str, list[JsonObject]]:
    folder = find_folder()
    if folder is None:
        pytest.skip(explain_absence())
    streams = defaultdict(list)
    lines = (folder / "recordings" / "exchanges.jsonl").read_text(encoding="utf-8").splitlines()
    for exchange in map(json.JSONDecoder().decode, lines):
        is_chat = exchange["api"] == "chat.completions" and exchange["streaming"]
        if (
            is_chat
            and exchange["response"]["status"] == 200
            and "error" not in exchange["features"]
        ):
            streams[exchange["provider"]].append(exchange)
    return streams


@pytest.mark.corpus
def test_recorded_streams_have_the_same_features() -> None:
    """For each feature at least half of a provider's recordings agree with what is played."""
    streams = _recorded_streams()
    votes: defaultdict[tuple[str, str], Counter[bool]] = defaultdict(Counter)
    for provider, dialect in RECORDED.items():
        for exchange in streams[provider]:
            body = exchange["response"]["body"].encode()
            recorded = find_features(body, framed=exchange["framing"] != "rebuilt")
            script = SCRIPTS["text and two calls" if "call index" in recorded else "text"]
            asked = "req-include_usage" in exchange["features"]
            # Where the request was not recorded, it may have asked.
            policies = POLICIES[asked:] if exchange["request"]["body"] else POLICIES
            played = [find_features(play(dialect, script, policy)) for policy in policies]
            for feature, value in recorded.items():
                agrees = any(features.get(feature, value) == value for features in played)
                votes[dialect, feature][agrees] += 1
    assert {dialect for dialect, _ in votes} == set(RECORDED.values())
    disagree = {key for key, counter in votes.items() if counter[False] > counter[True]}
    assert disagree == set(OTHERWISE)
