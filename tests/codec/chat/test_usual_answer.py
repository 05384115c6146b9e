"""Plain answers read without folding them, beside the fold as the oracle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.budget import MEMBER_BYTES, size_bytes
from codec.chat.accumulator import Accumulator
from codec.chat.usual_answer import MAX_USUAL_BYTES, read_usual_answer
from codec.usage_fold import MAX_USAGE_BYTES
from tests.codec.test_error_objects import json_values

if TYPE_CHECKING:
    from codec.chat.answer import ChatResponse

BODY: dict[str, Any] = {
    "id": "c-1", "object": "chat.completion", "created": 5, "model": "m",
    "choices": [{
        "index": 0, "message": {"role": "assistant", "content": "Aye.", "refusal": None},
        "logprobs": None, "finish_reason": "stop",
    }],
    "usage": {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21},
    "service_tier": "default", "system_fingerprint": None,
}  # fmt: skip

_TEXTS = st.none() | st.just("") | st.text(max_size=4) | json_values
_COUNTS = st.none() | st.integers(-1, 9) | st.sampled_from([2.0, 2**63, True, "3"])
_DETAILS = st.dictionaries(
    st.sampled_from(["cached_tokens", "cache_write_tokens", "audio_tokens", "reasoning_tokens"]),
    _COUNTS,
)
_USAGES = st.dictionaries(
    st.sampled_from([
        "prompt_tokens", "completion_tokens", "total_tokens", "reasoning_tokens", "cached_tokens",
        "prompt_cache_hit_tokens", "cost", "x",
    ]),
    _COUNTS,
) | st.fixed_dictionaries({}, optional={
    "prompt_tokens": _COUNTS, "total_tokens": _COUNTS, "prompt_tokens_details": _DETAILS,
    "completion_tokens_details": _DETAILS, "input_tokens_details": _DETAILS | json_values,
})  # fmt: skip


def fold(body: dict[str, Any]) -> ChatResponse:
    """The oracle."""
    accumulator = Accumulator()
    accumulator.feed_body(body, body=body)
    return accumulator.response()


def read(body: dict[str, Any]) -> ChatResponse | None:
    """What the short way makes of it."""
    return read_usual_answer(body, len(json.dumps(body)))


@st.composite
def nearly_usual(draw: st.DrawFn) -> dict[str, Any]:
    """An answer of the usual form with a few members of some other kind."""
    message = BODY["choices"][0]["message"] | draw(
        st.dictionaries(
            st.sampled_from([
                "role", "content", "refusal", "annotations", "tool_calls", "function_call",
                "reasoning", "reasoning_content", "reasoning_text", "reasoning_details", "audio",
                "images", "x",
            ]),
            _TEXTS,
            max_size=2,
        )
    )  # fmt: skip
    members = ["index", "finish_reason", "logprobs", "delta", "usage", "text", "message", "x"]
    choice = BODY["choices"][0] | {"message": message}
    choice |= draw(st.dictionaries(st.sampled_from(members), _TEXTS, max_size=1))
    body = BODY | {"choices": [choice], "usage": draw(_USAGES)}
    return body | draw(
        st.dictionaries(
            st.sampled_from([*BODY, "error", "type", "x_groq", "cost", "x"]), _TEXTS, max_size=1
        )
    )


@given(nearly_usual())
def test_it_is_what_the_fold_makes_of_it(body: dict[str, Any]) -> None:
    """Whatever is read, the fold reads the same; and no JSON value raises."""
    answer = read(body)
    assert answer is None or answer == fold(body)


def test_the_usual_answer_is_read() -> None:
    """Else all of these tests would hold of nothing."""
    assert read(BODY) == fold(BODY)


@pytest.mark.parametrize(
    "change",
    [
        {"error": {"message": "m"}},
        {"object": "error"},
        {"x_groq": {"usage": {"completion_tokens": 1}}},
        {"choices": []},
        {"choices": BODY["choices"] * 2},
        {"choices": [BODY["choices"][0] | {"index": 1}]},
        {"choices": [BODY["choices"][0] | {"finish_reason": None}]},
        {"choices": [BODY["choices"][0] | {"finish_reason": "tool_calls"}]},
        {"choices": [BODY["choices"][0] | {"finish_reason": "x" * 300}]},
        {"choices": [BODY["choices"][0] | {"logprobs": {"content": [{}]}}]},
        {"choices": [BODY["choices"][0] | {"message": {"reasoning": "Hm"}}]},
        {"choices": [BODY["choices"][0] | {"message": {"content": [{"type": "text"}]}}]},
        {"model": "m" * 2000},
    ],
)
def test_what_the_fold_treats_in_its_own_way_is_left_to_it(change: dict[str, Any]) -> None:
    """The list of it."""
    assert read(BODY | change) is None


def test_an_answer_that_may_pass_a_limit_is_folded() -> None:
    """By its length, and by that of its usage, which has a smaller limit."""
    assert read_usual_answer(BODY, MAX_USUAL_BYTES) is not None
    assert read_usual_answer(BODY, MAX_USUAL_BYTES + 1) is None
    long = BODY["usage"] | {"x": "y" * (MAX_USAGE_BYTES // 16)}
    assert read(BODY | {"usage": long}) is None
    text = {"message": {"content": "z" * MAX_USAGE_BYTES}}
    body = BODY | {"choices": [BODY["choices"][0] | text]}
    assert read(body) == fold(body)


def test_usage_that_nests_too_deeply_is_folded() -> None:
    """What has no length has no bound."""
    nested: Any = {}
    for _ in range(100_000):
        nested = {"": nested}
    assert read_usual_answer(BODY | {"usage": nested}, MAX_USUAL_BYTES) is None


def _merged_bytes(members: Any) -> int:
    """What merging takes for a value, each member of an object with its name's place (worst)."""
    if not isinstance(members, dict):
        return size_bytes(members)
    return 64 + sum(
        len(key) + MEMBER_BYTES + _merged_bytes(value) for key, value in members.items()
    )


def _text_characters(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


@given(json_values)
def test_no_value_is_estimated_at_more_than_its_text_allows(value: Any) -> None:
    """The bound that lengths stand for."""
    assert _merged_bytes(value) <= 32 * (_text_characters(value) + 1)


def test_the_bound_is_no_larger_than_it_must_be() -> None:
    """Objects in each other come near it."""
    nested = {"": {"": {"": 0}}}
    assert _merged_bytes(nested) > 20 * _text_characters(nested)
