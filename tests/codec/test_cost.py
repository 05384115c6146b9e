"""Costs that providers report."""

from __future__ import annotations

import math
from typing import Any

import pytest

from codec.chat.response import decode_response
from codec.cost import Cost, decode_cost


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (
            {"cost": {"total": 0.5, "input": 0.2, "output": 0.3}},
            Cost(total=0.5, prompt=0.2, completion=0.3),
        ),
        ({"cost": 0}, Cost(total=0.0)),
        ({"cost": 0.25, "cost_usd": 0.75}, Cost(total=0.75)),
        ({"cost_in_usd_ticks": 25_000_000}, Cost(total=0.0025)),
        (
            {
                "cost": {
                    "total_cost": 0.6,
                    "input_tokens_cost": 0.1,
                    "output_tokens_cost": 0.2,
                    "request_cost": 0.3,
                }
            },
            Cost(total=0.6, prompt=0.1, completion=0.2),
        ),
        (
            {
                "cost": 3.0,
                "cost_details": {
                    "upstream_inference_cost": 3.0,
                    "upstream_inference_prompt_cost": 1.0,
                    "upstream_inference_completions_cost": 2.0,
                },
            },
            Cost(total=3.0, prompt=1.0, completion=2.0),
        ),
        (
            {
                "cost": 3.0,
                "cost_details": {
                    "upstream_inference_cost": 3.0,
                    "upstream_inference_input_cost": 1.0,
                    "upstream_inference_output_cost": 2.0,
                },
            },
            Cost(total=3.0, prompt=1.0, completion=2.0),
        ),
        (
            {
                "cost": 0.1,
                "cost_details": {
                    "upstream_inference_cost": 3.0,
                    "upstream_inference_prompt_cost": 1.0,
                },
            },
            Cost(total=0.1),
        ),
    ],
)
def test_a_reported_cost_is_read(usage: dict[str, Any], cost: Cost) -> None:
    """A number, an object, zero; cost_usd first (``docs/contract/sources.md#s4-18``)."""
    assert decode_cost(usage, {}) == cost


@pytest.mark.parametrize(
    "value", [None, True, -1, "0.5", math.nan, math.inf, 10**400, [], {}, {"total": "1"}]
)
def test_what_is_no_cost_is_none(value: Any) -> None:
    """Text is no amount, and nothing becomes zero (``docs/contract/sources.md#n6``)."""
    assert decode_cost({"cost": value}, {}) is None


@pytest.mark.parametrize(
    ("usage", "body", "cost"),
    [
        ({"cost_usd": {"input": 1}, "cost": 0.5}, {}, Cost(total=0.5)),
        ({"cost": {"input": 1, "output": 2}}, {"cost": {"usd": 0.25}}, Cost(total=0.25)),
        ({"cost": {"input": 1}, "cost_in_usd_ticks": 0}, {}, Cost(total=0.0)),
        ({"cost": {"input": 1, "output": 2}}, {}, Cost(prompt=1.0, completion=2.0)),
        ({"cost_usd": {"input": 1}, "cost": {"output": 2}}, {}, Cost(prompt=1.0)),
        ({"cost": 0.5, "cost_in_usd_ticks": 10**10}, {}, Cost(total=0.5)),
    ],
)
def test_a_cost_with_a_total_is_preferred(
    usage: dict[str, Any], body: dict[str, Any], cost: Cost
) -> None:
    """Shares alone wait for a total that comes later; without any, the first stand."""
    assert decode_cost(usage, body) == cost


def test_an_answer_has_its_cost() -> None:
    """Wherever it stands: Venice has it beside the usage."""
    beside = decode_response(b'{"choices":[],"cost":{"usd":0.125,"diem":0},"usage":{"x":1}}')
    assert beside.cost == Cost(total=0.125)
    assert decode_response(b'{"choices":[],"usage":{"cost":2}}').cost == Cost(total=2.0)
    assert decode_response(b'{"choices":[]}').cost is None


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        ({"cost": 0.001, "cost_details": {"upstream_inference_cost": 0.02}}, 0.021),
        ({"cost": 0, "cost_details": {"upstream_inference_cost": 0.02}}, 0.02),
        ({"cost": 0, "cost_details": {"upstream_inference_cost": None}}, None),
        ({"cost": 0}, None),
    ],
)
def test_with_the_callers_own_key_the_upstream_bills_the_rest(
    usage: dict[str, object], total: float | None
) -> None:
    """OpenRouter's cost is its fee alone."""
    assert decode_cost({**usage, "is_byok": True}, {}) == Cost(total=total)
