"""What generated calls are answered: well-formed answers, in OpenAI's words or a dialect's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codec.dialects import find_dialect, play_body, play_error, play_stream
from codec.generator import Answer, CallFragment, ChunkGenerator, Delta, Identity, UsagePolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.text.jsontext import JsonObject

__all__ = (
    "build_error",
    "call_tools",
    "error_body",
    "plain_body",
    "say",
    "stream_events",
    "think",
)

_WORD = re.compile(r"\s*\S+|\s+")
_IDENTITY = Identity(
    id="chatcmpl-1",
    created=1_764_000_000,
    model="gpt-4o-mini-2024-07-18",
    members={"service_tier": "default", "system_fingerprint": "fp_1"},
)


def say(text: str, finish_reason: str | None = "stop", *, as_refusal: bool = False) -> Answer:
    """A choice that says a text, word by word."""
    words = _WORD.findall(text)
    deltas = tuple(Delta(refusal=word) if as_refusal else Delta(content=word) for word in words)
    return Answer(deltas=deltas, finish_reason=finish_reason)


def think(thoughts: str, answer: Answer) -> Answer:
    """The same choice, after some reasoning."""
    reasoning = tuple(Delta(reasoning=word) for word in _WORD.findall(thoughts))
    return Answer(deltas=reasoning + answer.deltas, finish_reason=answer.finish_reason)


def call_tools(*calls: tuple[str, str], text: str = "") -> Answer:
    """A choice that calls tools at once: names, and argument texts that come in three pieces."""
    deltas = list(say(text).deltas)
    for index, (name, arguments) in enumerate(calls):
        third = len(arguments) // 3 + 1
        pieces = [arguments[start : start + third] for start in range(0, len(arguments), third)]
        deltas += [Delta(call=CallFragment(index=index, id=f"call_{index}", name=name))]
        deltas += [Delta(call=CallFragment(index=index, arguments=piece)) for piece in pieces]
    return Answer(deltas=tuple(deltas), finish_reason="tool_calls")


def stream_events(
    *answers: Answer,
    dialect: str = "openai",
    is_legacy: bool = False,
    error: JsonObject | None = None,
) -> list[bytes]:
    """The events of a stream, a choice for each answer.

    The usage is there: where the client did not ask for it, the proxy did.
    """
    chunks = _generator(answers, is_legacy=is_legacy).generate(answers)
    profile = find_dialect(dialect)
    return [*play_stream(profile, chunks, policy=UsagePolicy.FINAL, error=error)]


def plain_body(*answers: Answer, dialect: str = "openai", is_legacy: bool = False) -> bytes:
    """The body of an answer that is not streamed."""
    generator = _generator(answers, is_legacy=is_legacy)
    for _ in generator.generate(answers):
        pass
    return play_body(find_dialect(dialect), generator.completion())


def error_body(message: str, dialect: str = "openai") -> bytes:
    """The body of an error."""
    return play_error(find_dialect(dialect), build_error(message))


def build_error(message: str) -> JsonObject:
    """An error as OpenAI describes it."""
    return {"message": message, "type": "server_error", "param": None, "code": None}


def _generator(answers: Sequence[Answer], *, is_legacy: bool) -> ChunkGenerator:
    return ChunkGenerator(
        _IDENTITY,
        choice_count=len(answers),
        prompt_tokens=23,
        cached_tokens=7,
        usage=UsagePolicy.CONTINUOUS,
        is_completion=is_legacy,
    )
