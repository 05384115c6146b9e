from __future__ import annotations

import copy
import json
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming._deltas import accumulate_delta

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
        [("c1", "f", '{"q":1}')], [], id="empty id and name continue",
    ),
    pytest.param(
        [[entry(0, "c1", "f", '{"q":')], [entry(0, "zz", None, "1}")]],
        [("c1", "f", '{"q":1}')], ["tool_identity_conflict"], id="changed id, no name",
    ),
    pytest.param(
        [[entry(0, "c1", "f", "{}")], [entry(0, "c2", "g", "{}")]],
        [("c1", "f", "{}"), ("c2", "g", "{}")], ["tool_index_reused"], id="index reused",
    ),
    pytest.param(
        [[entry(0, "c1", "f", "{")], [entry(0, "c2", "g", "[")], [entry(0, "c1", None, "}")],
         [entry(0, "c2", "g", "]")]],
        [("c1", "f", "{}"), ("c2", "g", "[]")], ["tool_index_reused"],
        id="known ids at a reused index are their calls",
    ),
    pytest.param(
        [[entry(0, "c1", "f", "1")], [entry(0, "c1", "g", "2")], [entry(0, "", "h", "3")]],
        [("c1", "f", "123")], ["tool_identity_conflict", "tool_identity_conflict"],
        id="another name under the same or no id",
    ),
    pytest.param(
        [[entry(0, "c1", "f", "1", type="function")], [entry(0, None, None, "2", type="custom")]],
        [("c1", "f", "12")], ["tool_identity_conflict"], id="another type",
    ),
    pytest.param(
        [[entry(0, None, "f", "1")], [entry(0, "c1", None, "2")]],
        [("c1", "f", "12")], [], id="the id comes late (vLLM)",
    ),
    pytest.param(
        [[entry(1, "b", "g", "{}")], [entry(0, "a", "f", '{"x":')], [entry(0, arguments="1}")]],
        [("a", "f", '{"x":1}'), ("b", "g", "{}")], [], id="sorted by index",
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
        [[entry(None, arguments='{"a":')], [entry(None, None, "f", "1}")],
         [entry(None, None, "g", "{}")]],
        [(None, "f", '{"a":1}'), (None, "g", "{}")], [], id="no index, arguments before the name",
    ),
    pytest.param(
        [[entry(None, arguments="{}")], [entry(None, "a", "f")], [entry(None, "b", "g", "[]")]],
        [("a", "f", "{}"), ("b", "g", "[]")], [], id="no index, all arguments before id and name",
    ),
    pytest.param(
        [[entry(None, arguments="{}")], [entry(None, "a", "f", "[]")]],
        [(None, None, "{}"), ("a", "f", "[]")], [], id="no index, whole arguments, then a call",
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
    pytest.param(
        [[entry(0, None, "f", '{"q":1}')], [entry(0, None, "g", '{"r":2}')]],
        [(None, "f", '{"q":1}'), (None, "g", '{"r":2}')], ["tool_index_reused"],
        id="one index, no ids, whole calls (smolagents)",
    ),
    pytest.param(
        [[entry(0, "", "f", '{"q":')], [entry(0, "", "", "1}")], [entry(0, "", "g", "")],
         [entry(0, "", "", "{}")]],
        [(None, "f", '{"q":1}'), (None, "g", "{}")], ["tool_index_reused"],
        id="one index, empty ids, in pieces",
    ),
    pytest.param(
        [[entry(0, None, "f", '{"q":1}'), entry(0, None, "f", '{"q":2}')]],
        [(None, "f", '{"q":1}'), (None, "f", '{"q":2}')], ["tool_index_reused"],
        id="one index, no ids, the same name twice, both whole",
    ),
    pytest.param(
        [[entry(0, None, "f", '{"q":1}')], [entry(0, None, "f", '{"q":')],
         [entry(0, None, "f", "2}")]],
        [(None, "f", '{"q":1}'), (None, "f", '{"q":2}')], ["tool_index_reused"],
        id="the same name again, behind whole arguments",
    ),
    pytest.param(
        [[entry(0, None, "f", "")], [entry(0, arguments='{"q":1}')], [entry(0, None, "f", "")],
         [entry(0, arguments='{"q":2}')], [entry(0, None, "f", "")]],
        [(None, "f", '{"q":1}'), (None, "f", '{"q":2}')], ["tool_index_reused"],
        id="the same name again, its arguments later or never",
    ),
    pytest.param(
        [[entry(0, None, "f", '{"q":"}')], [entry(0, None, "f", '{\\"')],
         [entry(0, None, "f", "[")], [entry(0, None, "f", '"}')], [entry(0, None, "f", " ")],
         [entry(0, None, "f", "")], [entry(0, None, "f")]],
        [(None, "f", '{"q":"}{\\"["} ')], [], id="the name with each piece",
    ),
    pytest.param(
        [[entry(0, "", "f", '{"q":1}')], [entry(0, "c2", "f", '{"q":2}')]],
        [(None, "f", '{"q":1}'), ("c2", "f", '{"q":2}')], ["tool_index_reused"],
        id="an id for the second call alone",
    ),
    pytest.param(
        [[entry(0, "c1", "f", '{"q":1}')], [entry(0, "", "f", '{"q":2}')]],
        [("c1", "f", '{"q":1}'), (None, "f", '{"q":2}')], ["tool_index_reused"],
        id="an id for the first call alone",
    ),
    pytest.param(
        [[entry(0, "c1", "f", "[1]")], [entry(0, "", "g", "{}")]],
        [("c1", "f", "[1]"), (None, "g", "{}")], ["tool_index_reused"],
        id="another name behind whole arguments",
    ),
    pytest.param(
        [[entry(0, "", "f", "")], [entry(0, "c1", "f", "{}")]],
        [("c1", "f", "{}")], [], id="the id comes late, the name with it",
    ),
    pytest.param(
        [[entry(None, None, "f", '{"q":1}')], [entry(None, None, "f", '{"q":2}')]],
        [(None, "f", '{"q":1}'), (None, "f", '{"q":2}')], [],
        id="no index, no ids, the same name twice, both whole",
    ),
    pytest.param(
        [[entry(0, "a", "f", '{"q":')], [entry(1, arguments='"x')], [entry(2, arguments='y"}')]],
        [("a", "f", '{"q":"xy"}')], [], id="an index that grows with each piece (dirac)",
    ),
    pytest.param(
        [[entry(0, "a", "f", "1")], [entry(1, "b", "g", "2")], [entry(5, arguments="3")],
         [entry(0, arguments="4")]],
        [("a", "f", "14"), ("b", "g", "23")], [], id="an index without a name is the last call's",
    ),
    pytest.param(
        [[{"index": 0, "type": "custom", "custom": {"name": "sh", "input": "{}"}}],
         [{"index": 0, "custom": {"name": "sh", "input": "{}"}}]],
        [(None, "sh", "{}{}")], [], id="free text has no end that can be told",
    ),
    pytest.param(
        [[entry(0, None, "f", '"\ud800"')], [entry(0, None, "f", "1")]],
        [(None, "f", '"\ud800"'), (None, "f", "1")], ["tool_index_reused"], id="half a character",
    ),
    pytest.param([[], None, {}, "x", 7, [None, 1, "x", [], {}]], [], [], id="junk"),
    pytest.param(
        [[{"index": True, "id": 5, "function": {"name": ["f"], "arguments": 1.5}}]],
        [(None, None, "1.5")], [], id="junk members",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("deltas", "expected", "anomalies"), CASES)
def test_calls(deltas: list[Any], expected: list[Any], anomalies: list[str]) -> None:
    """Each delta finds its call.

    See ``docs/contract/wire.md#tool-calls`` and ``docs/contract/sources.md#s0-11``.
    """
    slots, noted = fold(*deltas)
    assert brief(slots) == expected
    assert noted == anomalies
    assert bool(slots) is bool(expected)


_texts = st.text(alphabet='{}[]"\\\n :,aé\ud83d', max_size=8)
_calls = st.lists(
    st.tuples(
        st.sampled_from("fgh"), st.dictionaries(_texts, _texts | st.lists(_texts), max_size=3)
    ),
    min_size=1,
    max_size=4,
)


@st.composite
def _cut_calls(draw: st.DrawFn) -> list[tuple[str, list[str]]]:
    """Calls, each with its arguments in pieces."""
    told = []
    for name, arguments in draw(_calls):
        text = json.dumps(arguments, ensure_ascii=draw(st.booleans()))
        cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)) | {0, len(text)})
        told.append((name, [text[at:to] for at, to in pairwise(cuts)]))
    return told


