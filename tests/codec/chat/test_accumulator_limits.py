"""``codec.chat.accumulator``: no chunk raises, and memory and work are bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.chat import accumulator as module
from codec.chat.accumulator import MAX_CHOICES, Accumulator
from codec.text.nesting import MAX_DEPTH
from tests.codec.chat.folded_chunks import USAGE, contents, delta, fold
from tests.codec.test_error_objects import json_values

GROWING: dict[str, Any] = {
    "text": lambda _: delta("x" * 1000),
    "reasoning": lambda _: {"choices": [{"index": 0, "delta": {"reasoning": "x" * 1000}}]},
    "logprobs": lambda _: delta("", logprobs={"content": [{"token": "x" * 1000}]}),
    "choices": lambda n: delta("", n),
    "calls": lambda n: {
        "choices": [{"index": 0, "delta": {"tool_calls": [{"index": n, "id": "a"}]}}]
    },
    "top-level members": lambda n: {"choices": [], f"k{n}": "x" * 1000},
    "choice members": lambda n: {"choices": [{"index": 0, f"k{n}": [n] * 300}]},
    "delta members": lambda _: {"choices": [{"index": 0, "delta": {"details": ["x" * 1000]}}]},
}


@pytest.mark.parametrize("kind", GROWING)
def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Whatever grows stops at the limit; finish reason, usage and error still come."""
    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 100_000)
    accumulator = Accumulator()
    accumulator.feed(delta("begin"))
    for n in range(1000):
        accumulator.feed(GROWING[kind](n))
    accumulator.feed(delta(None, 0, finish_reason="stop"))
    accumulator.feed({"choices": [], "usage": USAGE, "error": {"message": "m"}})
    response = accumulator.response()
    assert len(json.dumps(response.body)) < 150_000
    assert len(response.choices) < 60
    assert "observer_limit" in response.anomalies
    assert response.choices[0].finish_reason == "stop"
    assert response.choices[0].message.content is not None
    assert response.choices[0].message.content.startswith("begin")
    assert response.usage is not None
    assert response.error is not None


def test_a_usage_object_over_its_limit_is_noted() -> None:
    """The usage has a limit of its own, for it is taken past the other."""
    response = fold(delta() | {"usage": USAGE | {"x": "y" * 100_000}})
    assert response.usage is not None
    assert response.usage.raw == USAGE
    assert "observer_limit" in response.anomalies


def test_what_no_writer_can_follow_is_weighed_all_the_same() -> None:
    """Text that stands beside a list of the greatest depth."""
    nested: Any = []
    for _ in range(MAX_DEPTH - 2):
        nested = [nested]
    accumulator = Accumulator()
    for _ in range(60):
        accumulator.feed({"choices": [{"index": 0, "delta": {"x": ["A" * 1_000_000, nested]}}]})
    response = accumulator.response()
    kept = [text for text in response.body["choices"][0]["message"]["x"] if isinstance(text, str)]
    assert 10 < len(kept) < 17
    assert "observer_limit" in response.anomalies


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(lambda n: delta("", n, finish_reason="x" * 50_000), id="finish reasons"),
        pytest.param(
            lambda n: {"choices": [{"index": n, "delta": {"role": "x" * 50_000}}]}, id="roles",
        ),
        pytest.param(lambda n: {"id": "x" * 50_000, "choices": []}, id="an id"),
        *(
            pytest.param(
                lambda n, kind=kind: {"choices": [{"index": 0, "delta": {"tool_calls": [
                    {"index": n, "id": "i", "type": "t", "function": {"name": "f"}}
                    | ({"function": {"name": "x" * 50_000}} if kind == "name"
                       else {kind: "x" * 50_000})]}}]},
                id=f"calls by {kind}",
            )
            for kind in ("id", "type", "name")
        ),
    ],
)  # fmt: skip
def test_words_are_bounded(monkeypatch: pytest.MonkeyPatch, chunk: Any) -> None:
    """What is no text of the answer, but a name or a reason, is weighed as well."""
    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 100_000)
    accumulator = Accumulator()
    for n in range(40):
        accumulator.feed(chunk(n))
    response = accumulator.response()
    assert "observer_limit" in response.anomalies
    assert len(repr(response.choices) + repr(response.id)) < 150_000


