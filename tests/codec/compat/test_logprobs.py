"""Log probabilities of four shapes."""

from __future__ import annotations

from typing import Any

import pytest

from codec.compat.logprobs import decode_logprobs


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"top_logprobs": [{"x": -1.5, "y": -2}, None]}, ({"x": -1.5, "y": -2}, {})),
        ({"tokens": ["x", "y"], "token_logprobs": [None, -0.5]}, ({}, {"y": -0.5})),
        (-0.75, ({"tide": -0.75},)),
        (
            {"content": [
                {"token": "x", "logprob": -0.1, "top_logprobs": [{"token": "z", "logprob": -3}]},
                {"token": "y", "logprob": -0.2},
                7,
            ]},
            ({"z": -3, "x": -0.1}, {"y": -0.2}),
        ),
        ({"content": [{"token": 3, "logprob": -1, "top_logprobs": 5}, {"token": "a"}]}, ({}, {})),
        (None, None),
        (True, None),
        ({"content": None}, None),
        ({"tokens": ["x"]}, None),
        ({"tokens": ["x", 4], "token_logprobs": [-1, -2]}, ({"x": -1},)),
    ],
)  # fmt: skip
def test_every_shape_becomes_a_map_for_each_token(value: Any, expected: Any) -> None:
    """Alternatives, tokens, one number, a chat's content (``docs/contract/sources.md#s3-4``)."""
    assert decode_logprobs(value, text="tide") == expected
