"""Tool calls that come again: counted by name and arguments, bounded."""

from __future__ import annotations

from typing import Any

import msgspec

from codec.history_items import HistoryItem, ItemKind
from telemetry.conversations.repeated_calls import (
    MAX_REPEATED,
    MAX_SEEN,
    MAX_TOLD,
    RepeatedCalls,
)
from tests.telemetry.conversations.talks import calls
from tests.telemetry.conversations.usage_runs import DIGESTS, AgentRun


def made(name: str, arguments: str = "{}", call_id: str | None = None) -> HistoryItem:
    """A call."""
    return HistoryItem(ItemKind.CALL, "assistant", call_id, f"{name}\0{arguments}")


def count(*items: HistoryItem, shows_names: bool = True) -> RepeatedCalls:
    """What is counted of one call after the other."""
    repeated = RepeatedCalls()
    for item in items:
        repeated.note([item], DIGESTS, shows_names=shows_names)
    return repeated


def test_a_call_that_comes_again_is_counted() -> None:
    """Whatever its id is; the most frequent is first."""
    read, grep = made("read", '{"n":1}'), made("grep")
    items = (read, grep, read._replace(id="other"), grep, made("read", '{"n":2}'), grep)
    assert count(*items).summarise() == [{"name": "grep", "times": 3}, {"name": "read", "times": 2}]


def test_arguments_are_compared_as_json() -> None:
    """By the items of an answer."""

    def call(arguments: str) -> dict[str, Any]:
        told = calls("call_0")
        told["tool_calls"][0]["function"]["arguments"] = arguments
        return {"said": told}

    run = AgentRun()
    for arguments in ('{"a": 1, "b": 2}', '{"b":2,"a":1}', '{"a": 1, "b": 3}'):
        run.call(**call(arguments))
    assert run.summarise() == {"repeated_tool_calls": [{"name": "read", "times": 2}]}


def test_two_of_the_same_in_one_answer_are_a_repetition() -> None:
    """A model asks for the same twice at once."""
    run = AgentRun()
    told = calls("a", "b")
    told["tool_calls"][1]["function"]["arguments"] = '{"n":0}'
    run.call(said=told)
    assert run.summarise() == {"repeated_tool_calls": [{"name": "read", "times": 2}]}


def test_a_name_that_may_not_be_shown_is_not() -> None:
    """How often it came is told."""
    assert count(made("read"), made("read"), shows_names=False).summarise() == [{"times": 2}]


def test_a_name_is_text_of_a_length() -> None:
    """A stranger's name can be written, and is short."""
    told = count(made("\ud800" * 500), made("\ud800" * 500))
    assert told.summarise() == [{"name": "?" * 128, "times": 2}]
    assert msgspec.json.encode(told.summarise())


def test_what_is_kept_is_bounded() -> None:
    """The latest calls, so many that came again, and so many that are told."""
    singles = count(*[made(str(number)) for number in range(MAX_SEEN + 10)])
    assert len(singles.seen) == MAX_SEEN
    singles.note([made("0")], DIGESTS, shows_names=True)
    assert singles.summarise() == []  # the first one is forgotten
    singles.note([made(str(MAX_SEEN))], DIGESTS, shows_names=True)
    assert len(singles.summarise()) == 1
    names = [str(number) for number in range(MAX_REPEATED + 10)]
    doubles = count(*[made(name) for name in names for _ in range(3)])
    assert len(doubles.repeated) == MAX_REPEATED
    assert len(doubles.summarise()) == MAX_TOLD


def test_no_argument_is_kept() -> None:
    """A digest of it is."""
    kept = count(*[made("read", '{"path":"c4n4ry"}')] * 3)
    assert b"c4n4ry" not in msgspec.msgpack.encode(kept)
    assert b"read" in msgspec.msgpack.encode(kept)
