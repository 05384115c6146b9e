"""Sound and files in a request, in the members that OpenAI gives them in all its APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.members import text_of
from codec.parts import Media

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("read_audio", "read_file")

_URL_SCHEMES = ("data:", "https:", "http:")


def read_audio(audio: JsonObject) -> Media:
    """Read sound that stands in a request."""
    form = text_of(audio.get("format"))
    mime_type = "audio/mpeg" if form == "mp3" else f"audio/{form}"  # RFC 3003
    data = text_of(audio.get("data"))
    return Media(kind="audio", data=data, mime_type=mime_type if form else None)


def read_file(file: JsonObject) -> Media:
    """Read a file that stands in a request, or that it points to."""
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
