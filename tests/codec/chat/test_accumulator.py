"""``codec.chat.accumulator``: what chunks say, folded into one answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from codec.chat.accumulator import Accumulator
from codec.cost import Cost
from tests.codec.chat.folded_chunks import USAGE, contents, delta, fold

if TYPE_CHECKING:
    from codec.chat.answer import ChatResponse


def test_the_first_identity_that_is_not_empty_is_kept() -> None:
    """Rule 2: empty first and last chunks change nothing (``docs/contract/sources.md#s0-1``)."""
    response = fold(
        {"id": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": [{}]},
        {"id": "c", "created": 1_750_000_000, "model": "m-1", "system_fingerprint": None}
        | delta("Hi"),
        {"id": "d", "created": 2, "model": "", "service_tier": "default"} | delta("!"),
    )
    assert (response.id, response.created, response.model) == ("c", 1_750_000_000, "m-1")
    assert (response.system_fingerprint, response.service_tier) == (None, "default")
    assert contents(response) == {0: "Hi!"}
    head = {"id": "c", "model": "m", "created": 5, "system_fingerprint": "f", "service_tier": "s"}
    response = fold(head | delta("a"), dict.fromkeys(head, "other") | delta("b"))
    assert {key: getattr(response, key) for key in head} == head


def test_identity_of_other_types_is_not_taken() -> None:
    """Values keep the promised types."""
    response = fold({"id": 5, "created": True, "model": ["m"], "service_tier": {}} | delta("a"))
    assert (response.id, response.created, response.model, response.service_tier) == (None,) * 4


def test_choices_are_known_by_index() -> None:
    """Rule 1: interleaved or sparse, sorted in the end (``docs/contract/sources.md#s1-12``)."""
    response = fold(
        delta("B", 1), delta("A", 0), delta("b", 1, finish_reason="stop"),
        delta("a", 0, finish_reason="length"), {"choices": [{"index": 7}]},
    )  # fmt: skip
    assert contents(response) == {0: "Aa", 1: "Bb", 7: None}
    assert [choice.finish_reason for choice in response.choices] == ["length", "stop", None]
    assert not response.finished


@pytest.mark.parametrize(
    ("index", "texts"),
    [(index, {0: "a", 1: "bc"}) for index in (1, 1.0, "1")]
    + [(index, {0: "ab", 1: "c"}) for index in (-1, "-1", "01", 0.5, None)],
)
def test_an_index_may_be_written_in_other_ways(index: Any, texts: dict[int, str]) -> None:
    """Rule 1: by gateways with one number type, or form fields; what is none goes by its place."""
    chunk = {"choices": [{"index": index, "delta": {"content": "b"}}]}
    assert contents(fold(delta("a", 0), chunk, delta("c", 1))) == texts


def test_a_choice_without_index_takes_its_place() -> None:
    """Rule 1."""
    entries = [{"delta": {"content": "a"}}, {"index": True, "delta": {"content": "b"}}, None, 7]
    assert contents(fold({"choices": entries}, {"choices": entries})) == {0: "aa", 1: "bb"}


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(delta() | {"usage": USAGE}, id="finish chunk"),
        pytest.param({"choices": [], "usage": USAGE}, id="usage chunk"),
        pytest.param({"usage": USAGE}, id="without choices"),
        pytest.param(delta(usage=USAGE), id="Moonshot"),
        pytest.param(delta() | {"x_groq": {"id": "r", "usage": USAGE}}, id="Groq"),
    ],
)
def test_usage_is_taken_wherever_it_rides(chunk: dict[str, Any]) -> None:
    """Rule 3."""
    usage = fold(delta("a", finish_reason="stop"), chunk, delta() | {"usage": None}).usage
    assert usage is not None
    assert (usage.prompt, usage.completion, usage.total, usage.raw) == (1, 1, 2, USAGE)


STOP, OTHER_STOP = delta(finish_reason="stop"), delta(None, 1, finish_reason="stop")
ALONE = {"choices": [], "usage": USAGE}
LATER = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 9, "total_tokens": 10}}


