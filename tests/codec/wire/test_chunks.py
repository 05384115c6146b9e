"""Typed chunks and usage."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.chat.accumulator import Accumulator
from codec.chat.stream import ChatStream
from codec.errors import MalformedEvent
from codec.wire.chunks import Chunk, UsageCounts, decode_chunk
from tests.codec.test_error_objects import json_values


def test_every_count_has_its_name() -> None:
    """DeepSeek's hits and misses, details of both sides (``docs/contract/sources.md#s2-5``)."""
    usage = UsageCounts(
        {
            "prompt_tokens": 50,
            "completion_tokens": 9,
            "total_tokens": 59,
            "prompt_cache_hit_tokens": 32,
            "prompt_cache_miss_tokens": 18,
            "prompt_tokens_details": {
                "cached_tokens": 32,
                "audio_tokens": 0,
                "cache_write_tokens": 4,
            },
            "completion_tokens_details": {
                "reasoning_tokens": 5,
                "audio_tokens": 1,
                "accepted_prediction_tokens": 2,
                "rejected_prediction_tokens": 3,
            },
            "queue_time": 0.5,
        }
    )
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (50, 9, 59)
    assert (usage.prompt_cache_hit_tokens, usage.prompt_cache_miss_tokens) == (32, 18)
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    assert prompt is not None
    assert (prompt.cached_tokens, prompt.audio_tokens, prompt.cache_write_tokens) == (32, 0, 4)
    assert completion is not None
    assert (completion.reasoning_tokens, completion.audio_tokens) == (5, 1)
    assert completion.accepted_prediction_tokens == 2
    assert completion.rejected_prediction_tokens == 3
    assert usage.extra == {"queue_time": 0.5}


def test_plain_bodies_of_both_providers() -> None:
    """No hit, or a part cached; what is no count is none (``docs/contract/sources.md#s2-10``)."""
    deepseek = UsageCounts({"prompt_cache_hit_tokens": 0, "prompt_cache_miss_tokens": 10})
    assert (deepseek.prompt_cache_hit_tokens, deepseek.prompt_cache_miss_tokens) == (0, 10)
    qwen = UsageCounts({"prompt_tokens_details": {"cached_tokens": 1024}, "total_tokens": "9"})
    assert qwen.prompt_tokens_details is not None
    assert qwen.prompt_tokens_details.cached_tokens == 1024
    assert (qwen.total_tokens, qwen.completion_tokens_details) == (None, None)


HEAD = {"id": "c-1", "object": "chat.completion.chunk", "created": 3, "model": "m-1"}


def view(value: Any) -> Chunk:
    """The view of a chunk."""
    return decode_chunk(json.dumps(value).encode())


def only(delta: Any, **choice: Any) -> Any:
    """The one choice of a chunk with this delta."""
    return view({"choices": [{"index": 0, "delta": delta} | choice]}).choices[0]


def test_null_and_absence_are_equal() -> None:
    """On every level; a value is another chunk (``docs/contract/sources.md#s2-1``)."""
    nulls = {"service_tier": None, "system_fingerprint": None, "usage": None}
    plain = view(HEAD | {"choices": [{"index": 0, "delta": {"content": "a"}}]})
    assert plain == view(
        HEAD | nulls | {"choices": [{"index": 0, "delta": {"content": "a", "role": None}}]}
    )
    assert plain != view(HEAD | {"choices": []})
    assert plain != HEAD
    assert (plain.service_tier, plain.system_fingerprint, plain.usage) == (None, None, None)
    assert (plain.id, plain.object, plain.created, plain.model) == tuple(HEAD.values())
    assert repr(view({"id": "c"})) == "Chunk({'id': 'c'})"


@pytest.mark.parametrize(
    "reason",
    ["stop", "length", "tool_calls", "function_call", "content_filter", "brand_new",
     "insufficient_system_resource"],
)  # fmt: skip
def test_any_finish_reason_is_taken(reason: str) -> None:
    """The known ones and those to come (``docs/contract/sources.md#s2-2``)."""
    assert only({}, finish_reason=reason).finish_reason == reason


def test_content_and_reasoning_stand_beside_each_other() -> None:
    """Also where one is null; vLLM's new name is read, too (``docs/contract/sources.md#s2-3``)."""
    delta = only({"content": None, "reasoning_content": "so", "role": "assistant"}).delta
    assert (delta.content, delta.reasoning, delta.role) == (None, "so", "assistant")
    both = only({"content": "4", "reasoning": "2+2"}).delta
    assert (both.content, both.reasoning) == ("4", "2+2")
    assert only({"refusal": "No."}).delta.refusal == "No."


def test_empty_reasoning_hides_nothing() -> None:
    """The name that has text counts; an empty one is told only where there is no other."""
    assert only({"reasoning_content": "", "reasoning": "so"}).delta.reasoning == "so"
    assert only({"reasoning": ""}).delta.reasoning == ""
    assert only({"reasoning": 5}).delta.reasoning is None


def test_values_are_compared_strictly_and_at_any_depth() -> None:
    """By type, member by member, however deep."""
    deep = b'{"choices":[' + b'{"x":[' * 250 + b"1" + b"]}" * 250 + b"]}"
    assert decode_chunk(deep) == decode_chunk(deep)
    assert decode_chunk(deep) != decode_chunk(deep.replace(b"1", b"2"))
    assert view({"n": 1}) != view({"n": True})
    assert view({"n": [1]}) != view({"n": [1, 2]})
    assert view({"n": 1}) != view({"m": 1})


