"""What can be seen of a stream at a glance: the same questions to a played and to a recorded one.

It shares no code with the player and none with the observer: lines, :mod:`json`, and no more.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ("find_features",)


def find_features(stream: bytes, *, framed: bool = True) -> dict[str, Any]:
    """The features of one stream that came to its end without an error.

    Args:
        stream: its bytes.
        framed: they are as they were on the wire, not put together again.
    """
    lines = stream.decode().splitlines()
    data = [line[5:].strip() for line in lines if line.startswith("data:")]
    decode = json.JSONDecoder().decode
    chunks = [decode(text) for text in data if text.startswith("{")]
    features = {
        "usage": _usage_places(chunks),
        "null usage": any("usage" in chunk and chunk["usage"] is None for chunk in chunks),
        "object": all("object" in chunk for chunk in chunks if chunk.get("choices")),
        "empty first": chunks[0].get("choices") == [],
        "null finish reason": _any_null_finish(chunks),
        **_roles(chunks),
        **_calls(chunks),
    }
    if not framed:
        return features
    return features | {
        "end marker": "[DONE]" in data,
        "comments": any(line.startswith(":") for line in lines),
        "CRLF": b"\r\n" in stream,
        "spaces": any(text.startswith('{"') and '": ' in text[:40] for text in data),
    }


def _usage_places(chunks: list[dict[str, Any]]) -> frozenset[str]:
    """Where usage is; on every chunk, that is said of the first one."""
    places = set()
    told = [chunk for chunk in chunks if chunk.get("usage")]
    for chunk in told:
        if not chunk.get("choices"):
            places.add("alone" if "choices" in chunk else "bare")
    beside = [chunk for chunk in told if chunk.get("choices")]
    spoken = [chunk for chunk in chunks if chunk.get("choices")]
    if len(beside) == len(spoken) > 1:
        places.add("every")
    elif beside:
        places.add("choice")
    if any(choice.get("usage") for chunk in spoken for choice in chunk["choices"]):
        places.add("in choice")
    if any((chunk.get("x_groq") or {}).get("usage") for chunk in chunks):
        places.add("x_groq")
    return frozenset(places)


def _any_null_finish(chunks: list[dict[str, Any]]) -> bool:
    choices = [choice for chunk in chunks for choice in chunk.get("choices") or ()]
    return any("finish_reason" in choice and not choice["finish_reason"] for choice in choices)


def _roles(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    deltas = [
        choice["delta"]
        for chunk in chunks
        for choice in chunk.get("choices") or ()
        if "delta" in choice
    ]
    spoken = [delta for delta in deltas if delta.get("content")]
    if len(spoken) < 2:
        return {}
    return {"role later": [delta.get("role", "absent") for delta in spoken][1]}


def _calls(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    entries = [
        entry
        for chunk in chunks
        for choice in chunk.get("choices") or ()
        for entry in (choice.get("delta") or {}).get("tool_calls") or ()
    ]
    if not entries:
        return {}
    return {
        "call index": "index" in entries[0],
        "whole calls": all((entry.get("function") or {}).get("name") for entry in entries),
    }