@pytest.mark.parametrize(
    ("chunks", "counts"),
    [
        pytest.param(
            [STOP | {"usage": USAGE, "x_groq": {"usage": USAGE}}, ALONE], (1, 1, 2), id="Groq",
        ),
        pytest.param([delta("b", 1), STOP, ALONE, OTHER_STOP, ALONE], (1, 2, 3), id="llama.cpp"),
        pytest.param([ALONE, STOP, LATER], (1, 9, 10), id="running counts"),
    ],
)  # fmt: skip
def test_usage_is_summed_where_each_choice_has_its_own(
    chunks: list[Any], counts: tuple[int, int, int]
) -> None:
    """llama.cpp's comes after the finish of each choice, not before any.

    See ``docs/contract/wire.md#usage-of-each-choice``.
    """
    usage = fold(delta("a"), *chunks).usage
    assert usage is not None
    assert (usage.prompt, usage.completion, usage.total) == counts


def test_deltas_after_a_finish_reason_are_folded() -> None:
    """Rule 4: Azure's asynchronous filter sends chunks without a delta, others more text."""
    late = {"choices": [{"index": 0, "content_filter_offsets": {"start": 0}}]}
    response = fold(delta("a", finish_reason="stop"), late, delta("b"))
    assert contents(response) == {0: "ab"}
    assert response.finished


@pytest.mark.parametrize(
    ("chunks", "anomalies"),
    [
        pytest.param([], ("no_finish_reason", "no_usage"), id="nothing"),
        pytest.param(
            [{"hello": 1}, delta("a", finish_reason="stop"), [], {"choices": [], "usage": USAGE}],
            ("foreign_chunk",), id="foreign",
        ),
        pytest.param(
            [delta(finish_reason="stop") | {"usage": USAGE | {"total_tokens": 0}}],
            ("total_inconsistent",), id="a total of 0",
        ),
        pytest.param(
            [delta(finish_reason=""), {"choices": [], "usage": USAGE}], ("no_finish_reason",),
            id="an empty reason",
        ),
        pytest.param([delta("a", finish_reason="stop")], ("no_usage",), id="no usage"),
        pytest.param([delta("a"), {"error": {"message": "m"}}], (), id="an error explains itself"),
        pytest.param(
            [{"warning": "w"},
             {"choices": [{"index": 0, "delta": {"tool_calls": [
                 {"index": 0, "id": "a", "function": {"name": "f"}},
                 {"index": 0, "id": "b", "function": {"name": "g"}}]}}]},
             {"warning": "w"}, delta(finish_reason="stop") | {"usage": USAGE}],
            ("foreign_chunk", "tool_index_reused"), id="in order, each once",
        ),
    ],
)  # fmt: skip
def test_anomalies(chunks: list[Any], anomalies: tuple[str, ...]) -> None:
    """``docs/contract/spans.md#anomalies`` by name; rule 5 for what is foreign."""
    assert fold(*chunks).anomalies == anomalies


def test_the_first_error_is_kept_with_what_came() -> None:
    """Content stays, and so does the first error (``docs/contract/sources.md#s0-4``)."""
    response = fold(
        delta("part"),
        {"error": {"message": "engine died", "type": "internal_error", "code": 500}},
        [{"error": {"message": "another"}}],
    )
    assert response.error is not None
    assert (response.error.message, response.error.code) == ("engine died", "500")
    assert contents(response) == {0: "part"}
    assert not response.finished


def test_openrouter_sends_error_usage_and_choice_in_one_chunk() -> None:
    """``docs/contract/wire.md#error-beside-a-chunk``: none of the three is lost."""
    response = fold(
        delta("a", finish_reason="length"),
        delta("") | {"error": {"code": 400, "message": "Token limit reached"}, "usage": USAGE},
    )
    assert response.error is not None
    assert response.usage is not None
    assert response.choices[0].finish_reason == "length"


