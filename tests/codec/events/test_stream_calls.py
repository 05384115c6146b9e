"""The events of tool calls, and when a call or a text is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codec.chat.answer import ToolCall
from codec.events import (
    ArgumentsDelta,
    ArgumentsDone,
    ChatEventStream,
    ContentDone,
    EventOrder,
    _choice,
)
from tests.codec.events.told_events import CHUNK, called, dones, everything, said, short, told
from tests.fixtures.wire import call, sse

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject


def test_a_whole_call_is_done_when_the_next_begins() -> None:
    """Before the next one's delta, or with the finish (``docs/contract/sources.md#s1-6``)."""
    assert told(
        called(call(0, "c1", "boil", '{"cups":2}')),
        called(call(1, "c2", "pour", "{}")),
        CHUNK({}, "tool_calls"),
    ) == [
        ["chunk", "tool.delta 0"],
        ["chunk", "tool.done 0", "tool.delta 1"],
        ["chunk", "tool.done 1"],
    ]


@pytest.mark.parametrize("order", EventOrder)
def test_calls_that_take_turns_are_done_once_and_whole(order: EventOrder) -> None:
    """A call that comes again is not done before (rule 4)."""
    events = everything(
        called(call(0, "c1", "boil", '{"cu')),
        called(call(1, "c2", "pour", "{}")),
        called(call(0, None, None, 'ps":')),
        called(call(1, None, None, "")),
        called(call(0, None, None, "2}")),
        CHUNK({}, "tool_calls"),
        order=order,
    )
    assert sorted(dones(events)) == [(0, '{"cups":2}'), (1, "{}")]


def test_a_call_that_comes_again_after_it_was_done_is_not_done_twice() -> None:
    """Rule 3: its deltas still come, and the answer has all of them."""
    stream = ChatEventStream()
    chunks = [
        called(call(0, "c1", "boil", "{}")),
        called(call(1, "c2", "pour", "{}")),
        called(call(0, None, None, " ")),
        CHUNK({}, "tool_calls"),
    ]
    assert told(*chunks, stream=stream)[1:] == [
        ["chunk", "tool.done 0", "tool.delta 1"],
        ["chunk", "tool.done 1", "tool.delta 0"],
        ["chunk"],
    ]
    assert stream.finish() == []
    assert stream.final_tool_calls() == (
        ToolCall(id="c1", name="boil", arguments="{} "),
        ToolCall(id="c2", name="pour", arguments="{}"),
    )


def test_whether_a_call_is_whole_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 8: calls that take turns a thousand times are not parsed a thousand times."""
    parsed = []

    def decode(text: str) -> JsonObject:
        parsed.append(text)
        raise ValueError

    monkeypatch.setattr(_choice, "decode_json_object", decode)
    turns = [called(call(turn % 2, f"c{turn % 2}", None, "[")) for turn in range(1000)]
    assert len(dones(everything(*turns))) == 2
    assert parsed == ["[", "["]


def test_each_finish_reason_finishes_what_has_begun() -> None:
    """Rule 3: Together has a reason for each call (``docs/contract/sources.md#s1-7``)."""
    assert told(
        called(call(0, "c1", "boil", "{}"), finish="tool_calls"),
        called(call(1, "c2", "pour", "{")),
        called(call(1, None, None, "}"), finish="tool_calls"),
    ) == [
        ["chunk", "tool.delta 0", "tool.done 0"],
        ["chunk", "tool.delta 1"],
        ["chunk", "tool.delta 1", "tool.done 1"],
    ]


def test_what_begins_after_the_finish_reason_is_done_at_the_end() -> None:
    """Rule 3: text and calls may follow it, in more than one.

    See ``docs/contract/wire.md#finish-reasons``.
    """
    stream = ChatEventStream()
    assert told(
        called(call(0, "c1", "boil", "{}"), finish="stop"),
        said("Tea"),
        said(" is ready."),
        called(call(1, "c2", "pour", '{"c')),
        called(call(1, None, None, '":1}')),
        stream=stream,
    ) == [
        ["chunk", "tool.delta 0", "tool.done 0"],
        ["chunk", "content.delta"],
        ["chunk", "content.delta"],
        ["chunk", "tool.delta 1"],
        ["chunk", "tool.delta 1"],
    ]
    [content, arguments] = stream.finish()
    assert content == ContentDone(choice_index=0, content="Tea is ready.")
    assert isinstance(arguments, ArgumentsDone)
    assert arguments.arguments == '{"c":1}'
    assert stream.finish() == []
    assert stream.feed(said("late")) == stream.feed_bytes(sse(said("late"))) == []


def test_the_end_without_a_finish_reason() -> None:
    """Rule 3: nothing more is expected, so all is done, by choice; cut arguments have no value."""
    events = everything(
        said("b", index=1), called(call(0, "c1", "boil", '{"cups":')), said("a", index=0)
    )
    ends = events[-3:]
    assert [(short(e), getattr(e, "choice_index", None)) for e in ends] == [
        ("content.done", 0),
        ("tool.done 0", 0),
        ("content.done", 1),
    ]
    assert isinstance(ends[1], ArgumentsDone)
    assert ends[1].parsed is None


@pytest.mark.parametrize("order", EventOrder)
def test_calls_with_any_index(order: EventOrder) -> None:
    """Calls are found by their index, which may begin at 1 and have gaps."""
    events = everything(
        called(call(7, "c7", "boil", '{"cups"')),
        called(call(7, None, None, ":2}")),
        called(call(3, "c3", "pour", "{}")),
        CHUNK({}, "tool_calls"),
        order=order,
    )
    assert dones(events) == [(7, '{"cups":2}'), (3, "{}")]
    deltas = [e for e in events if isinstance(e, ArgumentsDelta)]
    assert [(e.index, e.call_id, e.name, e.snapshot) for e in deltas] == [
        (7, "c7", "boil", '{"cups"'),
        (7, "c7", "boil", '{"cups":2}'),
        (3, "c3", "pour", "{}"),
    ]


def test_calls_without_an_index_or_with_the_same() -> None:
    """Their ids tell them apart; a place stands for the index.

    See ``docs/contract/wire.md#tool-calls``.
    """
    one, two = call(None, "a", "boil", "{}"), call(None, "b", "pour", "{}")
    events = everything(called(one, two), CHUNK({}, "tool_calls"))
    assert dones(events) == [(0, "{}"), (1, "{}")]
    one, two = call(0, "a", "boil", "{}"), call(0, "b", "pour", '{"x":1}')
    events = everything(called(one, two), CHUNK({}, "tool_calls"))
    assert [(e.index, e.call_id) for e in events if isinstance(e, ArgumentsDone)] == [
        (0, "a"),
        (0, "b"),
    ]


def test_a_call_twice_in_one_delta_has_two_events() -> None:
    """Each with what its entry added."""
    events = everything(called(call(0, "a", "boil", "{"), call(0, None, None, "}")))
    assert [(e.delta, e.snapshot) for e in events if isinstance(e, ArgumentsDelta)] == [
        ("{", "{"),
        ("}", "{}"),
    ]


def test_an_empty_identity_takes_nothing_away() -> None:
    """A last entry with an empty id and name leaves those that came."""
    events = everything(
        called(call(0, "c1", "boil", "{")),
        called(call(0, "", "", "}")),
        CHUNK({}, "tool_calls"),
    )
    identities = {
        (e.call_id, e.name) for e in events if isinstance(e, ArgumentsDelta | ArgumentsDone)
    }
    assert identities == {("c1", "boil")}
