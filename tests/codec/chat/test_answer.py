from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from codec.chat.answer import ChatMessage, ChatResponse, Choice
from codec.said import Ending, Stop
from codec.usage import Usage

STOPPED = Choice(index=0, message=ChatMessage(), finish_reason="stop")
OPEN = Choice(index=1, message=ChatMessage())
USAGE = Usage(prompt=1, completion=1)


@pytest.mark.parametrize(
    ("members", "finished", "complete"),
    [
        pytest.param({}, False, False, id="nothing"),
        pytest.param({"done": True}, False, True, id="the end marker is enough"),
        pytest.param({"choices": (STOPPED,), "usage": USAGE}, True, True, id="finish and usage"),
        pytest.param({"choices": (STOPPED,)}, True, False, id="no usage"),
        pytest.param({"choices": (OPEN,), "usage": USAGE}, False, False, id="no finish"),
        pytest.param({"choices": (STOPPED, OPEN), "usage": USAGE}, False, False, id="one open"),
        pytest.param(
            {"choices": (STOPPED,), "usage": USAGE, "choice_count": 2}, True, False,
            id="another choice was asked for and has not begun",
        ),
        pytest.param(
            {"choices": (STOPPED, STOPPED), "usage": USAGE, "choice_count": 2}, True, True,
            id="all that were asked for",
        ),
        pytest.param(
            {"choices": (STOPPED,), "usage": Usage(prompt=1)}, True, False,
            id="Databricks: the completion count is null until the end",
        ),
    ],
)  # fmt: skip
def test_completeness(members: dict[str, Any], finished: bool, complete: bool) -> None:
    """[DONE], or each finish reason and the usage (``docs/contract/promises.md#endings``)."""
    response = ChatResponse(**members)
    assert (response.finished, response.is_complete) == (finished, complete)
    assert (response.ending(streamed=True) is Ending.COMPLETE) is complete
    assert (response.ending(streamed=False) is Ending.COMPLETE) is finished


def test_a_stream_with_one_finish_reason_may_end() -> None:
    """Where its bytes end cleanly; one without any may not."""
    assert ChatResponse(choices=(STOPPED, OPEN)).ending(streamed=True) is Ending.STOPPED
    assert ChatResponse(choices=(OPEN,)).ending(streamed=True) is Ending.OPEN


@pytest.mark.parametrize(
    ("word", "stop"),
    [
        ("stop", Stop.STOP),
        ("length", Stop.LENGTH),
        ("tool_calls", Stop.TOOL_CALL),
        ("function_call", Stop.TOOL_CALL),
        ("content_filter", Stop.CONTENT_FILTER),
        ("network_error", Stop.ERROR),
        ("eos", None),
        (None, None),
    ],
)
def test_an_answer_keeps_its_word_and_says_what_it_means(word: str, stop: Stop | None) -> None:
    """A word that the schema does not have means nothing else."""
    [answer] = ChatResponse(choices=(replace(STOPPED, finish_reason=word),)).answers
    assert (answer.finish_reason, answer.stop) == (word, stop)
