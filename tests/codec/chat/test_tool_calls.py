from __future__ import annotations

from typing import Any

import pytest

from codec.budget import Budget
from codec.chat.answer import ToolCall
from codec.chat.tool_calls import CallSlot, ToolCallSlots


def entry(
    index: int | None = None, call_id: str | None = None, name: str | None = None,
    arguments: Any = None, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """An entry of `tool_calls` with the members that are given."""
    function = {"name": name, "arguments": arguments}
    members = {"index": index, "id": call_id, "type": more.pop("type", None)}
    return {key: value for key, value in members.items() if value is not None} | {
        "function": {key: value for key, value in function.items() if value is not None},
        **more,
    }


def fold(*deltas: Any, room: int = 10**6) -> tuple[ToolCallSlots, list[str]]:
    """Fold the `tool_calls` of several deltas; also the anomalies."""
    anomalies: list[str] = []
    slots = ToolCallSlots(Budget(room), anomalies.append)
    for delta in deltas:
        slots.feed(delta)
    return slots, anomalies


def brief(slots: ToolCallSlots) -> list[tuple[str | None, str | None, str]]:
    """Id, name and arguments of each call."""
    return [(call.id, call.name, call.arguments) for call in slots.calls()]


CASES = [
    pytest.param(
        [[entry(0, "c1", "f", '{"q":')], [entry(0, "", "", "1}")]],
        [("c1", "f", '{"q":1}')], [], id="S0.11 empty id and name continue",
    ),
    pytest.param(
        [[entry(0, "c1", "f", '{"q":')], [entry(0, "zz", None, "1}")]],
        [("c1", "f", '{"q":1}')], ["tool_identity_conflict"], id="S0.11 changed id, no name",
    ),
    pytest.param(
        [[entry(0, "c1", "f", "{}")], [entry(0, "c2", "g", "{}")]],
        [("c1", "f", "{}"), ("c2", "g", "{}")], ["tool_index_reused"], id="S0.11 index reused",
    ),
    pytest.param(
        [[entry(0, "c1", "f", "{")], [entry(0, "c2", "g", "[")], [entry(0, "c1", None, "}")],
         [entry(0, "c2", "g", "]")]],
        [("c1", "f", "{}"), ("c2", "g", "[]")], ["tool_index_reused"],
        id="S0.11 known ids at a reused index are their calls",
    ),
    pytest.param(
        [[entry(0, "c1", "f", "1")], [entry(0, "c1", "g", "2")], [entry(0, "", "h", "3")]],
        [("c1", "f", "123")], ["tool_identity_conflict", "tool_identity_conflict"],
        id="S0.11 another name under the same or no id",
    ),
    pytest.param(
        [[entry(0, "c1", "f", "1", type="function")], [entry(0, None, None, "2", type="custom")]],
        [("c1", "f", "12")], ["tool_identity_conflict"], id="S0.11 another type",
    ),
    pytest.param(
        [[entry(0, None, "f", "1")], [entry(0, "c1", None, "2")]],
        [("c1", "f", "12")], [], id="the id comes late (vLLM)",
    ),
    pytest.param(
        [[entry(1, "b", "g", "{}")], [entry(0, "a", "f", '{"x":')], [entry(0, arguments="1}")]],
        [("a", "f", '{"x":1}'), ("b", "g", "{}")], [], id="S1.2 sorted by index",
    ),
    pytest.param(
        [[{"index": "1", "id": "a"}, {"index": 0.0, "id": "b"}],
         [{"index": 1, "function": {"name": "f"}}, {"index": 0, "function": {"name": "g"}}]],
        [("b", "g", ""), ("a", "f", "")], [], id="indices written in other ways",
    ),
    pytest.param(
        [[{"index": -1, "id": "a"}, {"index": "-1", "id": "b"}]],
        [("a", None, ""), ("b", None, "")], [], id="a negative index is none",
    ),
    pytest.param(
        [[entry(1, "a", "f", "{}")]], [("a", "f", "{}")], [], id="Anthropic begins at 1",
    ),
    pytest.param(
        [[entry(0, "0", "f", "{")], [entry(0, "0", None, "}")]],
        [("0", "f", "{}")], [], id="TGI repeats the id",
    ),
    pytest.param(
        [[entry(None, "a", "f", "{}"), entry(None, "b", "f", "[]")]],
        [("a", "f", "{}"), ("b", "f", "[]")], [], id="Mistral: whole calls in one delta",
    ),
    pytest.param(
        [[entry(None, None, "f", "1"), entry(None, None, "f", "2")]],
        [(None, "f", "1"), (None, "f", "2")], [], id="two entries without index are two calls",
    ),
    pytest.param(
        [[entry(None, "a", "f", "{")], [entry(None, "a", "f", "}")], [entry(None, arguments="!")]],
        [("a", "f", "{}!")], [], id="no index, the id repeated, then nothing",
    ),
    pytest.param(
        [[entry(None, "a", "f", "1")], [entry(None, "b", "f", "2")]],
        [("a", "f", "1"), ("b", "f", "2")], [], id="no index, another id",
    ),
    pytest.param(
        [[entry(None, None, "f", "1")], [entry(None, None, "g", "2")],
         [entry(None, None, "g", "3")]],
        [(None, "f", "1"), (None, "g", "23")], [], id="no index, no id, another name",
    ),
    pytest.param(
        [[entry(0, "a", "f", "1")], [entry(1, "b", "g", "2")], [entry(None, arguments="3")]],
        [("a", "f", "1"), ("b", "g", "23")], [], id="a missing index continues the last call",
    ),
    pytest.param(
        [[entry(3, "a", "f", "1")], [entry(None, "b", "g", "2")], [entry(0, "c", "h", "3")]],
        [("a", "f", "1"), ("b", "g", "2"), ("c", "h", "3")], [], id="mixed: as they came",
    ),
    pytest.param(
        [[entry(None, "null", "f", "{}")]], [(None, "f", "{}")], [], id="Mistral's id null",
    ),
    pytest.param(
        [[entry(0, "a", "f", {"x": [1, "é"]})]], [("a", "f", '{"x":[1,"é"]}')], [],
        id="arguments as an object (Ollama through gateways)",
    ),
    pytest.param(
        [[{"index": 0, "id": "a", "function": {"name": "f", "arguments": None}}]],
        [("a", "f", "")], [], id="arguments null",
    ),
    pytest.param([[entry(0, "a", "f", {})]], [("a", "f", "{}")], [], id="an empty object"),
    pytest.param([[{"id": "a", "function": None}]], [("a", None, "")], [], id="function null"),
    pytest.param([[], None, {}, "x", 7, [None, 1, "x", [], {}]], [], [], id="junk"),
    pytest.param(
        [[{"index": True, "id": 5, "function": {"name": ["f"], "arguments": 1.5}}]],
        [(None, None, "1.5")], [], id="junk members",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("deltas", "expected", "anomalies"), CASES)
def test_calls(deltas: list[Any], expected: list[Any], anomalies: list[str]) -> None:
    """S0.11, S1.2 and dialects.md section 7: each delta finds its call."""
    slots, noted = fold(*deltas)
    assert brief(slots) == expected
    assert noted == anomalies
    assert bool(slots) is bool(expected)


def test_the_type_is_function_unless_told_otherwise() -> None:
    """S1.2, and OpenAI's custom tools with their free text input."""
    custom = {"id": "b", "type": "custom", "custom": {"name": "g", "input": "free text"}}
    slots, _ = fold([entry(0, "a", "f", "{}")], [custom | {"index": 1}])
    assert slots.calls() == (
        ToolCall(id="a", name="f", arguments="{}", type="function"),
        ToolCall(id="b", name="g", arguments="free text", type="custom"),
    )


def test_the_body_keeps_index_type_and_unknown_members() -> None:
    """span-contract.md 1.5, with Gemini's signature that the client has to return."""
    signed = {"extra_content": {"google": {"thought_signature": "s"}}}
    slots, _ = fold(
        [entry(0, "a", "f", "{", type="function", **signed)],
        [{"index": 0, "function": {"arguments": "}", "strict": True}}],
        [entry(None, "b", "g")],
    )
    assert slots.body() == [
        {
            "index": 0, "id": "a", "type": "function", **signed,
            "function": {"name": "f", "arguments": "{}", "strict": True},
        },
        {"index": 1, "id": "b", "function": {"name": "g"}},
    ]  # fmt: skip


def test_a_custom_call_is_put_together_like_a_function() -> None:
    """Rule 5: its input is joined, and the body has it under its own name, unknown members too."""
    slots, _ = fold(
        [{"index": 0, "id": "c", "type": "custom"}],
        [{"index": 0, "custom": {"name": "sh", "input": "ls "}, "x": 1}],
        [{"index": 0, "custom": {"input": "-l", "shell": "dash"}}],
    )
    assert slots.calls() == (ToolCall(id="c", name="sh", arguments="ls -l", type="custom"),)
    custom = {"name": "sh", "input": "ls -l", "shell": "dash"}
    assert slots.body() == [{"index": 0, "id": "c", "type": "custom", "custom": custom, "x": 1}]


def test_a_custom_member_beside_a_function_is_unknown() -> None:
    """The function is what is called; nothing is lost."""
    slots, _ = fold([entry(0, "c", "f", "{}", custom={"name": "g"})])
    (body,) = slots.body()
    assert (body["function"], body["custom"]) == ({"name": "f", "arguments": "{}"}, {"name": "g"})


def test_calls_without_an_index_are_numbered_as_they_came() -> None:
    """And so are those beside them, so that no two have the same number."""
    slots, _ = fold([entry(1, "a", "f")], [entry(None, None, "g")], [entry(0, "b", "h")])
    assert [(call["index"], call["function"]["name"]) for call in slots.body()] == [
        (0, "f"), (1, "g"), (2, "h"),
    ]  # fmt: skip


def test_calls_and_arguments_are_bounded() -> None:
    """Empty calls without number, and arguments without end, stop at the budget."""
    slots, _ = fold([entry(n, f"c{n}", "f") for n in range(100)], room=10_000)
    assert 5 < len(slots.calls()) < 10
    slots, _ = fold([entry(0, "c", "f")], *[[entry(0, arguments="x" * 100)]] * 1000, room=10_000)
    assert 1000 < len(slots.calls()[0].arguments) < 10_000


def test_calls_at_one_index_are_found_without_a_search() -> None:
    """Rule 1: a call is looked up by index and id, however many there are."""
    slots, _ = fold(*[[entry(0, f"c{n}", "f")] for n in range(500)])
    slots._slots = []  # would show a search through them
    slots.feed([entry(0, "c7", None, "7")])
    assert slots._by_id[0, "c7"].call() == ToolCall(id="c7", name="f", arguments="7")
    assert not slots._slots


def test_words_are_taken_from_the_budget() -> None:
    """An id, a name and a type cost what they hold, once."""
    budget = Budget(100)
    slot = CallSlot()
    assert slot.identify(budget, id="i" * 10, name="n" * 20, type=None)
    assert slot.identify(budget, id="i" * 10, name=None, type="t" * 5)
    assert budget.left_bytes == 100 - 10 - 20 - 5
    assert not slot.identify(budget, id="another", name=None, type=None)
    other = CallSlot()
    assert other.identify(budget, id="i" * 66, name=None, type=None)
    assert (other.id, budget.exceeded) == (None, True)
