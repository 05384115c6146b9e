"""The streams that are measured: 2,000 chunks each, as different providers write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("CHUNKS", "READ_BYTES", "STREAMS", "events_of", "payloads_of", "reads_of")

CHUNKS = 2_000

READ_BYTES = 16_384
"""Of a read that holds many events, where the upstream is faster than its reader."""

_HEAD: JsonObject = {
    "id": "chatcmpl-Bench8f0Jk2",
    "object": "chat.completion.chunk",
    "created": 1_764_000_000,
    "model": "m-1-2026-07-18",
    "service_tier": "default",
    "system_fingerprint": "fp_bench",
}
_USAGE = {"prompt_tokens": 12, "completion_tokens": 1_998, "total_tokens": 2_010}


def _stream(deltas: Any, choice: JsonObject | None = None, **members: Any) -> list[JsonObject]:
    chunks = []
    for number, delta in enumerate(deltas):
        entry = {"index": 0, "delta": delta} | (choice or {}) | {"finish_reason": None}
        chunks.append(_HEAD | {"choices": [entry]} | _numbered(members, number))
    finish = {"index": 0, "delta": {}, "finish_reason": "stop"}
    return [*chunks, _HEAD | {"choices": [finish]}, _HEAD | {"choices": [], "usage": _USAGE}]


def _numbered(members: JsonObject, number: int) -> JsonObject:
    return {key: value(number) if callable(value) else value for key, value in members.items()}


def _words(member: str = "content") -> list[JsonObject]:
    # One word in twenty has an escape, as line ends in prose and code have.
    return [{member: f" word{n % 97}" if n % 20 else "\n\n"} for n in range(CHUNKS - 2)]


def _padding(number: int) -> str:
    return "aB3xQ9zK7w"[: number % 10]


def _running(number: int) -> JsonObject:
    return {"prompt_tokens": 12, "completion_tokens": number, "total_tokens": 12 + number}


_ARGUMENTS = [
    {"tool_calls": [{"index": 0, "function": {"arguments": f'"k{n}": {n}, '}}]}
    for n in range(CHUNKS - 2)
]
_NO_LOGPROBS = {"logprobs": None}

STREAMS: dict[str, list[JsonObject]] = {
    "plain": _stream(_words(), _NO_LOGPROBS, usage=None),
    "padded": _stream(_words(), _NO_LOGPROBS, usage=None, obfuscation=_padding),
    "reasoning": _stream(_words("reasoning_content"), _NO_LOGPROBS),
    "running usage": _stream(_words(), _NO_LOGPROBS, usage=_running),
    "tool arguments": _stream(_ARGUMENTS, _NO_LOGPROBS),
}


def payloads_of(name: str) -> list[bytes]:
    """The data of each event."""
    return [json.dumps(chunk, separators=(",", ":")).encode() for chunk in STREAMS[name]]


def events_of(name: str) -> list[bytes]:
    """The bytes of each event, as reads of a stream that is slower than its reader."""
    return [b"data: %b\n\n" % payload for payload in payloads_of(name)]


def reads_of(name: str) -> list[bytes]:
    """The same bytes in large reads."""
    whole = b"".join(events_of(name))
    return [whole[start : start + READ_BYTES] for start in range(0, len(whole), READ_BYTES)]