@pytest.mark.parametrize("empty", [None, ""], ids=["absent", "empty"])
@pytest.mark.parametrize("names", ["each", "once", "first"])
@pytest.mark.parametrize("index", [0, None])
@given(calls=_cut_calls())
def test_calls_without_ids_are_told_apart(
    calls: list[tuple[str, list[str]]], index: int | None, names: str, empty: str | None
) -> None:
    """Whether the name comes with each piece, with the first, or before all of them."""
    deltas = []
    for name, pieces in calls:
        if names == "first":
            deltas.append([entry(index, empty, name, "")])
        for at, piece in enumerate(pieces):
            named = names == "each" or (names == "once" and at == 0)
            deltas.append([entry(index, empty, name if named else empty, piece)])
    slots, _ = fold(*deltas)
    assert brief(slots) == [(None, name, "".join(pieces)) for name, pieces in calls]


@given(calls=_cut_calls(), data=st.data())
def test_calls_with_ids_are_those_of_the_sdk(
    calls: list[tuple[str, list[str]]], data: st.DataObject
) -> None:
    """openai-python puts together what has an index, once all calls have begun, in any order."""
    left = [[entry(at, arguments=piece) for piece in told] for at, (_, told) in enumerate(calls)]
    opened = [entry(at, f"c{at}", name, type="function") for at, (name, _) in enumerate(calls)]
    deltas = [[each] for each in opened]
    while left := [*filter(None, left)]:
        deltas.append([data.draw(st.sampled_from(left)).pop(0)])
    slots, noted = fold(*deltas)
    said: dict[object, object] = {}
    for delta in deltas:
        said = accumulate_delta(said, {"tool_calls": copy.deepcopy(delta)})
    assert slots.body() == said["tool_calls"]
    assert not noted


