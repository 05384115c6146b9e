"""The chunk generator: well-formed chunks, one usage, and the same answer whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.chat.response import decode_response
from codec.chat.stream import ChatStream
from codec.generator import (
    MAX_CHOICES,
    Answer,
    CallFragment,
    ChunkGenerator,
    Delta,
    Identity,
    TokenLogprob,
    UsagePolicy,
    find_usage_policy,
)
from codec.text.jsontext import compact_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.chat.answer import ChatResponse
    from codec.text.jsontext import JsonObject

IDENTITY = Identity(
    id="chatcmpl-oar", created=1_764_111_222, model="oar-2", members={"service_tier": None}
)


def words(*texts: str) -> Answer:
    """An answer of one token each."""
    return Answer(deltas=tuple(Delta(content=text) for text in texts))


def generate(
    *answers: Answer, usage: UsagePolicy = UsagePolicy.NONE, **settings: Any
) -> list[JsonObject]:
    """All chunks of an answer."""
    settings.setdefault("choice_count", len(answers))
    return list(ChunkGenerator(IDENTITY, usage=usage, **settings).generate(answers))


def fold(chunks: Sequence[JsonObject], *, choice_count: int = 1) -> ChatResponse:
    """What the observer makes of chunks."""
    stream = ChatStream(choice_count=choice_count)
    for chunk in chunks:
        stream.feed(f"data: {compact_text(chunk)}\n\n".encode())
    return stream.finish()


def completion_counts(chunks: Sequence[JsonObject]) -> list[int | None]:
    """The completion tokens of each chunk's usage."""
    return [(chunk.get("usage") or {}).get("completion_tokens") for chunk in chunks]


def test_every_chunk_has_the_same_identity() -> None:
    """Rule 1: id, created and model never change (``docs/contract/sources.md#s0-1``)."""
    chunks = generate(words("Pull", " hard"), usage=UsagePolicy.FINAL)
    heads = [{k: v for k, v in chunk.items() if k not in {"choices", "usage"}} for chunk in chunks]
    assert heads == [
        {
            "id": "chatcmpl-oar",
            "object": "chat.completion.chunk",
            "created": 1_764_111_222,
            "model": "oar-2",
            "service_tier": None,
        }
    ] * len(chunks)


def test_the_role_comes_once_for_each_choice() -> None:
    """Rule 2: on the first delta, and on no other (``docs/contract/sources.md#s0-2``)."""
    chunks = generate(words("a", "b"), words("c", "d"))
    choices = [chunk["choices"][0] for chunk in chunks]
    assert [c["index"] for c in choices if "role" in c["delta"]] == [0, 1]
    assert [c["delta"].get("role") for c in choices[:3]] == ["assistant", "assistant", None]


@pytest.mark.parametrize(
    ("first", "opening"),
    [
        (Delta(content="Ship"), {"role": "assistant", "content": "", "refusal": None}),
        (Delta(refusal="No"), {"role": "assistant", "content": None, "refusal": ""}),
        (
            Delta(reasoning="Hm"),
            {"role": "assistant", "content": None, "reasoning_content": ""},
        ),
        (
            Delta(call=CallFragment(id="c", name="row")),
            {"role": "assistant", "content": None},
        ),
    ],
)
def test_a_stream_opens_with_nothing_said(first: Delta, opening: JsonObject) -> None:
    """The first delta has the members that follow, empty, as OpenAI's streams have."""
    chunks = generate(Answer(deltas=(first,)))
    assert chunks[0]["choices"][0]["delta"] == opening
    assert chunks[-1]["choices"][0] == {
        "index": 0,
        "delta": {},
        "logprobs": None,
        "finish_reason": "stop",
    }


def test_without_policy_no_chunk_mentions_usage() -> None:
    """Not asked, no usage (``docs/contract/sources.md#s0-7``)."""
    assert not any("usage" in chunk for chunk in generate(words("a", "b", "c")))


