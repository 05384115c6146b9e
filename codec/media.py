"""Sound, images and files, in the members that OpenAI and gateways give them."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from codec.members import list_of, object_of, text_of
from codec.parts import MAX_READ_PARTS, Media
from codec.text.base64_text import MAX_KEPT_CHARS

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("count_sound", "read_audio", "read_file", "read_made_images", "read_spoken")

_is_base64 = re.compile(r"[A-Za-z0-9+/]+={0,2}").fullmatch
_URL_SCHEMES = ("data:", "https:", "http:")


def count_sound(base64: str) -> int:
    """Count the bytes that a text is base64 of.

    >>> count_sound("aGVsbG8=")
    5
    """
    return len(base64.rstrip("=")) * 3 // 4


def read_audio(audio: JsonObject) -> Media:
    """Read sound that stands in a request."""
    form = text_of(audio.get("format"))
    mime_type = "audio/mpeg" if form == "mp3" else f"audio/{form}"  # RFC 3003
    data = text_of(audio.get("data"))
    return Media(kind="audio", data=data, mime_type=mime_type if form else None)


def read_file(file: JsonObject) -> Media:
    """Read a file in a request, or one that the request refers to."""
    data = text_of(file.get("file_data"))
    is_url = data is not None and data[:8].lower().startswith(_URL_SCHEMES)
    header = data[: data.find(",")] if data and is_url and data[:5].lower() == "data:" else ""
    return Media(
        kind="document",
        url=data if is_url else None,
        data=None if is_url else data,
        mime_type=header[5:].partition(";")[0] or None,  # RFC 2397
        name=text_of(file.get("filename")),
        file_id=text_of(file.get("file_id")),
    )


def read_spoken(audio: JsonObject) -> Media | None:
    """Read the sound of an answer; ``None`` if it says nothing.

    Only the request says what form the sound has. The data are left out if they are long, or if
    they were joined from pieces with padding at the end of each.
    """
    data = text_of(audio.get("data"))
    if data is not None and (len(data) > MAX_KEPT_CHARS or not _is_base64(data)):
        data = None
    audio_id, transcript = text_of(audio.get("id")), text_of(audio.get("transcript"))
    if data is None and audio_id is None and transcript is None:
        return None
    return Media(
        kind="audio", data=data, file_id=audio_id, transcript=transcript, is_beside_content=True
    )


def read_made_images(images: Any) -> tuple[Media, ...]:
    """Read the ``images`` of an answer (OpenRouter, LiteLLM); equal images count once."""
    urls: dict[str, None] = {}  # a set that keeps its order
    for image in islice(list_of(images), MAX_READ_PARTS):
        where = image.get("image_url") if isinstance(image, dict) else None
        url = text_of(where) or text_of(object_of(where).get("url"))
        if url is not None:
            urls[url] = None
    return tuple([Media(kind="image", url=url, is_beside_content=True) for url in urls])