def test_each_entry_of_a_message_that_has_a_name_is_a_call() -> None:
    """Whatever its index and its id; one without a name is a piece of the one before."""
    slots, noted = fold()
    slots.feed([entry(0, "", "f"), entry(0, "", "f"), entry(0, "c", "f", "{}")], are_whole=True)
    slots.feed([entry(0, "c", "f", '{"q":'), entry(1, None, None, "1}")], are_whole=True)
    assert brief(slots) == [
        (None, "f", ""), (None, "f", ""), ("c", "f", "{}"), ("c", "f", '{"q":1}')
    ]  # fmt: skip
    assert noted == ["tool_index_reused"] * 3


def test_to_look_for_the_end_of_arguments_takes_no_more_than_their_length() -> None:
    """A gateway that sends the name with each of 30,000 pieces costs no more than they are."""
    pieces = [[entry(0, None, "f", '{"a":[')], *[[entry(0, None, "f", '{"b":"}"},')]] * 30_000]
    started = time.process_time()
    slots, _ = fold(*pieces, room=10**8)
    assert time.process_time() - started < 5
    assert len(slots.calls()) == 1


def test_the_type_is_function_unless_told_otherwise() -> None:
    """And OpenAI's custom tools with their free text input (``docs/contract/sources.md#s1-2``)."""
    custom = {"id": "b", "type": "custom", "custom": {"name": "g", "input": "free text"}}
    slots, _ = fold([entry(0, "a", "f", "{}")], [custom | {"index": 1}])
    assert slots.calls() == (
        ToolCall(id="a", name="f", arguments="{}", type="function"),
        ToolCall(id="b", name="g", arguments="free text", type="custom"),
    )


def test_the_body_keeps_index_type_and_unknown_members() -> None:
    """``docs/contract/spans.md#accumulated-object``, with Gemini's signature for the client."""
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
