"""Every dialect says what it was told, in its own way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.chat.response import decode_response
from codec.dialects import DIALECTS, StreamPlayer, play_body, play_error, play_stream
from codec.generator import Answer, ChunkGenerator, Delta, Identity, TokenLogprob, UsagePolicy
from codec.text.jsontext import decode_json
from tests.codec.dialects.scripts import ERROR, POLICIES, SCRIPTS, Script, fold, play, said

if TYPE_CHECKING:
    from codec.chat.answer import ChatResponse, Choice
USAGE_UNASKED = {
    "copilot", "deepseek", "mistral", "gemini", "moonshot", "zai", "perplexity", "gpustack",
    "openrouter", "vercel", "groq", "together", "fireworks", "cerebras", "huggingface",
    "cloudflare", "databricks", "bedrock-mantle", "avian",
}  # fmt: skip
"""Who tells the usage to those who did not ask."""

NO_USAGE = {"writer"}
REFUSAL_MEMBER = {"openai", "azure", "copilot", "openrouter", "snowflake"}
"""Who has ``delta.refusal``; elsewhere a refusal is text."""

NO_REASONING = {
    *("openai", "azure", "anthropic", "tgi", "cloudflare", "bedrock-mantle", "cohere", "writer")
}
TAGS = {"gemini": ("<thought>", "</thought>"), "perplexity": ("<think>", "</think>")}
REASONING_UNTOLD = {"gemini"}
"""Whose completion tokens do not count it."""

NO_CACHED = {"anthropic", "cohere", "tgi", "ollama", "llama.cpp"}
STOPS_WITH_CALLS = {"gemini", "tgi"}
COMPLETION_STOP = {"tgi": "eos_token", "together": "eos", "writer": None}
ERROR_REASONS = {
    "deepseek": "insufficient_system_resource",
    "zai": "network_error",
    "openrouter": "error",
}
SILENT = {
    "moonshot", "perplexity", "cohere", "writer", "ollama", "vercel", "cerebras", "huggingface",
    "cloudflare", "snowflake", "databricks", "bedrock-mantle", "avian",
}  # fmt: skip
"""Whose streams just end."""

DONE_AFTER_ERROR = {
    "deepseek", "zai", "mistral", "vllm", "sglang", "crusoe", "openrouter",
}  # fmt: skip
NO_DONE = {"perplexity", "writer", "huggingface", "gpustack"}


def _each(*names: str) -> pytest.MarkDecorator:
    """All dialects with these scripts, with usage asked and not."""
    rows = [(d, s, p) for d in DIALECTS for s in names for p in POLICIES]
    return pytest.mark.parametrize(("dialect", "name", "policy"), rows)


def _text(script: Script, index: int, member: str = "content") -> str:
    return "".join(getattr(delta, member) or "" for delta in script.answers[index].deltas)


def _calls(script: Script) -> list[list[str]]:
    calls: dict[int, list[str]] = {}
    for delta in script.answers[0].deltas:
        if delta.call is not None:
            call = calls.setdefault(
                delta.call.index, [str(delta.call.id), str(delta.call.name), ""]
            )
            call[2] += delta.call.arguments
    return list(calls.values())


def _check_usage(dialect: str, script: Script, policy: UsagePolicy, response: ChatResponse) -> None:
    expects = policy is UsagePolicy.FINAL or dialect in USAGE_UNASKED
    if dialect in NO_USAGE or not expects:
        assert response.usage is None
        return
    usage = response.usage
    assert usage is not None
    completion = script.tokens
    if dialect in REASONING_UNTOLD:
        completion -= script.reasoning_tokens
    assert (usage.prompt, usage.completion) == (21, completion)
    assert usage.total == 21 + script.tokens
    assert usage.cache_read == (None if dialect in NO_CACHED else 8)
    if dialect not in REASONING_UNTOLD:
        assert (usage.reasoning or 0) == script.reasoning_tokens


def _check_anomalies(dialect: str, response: ChatResponse) -> None:
    expected = {"no_usage"} if response.usage is None else set()
    texts = response.choices[0].message.content
    if dialect == "qwen-cumulative" and texts:
        expected.add("cumulative_content")
    assert set(response.anomalies) == expected


def _check_text(dialect: str, script: Script, choice: Choice) -> None:
    text, reasoning = (_text(script, choice.index, name) for name in ("content", "reasoning"))
    message = choice.message
    if dialect in TAGS and reasoning:
        opening, closing = TAGS[dialect]
        assert message.content == opening + reasoning + closing + text
        assert message.reasoning is None
    else:
        assert message.content == (text or None)
        assert message.reasoning == (None if dialect in NO_REASONING else reasoning or None)


@_each("text", "reasoning", "two choices")
def test_a_dialect_says_what_it_was_told(dialect: str, name: str, policy: UsagePolicy) -> None:
    """Text, reasoning, finish reasons and usage arrive (``docs/contract/sources.md#s0-7``)."""
    script = SCRIPTS[name]
    stream = play(dialect, script, policy)
    response = fold(stream, choice_count=len(script.answers))
    assert [choice.index for choice in response.choices] == [*range(len(script.answers))]
    for choice, answer in zip(response.choices, script.answers, strict=True):
        _check_text(dialect, script, choice)
        assert choice.finish_reason == answer.finish_reason
    _check_usage(dialect, script, policy, response)
    _check_anomalies(dialect, response)
    assert response.done == (dialect not in NO_DONE)


@_each("one call", "text and two calls", "reasoning and a call")
def test_calls_arrive_whole(dialect: str, name: str, policy: UsagePolicy) -> None:
    """Id, name and arguments of each call arrive, whatever pieces a dialect makes."""
    script = SCRIPTS[name]
    response = fold(play(dialect, script, policy))
    (choice,) = response.choices
    calls = [[call.id, call.name, call.arguments] for call in choice.message.tool_calls]
    assert calls == _calls(script)
    assert choice.finish_reason == ("stop" if dialect in STOPS_WITH_CALLS else "tool_calls")
    _check_text(dialect, script, choice)
    _check_usage(dialect, script, policy, response)
    _check_anomalies(dialect, response)


@_each("refusal")
def test_a_refusal_arrives(dialect: str, name: str, policy: UsagePolicy) -> None:
    """It has a member of its own where the provider has one, and is text elsewhere."""
    script = SCRIPTS[name]
    response = fold(play(dialect, script, policy))
    message, text = response.choices[0].message, _text(script, 0, "refusal")
    apart = dialect in REFUSAL_MEMBER
    assert (message.refusal, message.content) == ((text, None) if apart else (None, text))
    _check_usage(dialect, script, policy, response)


@_each("error")
def test_an_error_ends_the_stream(dialect: str, name: str, policy: UsagePolicy) -> None:
    """What came before it is kept (``docs/contract/sources.md#s0-4``)."""
    script = SCRIPTS[name]
    response = fold(play(dialect, script, policy))
    assert response.choices[0].message.content == _text(script, 0)
    assert response.choices[0].finish_reason == ERROR_REASONS.get(dialect)
    assert response.done == (dialect in DONE_AFTER_ERROR)
    if dialect in SILENT:
        assert response.error is None
        assert "no_finish_reason" in response.anomalies
    elif dialect not in {"deepseek", "zai"}:
        assert response.error is not None
        assert response.error.message == ERROR["message"]


@_each("legacy")
def test_legacy_completions_are_played(dialect: str, name: str, policy: UsagePolicy) -> None:
    """Their text, finish reason and usage arrive; Writer's are bare values, and no more."""
    script = SCRIPTS[name]
    response = fold(play(dialect, script, policy))
    (choice,) = response.choices
    assert choice.message.content == _text(script, 0)
    assert choice.finish_reason == COMPLETION_STOP.get(dialect, "stop")
    _check_usage(dialect, script, policy, response)
    if dialect == "writer":
        assert play(dialect, script, policy).startswith(b'data: {"value":"The "}\n\ndata: {"value"')


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name != "error"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_plain_body_says_the_same(dialect: str, name: str) -> None:
    """It has text, reasoning, calls, finish reasons, and the usage always."""
    script = SCRIPTS[name]
    generator = script.generator()
    assert list(generator.generate(script.answers))
    body = play_body(DIALECTS[dialect], generator.completion())
    assert body.startswith(b"\n") == (dialect == "deepseek"), "blank lines while one waits"
    response = decode_response(body)
    refusal = _text(script, 0, "refusal")
    for choice, answer in zip(response.choices, script.answers, strict=True):
        if refusal:
            assert refusal in {choice.message.refusal, choice.message.content}
        else:
            _check_text(dialect, script, choice)
        assert choice.finish_reason == answer.finish_reason
    calls = [[c.id, c.name, c.arguments] for c in response.choices[0].message.tool_calls]
    assert calls == _calls(script)
    assert response.usage is not None
    assert response.usage.total == 21 + script.tokens


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_body_names_the_error(dialect: str) -> None:
    """Gemini's stands in a list, vLLM's and Mistral's is flat, TGI's is a text."""
    error: Any = decode_json(play_error(DIALECTS[dialect], ERROR))
    if dialect == "gemini":
        (error,) = error
    if dialect in {"vllm", "mistral"}:
        assert error == {"object": "error"} | ERROR
    elif dialect == "tgi":
        assert error == {"error": ERROR["message"], "error_type": ERROR["type"]}
    else:
        assert error == {"error": ERROR}


def test_text_and_a_call_in_one_delta_both_arrive() -> None:
    """A delta with both becomes two; one that ends the stream at once carries all of it."""
    whole = SCRIPTS["one call"].answers[0].deltas
    for dialect in ("openai", "mistral", "gemini"):
        generator = SCRIPTS["text"].generator()
        deltas = [Delta(content="Wait. ", call=whole[0].call), *whole[1:-1]]
        chunks = [generator.chunk(delta) for delta in deltas]
        chunks.append(generator.chunk(whole[-1], 0, "tool_calls"))
        (choice,) = fold(b"".join(play_stream(DIALECTS[dialect], chunks))).choices
        assert choice.message.content == "Wait. "
        assert choice.message.tool_calls[0].arguments == '{"harbour": "north"}'


def test_interleaved_pieces_of_two_calls_arrive() -> None:
    """A piece of a call that was told already follows it."""
    one, two = (SCRIPTS["text and two calls"].answers[0].deltas[start:] for start in (5, 9))
    order = [one[0], two[0], one[1], two[1], one[2], two[2], one[3], two[3]]
    script = Script(answers=(Answer(deltas=tuple(order), finish_reason="tool_calls"),))
    for dialect in ("openai", "mistral", "llama.cpp", "tgi", "xai"):
        (choice,) = fold(play(dialect, script, UsagePolicy.NONE)).choices
        assert [c.arguments for c in choice.message.tool_calls] == [
            '{"harbour": "north"}',
            '{"at": "dawn"}',
        ]


def test_logprobs_stay_with_their_text() -> None:
    """Those of all deltas arrive in order (``docs/contract/sources.md#s0-10``)."""
    for dialect, member in (("openai", "content"), ("openai", "refusal"), ("xai", "content")):
        deltas = tuple(
            replace(delta, logprobs=(TokenLogprob(token="x", logprob=number),))
            for number, delta in enumerate(said("low tide", member))
        )
        script = Script(answers=(Answer(deltas=deltas),))
        (choice,) = fold(play(dialect, script, UsagePolicy.NONE)).choices
        assert choice.logprobs is not None
        assert [entry["logprob"] for entry in choice.logprobs[member]] == [0, 1]


def test_chunks_without_running_counts_are_refused() -> None:
    """A dialect may tell the usage anywhere, so the player must know it."""
    generator = ChunkGenerator(Identity(id="a", created=1, model="m"))
    with pytest.raises(ValueError, match="running counts"):
        list(play_stream(DIALECTS["openai"], generator.generate([Answer(deltas=said("a"))])))


@given(
    st.sampled_from(sorted(set(DIALECTS) - {"qwen-cumulative"})),
    st.lists(st.lists(st.text(st.characters(codec="utf-8")), max_size=6), min_size=1, max_size=3),
)
def test_any_text_arrives(dialect: str, texts: list[list[str]]) -> None:
    """Whatever the choices say, in whatever pieces, streamed and plain."""
    answers = tuple(Answer(deltas=tuple(Delta(content=text) for text in one)) for one in texts)
    script = Script(answers=answers)
    response = fold(play(dialect, script, UsagePolicy.FINAL), choice_count=len(texts))
    if "cumulative_content" in response.anomalies:
        return  # a text that grows from itself is taken for another dialect's
    contents = [choice.message.content or "" for choice in response.choices]
    assert contents == ["".join(one) for one in texts]


def test_a_lone_surrogate_breaks_no_stream() -> None:
    """It is replaced: what a request brought along must not end the answer."""
    script = Script(answers=(Answer(deltas=(Delta(content="a\ud800b"),)),))
    assert fold(play("openai", script, UsagePolicy.NONE)).choices[0].message.content == "a?b"


def test_a_player_plays_an_error_before_anything_else() -> None:
    """An error may be the first thing of a stream (``docs/contract/wire.md#error-first``)."""
    for name in ("openai", "openrouter"):
        events = list(StreamPlayer(DIALECTS[name]).fail(ERROR))
        response = fold(b"".join(events))
        assert response.error is not None
