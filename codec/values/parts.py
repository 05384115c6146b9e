"""The parts of a message's content, of every kind that chats have.

These are OpenAI's (text, image, audio, file, refusal), thinking (Mistral ``thinking``, Databricks
``reasoning``, ``docs/contract/wire.md#dialects``), video (Qwen ``video_url``), and any others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codec.members import object_of, string_of
from codec.values._members import Members, others, put

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.text.jsontext import JsonObject

__all__ = (
    "AudioPart",
    "ContentPart",
    "FilePart",
    "MediaPart",
    "OtherPart",
    "RefusalPart",
    "TextPart",
    "ThinkingPart",
    "decode_part",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """A part that is text.

    Attributes:
        extra: other members, such as ``cache_control``.
    """

    text: str
    extra: Members = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        """Return the part as OpenAI has it."""
        return {"type": "text", "text": self.text, **self.extra}


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalPart:
    """A refusal in an earlier answer of the assistant."""

    refusal: str
    extra: Members = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        """Return the part as OpenAI has it."""
        return {"type": "refusal", "refusal": self.refusal, **self.extra}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingPart:
    """The thoughts of a model.

    Attributes:
        text: all of the text.
        member: the member that has it: ``thinking`` or, for type ``reasoning``, ``summary``.
    """

    text: str
    member: str = "thinking"
    extra: Members = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        """Return the part as Mistral or Databricks has it."""
        kind = "thinking" if self.member == "thinking" else "reasoning"
        piece = "text" if self.member == "thinking" else "summary_text"
        return {"type": kind, self.member: [{"type": piece, "text": self.text}], **self.extra}


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaPart:
    """An image or a video.

    Attributes:
        kind: ``image_url`` or ``video_url``.
        url: a web address or a ``data:`` URL.
        detail: how closely the model looks at an image.
        media_extra: other members of the object that holds the URL.
    """

    url: str
    kind: str = "image_url"
    detail: str | None = None
    media_extra: Members = field(default_factory=dict)
    extra: Members = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        """Return the part as OpenAI has it, the URL in an object."""
        media = put({"url": self.url}, detail=self.detail) | dict(self.media_extra)
        return {"type": self.kind, self.kind: media, **self.extra}


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioPart:
    """Audio in base64, and its format (``wav``, ``mp3``)."""

    data: str | None = None
    format: str | None = None
    media_extra: Members = field(default_factory=dict)
    extra: Members = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        """Return the part as OpenAI has it."""
        audio = put({}, data=self.data, format=self.format) | dict(self.media_extra)
        return {"type": "input_audio", "input_audio": audio, **self.extra}


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A file: its data (a ``data:`` URL or base64) and name, or the id of one that was uploaded."""

    data: str | None = None
    name: str | None = None
    file_id: str | None = None
    media_extra: Members = field(default_factory=dict)
    extra: Members = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        """Return the part as OpenAI has it."""
        file = put({}, file_data=self.data, filename=self.name, file_id=self.file_id)
        return {"type": "file", "file": file | dict(self.media_extra), **self.extra}


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherPart:
    """A part of an unknown kind, or one that does not fit its kind, as it came."""

    native: Any

    def to_json(self) -> Any:
        """Return the value as it came."""
        return self.native


ContentPart = TextPart | RefusalPart | ThinkingPart | MediaPart | AudioPart | FilePart | OtherPart


def decode_part(value: Any) -> ContentPart:
    """Read one part of a content list, of any JSON type."""
    if isinstance(value, dict):
        kind = value.get("type")
        decode = _DECODERS.get(kind) if isinstance(kind, str) else None
        part = decode(value) if decode is not None else None
        if part is not None:
            return part
    return OtherPart(native=value)


def _decode_text(part: JsonObject) -> ContentPart | None:
    text = string_of(part.get("text"))
    return None if text is None else TextPart(text=text, extra=others(part, "type", "text"))


def _decode_refusal(part: JsonObject) -> ContentPart | None:
    text = string_of(part.get("refusal"))
    if text is None:
        return None
    return RefusalPart(refusal=text, extra=others(part, "type", "refusal"))


def _decode_thinking(part: JsonObject) -> ContentPart | None:
    member = "thinking" if part["type"] == "thinking" else "summary"
    value = part.get(member)
    pieces = [value] if isinstance(value, str) else value
    if not isinstance(pieces, list):
        return None
    texts = [piece.get("text") if isinstance(piece, dict) else piece for piece in pieces]
    text = "".join(text for text in texts if isinstance(text, str))
    return ThinkingPart(text=text, member=member, extra=others(part, "type", member))


def _decode_media(part: JsonObject) -> ContentPart | None:
    kind = part["type"]
    media = part.get(kind)
    known = {"url": media} if isinstance(media, str) else object_of(media)
    url = string_of(known.get("url"))
    if url is None:
        return None
    return MediaPart(
        kind=kind,
        url=url,
        detail=string_of(known.get("detail")),
        media_extra=others(known, "url", detail=known.get("detail")),
        extra=others(part, "type", kind),
    )


def _decode_audio(part: JsonObject) -> ContentPart | None:
    audio = part.get("input_audio")
    if not isinstance(audio, dict):
        return None
    data, kind = string_of(audio.get("data")), string_of(audio.get("format"))
    return AudioPart(
        data=data,
        format=kind,
        media_extra=others(audio, data=data, format=kind),
        extra=others(part, "type", "input_audio"),
    )


def _decode_file(part: JsonObject) -> ContentPart | None:
    file = part.get("file")
    if not isinstance(file, dict):
        return None
    names = ("file_data", "filename", "file_id")
    data, name, file_id = (string_of(file.get(member)) for member in names)
    return FilePart(
        data=data,
        name=name,
        file_id=file_id,
        media_extra=others(file, file_data=data, filename=name, file_id=file_id),
        extra=others(part, "type", "file"),
    )


_DECODERS: dict[str, Callable[[JsonObject], ContentPart | None]] = {
    "text": _decode_text,
    "refusal": _decode_refusal,
    "thinking": _decode_thinking,
    "reasoning": _decode_thinking,
    "image_url": _decode_media,
    "video_url": _decode_media,
    "input_audio": _decode_audio,
    "file": _decode_file,
}
