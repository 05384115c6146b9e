"""The players of Ollama: an answer as lines of JSON, and embeddings in the form of the path.

See ``docs/contract/apis.md#ollama``. Each piece of text or thinking has a line. A call of a tool
comes whole, with an object as arguments. A refusal is text. The last line has the reason to end,
the counts and the times; it leaves out counts of zero. An answer that failed ends with a line that
is an error instead.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from codec.apis.faults import build_error
from codec.apis.vector_player import VectorPlayer
from codec.text.jsontext import decode_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.apis.player import Player, Script
    from codec.asked import Asked
    from codec.dialects import Dialect
    from codec.generator import CallFragment, Delta
    from codec.text.jsontext import JsonObject

__all__ = ("CHAT_PLAYER", "GENERATE_PLAYER", "VECTOR_PLAYER")

_STOPS: Final = {"tool_calls": "stop"}
_FAILURE: Final = "The demo model was asked to fail, and did."
_TOKEN_NS: Final = 15_000_000
_CONTEXT: Final = (128006, 882, 128007)
"""Tokens that a client may send back to continue; nobody reads them here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OllamaPlayer:
    """Speaks in lines.

    Attributes:
        is_chat: text stands in a message, and not beside the other members.
    """

    is_chat: bool

    def find_fault(self, body: JsonObject) -> JsonObject | None:
        """The first thing wrong with a request, ``None`` for a good one."""
        if not (isinstance(body.get("model"), str) and body["model"]):
            return _invalid("model is required")
        messages = body.get("messages", [])
        if self.is_chat and not (isinstance(messages, list) and all(map(_is_message, messages))):
            return _invalid("json: cannot unmarshal messages")
        if not self.is_chat and not isinstance(body.get("prompt"), str | None):
            return _invalid("json: cannot unmarshal prompt")
        return None

    def write_error(self, error: JsonObject, dialect: Dialect) -> bytes:  # noqa: ARG002
        """Write the body of an error."""
        return _dump({"error": error.get("message")})

    def play(self, asked: Asked, script: Script, _: Dialect) -> _Performance:
        """Begin an answer."""
        return _Performance(asked=asked, script=script, is_chat=self.is_chat)


CHAT_PLAYER: Final[Player] = _OllamaPlayer(is_chat=True)
GENERATE_PLAYER: Final[Player] = _OllamaPlayer(is_chat=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Performance:
    """Plays one answer."""

    asked: Asked
    script: Script
    is_chat: bool

    @property
    def content_type(self) -> str:
        """The content type of the stream."""
        return "application/x-ndjson"

    def stream(self) -> Iterator[Sequence[bytes]]:
        """The lines, one at a time."""
        [answer] = self.script.answers
        for said in self._pieces():
            yield [_dump(self._line(said) | {"done": False}) + b"\n"]
        if answer.finish_reason == "error":
            yield [_dump({"error": _FAILURE})]
        else:
            yield [_dump(self._line({}) | self._end()) + b"\n"]

    def whole(self) -> bytes:
        """The body of the plain answer."""
        [answer] = self.script.answers
        if answer.finish_reason == "error":
            return _dump({"error": _FAILURE})
        whole: JsonObject = {}
        for said in self._pieces():
            for name, value in said.items():
                whole[name] = whole[name] + value if name in whole else value
        return _dump(self._line(whole) | self._end())

    def _pieces(self) -> Iterator[JsonObject]:
        """Yield the members of each line that carries a piece of the answer."""
        [answer] = self.script.answers
        for is_call, group in groupby(answer.deltas, key=lambda delta: delta.call is not None):
            if is_call:
                yield from self._calls([delta.call for delta in group if delta.call is not None])
            else:
                yield from map(self._text, group)

    def _text(self, delta: Delta) -> JsonObject:
        if delta.reasoning is not None:
            return {"thinking": delta.reasoning}
        return {self._member: delta.content or delta.refusal or ""}

    def _calls(self, fragments: Sequence[CallFragment]) -> Iterator[JsonObject]:
        for index, group in groupby(fragments, key=lambda one: one.index):
            pieces = [*group]
            first = pieces[0]
            function: JsonObject = {
                "index": index,
                "name": first.name,
                "arguments": _read_arguments("".join(one.arguments for one in pieces)),
            }
            yield {"tool_calls": [{"id": first.id, "function": function}]}

    @property
    def _member(self) -> str:
        return "content" if self.is_chat else "response"

    def _line(self, said: JsonObject) -> JsonObject:
        head = {"model": self.asked.model, "created_at": _moment(self.script.created)}
        said = {self._member: ""} | said
        if self.is_chat:
            return head | {"message": {"role": "assistant", **said}}
        return head | said

    def _end(self) -> JsonObject:
        """Build the members that only the last line has."""
        [answer] = self.script.answers
        tokens = sum(delta.tokens for delta in answer.deltas)
        counts = {"prompt_eval_count": self.script.prompt_tokens, "eval_count": tokens}
        reason = answer.finish_reason or "stop"
        context = {} if self.is_chat else {"context": [*_CONTEXT]}
        return {
            "done": True,
            "done_reason": _STOPS.get(reason, reason),
            **context,
            "total_duration": (tokens + 1) * _TOKEN_NS,
            "load_duration": _TOKEN_NS,
            **{name: count for name, count in counts.items() if count},
            "eval_duration": tokens * _TOKEN_NS,
        }


def _moment(seconds: int) -> str:
    """Write a time as RFC 3339 has it; the codec is kept from clocks, and from their modules."""
    days, second = divmod(seconds, 86_400)
    days += 719_468  # since the first of March of the year 0
    era, of_era = divmod(days, 146_097)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    year += 400 * era + (month >= 10)
    month = month - 9 if month >= 10 else month + 3
    clock = f"{second // 3_600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return f"{year:04}-{month:02}-{day:02}T{clock}Z"


def _read_arguments(text: str) -> Any:
    try:
        return decode_json(text or "{}")
    except ValueError:  # the answer was cut
        return {}


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _invalid(message: str) -> JsonObject:
    return {"error": {"message": message}}


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def _find_fault(body: JsonObject) -> JsonObject | None:
    """The first thing wrong with a request, ``None`` for a good one."""
    return None if isinstance(body.get("model"), str) else build_error("model is required")


def _build(vectors: Sequence[Sequence[float]], asked: Asked, script: Script) -> JsonObject:
    if asked.path.rstrip("/").endswith("/embeddings"):
        return {"embedding": vectors[0] if vectors else []}
    counts = {"total_duration": 1, "load_duration": 1, "prompt_eval_count": script.prompt_tokens}
    return {"model": asked.model, "embeddings": vectors, **counts}


VECTOR_PLAYER: Final[Player] = VectorPlayer(
    find_fault=_find_fault, errors=CHAT_PLAYER, build=_build
)
