"""The choices of an answer and their calls."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from codec.values.choices import AnsweredCall, AnsweredChoice, decode_call, decode_choice
from codec.values.parts import TextPart, ThinkingPart


def message_of(**members: Any) -> AnsweredChoice:
    """The choice with a message of these members."""
    return decode_choice({"index": 0, "message": members}, place=0)


@pytest.mark.parametrize(
    ("entry", "call"),
    [
        (
            {"id": "k", "type": "function", "function": {"name": "tide", "arguments": "[1]"}},
            AnsweredCall(id="k", name="tide", arguments=[1]),
        ),
        (
            {"id": "k", "type": "custom", "custom": {"name": "knots", "input": "[1]"}},
            AnsweredCall(id="k", name="knots", arguments="[1]", type="custom"),
        ),
        (
            {
                "id": "k",
                "type": "function",
                "function": {"name": "tide", "arguments": "low", "x": 1},
                "extra_content": {"signature": "s"},
            },
            AnsweredCall(
                id="k",
                name="tide",
                arguments="low",
                function_extra={"x": 1},
                extra={"extra_content": {"signature": "s"}},
            ),
        ),
        (
            {"id": "", "type": "tide", "function": {"name": "tide", "arguments": ""}},
            AnsweredCall(name="tide", arguments="", extra={"type": "tide"}),
        ),
    ],
)
def test_a_call_is_read_and_written(entry: Any, call: AnsweredCall) -> None:
    """Of a function or a custom tool; writing gives the same JSON.

    See ``docs/contract/sources.md#s4-13`` and ``docs/contract/sources.md#s4-14``.
    """
    assert decode_call(entry) == call
    assert call.to_json() == entry


@pytest.mark.parametrize(
    ("entry", "call"),
    [
        ({"function": {"name": "tide"}}, AnsweredCall(name="tide")),
        ({"custom": {"name": "knots"}}, AnsweredCall(name="knots", arguments="", type="custom")),
        ({"id": "null", "function": {"name": "tide"}, "index": 3}, AnsweredCall(name="tide")),
        ({"id": 7, "function": {"name": "tide"}}, AnsweredCall(name="tide", extra={"id": 7})),
        (
            {"type": "custom", "function": {"name": "tide"}, "custom": None},
            AnsweredCall(name="tide", extra={"type": "custom"}),
        ),
        (
            {"function": {"name": "tide", "arguments": {"at": 1}}},
            AnsweredCall(name="tide", arguments={"at": 1}),
        ),
    ],
)
def test_a_call_may_lack_members(entry: Any, call: AnsweredCall) -> None:
    """No id is an empty one, no arguments an empty object; other types are extra.

    See ``docs/contract/sources.md#s4-13`` and ``docs/contract/sources.md#s4-t6``.
    """
    assert decode_call(entry) == call


@pytest.mark.parametrize(
    "entry",
    [
        None,
        "tide",
        {"id": "k"},
        {"function": None},
        {"function": {"name": ""}},
        {"custom": 4},
        {"function": {"name": ["tide"]}},
    ],
)
def test_what_names_nothing_is_no_call(entry: Any) -> None:
    """Without a function or a name.

    See ``docs/contract/sources.md#s4-13`` and ``docs/contract/sources.md#s4-t5``.
    """
    assert decode_call(entry) is None


def test_arguments_that_have_no_text_are_refused() -> None:
    """A value nested too deeply is not written as anything else."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested too deeply"):
        AnsweredCall(name="tide", arguments=deep).to_json()


def test_a_message_is_read_and_written() -> None:
    """Refusal, reasoning, parts, the legacy call, and what is besides."""
    choice = {
        "index": 2,
        "finish_reason": "function_call",
        "logprobs": {"content": []},
        "message": {
            "role": "narrator",
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]},
                {"type": "text", "text": "Ebb"},
            ],
            "refusal": "No further.",
            "function_call": {"name": "tide", "arguments": "{}"},
            "audio": {"id": "a-1"},
            "reasoning": "for the moon",
        },
        "stop_reason": 5,
    }
    read = decode_choice(choice, place=0)
    assert read == AnsweredChoice(
        index=2,
        role="narrator",
        content=(ThinkingPart(text="Hm"), TextPart(text="Ebb")),
        reasoning={"reasoning": "for the moon"},
        refusal="No further.",
        function_call=AnsweredCall(name="tide"),
        finish_reason="function_call",
        logprobs={"content": []},
        extra={"audio": {"id": "a-1"}},
        choice_extra={"stop_reason": 5},
    )
    assert (read.text, read.finish) == ("Ebb", "tool_use")
    assert read.to_json() == choice


@pytest.mark.parametrize(
    "message",
    [
        {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "tide"}}]},
        {"function_call": {"name": "tide", "arguments": "{}"}},
    ],
)
def test_a_choice_that_stops_with_calls_is_to_be_answered_by_running_them(message: Any) -> None:
    """The word on the wire stays; a list without any call is none."""
    read = decode_choice({"message": message, "finish_reason": "stop"}, place=0)
    assert (read.finish, read.finish_reason) == ("tool_use", "stop")
    empty = decode_choice({"message": {"tool_calls": []}, "finish_reason": "stop"}, place=0)
    assert empty.finish == "complete"


