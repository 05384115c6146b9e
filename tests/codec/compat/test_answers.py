"""An answer in llama-stack's words: its text, its log probabilities, and why it stopped."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.compat.answers import (
    MAX_MARKERS,
    AnswerProgress,
    EndMarkerFilter,
    ProgressKind,
    ProgressStep,
    StopReason,
    cut_end_markers,
    decode_logprobs,
    stop_reason_of_chat,
    stop_reason_of_completion,
    text_of_choice,
)


@pytest.mark.parametrize(
    ("word", "completion", "chat"),
    [
        ("stop", "end_of_turn", "end_of_turn"),
        ("eos", "end_of_turn", "end_of_turn"),
        ("eos_token", "end_of_turn", "end_of_turn"),
        ("eom", "end_of_message", "end_of_turn"),
        ("length", "out_of_tokens", "out_of_tokens"),
        ("tool_calls", "out_of_tokens", "end_of_message"),
        ("unheard_of", "out_of_tokens", "end_of_turn"),
    ],
)
def test_each_api_has_its_map(word: str, completion: str, chat: str) -> None:
    """An unknown word is a cut for one, an end for another (``docs/contract/sources.md#s3-1``)."""
    assert stop_reason_of_completion(word) == completion
    assert stop_reason_of_chat(word) == chat


def test_null_says_nothing() -> None:
    """There it overwrites what was known; here there is nothing to overwrite with."""
    assert stop_reason_of_completion(None) is None
    assert stop_reason_of_chat(None) is None
    assert stop_reason_of_chat("") is stop_reason_of_completion("") is None


TURN, MESSAGE = StopReason.END_OF_TURN, StopReason.END_OF_MESSAGE


@pytest.mark.parametrize(
    ("text", "cut", "stop"),
    [
        ("Aye<|eot_id|>", "Aye", TURN),
        ("Aye<|eom_id|>", "Aye", MESSAGE),
        ("Aye<|eom_id|><|eot_id|>", "Aye", TURN),
        ("<|eot_id|> Aye", "<|eot_id|> Aye", StopReason.OUT_OF_TOKENS),
        ("", "", StopReason.OUT_OF_TOKENS),
    ],
)
def test_markers_at_the_end_are_cut(text: str, cut: str, stop: StopReason) -> None:
    """The last one is the reason; within text it is text (``docs/contract/sources.md#s3-3``)."""
    assert cut_end_markers(text, StopReason.OUT_OF_TOKENS) == (cut, stop)


@given(
    st.lists(st.sampled_from(["<|eot_id|>", "<|eom_id|>", "<|e", "ot_id|>", "a", "<", "|>", ""]))
)
def test_a_stream_is_cut_as_the_whole_text_is(pieces: list[str]) -> None:
    """A marker that is a piece of its own is swallowed, one that is cut as well."""
    markers = EndMarkerFilter()
    text = "".join(map(markers.feed, pieces)) + markers.finish()
    assert (text, markers.stop) == cut_end_markers("".join(pieces), None)


def test_markers_without_end_are_not_held() -> None:
    """So many are cut, the others are text; what is held does not grow."""
    marker = "<|eot_id|>"
    markers = EndMarkerFilter()
    text = "".join(markers.feed(marker) for _ in range(MAX_MARKERS + 9)) + markers.finish()
    assert text == marker * 9
    assert cut_end_markers(marker * (MAX_MARKERS + 9), None) == (text, TURN)


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ({"delta": {"content": "a"}, "message": {"content": "b"}, "text": "c"}, "a"),
        ({"delta": {"content": None}, "message": {"content": "b"}, "text": "c"}, "b"),
        ({"delta": {}, "text": "c"}, "c"),
        ({"delta": {"content": ""}, "text": "c"}, ""),
        ({"text": 5}, None),
        ({}, None),
        ("odd", None),
    ],
)
def test_the_first_place_that_has_text_counts(choice: Any, text: str | None) -> None:
    """Delta, message, text, in this order (``docs/contract/sources.md#s3-2``)."""
    assert text_of_choice(choice) == text


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


START = ProgressStep(kind=ProgressKind.START)


def said(text: str, choice: int = 0) -> ProgressStep:
    """A step of progress."""
    return ProgressStep(kind=ProgressKind.PROGRESS, choice=choice, text=text)


def done(stop: StopReason | None, choice: int = 0) -> ProgressStep:
    """A completion."""
    return ProgressStep(kind=ProgressKind.COMPLETE, choice=choice, stop=stop)


def chunk(index: Any = 0, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """A chunk with one choice."""
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


def test_an_answer_has_a_start_its_words_and_an_end() -> None:
    """Empty chunks add nothing; usage after the end counts (``docs/contract/sources.md#s3-9``)."""
    progress = AnswerProgress()
    usage = {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}
    chunks: list[Any] = [
        {"choices": []},
        chunk(),
        chunk(content="Aye"),
        chunk(finish="stop"),
        {"choices": [], "usage": usage},
        "odd",
    ]
    steps = [progress.feed(one) for one in chunks]
    assert steps == [[START], [], [said("Aye")], [], [], []]
    last, answer = progress.finish()
    assert last == [done(StopReason.END_OF_TURN)]
    assert answer.usage is not None
    assert answer.usage.total == 3


def test_all_choices_are_told() -> None:
    """There only the first one is; one without an index goes by its place."""
    progress = AnswerProgress()
    assert progress.feed(chunk(content="a")) == [START, said("a")]
    assert progress.feed(chunk(index=1, content="b", finish="length")) == [said("b", 1)]
    assert progress.feed(chunk(index=None, content="c")) == [said("c")]
    steps, _ = progress.finish()
    assert steps == [done(None), done(StopReason.OUT_OF_TOKENS, 1)]


def test_each_api_stops_in_its_own_words() -> None:
    """A message beside a delta says nothing (``docs/contract/sources.md#s3-1``)."""
    progress = AnswerProgress()
    legacy = {"choices": [{"index": 0, "text": "Once", "finish_reason": "eom"}, "odd", {}]}
    assert progress.feed(legacy) == [START, said("Once")]
    assert progress.finish()[0] == [done(StopReason.END_OF_MESSAGE), done(None, 2)]
    repeated = {"choices": [{"delta": {"content": ""}, "message": {"content": "All"}}]}
    assert AnswerProgress().feed(repeated) == [START]


def test_streams_without_an_end_or_without_anything() -> None:
    """No finish reason is no stop reason (``docs/contract/sources.md#s3-11``)."""
    progress = AnswerProgress()
    assert progress.feed({"choices": []}) == [START]
    assert progress.finish()[0] == []
    cut = AnswerProgress()
    cut.feed(chunk(content="cu"))
    steps, answer = cut.finish()
    assert steps == [done(None)]
    assert answer.anomalies == ("no_finish_reason", "no_usage")
