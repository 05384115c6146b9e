"""Recorded calls about images and sound, and the streams of them of which none was recorded.

A file in a recorded form was cut short, or the form as a whole was: it is given its end. Streams of
images and of speech are built as ``apis.md`` sections 7 and 8 have them, around recorded images and
sound; their ids begin with ``built``.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

from tests.corpus.oracle import parse_json
from tests.corpus.recordings import Recording, read_fields, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = (
    "load_images",
    "load_speech",
    "load_transcriptions",
    "load_translations",
)

_PREFIX = "base64:"
_FORM = (
    b'--built\r\nContent-Disposition: form-data; name="%b"; filename="a.bin"\r\n'
    b"Content-Type: application/octet-stream\r\n\r\n\x00\r\n--buil\xff\r\n"
    b'--built\r\nContent-Disposition: form-data; name="model"\r\n\r\nm-1\r\n%b--built--\r\n'
)
_STREAM = b'--built\r\nContent-Disposition: form-data; name="stream"\r\n\r\ntrue\r\n'
_EVENTS = ((b"content-type", b"text/event-stream; charset=utf-8"),)
_COUNTS = {"input_tokens": 14, "output_tokens": 272, "total_tokens": 286}
_USAGE = _COUNTS | {"input_tokens_details": {"image_tokens": 0, "text_tokens": 14}}


def load_images(folder: Path) -> Iterator[Recording]:
    """Every call for images, and streams of them."""
    plain = [
        *_load(folder, "images.generations", json.dumps({"model": "m-1", "prompt": "hi"}).encode()),
        *_load(folder, "images.edits", _FORM % (b"image", b"")),
        *_load(folder, "images.variations", _FORM % (b"image", b"")),
    ]
    yield from plain
    images = [
        image
        for recording in plain
        for image in (parse_json(recording.body) or {}).get("data") or []
        if "b64_json" in image
    ]
    yield from _build_image_streams([image["b64_json"] for image in images])


def load_speech(folder: Path) -> Iterator[Recording]:
    """Every call for speech, and streams of it."""
    for recording in _load(folder, "audio.speech", b'{"model": "m-1", "input": "hi"}'):
        yield recording
        yield _build_speech_stream(recording)


def load_transcriptions(folder: Path) -> Iterator[Recording]:
    """Every transcription; those in bare text, and Mistral's streams, are built."""
    asked = _FORM % (b"file", b"")
    yield from _load(folder, "audio.transcriptions", asked)
    for kind, text in (
        ("plain", "Ruby is a programming language.\n"),
        ("srt", "1\n00:00:00,000 --> 00:00:03,100\nRuby ist schön.\n\n"),
        ("vtt", "WEBVTT\n\n00:00.000 --> 00:03.100\n[Music]\n"),
    ):
        yield Recording(
            id=f"built/transcription-{kind}",
            target=b"/v1/audio/transcriptions",
            request=asked,
            content_type=find_type(asked),
            head=((b"content-type", b"text/plain; charset=utf-8"),),
            body=text.encode(),
        )
    words = [{"type": "transcription.text.delta", "text": word} for word in ("Rub", "y ", "é.")]
    end = {"text": "Ruby é.", "model": "voxtral", "language": "fr", "segments": []}
    usage = {"prompt_audio_seconds": 3, "prompt_tokens": 5, "completion_tokens": 4}
    yield _build(
        "transcription-mistral",
        b"/v1/audio/transcriptions",
        _FORM % (b"file", _STREAM),
        [
            {"type": "transcription.language", "audio_language": "fr"},
            *words,
            {"type": "transcription.segment", "text": "Ruby é.", "start": 0, "end": 3.1},
            {"type": "transcription.done", **end, "usage": usage | {"total_tokens": 9}},
        ],
    )


def load_translations(folder: Path) -> Iterator[Recording]:
    """Every translation."""
    return _load(folder, "audio.translations", _FORM % (b"file", b""))


def _load(folder: Path, api: str, asked: bytes) -> Iterator[Recording]:
    for exchange in read_lines(folder, api):
        request, response = exchange["request"], exchange["response"]
        streamed = asked.replace(b"--built--", _STREAM + b"--built--")
        body = _close_form(_read(request["body"])) or (streamed if exchange["streaming"] else asked)
        head = read_fields(response["headers"])
        kind = dict(head).get(b"content-type", b"")
        answer = _read(response["body"])
        if kind.startswith(b"audio/") and isinstance(response["body"], str):
            answer = base64.b64decode(answer)  # as its source kept it
        yield Recording(
            id=exchange["id"],
            target=request["path"].encode(),
            request=body,
            content_type=find_type(body),
            status=response["status"],
            head=head,
            body=answer,
        )