def test_a_legacy_completion_is_read_and_written() -> None:
    """Its text, and no message."""
    choice = {"index": 1, "text": "Once", "finish_reason": "length", "x": 1}
    read = decode_choice(choice, place=0)
    assert read == AnsweredChoice(
        index=1, content="Once", finish_reason="length", is_completion=True, choice_extra={"x": 1}
    )
    assert read.to_json() == choice


def test_what_is_empty_says_nothing() -> None:
    """Texts, a finish reason, the legacy call that Snowflake sends."""
    empty = {"name": "", "arguments": ""}
    nothing = message_of(role="", content="", refusal="", reasoning="", function_call=empty)
    assert nothing == AnsweredChoice(role="assistant")
    assert message_of(content=[]) == message_of(content=None) == nothing
    assert message_of(tool_calls=[]).tool_calls == ()
    bare = {"finish_reason": "", "logprobs": {"content": None}, "text": ""}
    assert decode_choice(bare, place=3) == AnsweredChoice(index=3, is_completion=True)
    assert decode_choice({}, place=0) == nothing


def test_nulls_and_empty_objects_say_nothing_at_any_depth() -> None:
    """Within objects; lists are as they came."""
    odd: dict[str, Any] = {"a": None, "b": {"c": {}, "d": {"e": None}}, "f": [None, {}], "g": []}
    said: dict[str, Any] = {"f": [None, {}], "g": []}
    call = {"function": {"name": "tide", "x": odd}, "x": odd}
    choice = decode_choice({"message": {"x": odd, "tool_calls": [call]}, "x": odd}, place=0)
    made = AnsweredCall(name="tide", function_extra={"x": said}, extra={"x": said})
    assert choice == AnsweredChoice(
        role="assistant", tool_calls=(made,), extra={"x": said}, choice_extra={"x": said}
    )
    probs = decode_choice({"logprobs": {"content": [{"bytes": None}], "refusal": None}}, place=0)
    assert probs.logprobs == {"content": [{"bytes": None}]}


def test_nulls_are_looked_for_to_a_limit() -> None:
    """Nesting breaks nothing, and is kept."""
    deep: Any = {"a": None, "b": 1}
    for _ in range(300):
        deep = {"in": deep}
    assert message_of(x=deep).extra == {"x": deep}


def test_what_is_no_call_keeps_its_place() -> None:
    """It is left out of the calls, and written back among them."""
    tide = {"id": "k", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
    entries = [None, tide, {"id": "lost"}, "odd", tide]
    read = message_of(tool_calls=entries)
    assert read.tool_calls == (AnsweredCall(id="k", name="tide"),) * 2
    assert read.other_calls == {0: None, 2: {"id": "lost"}, 3: "odd"}
    assert read.to_json()["message"]["tool_calls"] == entries
    fewer = replace(read, tool_calls=read.tool_calls[:1])
    assert fewer.to_json()["message"]["tool_calls"] == entries[:4]


def test_what_has_another_type_is_extra() -> None:
    """Nothing is lost, and it is written as it was."""
    odd = {
        "role": 1,
        "content": 2.5,
        "refusal": ["no"],
        "tool_calls": {"a": 1},
        "function_call": "tide",
        "reasoning": {"effort": 1},
    }
    choice = {"index": "first", "finish_reason": 7, "logprobs": 3, "message": odd}
    read = decode_choice(choice, place=4)
    assert read.extra == odd
    assert read.choice_extra == {"index": "first", "finish_reason": 7}
    assert read.logprobs == 3
    assert json.loads(json.dumps(read.to_json())) == choice  # noqa: TID251 - not by the codec
    assert decode_choice({"message": "bare"}, place=0).to_json()["message"] == "bare"


def test_a_delta_is_read_where_there_is_no_message() -> None:
    """Beside one it repeats it, as Perplexity sends it."""
    delta = {"delta": {"content": "Ebb"}}
    for choice in (delta, {"message": "bare", "text": ""} | delta, {"message": {"content": "Ebb"}}):
        assert decode_choice(choice, place=0).content == "Ebb"
    both = decode_choice({"message": {"content": "Flow"}} | delta, place=0)
    assert both == AnsweredChoice(role="assistant", content="Flow")
    together = decode_choice({"text": "", "delta": {}}, place=0)
    assert together == AnsweredChoice(role="assistant", choice_extra={"text": ""})


def test_an_index_may_be_written_otherwise() -> None:
    """As everywhere in the codec: digits, or a whole number with a point."""
    assert [decode_choice({"index": i}, place=9).index for i in ("2", 2.0, 2, -1, True, None)] == [
        2, 2, 2, 9, 9, 9,
    ]  # fmt: skip
