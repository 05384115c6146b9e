"""Embeddings: texts in, vectors out."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.embeddings.route import EmbeddingRequest, EmbeddingResponse, read_embeddings
from codec.embeddings import decode_vector


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("one text", ["one text"]),
        (["a", "b"], ["a", "b"]),
        ([1, 2, 3], [[1, 2, 3]]),
        ([[1], [2, 3]], [[1], [2, 3]]),
        (["a", 5], ["a", 5]),
        ([], []),
        (None, []),
        ({"text": "x"}, [{"text": "x"}]),
    ],
)
def test_inputs_of_every_form(value: Any, wanted: list[Any]) -> None:
    """One text, several, token ids of one or of several."""
    assert list(EmbeddingRequest({"input": value}).read_texts()) == wanted


def test_items_have_their_own_index() -> None:
    """The position stands in where an item has none; what is no embedding is left out."""
    data = [
        {"index": 6, "embedding": [1]},
        {"embedding": [2]},
        {"index": True, "embedding": [3]},
        {"index": -1, "embedding": [4]},
        {"index": 0},
        "x",
    ]
    vectors = EmbeddingResponse(body={"data": data}).vectors
    assert [(one.index, one.value) for one in vectors] == [(6, [1]), (1, [2]), (2, [3]), (3, [4])]
    assert not EmbeddingResponse(body={"data": {}}).vectors


def test_vectors_of_one_index_have_their_positions() -> None:
    """Some servers call each of them 0: none takes the place of another."""
    data = [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [2]}]
    vectors = EmbeddingResponse(body={"data": data}).vectors
    assert [(one.index, one.value) for one in vectors] == [(0, [1]), (1, [2])]


@given(st.lists(st.floats(width=32, allow_nan=False)))
def test_both_forms_of_a_vector_say_the_same(numbers: list[float]) -> None:
    """A list of numbers, and base64 of little-endian 32-bit floats."""
    encoded = base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
    assert decode_vector(encoded) == decode_vector(numbers) == tuple(numbers)


@pytest.mark.parametrize(
    "value", ["!", "AAA=", "AAAAAAA=", "é", [1, "x"], [None], [10**400], None, {"a": 1}, 5]
)
def test_what_is_no_vector_is_none(value: Any) -> None:
    """Broken base64, half a number, numbers that are none."""
    assert decode_vector(value) is None


def test_the_rest_of_the_answer_reads_like_a_chats() -> None:
    """Model and usage."""
    response = read_embeddings(
        b'{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],'
        b'"model":"small","usage":{"prompt_tokens":5,"total_tokens":5}}'
    )
    assert response.model == "small"
    assert response.usage is not None
    assert (response.usage.prompt, response.usage.completion, response.usage.total) == (5, None, 5)
