"""What the dialects are made to say, and what a reader should make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codec.chat.stream import ChatStream
from codec.dialects import DIALECTS, play_stream
from codec.generator import (
    Answer,
    CallFragment,
    ChunkGenerator,
    Delta,
    Identity,
    UsagePolicy,
)

if TYPE_CHECKING:
    from codec.chat.answer import ChatResponse
    from codec.text.jsontext import JsonObject

__all__ = ("ERROR", "POLICIES", "SCRIPTS", "Script", "fold", "play", "said")

ERROR: JsonObject = {
    "message": "the boiler went cold",
    "type": "server_error",
    "param": None,
    "code": "engine_error",
}
POLICIES = (UsagePolicy.NONE, UsagePolicy.FINAL)
"""Without usage asked for, and with it."""

_IDENTITY = Identity(id="chatcmpl-lamp", created=1_764_000_001, model="lamp-1")
_PROMPT_TOKENS = 21
_CACHED_TOKENS = 8


_MAKERS = {
    "content": lambda text: Delta(content=text),
    "reasoning": lambda text: Delta(reasoning=text),
    "refusal": lambda text: Delta(refusal=text),
}


def said(text: str, member: str = "content") -> tuple[Delta, ...]:
    """One delta for each word, the space behind it included."""
    words = text.split(" ")
    spaced = [f"{word} " for word in words[:-1]] + words[-1:]
    return tuple(_MAKERS[member](word) for word in spaced)


def _called(index: int, call_id: str, name: str, *arguments: str) -> tuple[Delta, ...]:
    header = Delta(call=CallFragment(index=index, id=call_id, name=name))
    pieces = (Delta(call=CallFragment(index=index, arguments=piece)) for piece in arguments)
    return (header, *pieces)


@dataclass(frozen=True, kw_only=True)
class Script:
    """What all choices say.

    Attributes:
        answers: one for each choice.
        fails: an error ends it.
        is_completion: as a legacy completion.
    """

    answers: tuple[Answer, ...]
    fails: bool = False
    is_completion: bool = False

    @property
    def tokens(self) -> int:
        """Of all choices, reasoning included."""
        return sum(delta.tokens for answer in self.answers for delta in answer.deltas)

    @property
    def reasoning_tokens(self) -> int:
        """Those of reasoning alone."""
        deltas = [delta for answer in self.answers for delta in answer.deltas]
        return sum(delta.tokens for delta in deltas if delta.reasoning is not None)

    def generator(self) -> ChunkGenerator:
        """The maker of its chunks."""
        return ChunkGenerator(
            _IDENTITY,
            choice_count=len(self.answers),
            prompt_tokens=_PROMPT_TOKENS,
            cached_tokens=_CACHED_TOKENS,
            usage=UsagePolicy.CONTINUOUS,
            is_completion=self.is_completion,
        )


_TEXT = "The ferry leaves at nine from the north quay."
_ONE_CALL = _called(0, "call_a", "list_piers", '{"har', 'bour": "', 'north"}')
_TWO_CALLS = _ONE_CALL + _called(1, "call_b", "find_tide", "{", '"at": "dawn"', "}")

SCRIPTS = {
    "text": Script(answers=(Answer(deltas=said(_TEXT)),)),
    "reasoning": Script(
        answers=(Answer(deltas=said("Nine, or was it ten?", "reasoning") + said(_TEXT)),)
    ),
    "one call": Script(answers=(Answer(deltas=_ONE_CALL, finish_reason="tool_calls"),)),
    "text and two calls": Script(
        answers=(
            Answer(deltas=said("Let me look that up.") + _TWO_CALLS, finish_reason="tool_calls"),
        )
    ),
    "reasoning and a call": Script(
        answers=(
            Answer(
                deltas=said("A list would help.", "reasoning") + _ONE_CALL,
                finish_reason="tool_calls",
            ),
        )
    ),
    "refusal": Script(answers=(Answer(deltas=said("That I will not do for you.", "refusal")),)),
    "two choices": Script(
        answers=(
            Answer(deltas=said(_TEXT)),
            Answer(deltas=said("There is no ferry before noon, sorry."), finish_reason="length"),
        )
    ),
    "error": Script(
        answers=(Answer(deltas=said("The ferry leaves at"), finish_reason=None),), fails=True
    ),
    "legacy": Script(answers=(Answer(deltas=said(_TEXT)),), is_completion=True),
}
"""By what is special about them."""


def play(dialect: str, script: Script, policy: UsagePolicy) -> bytes:
    """The bytes of a script in a dialect."""
    chunks = script.generator().generate(script.answers)
    if script.fails:
        chunks = (chunk for chunk in chunks if chunk["choices"])
    error = ERROR if script.fails else None
    return b"".join(play_stream(DIALECTS[dialect], chunks, policy=policy, error=error))


def fold(data: bytes, *, choice_count: int = 1) -> ChatResponse:
    """What the observer makes of a stream."""
    stream = ChatStream(choice_count=choice_count)
    stream.feed(data)
    return stream.finish()
