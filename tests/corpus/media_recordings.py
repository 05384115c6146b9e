"""Recorded calls about images and sound.

A file in a recorded form was cut short, or the form as a whole was: it is given its end.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

from tests.corpus.built.wire import FORM, STREAM_FIELD, find_type
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


def load_images(folder: Path) -> Iterator[Recording]:
    """Every call for images."""
    asked = json.dumps({"model": "m-1", "prompt": "hi"}).encode()
    yield from _load(folder, "images.generations", asked)
    yield from _load(folder, "images.edits", FORM % (b"image", b""))
    yield from _load(folder, "images.variations", FORM % (b"image", b""))


def load_speech(folder: Path) -> Iterator[Recording]:
    """Every call for speech."""
    return _load(folder, "audio.speech", b'{"model": "m-1", "input": "hi"}')


def load_transcriptions(folder: Path) -> Iterator[Recording]:
    """Every transcription."""
    return _load(folder, "audio.transcriptions", FORM % (b"file", b""))


def load_translations(folder: Path) -> Iterator[Recording]:
    """Every translation."""
    return _load(folder, "audio.translations", FORM % (b"file", b""))


def _load(folder: Path, api: str, asked: bytes) -> Iterator[Recording]:
    for exchange in read_lines(folder, api):
        request, response = exchange["request"], exchange["response"]
        streamed = asked.replace(b"--built--", STREAM_FIELD + b"--built--")
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