def test_the_body_is_the_instrumentors() -> None:
    """``docs/contract/spans.md#accumulated-object``, worked by hand from its rules."""
    head = {"id": "c", "object": "chat.completion.chunk", "created": 5, "model": "m"}
    call = {"index": 0, "id": "t", "type": "function", "function": {"name": "f", "arguments": ""}}
    more = {"index": 0, "function": {"arguments": '{"a":1}'}}
    response = fold(
        head | {"system_fingerprint": None, "service_tier": "default", "usage": None}
        | {"choices": [{"index": 0, "logprobs": None, "finish_reason": None, "delta":
                        {"role": "assistant", "content": None, "refusal": None}}]},
        head | delta(tool_calls=None) | {"obfuscation": "x1"},
        head | {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}], "obfuscation": "x2"},
        head | {"choices": [{"index": 0, "delta": {"tool_calls": [more]}}], "nvext": {"a": [1]}},
        head | delta(finish_reason="tool_calls"),
        head | {"choices": [], "usage": USAGE | {"details": {"cached": 0, "audio": None}}},
    )  # fmt: skip
    assert response.body == head | {
        "service_tier": "default",
        "obfuscation": "x2",
        "nvext": {"a": [1]},
        "choices": [{
            "index": 0,
            "message": {
                "role": "assistant",
                "tool_calls": [call | {"function": {"name": "f", "arguments": '{"a":1}'}}],
            },
            "finish_reason": "tool_calls",
        }],
        "usage": USAGE | {"details": {"cached": 0, "audio": None}},
    }  # fmt: skip


def test_hidden_usage_counts_but_does_not_show() -> None:
    """``docs/contract/spans.md#output-value``: `output.value` is what the client received."""
    accumulator = Accumulator()
    accumulator.feed(delta("a", finish_reason="stop"))
    accumulator.feed({"choices": [], "usage": USAGE, "late": 1}, hidden_usage=True)
    response = accumulator.response()
    assert response.usage is not None
    assert response.usage.total == 2
    assert response.body == {
        "choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}]
    }


def test_what_a_hidden_usage_says_besides_is_named() -> None:
    """But for what every chunk has, and what another one told as well; a cost is taken."""
    head = {"id": "c", "object": "chat.completion.chunk", "model": "m", "region": "eu", "sla": 1}
    shared = head | {"choices": [], "usage": USAGE, "obfuscation": "x", "p": "y"}
    hidden = {"timings": {"n": 1}, "sla": 2, "cost": {"usd": 0.5}, "note": None}
    accumulator = Accumulator()
    accumulator.feed(head | delta("a", finish_reason="stop"))
    accumulator.feed(shared | hidden, hidden_usage=True)
    accumulator.feed(shared | hidden, hidden_usage=True)
    response = accumulator.response()
    assert set(response.hidden_members) == {"timings", "sla", "cost"}
    assert response.cost == Cost(total=0.5)
    assert (response.body["sla"], "timings" in response.body) == (1, False)
    accumulator.feed({"choices": [], "timings": {"n": 1}})
    assert set(accumulator.response().hidden_members) == {"sla", "cost"}


def test_chunks_are_not_changed() -> None:
    """The caller's objects stay as they were, and a later chunk does not change an earlier one."""
    chunk = {
        "choices": [{"index": 0, "delta": {"x": [1]}, "logprobs": {"content": [{"token": "a"}]}}],
        "usage": {"prompt_tokens": 1, "details": {"a": 1}}, "extra": {"list": [1]},
    }  # fmt: skip
    before = json.dumps(chunk)
    fold(chunk, chunk, {"usage": {"details": {"a": 2}}, "extra": {"list": [2]}})
    assert json.dumps(chunk) == before


def test_as_many_choices_must_finish_as_were_asked_for() -> None:
    """Every choice's finish reason, also of one that has not begun.

    See ``docs/contract/promises.md#endings``.
    """
    accumulator = Accumulator(choice_count=2)
    seen = []
    for index in (0, 1, 2):
        accumulator.feed(delta("a", index, finish_reason="stop"))
        seen.append(accumulator.finished)
    accumulator.feed(delta("a", 3))
    seen.append(accumulator.finished)
    accumulator.feed(delta(None, 3, finish_reason="stop"))
    accumulator.feed(delta(None, 3, finish_reason="stop"))
    seen.append(accumulator.finished)
    assert seen == [False, True, True, False, True]
    assert accumulator.response().choice_count == 2