def _read(body: Any) -> bytes:
    """The bytes of a body, as far as they were recorded."""
    if isinstance(body, dict):
        text = body["base64"]
    elif body.startswith(_PREFIX):
        text = body.removeprefix(_PREFIX)
    else:
        return bytes(body.encode())
    return base64.b64decode(text[: len(text) // 4 * 4])


def _close_form(body: bytes) -> bytes:
    """A form with its end, where that was cut off."""
    if not body.startswith(b"--"):
        return body
    delimiter = body.partition(b"\r\n")[0]
    if re.search(re.escape(b"\r\n" + delimiter) + rb"--\s*\Z", body):
        return body
    return body + b"\r\n" + delimiter + b"--\r\n"


def find_type(body: bytes) -> bytes:
    """The content type of a request."""
    if not body.startswith(b"--"):
        return b"application/json"
    return b"multipart/form-data; boundary=" + body.partition(b"\r\n")[0].removeprefix(b"--")


def _build(
    name: str, target: bytes, request: bytes, events: list[dict[str, Any]], *, end: bytes = b""
) -> Recording:
    """A stream of which none was recorded."""
    body = b"".join(
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode())
        for event in events
    )
    return Recording(
        id=f"built/{name}",
        target=target,
        request=request,
        content_type=find_type(request),
        head=_EVENTS,
        body=body + end,
    )


def _build_image_streams(images: list[str]) -> Iterator[Recording]:
    """One image with its partial ones; an edit; three of a large one; an error; an empty stream."""
    head = {"created_at": 1_795_456_987, "size": "1024x1024", "quality": "low"}
    head |= {"background": "opaque", "output_format": "png"}
    target, edits = b"/v1/images/generations", b"/v1/images/edits"

    def ask(**members: Any) -> bytes:
        asked = {"model": "gpt-image-1", "prompt": "a cat", "stream": True, **members}
        return json.dumps(asked).encode()

    def partial(kind: str, image: str, index: int) -> dict[str, Any]:
        kind = f"image_{kind}.partial_image"
        return {"type": kind, **head, "b64_json": image, "partial_image_index": index}

    def finished(kind: str, image: str, **usage: Any) -> dict[str, Any]:
        return {"type": f"image_{kind}.completed", **head, "b64_json": image, **usage}

    image = max(images, key=len)
    long = image + "A" * (60_000 - len(image))
    partials = [partial("generation", image, index) for index in range(2)]
    whole = finished("generation", image, usage=_USAGE)
    yield _build("image", target, ask(partial_images=2), [*partials, whole])
    yield _build("image-long", target, ask(), [finished("generation", long, usage=_USAGE)])
    form = _FORM % (b"image[]", _STREAM)
    edit = finished("edit", images[0], usage=_USAGE)
    yield _build("image-edit", edits, form, [partial("edit", long, 0), edit])
    several = [finished("generation", image), finished("generation", long), whole]
    yield _build("image-several", target, ask(n=3), several)
    yield _build("image-fewer", target, ask(n=3), several[:2])
    error = {"message": "Rejected by the safety system.", "code": "moderation_blocked"}
    failed = {"type": "error", "error": error | {"type": "image_generation_user_error"}}
    yield _build("image-error", target, ask(), [partials[0], failed])
    yield _build("image-none", target, ask(), [partials[0]])


def _build_speech_stream(recording: Recording) -> Recording:
    """The sound of a recording in events."""
    sound, size = recording.body, 3_001
    pieces = [sound[start : start + size] for start in range(0, len(sound), size)]
    events: list[dict[str, Any]] = [
        {"type": "speech.audio.delta", "audio": base64.b64encode(piece).decode()}
        for piece in pieces
    ]
    events.append({"type": "speech.audio.done", "usage": _COUNTS})
    asked = parse_json(recording.request) | {"stream_format": "sse"}
    request = json.dumps(asked).encode()
    return _build(f"speech/{recording.id}", recording.target, request, events)
