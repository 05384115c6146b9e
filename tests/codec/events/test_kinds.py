from __future__ import annotations

from typing import get_args

import pytest

from codec.events import kinds
from codec.events.kinds import (
    ArgumentsDelta,
    ArgumentsDone,
    ChatEvent,
    ContentDelta,
    ContentDone,
    ErrorEvent,
    Prefix,
)
from codec.said import ErrorObject


def content(*pieces: str, delta: str = "") -> ContentDelta:
    """A content delta after so many pieces."""
    return ContentDelta(choice_index=0, delta=delta, so_far=Prefix(list(pieces), len(pieces)))


def test_the_types_are_those_of_openai_python_and_error() -> None:
    """Each class has its own string, and none is missing (``docs/contract/sources.md#s1-13``)."""
    assert {kind.type for kind in get_args(ChatEvent)} == {
        "chunk",
        "content.delta",
        "content.done",
        "refusal.delta",
        "refusal.done",
        "tool_calls.function.arguments.delta",
        "tool_calls.function.arguments.done",
        "logprobs.content.delta",
        "logprobs.content.done",
        "logprobs.refusal.delta",
        "logprobs.refusal.done",
        "error",
    }
    named = {kind.__name__ for kind in get_args(ChatEvent)}
    assert named == set(kinds.__all__) - {"ChatEvent", "Prefix"}


def test_events_are_frozen() -> None:
    """Nobody changes what an event says."""
    event = ErrorEvent(error=ErrorObject(message="too busy"))
    with pytest.raises(AttributeError):
        event.error = ErrorObject(message="never mind")  # type: ignore[misc]


def test_events_that_say_the_same_are_equal() -> None:
    """Whatever list their snapshots come from."""
    one = content("a", "b", delta="b")
    assert one == ContentDelta(choice_index=0, delta="b", so_far=Prefix(["a", "b", "c"], 2))
    assert hash(one.so_far) == hash(Prefix(["a", "b", "c"], 2))
    assert one != content("a", "x", delta="b")
    assert one.so_far != ["a", "b"]


@pytest.mark.parametrize(
    ("text", "so_far", "whole"),
    [
        ('{"tea": ["green", "bl', {"tea": ["green", "bl"]}, None),
        ('{"tea": []}', {"tea": []}, {"tea": []}),
        ('```json\n{"tea": 3}\n```', {"tea": 3}, {"tea": 3}),
        ("Tea?", None, None),
    ],
)
def test_parsed_is_partial_until_done(text: str, so_far: object, whole: object) -> None:
    """Done events have only what is whole (``docs/contract/sources.md#s1-5``)."""
    pieces = Prefix(list(text), len(text))
    assert content(text).parsed == so_far
    assert ContentDone(choice_index=0, content=text).parsed == whole
    delta = ArgumentsDelta(
        choice_index=0, index=0, call_id="c", name="brew", delta="", so_far=pieces
    )
    assert (delta.snapshot, delta.parsed) == (text, so_far)
    done = ArgumentsDone(choice_index=0, index=0, call_id="c", name="brew", arguments=text)
    assert done.parsed == whole
