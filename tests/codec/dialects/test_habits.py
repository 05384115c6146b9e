"""What single dialects are known for, chunk by chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codec.chat.response import decode_response
from codec.dialects import DIALECTS, play_body
from codec.generator import Answer, ChunkGenerator, Delta, Identity, UsagePolicy
from codec.text.jsontext import decode_json_object
from tests.codec.dialects.scripts import SCRIPTS, Script, fold, play, said

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject


def _chunks(stream: bytes) -> list[JsonObject]:
    lines = stream.replace(b"\r\n", b"\n").split(b"\n")
    return [decode_json_object(line[6:]) for line in lines if line.startswith(b"data: {")]


@pytest.mark.parametrize("dialect", ["vllm", "sglang", "openai"])
def test_running_counts_come_where_they_are_obeyed(dialect: str) -> None:
    """Chunks of vLLM and SGLang have the counts so far (``docs/contract/sources.md#s0-7``)."""
    chunks = _chunks(play(dialect, SCRIPTS["text"], UsagePolicy.CONTINUOUS))
    counts = [(chunk.get("usage") or {}).get("completion_tokens") for chunk in chunks]
    running = [0, *range(1, 10), *([9] * (2 if dialect == "sglang" else 1)), 9]
    assert counts == ([None] * 11 + [9] if dialect == "openai" else running)


def test_deepseek_counts_with_the_finish() -> None:
    """The usage stands beside the finish reason (``docs/contract/sources.md#s2-8``)."""
    chunks = _chunks(play("deepseek", SCRIPTS["text"], UsagePolicy.NONE))
    assert len(chunks) == 11
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * 10
    assert chunks[-1]["choices"][0]["delta"] == {"content": ""}
    usage = chunks[-1]["usage"]
    assert (usage["prompt_cache_hit_tokens"], usage["prompt_cache_miss_tokens"]) == (8, 13)


def test_qwen_counts_on_a_chunk_of_its_own() -> None:
    """Null until a last chunk without choices (``docs/contract/sources.md#s2-9``)."""
    chunks = _chunks(play("qwen", SCRIPTS["one call"], UsagePolicy.FINAL))
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"] == []
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks[:-1]]
    entries = [entry for delta in deltas for entry in delta.get("tool_calls", ())]
    assert [entry["id"] for entry in entries] == ["call_a", "", ""]


def test_empty_members_stand_beside_the_text() -> None:
    """SGLang says ``null`` to whatever does not come (``docs/contract/sources.md#s0-5``)."""
    chunk = _chunks(play("sglang", SCRIPTS["text"], UsagePolicy.NONE))[1]
    delta = {"role": None, "content": "The ", "reasoning_content": None, "tool_calls": None}
    assert chunk["choices"] == [
        {"index": 0, "delta": delta}
        | {"logprobs": None, "finish_reason": None, "matched_stop": None}
    ]


def test_unknown_cached_tokens_are_not_told() -> None:
    """A count that nobody knows is left out, or stays at the provider's zero."""
    for dialect, known in (("deepseek", None), ("openai", 0), ("databricks", 0)):
        generator = ChunkGenerator(Identity(id="a", created=1, model="m"))
        generator.chunk(Delta(content="a"))
        usage = decode_response(play_body(DIALECTS[dialect], generator.completion())).usage
        assert usage is not None
        assert (usage.prompt, usage.completion, usage.cache_read) == (0, 1, known)


def test_a_role_comes_once_with_openai_and_always_with_zai() -> None:
    """The dialects that repeat the role are known (``docs/contract/sources.md#s0-2``)."""
    for dialect, roles in (("openai", {None}), ("zai", {"assistant"}), ("sglang", {None})):
        chunks = _chunks(play(dialect, SCRIPTS["text"], UsagePolicy.NONE))
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
        assert deltas[0]["role"] == "assistant"
        assert {delta.get("role") for delta in deltas[1:]} == roles
        assert ("role" in deltas[1]) == (dialect != "openai")


def test_groq_tells_an_error_in_an_event_of_that_name() -> None:
    """``event: error`` stands before the data, and no end marker behind it."""
    stream = play("groq", SCRIPTS["error"], UsagePolicy.NONE)
    assert stream.endswith(b'"code":"engine_error"}}\n\n')
    assert b"\n\nevent: error\ndata: {" in stream


def test_a_call_after_text_has_index_one_with_anthropic() -> None:
    """Calls are numbered as blocks of content; without text before them they begin with 0."""
    for name, first in (("text and two calls", 1), ("one call", 0)):
        chunks = _chunks(play("anthropic", SCRIPTS[name], UsagePolicy.NONE))
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
        indices = [entry["index"] for delta in deltas for entry in delta.get("tool_calls", ())]
        assert indices[0] == first


def test_tags_close_before_a_call() -> None:
    """Reasoning that ends with a call, or with the stream, is closed all the same."""
    thought = said("Hm.", "reasoning")
    (choice,) = fold(play("perplexity", SCRIPTS["reasoning and a call"], UsagePolicy.NONE)).choices
    assert str(choice.message.content).endswith("help.</think>")
    script = Script(answers=(Answer(deltas=thought),))
    (choice,) = fold(play("perplexity", script, UsagePolicy.NONE)).choices
    assert choice.message.content == "<think>Hm.</think>"
