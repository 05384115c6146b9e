"""Prompts: what is kept of them, which are whole, and how tokens are divided among parts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.table import get_api
from codec.history_items import read_history_items
from codec.history_states import START, STATE_BYTES
from telemetry.conversations.prompt import (
    MAX_COMPARED_ITEMS,
    MEDIA_CHARS,
    Prompt,
    apportion,
    estimate_parts,
    read_prompt,
)
from tests.telemetry.conversations.talks import answer, calls, result, user
from tests.telemetry.conversations.usage_runs import (
    DIGESTS,
    SYSTEM,
    TOOLS,
    ask,
    say,
    say_message,
    tool,
)

COUNT = st.integers(0, 2**63 - 1)


def read(*messages: dict[str, Any], tokens: int = 1_000, **body: Any) -> Prompt:
    """The prompt of a chat that was counted."""
    prompt = read_prompt(ask(*messages, **body), say(prompt=tokens), DIGESTS)
    assert prompt is not None
    return prompt


def test_a_prompt_that_nobody_counted_is_none() -> None:
    """R6: no count, no parts of one."""
    assert read_prompt(ask(user("hi")), say(), DIGESTS) is None
    assert read_prompt(ask(user("hi")), say(completion=3), DIGESTS) is None


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("responses", {"input": "hi", "previous_response_id": "resp_1"}),
        ("responses", {"input": "hi", "conversation": {"id": "conv_1"}}),
        ("responses", {"input": "hi", "prompt": {"id": "pmpt_1"}}),
        ("gemini.generate", {"contents": [], "cachedContent": "cachedContents/1"}),
    ],
)
def test_a_prompt_that_the_provider_keeps_is_not_whole(api: str, body: dict[str, Any]) -> None:
    """Most of its tokens are not in the request, and are no part of it."""
    prompt = read_prompt(ask(api=api, **body), say(prompt=30_000, cached=100), DIGESTS)
    assert prompt == Prompt(tokens=30_000, cached=100, was_cached=True)
    assert not any(prompt.chars)


def test_a_call_of_the_providers_own_tool_is_counted_more_than_once() -> None:
    """The count has the prompts of all rounds."""
    asked = ask(user("hi"), api="messages")
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    for block, whole in ((search, False), (search | {"type": "tool_use"}, True)):
        said = say_message(block, fresh=9, read=0, written=0)
        prompt = read_prompt(asked, said, DIGESTS)
        assert prompt is not None
        assert prompt.is_whole is whole


def test_a_context_that_the_provider_edited_is_not_whole() -> None:
    """Anthropic clears old results by itself, and says so."""
    edits = {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8}]}
    body = b'{"content":[],"usage":{"input_tokens":9},"context_management":%b}'
    messages = get_api("messages")
    for told, whole in ((str(edits).replace("'", '"').encode(), False), (b"{}", True)):
        prompt = read_prompt(
            ask(user("hi"), api="messages"), messages.read_said(body % told), DIGESTS
        )
        assert prompt is not None
        assert prompt.is_whole is whole


def test_a_prompt_that_was_compacted_on_the_way_is_not_whole() -> None:
    """The count has the prompt of the compaction and the one behind it."""
    step = b'{"type":"compaction","input_tokens":9000,"output_tokens":9}'
    body = b'{"content":[],"usage":{"input_tokens":9,"output_tokens":1,"iterations":[%b]}}'
    messages = get_api("messages")
    for steps, whole in ((step, False), (b"", True)):
        prompt = read_prompt(
            ask(user("hi"), api="messages"), messages.read_said(body % steps), DIGESTS
        )
        assert prompt is not None
        assert (prompt.is_whole, prompt.tokens) == (whole, 9 if whole else 9009)


def test_nothing_of_the_content_is_kept() -> None:
    """Digests and sizes alone."""
    prompt = read(
        {"role": "system", "content": "c4n4ry"},
        user("c4n4ry"),
        calls("c4n4ry", name="c4n4ry"),
        tools=[tool("c4n4ry")],
        model="c4n4ry",
    )
    assert "c4n4ry" not in repr(prompt)


def test_what_is_kept_is_bounded() -> None:
    """R5: a history of any length."""
    history = [user(str(number)) for number in range(MAX_COMPARED_ITEMS + 500)]
    prompt = read(*history)
    assert prompt.items == len(history)
    assert len(prompt.states) == (MAX_COMPARED_ITEMS + 1) * STATE_BYTES


def test_items_and_states_that_the_caller_has_are_taken() -> None:
    """Reading them is most of the work."""
    asked = ask(SYSTEM, user("hi"), calls("call_0"), result("call_0"), tools=TOOLS)
    items = read_history_items(asked.read_messages())
    assert items is not None
    states = DIGESTS.go_on(START, items.history)
    said = say(prompt=90)
    assert read_prompt(asked, said, DIGESTS, items=items, states=states) == read_prompt(
        asked, said, DIGESTS
    )


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
    """A prefix of the answer is no history: the model continues it."""
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
    """Whatever they are; what has no weight has no share."""
    shares = apportion(total, weights)
    assert sum(shares) == total
    assert all(share >= 0 for share in shares)
    assert all(not share for share, weight in zip(shares, weights, strict=True) if not weight)