def test_the_usage_chunk_comes_last() -> None:
    """Rule 3: one more chunk without choices, and ``usage: null`` on the others."""
    generator = ChunkGenerator(IDENTITY, usage=UsagePolicy.FINAL)
    chunks = [generator.chunk(Delta(content=text)) for text in ("one", "two", "three")]
    assert [chunk["usage"] for chunk in chunks] == [None] * 3
    last = generator.usage_chunk()
    assert last is not None
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 0, "completion_tokens": 3, "total_tokens": 3}


def test_running_counts_come_on_every_chunk() -> None:
    """Rule 3: continuous usage counts up, and the last chunk says the final count again."""
    generator = ChunkGenerator(IDENTITY, usage=UsagePolicy.CONTINUOUS)
    chunks = [generator.chunk(Delta(content=text)) for text in ("one", "two", "three")]
    assert completion_counts([*chunks, generator.usage_chunk() or {}]) == [1, 2, 3, 3]


@given(prompt=st.integers(0, 9_999), tokens=st.lists(st.integers(0, 9), min_size=1, max_size=9))
def test_the_total_is_the_sum(prompt: int, tokens: list[int]) -> None:
    """Rule 4: total = prompt + completion on every chunk (``docs/contract/sources.md#s0-3``)."""
    answer = Answer(deltas=tuple(Delta(content="x", tokens=count) for count in tokens))
    chunks = generate(answer, prompt_tokens=prompt, usage=UsagePolicy.CONTINUOUS)
    for chunk in chunks:
        usage = chunk["usage"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert chunks[-1]["usage"]["total_tokens"] == prompt + sum(tokens)


def test_details_tell_cached_and_reasoning_tokens() -> None:
    """Cached prompt tokens where known; reasoning is a part of the completion."""
    deltas = (Delta(reasoning="So", tokens=2), Delta(content="Aye"))
    chunks = generate(
        Answer(deltas=deltas), prompt_tokens=9, cached_tokens=4, usage=UsagePolicy.FINAL
    )
    assert chunks[-1]["usage"] == {
        "prompt_tokens": 9,
        "completion_tokens": 3,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ({"include_usage": True}, UsagePolicy.FINAL),
        ({"include_usage": True, "continuous_usage_stats": True}, UsagePolicy.CONTINUOUS),
        ({"include_usage": True, "continuous_usage_stats": "yes"}, UsagePolicy.FINAL),
        ({"include_usage": False, "continuous_usage_stats": True}, UsagePolicy.NONE),
        ({"continuous_usage_stats": True}, UsagePolicy.NONE),
        ({"include_usage": 1}, UsagePolicy.NONE),
        ({}, UsagePolicy.NONE),
        (None, UsagePolicy.NONE),
        ([True], UsagePolicy.NONE),
    ],
)
def test_stream_options_name_the_policy(options: Any, policy: UsagePolicy) -> None:
    """Asked, not asked, or asked for running counts as well; anything odd asks nothing."""
    assert find_usage_policy(options) is policy


def test_choices_interleave_and_finish_apart() -> None:
    """N choices take turns; each has a finish reason of its own."""
    short = Answer(deltas=(Delta(content=" "),), finish_reason="length")
    chunks = generate(words("a", "b"), short)
    order = [chunk["choices"][0]["index"] for chunk in chunks]
    assert order == [0, 1, 0, 1, 0, 0, 1]
    response = fold(chunks, choice_count=2)
    assert [choice.message.content for choice in response.choices] == ["ab", " "]
    assert [choice.finish_reason for choice in response.choices] == ["stop", "length"]


CALL = Answer(
    deltas=(
        Delta(call=CallFragment(id="c0", name="row")),
        Delta(call=CallFragment(arguments='{"strokes"')),
        Delta(call=CallFragment(arguments=": 9}")),
        Delta(call=CallFragment(index=1, id="c1", name="rest", arguments="{}")),
    ),
    finish_reason="tool_calls",
)


