"""Images, speech, transcriptions and translations that nobody recorded.

See ``docs/contract/apis.md#images`` and ``docs/contract/apis.md#sound``.
"""

from __future__ import annotations

import base64
from typing import Any

from tests.corpus.built.wire import FORM, STREAM_FIELD, Built, write_events

__all__ = ("IMAGES", "SPEECH", "TRANSCRIPTIONS", "TRANSLATIONS")

_COUNTS = {"input_tokens": 14, "output_tokens": 272, "total_tokens": 286}
_ERROR = {"type": "image_generation_user_error", "code": "moderation_blocked", "message": "No."}
_FAILURE = {"type": "error", "error": _ERROR}
_KEY = {"error": {"message": "Incorrect API key", "type": "invalid_request_error"}}

# --- images

_IMAGE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 3).decode()
_LONG = _IMAGE + "A" * 60_000
_OF_ALL = {"size": "1024x1024", "quality": "low", "background": "opaque", "output_format": "png"}
_USAGE = _COUNTS | {"input_tokens_details": {"image_tokens": 0, "text_tokens": 14}}
_URL = "https://images.example/a.png?se=2026-11-24T18%3A00Z&sig=c4Qx"


def _finish(image: str, kind: str = "generation", **usage: Any) -> dict[str, Any]:
    head = {"type": f"image_{kind}.completed", "created_at": 1_795_456_987, **_OF_ALL}
    return head | {"b64_json": image} | usage


def _partial(image: str, index: int, kind: str = "generation") -> dict[str, Any]:
    whole = _finish(image, kind, partial_image_index=index)
    return whole | {"type": f"image_{kind}.partial_image"}


def _draw(*events: dict[str, Any], **asked: Any) -> Built:
    return Built(write_events(*events), {"stream": True, **asked})


_PARTIALS = [_partial(_IMAGE, index) for index in range(2)]
_LAST = _finish(_IMAGE, usage=_USAGE)
IMAGES = {
    "an image and two before it": _draw(*_PARTIALS, _LAST, partial_images=2),
    "a large image": _draw(_finish(_LONG, usage=_USAGE)),
    "an edit": Built(
        write_events(_partial(_LONG, 0, "edit"), _finish(_IMAGE, "edit", usage=_USAGE)),
        target="/v1/images/edits",
        form=FORM % (b"image[]", STREAM_FIELD),
    ),
    "three images": _draw(_finish(_IMAGE), _finish(_LONG), _LAST, n=3),
    "two images of three": _draw(_finish(_IMAGE), _finish(_LONG), n=3),
    "an error before an image": _draw(_PARTIALS[0], _FAILURE),
    "an error behind an image": _draw(_finish(_IMAGE), _FAILURE, n=2),
    "no image": _draw(_PARTIALS[0]),
    "an address": Built({"created": 1, "data": [{"url": _URL, "revised_prompt": "A grey cat"}]}),
    "images refused by their status": Built({"error": _ERROR}, status=400),
}

# --- speech

_SOUND = b"ID3\x04\0" + bytes(range(256)) * 4
_SPOKEN = {"stream_format": "sse"}


def _sound(member: str, size: int = 301) -> list[dict[str, Any]]:
    pieces = [_SOUND[at : at + size] for at in range(0, len(_SOUND), size)]
    kind = "speech.audio.delta"
    return [{"type": kind, member: base64.b64encode(piece).decode()} for piece in pieces]


_SPOKEN_END = {"type": "speech.audio.done", "usage": _COUNTS}
_BASE64 = base64.b64encode(_SOUND).decode()
SPEECH = {
    "sound": Built(_SOUND, kind="audio/mpeg"),
    "sound in events": Built(write_events(*_sound("audio"), _SPOKEN_END), _SPOKEN),
    "Mistral's sound": Built({"audio_data": _BASE64}),
    "Mistral's events": Built(
        write_events(*_sound("audio_data"), _SPOKEN_END), {"stream": True, "model": "voxtral-m"}
    ),
    "an error within sound": Built(write_events(*_sound("audio"), _FAILURE), _SPOKEN),
    "sound without an end": Built(write_events(*_sound("audio")), _SPOKEN),
    "speech refused by its status": Built(_KEY, status=401),
    "speech refused as FastAPI does": Built({"detail": "No such voice"}, status=422),
}

# --- transcriptions

_STREAMED = FORM % (b"file", STREAM_FIELD)
_DELTAS: list[dict[str, Any]] = [
    {"type": "transcript.text.delta", "delta": word, "logprobs": []} for word in ("Rub", "y ", "é.")
]
_HEARD = {
    "type": "tokens",
    **_COUNTS,
    "input_token_details": {"text_tokens": 0, "audio_tokens": 14},
}
_WORDS = [{"type": "transcription.text.delta", "text": word} for word in ("Rub", "y ", "é.")]
_SECONDS = {"prompt_audio_seconds": 3, "prompt_tokens": 5, "completion_tokens": 4}
_MISTRALS: list[dict[str, Any]] = [
    {"type": "transcription.language", "audio_language": "fr"},
    *_WORDS,
    {"type": "transcription.segment", "text": "Ruby é.", "start": 0, "end": 3.1},
    {
        "type": "transcription.done",
        "text": "Ruby é.",
        "model": "voxtral-m",
        "language": "fr",
        "segments": [],
        "usage": _SECONDS | {"total_tokens": 9},
    },
]
_AS_FORM: dict[str, Any] = {"kind": "text/plain; charset=utf-8", "form": FORM % (b"file", b"")}


_HEARD_ALL = {"type": "transcript.text.done", "text": "Ruby é!", "usage": _HEARD}
_SPEAKERS = [
    {"type": "transcript.text.segment", "id": f"seg_{speaker}", "speaker": speaker, "text": text}
    for speaker, text in (("A", "Ruby"), ("B", "é!"))
]


def _hear(*events: dict[str, Any]) -> Built:
    return Built(write_events(*events), form=_STREAMED)


TRANSCRIPTIONS = {
    "words": Built({"text": "Ruby é.", "usage": _HEARD}),
    "plain text": Built(b"Ruby is a programming language.\n", **_AS_FORM),
    "SRT": Built("1\n00:00:00,000 --> 00:00:03,100\nRuby ist schön.\n\n".encode(), **_AS_FORM),
    "WebVTT": Built(b"WEBVTT\n\n00:00.000 --> 00:03.100\n[Music]\n", **_AS_FORM),
    "words in pieces": Built(write_events(*_DELTAS, _HEARD_ALL), {"stream": True}),
    "words of speakers": _hear(*_DELTAS, *_SPEAKERS, _HEARD_ALL),
    "Mistral's words in pieces": _hear(*_MISTRALS),
    "words in pieces, and [DONE]": Built(
        write_events(*_DELTAS, _HEARD_ALL) + b"data: [DONE]\n\n", form=_STREAMED
    ),
    "words in one piece, pieces asked for": Built({"text": "Ruby é."}, form=_STREAMED),
    "an error within words": _hear(*_DELTAS[:2], _FAILURE),
    "words without an end": _hear(*_DELTAS),
    "a recording refused by its status": Built(_KEY, status=401),
}
TRANSLATIONS = {
    "words": Built({"text": "Ruby is beautiful."}),
    "a recording refused by its status": Built(_KEY, status=401),
}
