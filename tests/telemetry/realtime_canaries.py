"""A response of a Realtime session with a canary in every field.

See ``docs/apis.md#realtime``.
"""

from __future__ import annotations

from typing import Any

from tests.telemetry.canaries import body, plant
from tests.telemetry.response_canaries import RESPONSES_ANSWERED, RESPONSES_ASKED

__all__ = ("REALTIME_ASKED", "REALTIME_WORDS", "stream_realtime")

_SPOKEN = {
    "id": "u-1",
    "type": "message",
    "role": "user",
    "content": [{"type": "input_audio", "transcript": plant("part")}],
}
_CALLED = RESPONSES_ANSWERED["output"][2]

REALTIME_ASKED: dict[str, Any] = {
    **{name: RESPONSES_ASKED[name] for name in ("model", "instructions", "tools", "tool_choice")},
    "audio": {"input": {"transcription": {"model": "m-2", "prompt": plant("format")}}},
    "input": [_SPOKEN, *RESPONSES_ASKED["input"][2:]],
    "metadata": {"k": plant("metadata")},
    "session_id": plant("session"),
    "input_audio": {"bytes": 4_800, "seconds": 0.1},
    "unheard_of": {plant("oddkey"): plant("oddmember")},
}
REALTIME_WORDS = {
    *("system", "part", "arguments", "result", "toolname", "description", "schema", "chosen"),
    *("format", "metadata", "session", "oddkey", "oddmember"),
    *("content", "called", "usage", "oddbody"),
}


def stream_realtime() -> bytes:
    """Its events: it repeats of its request what OpenAI's do."""
    spoken = {
        "id": "a-1",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_audio", "transcript": plant("content")}],
    }
    answer = {
        "id": "resp-1",
        "object": "realtime.response",
        "status": "completed",
        "output": [spoken, _CALLED],
        "metadata": REALTIME_ASKED["metadata"],
        "usage": RESPONSES_ANSWERED["usage"],
        "unheard_of": plant("oddbody"),
    }
    transcribed = "conversation.item.input_audio_transcription.completed"
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": answer | {"status": "in_progress", "output": []}},
        {"type": transcribed, "item_id": "u-1", "content_index": 0, "transcript": plant("part")},
        {
            "type": "response.output_audio_transcript.delta",
            "response_id": "resp-1",
            "item_id": "a-1",
            "output_index": 0,
            "content_index": 0,
            "delta": plant("content"),
        },
        {"type": "response.done", "response": answer},
    ]
    return b"".join(b"data: " + body(event) + b"\n\n" for event in events)
