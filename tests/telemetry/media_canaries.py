"""Calls about images and sound with a canary in every field.

See ``docs/contract/apis.md#images`` and ``docs/contract/apis.md#sound``.

Forms stand here as they reach telemetry: as their fields. What is made of a prompt has its word.
"""

from __future__ import annotations

import base64
from typing import Any

from tests.telemetry.canaries import IMAGE_URL, body, plant

__all__ = (
    "EDIT_ASKED",
    "IMAGES_ANSWERED",
    "IMAGES_ASKED",
    "IMAGES_WORDS",
    "SPEECH_ANSWERED",
    "SPEECH_ASKED",
    "SPEECH_WORDS",
    "TRANSCRIPTION_ANSWERED",
    "TRANSCRIPTION_ASKED",
    "TRANSCRIPTION_WORDS",
    "WRITTEN_ASKED",
    "stream_images",
    "stream_speech",
    "stream_transcription",
)

_OTHERS: dict[str, Any] = {
    "style": plant("stop"),
    "user": plant("user"),
    "metadata": {"k": plant("metadata"), "session_id": plant("session")},
    "unheard_of": {plant("oddkey"): plant("oddmember")},
}
_OTHER_WORDS = {"stop", "user", "metadata", "session", "oddkey", "oddmember"}
_USAGE = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7, "note": plant("usage")}

IMAGES_ASKED: dict[str, Any] = {
    "model": "m-1",
    "prompt": plant("part"),
    "images": [{"image_url": IMAGE_URL}, {"file_id": plant("image")}],
    "mask": {"image_url": IMAGE_URL},
    **_OTHERS,
}
EDIT_ASKED: dict[str, Any] = {
    "model": "m-1",
    "prompt": plant("part"),
    "n": "1",
    "image[]": [
        {"filename": f"{plant('image')}.png", "content_type": "image/png", "bytes": 9},
        {"filename": plant("image"), "bytes": 9},
    ],
    "mask": {"filename": plant("image"), "content_type": "image/png", "bytes": 9},
    **_OTHERS,
}
IMAGES_ANSWERED: dict[str, Any] = {
    "created": 1,
    "data": [
        {"revised_prompt": plant("part"), "url": f"https://x.test/{plant('oddanswer')}.png"},
        {"b64_json": base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(), "note": plant("content")},
    ],
    "usage": _USAGE,
    "unheard_of": plant("oddbody"),
}
IMAGES_WORDS = _OTHER_WORDS | {"part", "image", "oddanswer", "content", "usage", "oddbody"}

SPEECH_ASKED: dict[str, Any] = {
    "model": "m-1",
    "input": plant("part"),
    "voice": {"id": plant("stop")},
    "instructions": plant("stop"),
    "ref_audio": plant("audio"),
    **_OTHERS,
}
SPEECH_ANSWERED = {"audio_data": "AAAA", "usage": _USAGE, "unheard_of": plant("oddbody")}
SPEECH_WORDS = _OTHER_WORDS | {"part", "audio"}

TRANSCRIPTION_ASKED: dict[str, Any] = {
    "model": "m-1",
    "file": {"filename": f"{plant('file')}.mp3", "content_type": "audio/mpeg", "bytes": 9},
    "prompt": plant("part"),
    "timestamp_granularities[]": [plant("stop")],
    **_OTHERS,
}
WRITTEN_ASKED: dict[str, Any] = {
    "model": "m-1",
    "input_audio": {"data": plant("audio"), "format": plant("audio")},
    "file_url": f"https://x.test/{plant('file')}",
    **_OTHERS,
}
TRANSCRIPTION_ANSWERED: dict[str, Any] = {
    "text": plant("content"),
    "segments": [{"text": plant("oddanswer")}],
    "usage": _USAGE,
    "unheard_of": plant("oddbody"),
}
TRANSCRIPTION_WORDS = _OTHER_WORDS | {"part", "file", "content", "oddanswer", "usage", "oddbody"}


def _event(kind: str, members: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), body({"type": kind, **members}))


def stream_images(answer: dict[str, Any]) -> bytes:
    """The same answer as events, an unfinished image first."""
    partial = _event("image_edit.partial_image", {"b64_json": plant("partial")})
    rest = {name: answer[name] for name in ("usage", "unheard_of")}
    return partial + b"".join(
        _event("image_edit.completed", image | rest) for image in answer["data"]
    )


def stream_speech(usage: dict[str, Any] = _USAGE) -> bytes:
    """Sound, and what it took."""
    sound = base64.b64encode(plant("sound").encode()).decode()
    return _event("speech.audio.delta", {"audio": sound}) + _event(
        "speech.audio.done", {"usage": usage}
    )


def stream_transcription(answer: dict[str, Any]) -> bytes:
    """The same answer as events; the last one has other words than those before it."""
    end = {name: value for name, value in answer.items() if name != "segments"}
    return (
        _event("transcript.text.delta", {"delta": "Hm."})
        + _event("transcript.text.segment", answer["segments"][0])
        + _event("transcript.text.done", end)
    )
