"""Calls of Gemini made by chance, the same in every run."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from tests.codec.apis.gemini.chunks import chunk, write_events
from tests.corpus.recordings import Recording

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("draw_contents",)

_WORDS = ("ahoy", " ", "🌊", "é", "\n", '"quoted"', "\\", "{}", "x" * 300, "日本")
_SIGNATURE = "c2lnbmVk"
_BLOB = {"mimeType": "image/jpeg", "data": "/9j/4AAQ+A=="}
_ARGUMENTS: tuple[dict[str, Any], ...] = ({"city": "Łódź", "days": 2}, {"a": [1, {"b": None}]})
_CONFIG: dict[str, tuple[Any, ...]] = {
    "temperature": (0.0, 0.7),
    "topP": (0.5,),
    "topK": (3.0,),
    "maxOutputTokens": (1, 500),
    "stopSequences": (["END"], ["a", "b"]),
    "seed": (7,),
    "responseMimeType": ("application/json",),
    "thinkingConfig": ({"includeThoughts": True},),
}
_TOOLS: tuple[dict[str, Any], ...] = (
    {"functionDeclarations": [{"name": "f", "description": "does", "parameters": {}}]},
    {"googleSearch": {}},
)
_REASONS = ("STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER")


def draw_contents(count: int) -> Iterator[Recording]:
    """So many calls, plain and streamed."""
    dice = random.Random(count)
    return (_draw_call(dice, f"chance {number}") for number in range(count))


def _draw_call(dice: random.Random, name: str) -> Recording:
    streams = dice.random() < 0.5
    parts = [_draw_part(dice) for _ in range(dice.randrange(1, 5))]
    usage = _draw_usage(dice)
    head: dict[str, Any] = {
        "modelVersion": dice.choice(("gemini-3-pro", "m-1")),
        "responseId": "r-1",
    }
    reason = dice.choice(_REASONS)
    if dice.random() < 0.1:
        head["promptFeedback"] = {"blockReason": "SAFETY"}
        chunks = [head | usage]
    elif streams:
        chunks = [chunk(part, **head, **usage) for part in parts[:-1]]
        chunks.append(chunk(parts[-1], reason=reason, **head, **usage))
    else:
        chunks = [chunk(*parts, reason=reason, **head, **usage)]
    if dice.random() < 0.2 and "candidates" in chunks[-1]:
        other = chunk({"text": _draw_text(dice)}, reason=dice.choice(_REASONS))["candidates"][0]
        chunks[-1]["candidates"].append(other | {"index": 1})
    kind = b"text/event-stream" if streams else b"application/json"
    method = "streamGenerateContent?alt=sse" if streams else "generateContent"
    return Recording(
        id=name,
        target=f"/v1beta/models/m-1:{method}".encode(),
        request=json.dumps(_draw_request(dice)).encode(),
        head=((b"content-type", kind),),
        body=write_events(*chunks) if streams else json.dumps(chunks[0]).encode(),
    )


def _draw_request(dice: random.Random) -> dict[str, Any]:
    asked: dict[str, Any] = {"contents": [_draw_content(dice) for _ in range(dice.randrange(1, 5))]}
    if dice.random() < 0.5:
        asked["systemInstruction"] = {"parts": [{"text": _draw_text(dice)}]}
    if dice.random() < 0.3:
        asked["tools"] = dice.sample(_TOOLS, k=dice.randrange(1, 3))
    config = {name: dice.choice(_CONFIG[name]) for name in _CONFIG if dice.random() < 0.2}
    return asked | ({"generationConfig": config} if config else {})


def _draw_content(dice: random.Random) -> dict[str, Any]:
    result = {"functionResponse": {"name": "f", "response": dice.choice(_ARGUMENTS)}}
    said = [_draw_part(dice) for _ in range(dice.randrange(1, 4))]
    shown = [{"text": _draw_text(dice)}, {"inlineData": _BLOB}]
    parts = dice.choice(([result], said, shown, shown[:1], shown[1:]))
    return {"role": "model" if parts is said else "user", "parts": parts}


def _draw_part(dice: random.Random) -> dict[str, Any]:
    text = {"text": _draw_text(dice)}
    call: dict[str, Any] = {"name": "f", "args": dice.choice(_ARGUMENTS)}
    kinds: tuple[dict[str, Any], ...] = (
        *(text, text | {"thought": True}, text | {"thoughtSignature": _SIGNATURE}),
        *({"functionCall": call}, {"functionCall": call | {"id": "c-1"}}),
        {"functionCall": call, "thoughtSignature": _SIGNATURE},
    )
    return dice.choices(kinds, weights=(5, 2, 1, 2, 1, 1))[0]


def _draw_text(dice: random.Random) -> str:
    return "".join(dice.choices(_WORDS, k=dice.randrange(1, 5)))


def _draw_usage(dice: random.Random) -> dict[str, Any]:
    prompt, said = dice.randrange(1, 900), dice.randrange(1, 900)
    thought, found, cached = (dice.choice((0, dice.randrange(50))) for _ in range(3))
    usage = {"promptTokenCount": prompt, "candidatesTokenCount": said}
    usage["totalTokenCount"] = prompt + said + thought + found
    more = ("thoughtsTokenCount", thought), ("toolUsePromptTokenCount", found)
    usage |= {name: value for name, value in more if value}
    return {"usageMetadata": usage | ({"cachedContentTokenCount": cached} if cached else {})}
