"""``codec.apis.messages``: what a whole message and a streamed one say of their cost."""

from __future__ import annotations

from typing import Any

import pytest

from codec.apis.messages.said import read_answer
from codec.cost import Cost
from codec.text.jsontext import encode_json
from tests.codec.apis.messages.events import MESSAGE, START, STOP, answer_of, begin, end, text

COUNTS = {"input_tokens": 32, "output_tokens": 16}
SHARES = {
    "upstream_inference_cost": 0.000112,
    "upstream_inference_prompt_cost": 0.000032,
    "upstream_inference_completions_cost": 0.00008,
}
BILLED = {**COUNTS, "cost": 0.000112, "cost_details": SHARES, "is_byok": False}
"""As OpenRouter bills a message (``docs/contract/apis.md#stated-cost``)."""

COST = Cost(total=0.000112, prompt=0.000032, completion=0.00008)


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (BILLED, COST),
        ({**COUNTS, "cost": 0}, Cost(total=0.0)),
        ({**BILLED, "cost": 0.5, "is_byok": True}, Cost(total=0.500112)),
        ({**COUNTS, "cost": "0.5"}, None),
        (COUNTS, None),
    ],
)
def test_the_cost_in_the_usage_is_the_messages(usage: dict[str, Any], cost: Cost | None) -> None:
    """In one piece or at the end of a stream; where none is told, there is none."""
    whole = MESSAGE | {"stop_reason": "end_turn", "usage": usage}
    assert read_answer(encode_json(whole).encode()).cost == cost
    assert answer_of(START, begin(0), text("Hi"), end(**usage), STOP).cost == cost


def test_a_cost_that_was_told_first_stays() -> None:
    """The last counts need not repeat it, and may not have come."""
    start = START.replace(b'"input_tokens"', b'"cost":0.25,"input_tokens"')
    assert answer_of(start, begin(0), text("Hi"), end(), STOP).cost == Cost(total=0.25)
    assert answer_of(start, begin(0), text("Hi")).cost == Cost(total=0.25)
