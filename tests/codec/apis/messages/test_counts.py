"""``codec.apis.messages.counts``: what a message is counted at, and what is beside its counts."""

from __future__ import annotations

from typing import Any

import pytest

from codec.apis.messages.counts import read_counts
from codec.apis.messages.said import read_answer
from codec.text.jsontext import encode_json
from tests.codec.apis.messages.events import MESSAGE, STOP, answer_of, begin, end, text, write_event

COUNTS = {"input_tokens": 229, "output_tokens": 5}
COMPACTION = {
    "type": "compaction",
    "input_tokens": 100,
    "output_tokens": 131,
    "cache_read_input_tokens": 0,
    "cache_creation_input_tokens": 55_096,
}
SAID = {"type": "message", **COUNTS}
ADVICE = {"type": "advisor_message", "model": "m-2", "input_tokens": 900, "output_tokens": 90}


def read(raw: dict[str, Any], *, is_cut: bool = False) -> tuple[int | None, ...]:
    """The counts: prompt, completion, total, and the two of caches."""
    usage = read_counts(raw, is_cut=is_cut)
    assert usage is not None
    assert usage.raw == raw
    assert not usage.anomalies
    return (usage.prompt, usage.completion, usage.total, usage.cache_read, usage.cache_write)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(COUNTS, (229, 5, 234, None, None), id="no steps"),
        pytest.param(
            COUNTS | {"iterations": [COMPACTION, SAID]},
            (55_425, 136, 55_561, None, 55_096), id="a compaction",
        ),
        pytest.param(
            COUNTS | {"iterations": [COMPACTION, SAID, COMPACTION]},
            (110_621, 267, 110_888, None, 110_192), id="two",
        ),
        pytest.param(
            {"input_tokens": 0, "output_tokens": 0, "iterations": [COMPACTION]},
            (55_196, 131, 55_327, None, 55_096), id="it paused behind it",
        ),
        pytest.param(
            {"input_tokens": 329, "output_tokens": 136, "cache_creation_input_tokens": 55_096,
             "iterations": [COMPACTION, SAID]},
            (55_425, 136, 55_561, None, 55_096), id="a gateway has summed them up",
        ),
        pytest.param(
            {"input_tokens": 458, "output_tokens": 10, "iterations": [SAID, ADVICE, SAID]},
            (458, 10, 468, None, None), id="an advisor is another model",
        ),
        pytest.param(
            COUNTS | {"iterations": [SAID | {"model": "m-0"}, SAID | {"type": "fallback_message"}]},
            (229, 5, 234, None, None), id="another model took it up",
        ),
        pytest.param(
            COUNTS | {"iterations": [{"type": "compaction"}, None, 7]},
            (229, 5, 234, None, None), id="nothing to add",
        ),
    ],
)  # fmt: skip
def test_compactions_are_counted(raw: dict[str, Any], expected: tuple[int | None, ...]) -> None:
    """Anthropic's counts leave them out, and its bill does not."""
    assert read(raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}, (9, 3, 12, None, None)),
        (
            {"prompt_tokens": 9, "completion_tokens": 3, "input_tokens": 0, "output_tokens": 0,
             "prompt_tokens_details": {"cached_tokens": 4}},
            (9, 3, None, 4, None),
        ),
        ({"input_tokens": 9, "completion_tokens": 3}, (9, 3, 12, None, None)),
        (
            {"input_tokens": 9, "output_tokens": 3, "prompt_tokens": 13, "completion_tokens": 3,
             "cache_read_input_tokens": 4},
            (13, 3, 16, 4, None),
        ),
    ],
)  # fmt: skip
def test_names_of_chats_are_read(raw: dict[str, Any], expected: tuple[int | None, ...]) -> None:
    """A chat's prompt includes its cache."""
    assert read(raw) == expected
    [prompt, _, _, *cached] = expected
    assert read(raw, is_cut=True) == (prompt, None, None, *cached)


@pytest.mark.parametrize("names", [("input_tokens", "output_tokens"),
                                   ("prompt_tokens", "completion_tokens")])  # fmt: skip
def test_a_stream_and_a_plain_message_count_the_same(names: tuple[str, str]) -> None:
    """Whatever the names, and with a compaction, which the end of a stream tells."""
    prompt, completion = names
    usage: dict[str, Any] = {prompt: 229, completion: 5, "iterations": [COMPACTION, SAID]}
    plain = read_answer(encode_json(MESSAGE | {"stop_reason": "end_turn", "usage": usage}).encode())
    start = write_event("message_start", message=MESSAGE | {"usage": {prompt: 229, completion: 1}})
    streamed = answer_of(start, begin(0), text("Hi"), end(**usage), STOP)
    assert streamed.usage is not None
    assert streamed.usage.completion == (136 if completion == "output_tokens" else 5)
    assert streamed.usage == plain.usage