def test_a_choice_that_never_began_is_no_missing_finish_reason() -> None:
    """``docs/contract/spans.md#anomalies``: a server that ignores ``n`` finished what it sent."""
    accumulator = Accumulator(choice_count=2)
    accumulator.feed(delta("a", finish_reason="stop") | {"usage": USAGE})
    assert accumulator.response().anomalies == ()


_LEGACY = {"name": "f", "arguments": "{"}
_CUSTOM = {"index": 0, "type": "custom", "custom": {"name": "f", "input": "no json"}}


def _called(delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _call(arguments: str, finish: str | None) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    entry = {"index": 0, "id": "c", "type": "function", "function": function}
    return _called({"tool_calls": [entry]}, finish)


@pytest.mark.parametrize(
    ("chunk", "anomalies"),
    [
        (_call("{oops", "tool_calls"), {"bad_tool_arguments"}),
        (_call("{oops", "stop"), {"bad_tool_arguments"}),
        (_call("{oops", "length"), set()),
        (_call("{oops", None), set()),
        (_call("", "tool_calls"), set()),
        (_call(" ", "tool_calls"), set()),
        (_call('{"a":1}', "tool_calls"), set()),
        (_called({}, "tool_calls"), {"missing_tool_calls"}),
        (_called({}, "function_call"), {"missing_tool_calls"}),
        (_called({"function_call": _LEGACY}, "function_call"), {"bad_tool_arguments"}),
        (_called({"tool_calls": [_CUSTOM]}, "tool_calls"), set()),
    ],
)
def test_calls_that_are_missing_or_unreadable_are_noted(
    chunk: dict[str, Any], anomalies: set[str]
) -> None:
    """Rule 10: text that is cut, empty or no JSON by design is no anomaly.

    See ``docs/contract/sources.md#s3-5`` and ``docs/contract/sources.md#n10``.
    """
    accumulator = Accumulator()
    accumulator.feed(chunk)
    assert set(accumulator.response().anomalies) - {"no_usage", "no_finish_reason"} == anomalies


def _say(*texts: str) -> ChatResponse:
    accumulator = Accumulator()
    for text in texts:
        accumulator.feed({"choices": [{"index": 0, "delta": {"content": text}}]})
    return accumulator.response()


def test_content_that_repeats_itself_is_taken_once() -> None:
    """Where each delta is the text so far, the last one is the text; the body shows what came."""
    answer = _say("Tide", "Tide and", "Tide and time", "Tide and time wait")
    assert answer.choices[0].message.content == "Tide and time wait"
    assert "cumulative_content" in answer.anomalies
    assert answer.body["choices"][0]["message"]["content"].startswith("TideTide and")


def test_parts_that_grow_are_not_repeated() -> None:
    """No server repeats itself so, and an answer that came whole may have such a list."""
    parts = [{"type": "text", "text": "z" * length} for length in (1, 2, 3, 4)]
    answer = fold({"choices": [{"index": 0, "message": {"content": parts}}]})
    assert answer.choices[0].message.content == "z" * 10
    assert "cumulative_content" not in answer.anomalies


@pytest.mark.parametrize(
    "texts", [("-", "--", "---"), ("ha", "ha", "ha", "ha", "ha"), ("a", "ab", "abc", "x"), ("a",)]
)
def test_ordinary_content_is_joined(texts: tuple[str, ...]) -> None:
    """Few fragments, equal ones, and those that do not go on from each other are appended."""
    answer = _say(*texts)
    assert answer.choices[0].message.content == "".join(texts)
    assert "cumulative_content" not in answer.anomalies


def test_a_last_text_that_is_repeated_is_still_the_whole() -> None:
    """The chunk with the finish reason may say all of it once more."""
    answer = _say("I", "I am", "I am here", "I am here now", "I am here now")
    assert answer.choices[0].message.content == "I am here now"
    assert "cumulative_content" in answer.anomalies
