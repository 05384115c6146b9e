"""Sound in the messages of Live: it is counted, and taken out of what is kept.

If the operator asks for it, sound is kept beside the words that were spoken, in their part: as
``inlineData``, with ``missingBytes`` if not all of it was kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from codec.apis.gemini.names import both, member_of
from codec.media import count_sound
from codec.members import object_of, string_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codec.kept_sound import KeptSound
    from codec.text.jsontext import JsonObject

__all__ = (
    "INPUT_RATE",
    "OUTPUT_RATE",
    "SoundCount",
    "SpokenSound",
    "drop_data",
    "put_sound",
    "take_sound",
)

INPUT_RATE: Final = 16_000
"""Samples a second of what the client sends, if its type names no rate."""

OUTPUT_RATE: Final = 24_000
"""Samples a second of what the model says; Vertex AI leaves the rate out."""

_SAMPLE_BYTES: Final = 2
_MAX_TYPE_CHARS: Final = 256  # of the type of a sound that is kept
_RATE: Final = re.compile(r"rate=([1-9]\d{2,5})\b").search
_INLINE: Final = both("inlineData")


@dataclass(slots=True)
class SoundCount:
    """How much sound was sent.

    Attributes:
        rate: samples a second, where a type names no other.
        seconds: ``None`` if some of it is not plain samples.
        is_known: everything was counted.
    """

    rate: int
    size_bytes: int = 0
    seconds: float | None = 0.0
    is_known: bool = True

    def add(self, blob: Mapping[str, Any]) -> bool:
        """Count a blob if it is sound, and tell whether it is."""
        kind = string_of(member_of(blob, "mimeType")) or ""
        if not kind.lower().startswith("audio/"):
            return False
        size = count_sound(string_of(blob.get("data")) or "")
        self.size_bytes += size
        named = _RATE(kind)
        rate = self.rate if named is None else int(named[1])
        is_plain = kind.lower().startswith("audio/pcm")
        if self.seconds is not None:
            self.seconds = self.seconds + size / rate / _SAMPLE_BYTES if is_plain else None
        return True

    def describe(self) -> JsonObject | None:
        """Say how much it was; ``None`` if there was none, or if not all was counted."""
        if not self.size_bytes or not self.is_known:
            return None
        return {
            "bytes": self.size_bytes,
            "seconds": None if self.seconds is None else round(self.seconds, 3),
        }


def take_sound(part: JsonObject, count: SoundCount) -> JsonObject:
    """Count the sound of a part, and leave out its data."""
    for name in _INLINE & part.keys():
        if count.add(object_of(part[name])):
            return drop_data(part)
    return part


def drop_data(part: JsonObject) -> JsonObject:
    """Leave out the data of a part, and keep what says of which kind they are."""
    blobs = {
        name: {key: value for key, value in object_of(part[name]).items() if key != "data"}
        for name in _INLINE & part.keys()
    }
    return part | blobs


class SpokenSound:
    """The sound of one side that is kept. Not safe for concurrent calls.

    Args:
        kept: takes the sound.
        rate: samples a second, where a type names no other.
    """

    __slots__ = ("_kept", "_kind", "_rate")

    def __init__(self, kept: KeptSound, rate: int) -> None:
        self._kept = kept
        self._kind = ""
        self._rate = rate

    def __len__(self) -> int:
        """How many bytes are kept."""
        return len(self._kept)

    def add(self, blob: Mapping[str, Any]) -> None:
        """Add a blob of sound; of another type than the one before, it is all that is kept."""
        kind = (string_of(member_of(blob, "mimeType")) or "")[:_MAX_TYPE_CHARS]
        if self._kind not in {"", kind}:
            self._kept.forget()
        self._kind = kind
        self._kept.add(string_of(blob.get("data")) or "")

    def forget(self) -> None:
        """Forget what is kept; it is missing then."""
        self._kept.forget()

    def pop(self) -> JsonObject | None:
        """Return the sound as a blob, and begin another; ``None`` if nothing came."""
        kind = self._kind
        if kind.lower() == "audio/pcm":
            kind = f"{kind};rate={self._rate}"
        data, missing_bytes = self._kept.pop()
        if not data and not missing_bytes:
            return None
        blob: JsonObject = {"mimeType": kind, "data": data}
        return blob | ({"missingBytes": missing_bytes} if missing_bytes else {})


def put_sound(parts: Sequence[Any], blob: JsonObject) -> list[Any]:
    """Put a sound beside the first words that were spoken, or in a part without words."""
    places = (at for at, part in enumerate(parts) if object_of(part).get("transcript") is True)
    if (at := next(places, None)) is None:
        return [*parts, {"text": "", "transcript": True, "inlineData": blob}]
    return [*parts[:at], parts[at] | {"inlineData": blob}, *parts[at + 1 :]]