def test_calls_need_no_index() -> None:
    """Nor anything else; the legacy call is one, too (``docs/contract/sources.md#s2-3``)."""
    calls = only({"tool_calls": [{"function": {"name": "f", "arguments": "{"}}, {"id": "b"}, 7]})
    first, second = calls.delta.tool_calls
    assert (first.index, first.id, first.type) == (None, None, None)
    assert (first.function.name, first.function.arguments) == ("f", "{")
    assert (second.id, second.function) == ("b", None)
    legacy = only({"function_call": {"name": "f", "arguments": ""}}).delta.function_call
    assert (legacy.name, legacy.arguments) == ("f", "")


def test_log_probabilities_of_every_kind_of_text() -> None:
    """Of content, refusal and reasoning (``docs/contract/sources.md#s2-4``)."""
    token = {"token": "4", "logprob": -0.5, "bytes": [52], "top_logprobs": [{"token": "5"}]}
    logprobs = only({}, logprobs={"content": None, "reasoning_content": [token], "refusal": [{}]})
    (thought,) = logprobs.logprobs.reasoning_content
    assert (thought.token, thought.logprob, thought.bytes) == ("4", -0.5, (52,))
    assert [one.token for one in thought.top_logprobs] == ["5"]
    assert logprobs.logprobs.content == ()
    (empty,) = logprobs.logprobs.refusal
    odd = only({}, logprobs={"content": [{"bytes": ["x"]}]}).logprobs.content[0]
    assert odd.bytes is None
    assert (empty.token, empty.logprob, empty.bytes, empty.top_logprobs) == (None, None, None, ())


def test_usage_is_typed() -> None:
    """On the chunk it rides on (``docs/contract/sources.md#s2-6``)."""
    usage = view({"choices": [], "usage": {"prompt_tokens": 4}}).usage
    assert usage == UsageCounts({"prompt_tokens": 4, "total_tokens": None})


@pytest.mark.parametrize("data", [b'{"ind', b"", b"[]", b"null", b"\xff"])
def test_what_is_no_object_is_told_with_its_data(data: bytes) -> None:
    """An error that quotes nothing, and no end (``docs/contract/sources.md#s2-7``)."""
    with pytest.raises(MalformedEvent, match="event data") as raised:
        decode_chunk(data)
    assert raised.value.data == data


def test_a_stream_of_deepseek_is_typed() -> None:
    """A role, words, a finish with usage; nothing is lost (``docs/contract/sources.md#s2-8``)."""
    words = ["", "Fair", " winds", "!"]
    chunks = [HEAD | {"choices": [{"index": 0, "delta": {"content": word}}]} for word in words]
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    finish = {"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}
    chunks.append(HEAD | {"choices": [finish], "usage": usage | {"prompt_cache_hit_tokens": 2}})
    views = [view(chunk) for chunk in chunks]
    assert "".join(one.choices[0].delta.content or "" for one in views if one.choices[0].delta) == (
        "Fair winds!"
    )
    assert views[-1].usage is not None
    assert views[-1].usage.prompt_cache_hit_tokens == 2
    assert [one.raw for one in views] == chunks


def test_a_stream_of_qwen_is_typed() -> None:
    """Usage is null until a last chunk without choices (``docs/contract/sources.md#s2-9``)."""
    chunks = [
        HEAD | {"choices": [{"index": 0, "delta": {"content": "顺风"}}], "usage": None},
        HEAD | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": None},
        HEAD | {"choices": [], "usage": {"prompt_tokens_details": {"cached_tokens": 0}}},
    ]
    first, _, last = map(view, chunks)
    assert first.choices[0].delta is not None
    assert first.choices[0].delta.content == "顺风"
    assert first.usage is None
    assert last.usage is not None
    assert last.usage.prompt_tokens_details is not None
    assert last.usage.prompt_tokens_details.cached_tokens == 0


def test_legacy_text_is_typed() -> None:
    """Text stands where a chat has its delta."""
    (choice,) = view({"choices": [{"index": 0, "text": "Once"}]}).choices
    assert (choice.text, choice.delta) == ("Once", None)


def test_what_is_unknown_is_kept() -> None:
    """Extra members on every level, as they came (``docs/contract/sources.md#s2-1``)."""
    chunk = view(HEAD | {"choices": [{"delta": {"x": 1}, "y": 2}], "z": {"w": None}, "n": None})
    assert chunk.extra == {"z": {"w": None}}
    assert chunk.choices[0].extra == {"y": 2}
    assert chunk.choices[0].delta is not None
    assert chunk.choices[0].delta.extra == {"x": 1}


@given(st.dictionaries(st.sampled_from(sorted(Chunk.KNOWN)), json_values))
def test_nothing_is_rejected_for_its_type(members: dict[str, Any]) -> None:
    """What has another type than it should reads as nothing, and stays in raw."""
    chunk = Chunk(members)
    seen: list[Any] = [chunk.id, chunk.object, chunk.created, chunk.model, chunk.service_tier]
    seen += [chunk.system_fingerprint, chunk.usage]
    for choice in chunk.choices:
        seen += [choice.index, choice.text, choice.finish_reason, choice.logprobs]
        if choice.delta is not None:
            seen += [choice.delta.role, choice.delta.content, choice.delta.tool_calls]
    assert chunk.raw is members
    assert chunk == Chunk(dict(members))


@given(st.lists(st.dictionaries(st.sampled_from(["id", "choices", "usage"]), json_values)))
def test_views_fold_as_plain_objects_do(chunks: list[dict[str, Any]]) -> None:
    """Two surfaces, one oracle: the accumulator gives the same for what a view holds."""
    plain, viewed, stream = Accumulator(), Accumulator(), ChatStream()
    for chunk in chunks:
        data = json.dumps(chunk).encode()
        plain.feed(chunk)
        viewed.feed(decode_chunk(data).raw)
        stream.feed(b"data: %b\n\n" % data)
    assert repr(plain.response()) == repr(viewed.response())
    assert repr(plain.response().choices) == repr(stream.finish().choices)
