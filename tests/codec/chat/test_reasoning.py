"""Reasoning by all the names that chats have for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.budget import Budget
from codec.chat.choice import ChoiceFold
from codec.chat.messages import read_message
from codec.chat.reasoning import read_reasoning
from codec.growing_text import TextKind
from codec.parts import Reasoning
from tests.codec.test_error_objects import json_values


def detail(text: str, kind: str = "text", **members: Any) -> dict[str, Any]:
    """One entry of ``reasoning_details``."""
    return {"type": f"reasoning.{kind}", kind: text, "format": "x-v1", "index": 0, **members}


def fold(*deltas: dict[str, Any], room: int = 10**6) -> ChoiceFold:
    """A choice of these deltas."""
    choice = ChoiceFold(0, Budget(room), lambda _: None)
    for delta in deltas:
        choice.feed({"delta": delta})
    return choice


def told(*deltas: dict[str, Any]) -> str | None:
    """The reasoning of these deltas."""
    return fold(*deltas).choice().message.reasoning


ENCRYPTED = {"type": "reasoning.encrypted", "data": "b3BhcXVl", "id": "rs_1", "index": 1}


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param(
            [{"reasoning_details": [detail("Hm, ")]}, {"reasoning_details": [detail("left")]}],
            "Hm, left", id="details alone, in pieces (MiniMax)",
        ),
        pytest.param(
            [{"reasoning_details": [detail("Hm, ", "summary"), detail("left", "summary")]}],
            "Hm, left", id="summaries (OpenRouter)",
        ),
        pytest.param(
            [{"reasoning": "Hm", "reasoning_details": [detail("Hm")]},
             {"reasoning": ", left", "reasoning_details": [detail(", left"), ENCRYPTED]}],
            "Hm, left", id="both, counted once (OpenRouter)",
        ),
        pytest.param(
            [{"reasoning_content": "Hm, "}, {"reasoning_content": "left"},
             {"reasoning_details": [detail("Hm, left")]}],
            "Hm, left", id="the whole details at the end",
        ),
        pytest.param(
            [{"reasoning": "One.\n\nTwo."},
             {"reasoning_details": [detail("One.", "summary"), detail("Two.", "summary")]}],
            "One.\n\nTwo.", id="white space between details is not theirs",
        ),
        pytest.param(
            [{"reasoning": "Hm"}, {"reasoning_details": [detail("Hm, left")]}],
            "Hm, left", id="details say more",
        ),
        pytest.param(
            [{"reasoning": "Hm"}, {"reasoning_details": [detail("Left")]}],
            "HmLeft", id="texts that differ are all kept",
        ),
        pytest.param(
            [{"reasoning_details": [detail("The harbour"[:n])]} for n in (1, 3, 5, 8, 11)],
            "The harbour", id="each the text so far (MiniMax)",
        ),
        pytest.param([{"reasoning_details": [ENCRYPTED]}], None, id="nothing that can be read"),
        pytest.param(
            [{"reasoning_text": "Hm, ", "content": None}, {"reasoning_text": "left"}],
            "Hm, left", id="Copilot",
        ),
        pytest.param(
            [{"reasoning_text": "Hm", "reasoning_content": "Hm"}], "Hm", id="two names, once",
        ),
        pytest.param(
            [{"reasoning_details": None}, {"reasoning_details": {}}, {"reasoning_details": "x"},
             {"reasoning_details": [None, 7, {}, {"text": 5}]}],
            None, id="junk",
        ),
    ],
)  # fmt: skip
def test_what_was_thought_is_told_once(deltas: list[dict[str, Any]], expected: str | None) -> None:
    """Under whatever names it came, alone or in several of them."""
    assert told(*deltas) == expected


def test_details_are_content_and_grow() -> None:
    """The first of them is timed, and a look at the stream sees them come."""
    choice = fold({"reasoning_details": [detail("Hm, ")]}, {"reasoning_details": [detail("left")]})
    assert choice.has_content
    assert [(text.kind, [*text.pieces]) for text in choice.look("", ())] == [
        (TextKind.REASONING, ["Hm, ", "left"])
    ]
    assert not fold({"reasoning_details": [ENCRYPTED]}).has_content
    body = choice.body()
    assert [one["text"] for one in body["message"]["reasoning_details"]] == ["Hm, ", "left"]


def test_details_are_taken_from_the_budget() -> None:
    """Details without end stop at it."""
    deltas = [{"reasoning_details": [detail("x" * 100)]}] * 1000
    choice = fold(*deltas, room=50_000)
    assert 1_000 < len(choice.choice().message.reasoning or "") < 50_000


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"reasoning_text": "Hm"}, "Hm"),
        ({"reasoning": "", "reasoning_details": [detail("Hm, "), ENCRYPTED, detail("left")]},
         "Hm, left"),
        ({"reasoning": "Hm", "reasoning_details": [detail("Hm")]}, "Hm"),
        ({"reasoning_details": [ENCRYPTED]}, None),
    ],
)  # fmt: skip
def test_a_client_sends_it_back_under_each_name(
    message: dict[str, Any], expected: str | None
) -> None:
    """The history has what the answer had."""
    assert read_reasoning(message) == expected
    parts = read_message({"role": "assistant", "content": "Aye", **message}).parts
    assert parts == ((Reasoning(text=expected), "Aye") if expected else ("Aye",))


@given(st.lists(st.dictionaries(st.sampled_from(["reasoning", "reasoning_details"]), json_values)))
def test_nothing_raises(deltas: list[dict[str, Any]]) -> None:
    """Whatever the members hold."""
    told(*deltas)
    for delta in deltas:
        read_message({"role": "assistant", **delta})
