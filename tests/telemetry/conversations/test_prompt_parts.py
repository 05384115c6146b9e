"""Parts of prompts: what is measured, and how tokens are divided."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.conversations.prompt import Prompt, read_prompt
from telemetry.conversations.prompt_parts import MEDIA_CHARS, apportion, estimate_parts
from tests.telemetry.conversations.talks import answer, calls, result, user
from tests.telemetry.conversations.usage_runs import DIGESTS, TOOLS, ask, say, tool

COUNT = st.integers(0, 2**63 - 1)


def read(*messages: dict[str, Any], tokens: int = 1_000, **body: Any) -> Prompt:
    """The prompt of a chat that was counted."""
    prompt = read_prompt(ask(*messages, **body), say(prompt=tokens), DIGESTS)
    assert prompt is not None
    return prompt


def test_parts_are_measured_by_their_characters() -> None:
    """What no answer follows is new: results are, calls belong to the history."""
    history = (user("abcd"), answer("ef"))
    prompt = read({"role": "system", "content": "12345678"}, *history, user("new"))
    assert prompt.chars == (8, 0, 6, 3)
    assert estimate_parts(prompt.tokens, prompt.chars) == {
        "system": 472,
        "history": 352,
        "new": 176,
    }
    called = read(*history, user("go"), calls("call_0"), result("call_0", "done"))
    assert called.chars == (0, 0, 6 + 2 + len('read\0{"n":0}'), 4)


def test_what_a_client_began_of_an_answer_is_new() -> None:
    """Rule 2: a prefix of the answer is no history: the model goes on from there."""
    prompt = read(user("abcd"), answer("ef"), user("ghi"), answer("{"))
    assert prompt.chars == (0, 0, 6, 4)


def test_the_first_question_of_all_is_new() -> None:
    """There is no history."""
    assert read(user("abcd")).chars == (0, 0, 0, 4)


def test_tools_count_as_their_definitions() -> None:
    """As they came, in characters, not in bytes."""
    plain, foreign = read(user("hi"), tools=TOOLS), read(user("hi"), tools=[tool("lésen")])
    assert plain.chars[1] > 100
    assert foreign.chars[1] == read(user("hi"), tools=[tool("lesen")]).chars[1]
    assert read(user("hi")).chars[1] == 0


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("messages", {"tools": [{"name": "read", "input_schema": {}}]}),
        ("responses", {"input": "hi", "tools": [{"type": "function", "name": "read"}]}),
        ("ollama.chat", {"tools": TOOLS}),
        ("gemini.generate", {"contents": [], "tools": [{"functionDeclarations": [{}]}]}),
        ("chat.completions", {"functions": [{"name": "read"}]}),
    ],
)
def test_tools_of_each_api_count(api: str, body: dict[str, Any]) -> None:
    """Wherever it has them."""
    prompt = read_prompt(ask(user("hi"), api=api, **body), say(prompt=10), DIGESTS)
    assert prompt is not None
    assert prompt.chars[1] > 0


def test_a_picture_counts_as_one() -> None:
    """Neither as its base64 nor as its digest."""
    url = "data:image/png;base64," + "A" * 100_000
    picture = {"type": "image_url", "image_url": {"url": url}}
    prompt = read({"role": "user", "content": [picture, {"type": "text", "text": "What?"}]})
    assert prompt.chars == (0, 0, 0, MEDIA_CHARS + 5)


def test_a_prompt_without_characters_has_no_parts() -> None:
    """There is nothing to go by."""
    prompt = read(user(""))
    assert estimate_parts(prompt.tokens, prompt.chars) == {}


@given(COUNT, st.lists(st.integers(0, 2**40), min_size=1, max_size=6).filter(any))
def test_shares_together_are_the_count(total: int, weights: list[int]) -> None:
    """Rule 1, whatever they are; what has no weight has no share."""
    shares = apportion(total, weights)
    assert sum(shares) == total
    assert all(share >= 0 for share in shares)
    assert all(not share for share, weight in zip(shares, weights, strict=True) if not weight)
