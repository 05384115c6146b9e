"""The players of Gemini: candidates as Google streams them, counts of tokens, and embeddings.

See ``docs/contract/apis.md#gemini-stream``. Each chunk has the new parts and all counts so far. A
stream is an array, unless the query asks for events. An answer that failed ends with a chunk that
is an error.
"""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from codec.apis.faults import build_error
from codec.apis.gemini.counting import CountRequest
from codec.apis.gemini.vectors import EmbedRequest
from codec.apis.player import PlainPerformance
from codec.apis.vector_player import VectorPlayer
from codec.text.jsontext import decode_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.apis.player import Performance, Player, Script
    from codec.asked import Asked
    from codec.dialects import Dialect
    from codec.generator import Answer, CallFragment
    from codec.text.jsontext import JsonObject

__all__ = ("COUNT_PLAYER", "PLAYER", "VECTOR_PLAYER")

_REASONS: Final = {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP"}
_STATUS: Final = {"requests": (429, "RESOURCE_EXHAUSTED")}
_SIGNATURE: Final = "RGVtbyB0aG91Z2h0cywgc2lnbmVkIGJ5IG5vYm9keS4="
_FAILURE: Final = "The demo model was asked to fail, and did."


class _GeminiPlayer:
    """Speaks Gemini."""

    def find_fault(self, body: JsonObject) -> JsonObject | None:
        """The first thing wrong with a request, ``None`` for a good one."""
        contents = body.get("contents")
        if not (isinstance(contents, list) and contents and all(map(_is_content, contents))):
            return _invalid("contents is not specified")
        tools = body.get("tools") or []
        if not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
            return _invalid("tools must be a list of objects")
        return None

    def write_error(self, error: JsonObject, dialect: Dialect) -> bytes:  # noqa: ARG002
        """Write the body of an error."""
        return _dump(_shape_error(error)).encode()

    def play(self, asked: Asked, script: Script, _: Dialect) -> Performance:
        """Begin an answer."""
        return _Performance(asked, script)


PLAYER: Final[Player] = _GeminiPlayer()


class _CountPlayer(_GeminiPlayer):
    """Counts tokens: as many as the words of a request."""

    def find_fault(self, body: JsonObject) -> JsonObject | None:
        """The first thing wrong with a request, ``None`` for a good one."""
        fault = CountRequest(body).fault
        return _invalid(fault) if fault is not None else None

    def play(self, asked: Asked, script: Script, _: Dialect) -> Performance:  # noqa: ARG002
        """Begin an answer."""
        return PlainPerformance(_dump({"totalTokens": script.prompt_tokens}).encode())


COUNT_PLAYER: Final[Player] = _CountPlayer()


class _Performance:
    """Plays one answer."""

    def __init__(self, asked: Asked, script: Script) -> None:
        self._script = script
        self._model = asked.model
        self._spoken = self._thought = 0
        self._in_events = parse_qs(script.query).get("alt") == ["sse"]

    @property
    def content_type(self) -> str:
        """The content type of the stream."""
        return "text/event-stream" if self._in_events else "application/json; charset=UTF-8"

    def whole(self) -> bytes:
        """The body of the plain answer."""
        if self._fails:
            return _dump(_shape_error({"message": _FAILURE})).encode()
        candidates = [
            {"content": {"parts": _join([*map(_second, _parts(answer))]), "role": "model"}}
            | {"finishReason": _reason(answer), "index": index}
            for index, answer in enumerate(self._script.answers)
        ]
        for answer in self._script.answers:
            for delta in answer.deltas:
                self._count(delta.tokens, is_thought=delta.reasoning is not None)
        return _dump(self._chunk(candidates)).encode()

    def stream(self) -> Iterator[Sequence[bytes]]:
        """The chunks, each by itself; the last has the reasons."""
        before, behind = ("data: ", "\r\n\r\n") if self._in_events else ("[", "")
        for chunk in self._chunks():  # at least one, which says why the answer ends
            yield [f"{before}{_dump(chunk)}{behind}".encode()]
            before = before if self._in_events else ",\r\n"
        if not self._in_events:
            yield [b"\n]\n"]

    @property
    def _fails(self) -> bool:
        return any(answer.finish_reason == "error" for answer in self._script.answers)

    def _chunks(self) -> Iterator[JsonObject]:
        answers = self._script.answers
        for row in zip_longest(*map(_parts, answers)):
            candidates = []
            for index, found in enumerate(row):
                if found is not None:
                    tokens, part = found
                    self._count(tokens, is_thought="thought" in part)
                    content = {"parts": [part], "role": "model"}
                    candidates.append({"content": content, "index": index})
            yield self._chunk(candidates)
        if self._fails:
            yield _shape_error({"message": _FAILURE})
            return
        ends = [
            {"finishReason": reason, "index": index}
            for index, answer in enumerate(answers)
            if (reason := _reason(answer)) is not None
        ]
        yield self._chunk(ends)

    def _count(self, tokens: int, *, is_thought: bool) -> None:
        self._thought += tokens if is_thought else 0
        self._spoken += 0 if is_thought else tokens

    def _chunk(self, candidates: list[JsonObject]) -> JsonObject:
        prompt, cached = self._script.prompt_tokens, self._script.cached_tokens
        counts = {"promptTokenCount": prompt, "candidatesTokenCount": self._spoken}
        counts["totalTokenCount"] = prompt + self._spoken + self._thought
        counts |= {"thoughtsTokenCount": self._thought} if self._thought else {}
        counts |= {"cachedContentTokenCount": cached} if cached else {}
        return {
            "candidates": candidates,
            "usageMetadata": counts,
            "modelVersion": self._model,
            "responseId": self._script.answer_id[:24],
        }


def _parts(answer: Answer) -> Iterator[tuple[int, JsonObject]]:
    """Yield the parts that the deltas make, each with its tokens.

    A call comes when all of its arguments are there. A refusal is no part: the candidate's reason
    to end says it.
    """
    fragments: list[CallFragment] = []
    tokens = 0
    for delta in answer.deltas:
        call = delta.call
        if fragments and (call is None or call.index != fragments[0].index):
            yield tokens, _call(fragments)
            fragments, tokens = [], 0
        if call is not None:
            fragments.append(call)
            tokens += delta.tokens
        elif delta.reasoning is not None:
            yield delta.tokens, {"text": delta.reasoning, "thought": True}
        elif delta.content is not None:
            yield delta.tokens, {"text": delta.content}
    if fragments:
        yield tokens, _call(fragments)


def _second(pair: tuple[int, JsonObject]) -> JsonObject:
    return pair[1]


def _join(parts: Sequence[JsonObject]) -> list[JsonObject]:
    """The parts of a plain answer, in which text is whole."""
    joined: list[JsonObject] = []
    for part in parts:
        last = joined[-1] if joined else {}
        if "text" in part and "text" in last and part.get("thought") == last.get("thought"):
            last["text"] += part["text"]
        else:
            joined.append(dict(part))
    return joined


def _call(fragments: Sequence[CallFragment]) -> JsonObject:
    try:
        asked = decode_json("".join(one.arguments for one in fragments) or "{}")
    except ValueError:  # the answer was cut
        asked = {}
    call: JsonObject = {"id": fragments[0].id, "name": fragments[0].name, "args": asked}
    return {"functionCall": call, "thoughtSignature": _SIGNATURE}


def _reason(answer: Answer) -> str | None:
    if any(delta.refusal is not None for delta in answer.deltas):
        return "PROHIBITED_CONTENT"
    return _REASONS.get(answer.finish_reason or "", answer.finish_reason)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _invalid(message: str) -> JsonObject:
    return {"error": {"type": "invalid_request_error", "message": message}}


def _shape_error(error: JsonObject) -> JsonObject:
    """An error as Google writes it."""
    kind = error.get("type")
    code, status = _STATUS.get(kind or "", (400, "INVALID_ARGUMENT"))
    if kind is None:
        code, status = 500, "INTERNAL"
    return {"error": {"code": code, "message": error.get("message"), "status": status}}


def _is_content(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("parts"), list)


def _find_fault(body: JsonObject) -> JsonObject | None:
    """The first thing wrong with a request, ``None`` for a good one."""
    fault = EmbedRequest(body).fault
    return build_error(fault) if fault is not None else None


def _build(vectors: Sequence[Sequence[float]], asked: Asked, script: Script) -> JsonObject:
    counts = {"promptTokenCount": script.prompt_tokens, "totalTokenCount": script.prompt_tokens}
    embeddings = [{"values": vector} for vector in vectors]
    if asked.path.endswith(":batchEmbedContents"):
        return {"embeddings": embeddings, "usageMetadata": counts}
    return {"embedding": embeddings[0], "usageMetadata": counts}


VECTOR_PLAYER: Final[Player] = VectorPlayer(find_fault=_find_fault, errors=PLAYER, build=_build)