def test_a_call_has_a_header_then_fragments() -> None:
    """Id, type and name stand in its first fragment only, arguments in all."""
    chunks = generate(CALL)
    entries = [chunk["choices"][0]["delta"]["tool_calls"][0] for chunk in chunks[1:-1]]
    assert entries[:3] == [
        {"index": 0, "id": "c0", "type": "function", "function": {"name": "row", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"strokes"'}},
        {"index": 0, "function": {"arguments": ": 9}"}},
    ]
    assert entries[3]["index"] == 1


def test_the_whole_answer_is_what_the_stream_said() -> None:
    """Rule 6: the plain answer folds to the same choices, and always has usage."""
    spoken = Answer(
        deltas=(
            Delta(reasoning="Wind?"),
            Delta(content="West", logprobs=(TokenLogprob(token="West", logprob=-0.5),)),
            Delta(content="."),
        )
    )
    refused = Answer(deltas=(Delta(refusal="No"), Delta(refusal=" more.")))
    answers = (spoken, refused, CALL)
    generator = ChunkGenerator(IDENTITY, choice_count=3, prompt_tokens=5)
    streamed = fold(list(generator.generate(answers)), choice_count=3)
    completion = generator.completion()
    assert completion["object"] == "chat.completion"
    plain = decode_response(compact_text(completion).encode())
    assert plain.choices == streamed.choices
    assert (plain.usage is not None, streamed.usage) == (True, None)
    assert completion["usage"]["total_tokens"] == 14
    calls = completion["choices"][2]["message"]["tool_calls"]
    assert calls[0]["function"] == {"name": "row", "arguments": '{"strokes": 9}'}


def test_an_empty_answer_is_well_formed() -> None:
    """Nothing said, nothing finished: defaults (``docs/contract/sources.md#s0-10``)."""
    assert generate(Answer(deltas=(), finish_reason=None)) == []
    (choice,) = ChunkGenerator(IDENTITY).completion()["choices"]
    assert choice["message"] == {"role": "assistant", "content": None, "refusal": None}
    assert choice["finish_reason"] is None


def test_logprobs_of_a_refusal_stand_under_refusal() -> None:
    """As the API has them; those of two deltas follow each other in the whole answer."""
    deltas = tuple(
        Delta(refusal=text, logprobs=(TokenLogprob(token=text, logprob=-0.2),))
        for text in ("N", "o")
    )
    generator = ChunkGenerator(IDENTITY)
    chunks = list(generator.generate([Answer(deltas=deltas)]))
    assert chunks[1]["choices"][0]["logprobs"]["content"] is None
    logprobs = generator.completion()["choices"][0]["logprobs"]
    assert [entry["token"] for entry in logprobs["refusal"]] == ["N", "o"]


def test_a_legacy_completion_has_text() -> None:
    """Its chunks and its whole are of the kind ``text_completion``, with the same usage rules."""
    deltas = tuple(
        Delta(content=text, logprobs=(TokenLogprob(token=text, logprob=-1.0, alternatives=more),))
        for text, more in (("Land", (("Sea", -2.0),)), (" ho", None))
    )
    generator = ChunkGenerator(IDENTITY, usage=UsagePolicy.FINAL, is_completion=True)
    first, second, finish, last = generator.generate([Answer(deltas=deltas)])
    assert first["object"] == "text_completion"
    assert first["choices"] == [
        {
            "index": 0,
            "text": "Land",
            "logprobs": {
                "tokens": ["Land"],
                "token_logprobs": [-1.0],
                "top_logprobs": [{"Land": -1.0, "Sea": -2.0}],
                "text_offset": [0],
            },
            "finish_reason": None,
        }
    ]
    assert second["choices"][0]["logprobs"]["text_offset"] == [4]
    assert second["choices"][0]["logprobs"]["top_logprobs"] is None
    assert finish["choices"][0] == {
        "index": 0,
        "text": "",
        "logprobs": None,
        "finish_reason": "stop",
    }
    assert last["usage"]["completion_tokens"] == 2
    whole = generator.completion()
    assert whole["object"] == "text_completion"
    assert whole["choices"][0]["text"] == "Land ho"
    assert whole["choices"][0]["logprobs"]["text_offset"] == [0, 4]


@pytest.mark.parametrize(
    "delta",
    [
        Delta(reasoning="x"),
        Delta(refusal="x"),
        Delta(call=CallFragment(id="c", name="n")),
    ],
)
def test_a_legacy_completion_says_nothing_else(delta: Delta) -> None:
    """Whatever has no place in it is a mistake of the caller."""
    with pytest.raises(ValueError, match="text only"):
        ChunkGenerator(IDENTITY, is_completion=True).chunk(delta)


def test_nothing_follows_a_finish_reason() -> None:
    """Rule 5: a choice finishes once."""
    generator = ChunkGenerator(IDENTITY, choice_count=2)
    assert generator.chunk(Delta(content="a"), 1, "stop")["choices"][0]["finish_reason"] == "stop"
    with pytest.raises(ValueError, match="choice 1 has finished"):
        generator.chunk(Delta(tokens=0), 1, "stop")
    assert generator.chunk(Delta(content="b"))["choices"][0]["delta"]["content"] == "b"


@pytest.mark.parametrize("index", [-1, 1])
def test_there_are_as_many_choices_as_were_said(index: int) -> None:
    """Another index is a mistake of the caller."""
    with pytest.raises(ValueError, match="no choice"):
        ChunkGenerator(IDENTITY).chunk(Delta(content="a"), index)


@pytest.mark.parametrize("count", [0, MAX_CHOICES + 1])
def test_choices_are_bounded(count: int) -> None:
    """From 1 to 128, as with OpenAI."""
    with pytest.raises(ValueError, match="from 1 to 128"):
        ChunkGenerator(IDENTITY, choice_count=count)
    assert ChunkGenerator(IDENTITY, choice_count=MAX_CHOICES).completion()["choices"]


@pytest.mark.parametrize(
    "fragment",
    [
        CallFragment(arguments="{}"),
        CallFragment(index=-1, arguments="{}"),
        CallFragment(id="only", arguments="{}"),
        CallFragment(index=1, id="c", name="n"),
        CallFragment(index=-1, id="c", name="n"),
    ],
)
def test_fragments_follow_a_header(fragment: CallFragment) -> None:
    """Calls are counted from 0, and begin with id and name."""
    with pytest.raises(ValueError, match="call"):
        ChunkGenerator(IDENTITY).chunk(Delta(call=fragment))


TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
SAID = st.one_of(
    st.builds(lambda text: Delta(content=text), TEXTS),
    st.builds(lambda text: Delta(reasoning=text), TEXTS),
    st.builds(lambda text: Delta(refusal=text), TEXTS),
)
DELTAS = st.lists(SAID, max_size=8)


@given(st.lists(DELTAS, min_size=1, max_size=3), st.sampled_from(UsagePolicy))
def test_the_observer_reads_what_was_said(said: list[list[Delta]], policy: UsagePolicy) -> None:
    """Every text of every choice arrives, streamed and whole, with the count of its tokens."""
    answers = [Answer(deltas=tuple(deltas)) for deltas in said]
    generator = ChunkGenerator(IDENTITY, choice_count=len(answers), usage=policy)
    streamed = fold(list(generator.generate(answers)), choice_count=len(answers))
    plain = decode_response(compact_text(generator.completion()).encode())
    for answer, choice, whole in zip(answers, streamed.choices, plain.choices, strict=True):
        for name in ("content", "reasoning", "refusal"):
            text = "".join(getattr(delta, name) or "" for delta in answer.deltas)
            if "cumulative_content" not in streamed.anomalies:
                assert (getattr(choice.message, name) or "") == text
            assert (getattr(whole.message, name) or "") == text
    assert plain.usage is not None
    assert plain.usage.completion == sum(len(deltas) for deltas in said)
    assert (streamed.usage is None) == (policy is UsagePolicy.NONE)
