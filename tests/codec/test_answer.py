from __future__ import annotations

from typing import Any

import pytest

from codec.answer import ChatResponse, Choice, Message
from codec.usage import Usage

STOPPED = Choice(index=0, message=Message(), finish_reason="stop")
OPEN = Choice(index=1, message=Message())
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
    """design.md section 6: [DONE], or every choice's finish reason and the usage."""
    response = ChatResponse(**members)
    assert (response.finished, response.is_complete) == (finished, complete)
