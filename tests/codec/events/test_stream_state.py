"""The state of a stream so far, and its finals."""

from __future__ import annotations

import json

import pytest

from codec.chat.answer import ToolCall
from codec.errors import ContentFiltered, IncompleteAnswer, LengthReached
from codec.events import (
    ArgumentsDelta,
    ChatEventStream,
    ContentDelta,
    LogprobsContentDelta,
    RefusalDelta,
)
from tests.codec.events.told_events import CHUNK, called, everything, said, token, told
from tests.fixtures.wire import call, calls, usage_of


def test_there_is_no_state_before_the_first_chunk() -> None:
    """Nothing comes of nothing, not even of an error (``docs/contract/sources.md#s1-3``)."""
    stream = ChatEventStream()
    assert stream.snapshot is None
    assert stream.final_completion() is None
    assert stream.final_message() is None
    assert stream.final_content() is None
    assert stream.final_tool_calls() is None
    stream.check()
    stream.feed({"error": {"message": "no kettle"}})
    assert stream.snapshot is None


def test_the_state_is_a_complete_completion() -> None:
    """Role by default, content null, the object renamed, the usage kept."""
    stream = ChatEventStream()
    stream.feed(CHUNK({}) | {"usage": usage_of(5, 0)})
    assert stream.snapshot == {
        "id": "chatcmpl-7f",
        "object": "chat.completion",
        "created": CHUNK.head["created"],
        "model": "kettle-1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None},
                "finish_reason": None,
            }
        ],
        "usage": usage_of(5, 0),
    }


def test_finals() -> None:
    """Completion, message, content and tool calls (``docs/contract/sources.md#s1-8``)."""
    stream = ChatEventStream()
    told(said("Ready", index=0), called(call(0, "c1", "boil", "{}")), stream=stream)
    told(said("Set", "stop", index=2), CHUNK({}, "tool_calls"), stream=stream)
    completion = stream.final_completion()
    assert completion is not None
    assert completion == stream.snapshot
    assert [choice["index"] for choice in completion["choices"]] == [0, 2]
    assert completion["choices"][1]["message"] == {"role": "assistant", "content": "Set"}
    assert (stream.final_content(), stream.final_content(2)) == ("Ready", "Set")
    assert stream.final_tool_calls() == (ToolCall(id="c1", name="boil", arguments="{}"),)
    assert stream.final_tool_calls(2) is None
    message = stream.final_message(2)
    assert message is not None
    assert message.content == "Set"
    assert stream.final_message(1) is None


@pytest.mark.parametrize(
    ("reasons", "error", "choice"),
    [
        (("stop", "length"), LengthReached, 1),
        (("content_filter", "length"), ContentFiltered, 0),
        ((None, "content_filter"), ContentFiltered, 1),
    ],
)
def test_the_checked_final(
    reasons: tuple[str | None, ...], error: type[IncompleteAnswer], choice: int
) -> None:
    """The first choice that was cut or filtered is an error (``docs/contract/sources.md#s1-9``)."""
    stream = ChatEventStream()
    for index, reason in reversed(list(enumerate(reasons))):
        stream.feed(said("x", reason, index=index))
    with pytest.raises(IncompleteAnswer) as raised:
        stream.check()
    assert type(raised.value) is error
    assert raised.value.choice_index == choice
    assert raised.value.finish_reason == reasons[choice]


def test_the_checked_final_of_whole_choices() -> None:
    """Any other finish reason is fine, and none is not judged."""
    stream = ChatEventStream()
    told(said("x", "stop"), said("y", "eos", index=1), said("z", index=2), stream=stream)
    stream.check()


def test_the_state_does_not_add_what_is_no_text() -> None:
    """A role that comes again, a type and a number replace (``docs/contract/sources.md#s1-14``)."""
    stream = ChatEventStream()
    first = call(0, "c1", "boil", "{}")
    told(CHUNK({"role": "assistant", "heat": 1}), stream=stream)
    told(CHUNK({"role": "assistant", "heat": 2, **calls(first)}), called(first), stream=stream)
    completion = stream.snapshot
    assert completion is not None
    assert completion["choices"][0]["message"] == {
        "role": "assistant",
        "content": None,
        "heat": 2,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "boil", "arguments": "{}{}"}}
        ],
    }


def test_what_openai_python_skips_and_overwrites() -> None:
    """A null takes nothing back, padding is not kept (``docs/contract/sources.md#s1-15``)."""
    stream = ChatEventStream()
    filtered = {"id": "", "object": "", "choices": [], "prompt_filter_results": []}
    last = said("Tea", "stop") | {"usage": usage_of(7, 1), "obfuscation": "kQ9"}
    assert told(filtered, last, CHUNK.alone(usage=None), stream=stream) == [
        ["chunk"],
        ["chunk", "content.delta", "content.done"],
        ["chunk"],
    ]
    completion = stream.snapshot
    assert completion is not None
    assert (completion["id"], completion["usage"]) == ("chatcmpl-7f", usage_of(7, 1))
    assert "obfuscation" not in completion


def test_the_state_includes_the_current_delta() -> None:
    """What feed returns is in the state already (``docs/contract/sources.md#s1-18``)."""
    stream = ChatEventStream()
    for text in ("Te", "Tea", "Tea!"):
        events = stream.feed(said(text[-1] if text != "Te" else text))
        assert isinstance(events[1], ContentDelta)
        assert stream.final_content() == events[1].snapshot == text


def test_events_do_not_change_afterwards() -> None:
    """Each snapshot stays what it was, of text, calls and tokens alike."""
    pieces = ["Gr", "een", " tea"]
    events = everything(
        *(
            CHUNK(
                {"content": piece, "refusal": piece, **calls(call(0, "c1", "f", piece))},
                choice={"logprobs": {"content": [piece]}},
            )
            for piece in pieces
        )
    )
    for kind in (ContentDelta, RefusalDelta, ArgumentsDelta):
        snapshots = [e.snapshot for e in events if isinstance(e, kind)]
        assert snapshots == ["Gr", "Green", "Green tea"]
    tokens = [e.snapshot for e in events if isinstance(e, LogprobsContentDelta)]
    assert tokens == [("Gr",), ("Gr", "een"), ("Gr", "een", " tea")]


def test_a_state_does_not_change_afterwards() -> None:
    """It is the caller's own, down to log probabilities and unknown members."""
    stream = ChatEventStream()
    chunk = CHUNK({"x": {"l": [1]}}, choice={"logprobs": {"content": [token("a")]}})
    stream.feed(chunk)
    before = stream.snapshot
    text = json.dumps(before)
    stream.feed(chunk)
    assert json.dumps(before) == text
    assert before is not None
    before["choices"][0]["message"]["x"]["l"].clear()
    after = stream.snapshot
    assert after is not None
    assert after["choices"][0]["message"]["x"] == {"l": [1, 1]}
