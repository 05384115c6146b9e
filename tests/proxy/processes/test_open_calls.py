"""``proxy.processes.open_calls``: asked of telemetry once, and never waited for long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.processes import launches
from proxy.processes.launch_channel import MAX_LINE_BYTES, encode_line
from proxy.processes.launches import OpenCallsQuestion
from proxy.processes.messages import MessageReader, encode_message
from proxy.processes.open_calls import (
    MAX_OPEN_CALLS,
    NO_CALLS,
    AskOpen,
    OpenCalls,
)
from telemetry.facts import MAX_PREVIEW_CHARS
from telemetry.observing.open_call import OpenCall
from telemetry.spans.open_calls import MAX_MODEL_CHARS

if TYPE_CHECKING:
    from collections.abc import Callable

CALL = OpenCall(
    span_id="0a" * 8,
    trace_id="0b" * 16,
    start_ns=1 << 62,
    api="chat.completions",
    upstream="u" * 64,
    model="\x01" * MAX_MODEL_CHARS,  # six bytes each as JSON
    what="\x01" * MAX_PREVIEW_CHARS,
    client="c" * 40,
    launch="l" * 64,
    http_status=200,
    chunks=1 << 40,
)
ONE = OpenCalls(calls=(CALL,), count=1)


class Telemetry:
    """Counts what it is asked."""

    def __init__(self, *, is_there: bool = True) -> None:
        self.asked = 0
        self._is_there = is_there

    def ask(self, _: AskOpen) -> bool:
        self.asked += 1
        return self._is_there


async def test_all_who_ask_at_a_time_get_one_answer() -> None:
    """And who comes later gets a new one."""
    telemetry = Telemetry()
    question = OpenCallsQuestion(telemetry.ask)
    for number in (1, 2):
        waiting = [asyncio.ensure_future(question.tell()) for _ in range(3)]
        await asyncio.sleep(0)
        assert telemetry.asked == number
        question.hear(ONE)
        assert await asyncio.gather(*waiting) == [ONE] * 3


@pytest.mark.parametrize("is_there", [False, True])
async def test_who_does_not_answer_is_passed_over(
    is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked again the next time; an answer that comes late is nobody's."""
    monkeypatch.setattr(launches, "ANSWER_SECONDS", 0.01)
    telemetry = Telemetry(is_there=is_there)
    question = OpenCallsQuestion(telemetry.ask)
    for number in (1, 2):
        assert await question.tell() == NO_CALLS
        assert telemetry.asked == number
    question.hear(ONE)
    assert await question.tell() == NO_CALLS


async def test_who_goes_leaves_the_others_their_answer() -> None:
    """As a terminal that is closed."""
    question = OpenCallsQuestion(Telemetry().ask)
    first, second = (asyncio.ensure_future(question.tell()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    question.hear(ONE)
    assert await second == ONE


@pytest.mark.parametrize("encode", [encode_line, encode_message])
def test_as_many_calls_as_there_may_be_have_room(
    encode: Callable[[OpenCalls], bytes],
) -> None:
    """On both of their ways."""
    encoded = encode(OpenCalls(calls=(CALL,) * MAX_OPEN_CALLS, count=5_000))
    assert len(encoded) < MAX_LINE_BYTES


def test_they_come_over_the_control_channel_as_they_were() -> None:
    """Question and answer."""
    for message in (AskOpen(), ONE, NO_CALLS):
        assert list(MessageReader().feed(encode_message(message))) == [message]