def test_a_role_that_is_repeated_takes_nothing() -> None:
    """Z.ai sends it with every delta."""
    response = fold(*[{"choices": [{"index": 0, "delta": {"role": "assistant"}}]}] * 1000)
    assert response.choices[0].message.role == "assistant"
    assert "observer_limit" not in response.anomalies


def test_the_number_of_choices_is_bounded() -> None:
    """Those past the limit are left out, and the others go on."""
    response = fold(
        *(delta("a", n) for n in range(MAX_CHOICES + 1)),
        delta("b", 0, finish_reason="stop"), delta("b", MAX_CHOICES),
    )  # fmt: skip
    assert len(response.choices) == MAX_CHOICES
    assert contents(response)[0] == "ab"
    assert "observer_limit" in response.anomalies
    assert "observer_limit" not in fold(*(delta("a", n) for n in range(MAX_CHOICES))).anomalies


def test_the_work_for_a_chunk_does_not_follow_what_came_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The choices are not gone through for one chunk, nor to tell how far all is."""

    class Uncounted(dict[int, Any]):
        def __iter__(self) -> Any:
            raise AssertionError("the choices were gone through")

        keys = values = items = __iter__

    accumulator = Accumulator()
    accumulator.feed({"choices": [{"index": n, "delta": {"content": "a"}} for n in range(100)]})
    monkeypatch.setattr(accumulator, "_choices", Uncounted(accumulator._choices))
    accumulator.feed({"choices": [], "usage": USAGE})
    accumulator.feed(delta("b", 7, finish_reason="stop") | {"usage": USAGE})
    assert (accumulator.finished, accumulator.has_content, accumulator.has_usage) == (
        False, True, True,
    )  # fmt: skip


@given(st.lists(json_values, max_size=4))
def test_no_json_value_raises(chunks: list[Any]) -> None:
    """Rule 6."""
    json.dumps(fold(*chunks).body)


names = st.sampled_from([
    "choices", "delta", "message", "content", "role", "refusal", "reasoning", "reasoning_content",
    "tool_calls", "function_call", "function", "name", "arguments", "id", "index", "type", "text",
    "thinking", "logprobs", "finish_reason", "usage", "x_groq", "error", "prompt_tokens", "x",
])  # fmt: skip
shaped = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.floats() | st.sampled_from(["", "a", "b"]),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(names, children, max_size=5),
    max_leaves=25,
)
shaped_choices = st.fixed_dictionaries(
    {"choices": st.lists(st.dictionaries(names, shaped, max_size=4), max_size=3)},
    optional={"usage": shaped, "error": shaped, "x_groq": shaped, "x": shaped},
)


@given(st.lists(shaped_choices, max_size=5))
def test_no_misshapen_chunk_raises(chunks: list[Any]) -> None:
    """With the names that have a meaning in all the wrong places."""
    response = fold(*chunks)
    json.dumps(response.body)
    for choice in response.choices:
        assert all(isinstance(call.arguments, str) for call in choice.message.tool_calls)


@pytest.mark.parametrize(
    "depth", [50, 400, MAX_DEPTH, MAX_DEPTH + 1, 700, 900, 950, 990, 2000, 100_000]
)
def test_deep_nesting_does_not_raise(depth: int) -> None:
    """A limit of ours, and no interpreter's, says what is too deep for comparing."""

    def nested() -> Any:
        value: Any = 1
        for _ in range(depth):
            value = {"a": value}
        return value

    chunks = [delta("a", x=nested()) | {"y": nested()} for _ in range(2)]
    response = fold(*chunks, delta("c"))
    is_kept = depth <= MAX_DEPTH
    assert ("observer_limit" in response.anomalies) is not is_kept
    assert ("y" in response.body) is is_kept
    assert ("x" in response.body["choices"][0]) is is_kept
    assert contents(response) == {0: "aac"}
