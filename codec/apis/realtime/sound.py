"""Sound in the messages of Realtime: it is counted, and taken out of what is kept.

If the operator asks for it, sound is kept in the part that it belongs to: as ``audio``, which on
the wire is base64, with ``data``, ``format``, and ``missing_bytes`` if not all of it was kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codec.media import count_sound
from codec.members import list_of, object_of, string_of
from codec.text.integers import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codec.kept_sound import KeptSound
    from codec.text.jsontext import JsonObject

__all__ = (
    "count_seconds",
    "find_rate",
    "find_sound",
    "make_sound",
    "name_format",
    "put_sound",
    "take_sound",
)

_PCM_RATE: Final = 24_000
"""Samples a second of ``pcm16`` where nothing names another rate; OpenAI has no other."""

_SAMPLE_BYTES: Final = 2
_G711_RATE: Final = 8_000
"""Samples a second of G.711, a byte each, by either law."""

_G711: Final = {
    "audio/pcmu": "pcmu",
    "audio/pcma": "pcma",
    "g711_ulaw": "pcmu",
    "g711_alaw": "pcma",
}
"""Forms of G.711, and their names in MIME types (RFC 3551, section 4.5.14)."""

_PCM: Final = frozenset({"audio/pcm", "pcm16"})


def find_rate(settings: Mapping[str, Any], side: str) -> int | None:
    """Find how many bytes a second of sound has; ``None`` if the settings do not name a format.

    Args:
        settings: of a session, or of a response.
        side: ``input`` or ``output``.

    >>> find_rate({"audio": {"output": {"format": {"type": "audio/pcm", "rate": 24000}}}}, "output")
    48000
    >>> find_rate({"input_audio_format": "g711_ulaw"}, "input")
    8000
    """
    kind, rate = _find_form(settings, side)
    if kind in _G711:
        return _G711_RATE
    return _SAMPLE_BYTES * (rate or _PCM_RATE) if kind in _PCM else None


def name_format(settings: Mapping[str, Any], side: str) -> str | None:
    """Name the format of sound as its MIME type does, behind ``audio/``; ``None`` if not known.

    >>> name_format({"output_audio_format": "pcm16"}, "output")
    'pcm;rate=24000'
    """
    kind, rate = _find_form(settings, side)
    if kind in _PCM:
        return f"pcm;rate={rate or _PCM_RATE}"
    return _G711.get(kind or "")


def _find_form(settings: Mapping[str, Any], side: str) -> tuple[str | None, int | None]:
    """Find the name of a format in the settings, and how many samples a second has."""
    form = object_of(object_of(settings.get("audio")).get(side)).get("format")
    kind, rate = string_of(form), None
    if isinstance(form, dict):
        kind, rate = string_of(form.get("type")), count_of(form.get("rate"))
    if kind is None:
        kind = string_of(settings.get(f"{side}_audio_format"))
        rate = count_of(settings.get(f"{side}_audio_sampling_rate"))  # Azure
    return kind, rate


def count_seconds(size_bytes: int | None, rate: int | None) -> float | None:
    """Count the seconds of so many bytes of sound, in thousandths."""
    return None if size_bytes is None or not rate else round(size_bytes / rate, 3)


def take_sound(item: JsonObject) -> tuple[JsonObject, int]:
    """Take the sound out of an item; return the item without it, and how many bytes it had."""
    content, size = item.get("content"), 0
    if not isinstance(content, list):
        return item, 0
    parts: list[Any] = []
    for part in content:
        sound = object_of(part).get("audio")
        size += count_sound(string_of(sound) or "")
        parts.append(_without_sound(part) if isinstance(sound, str | dict) else part)
    return item | {"content": parts}, size


def _without_sound(part: JsonObject) -> JsonObject:
    return {name: value for name, value in part.items() if name != "audio"}


def make_sound(kept: KeptSound, form: str | None) -> JsonObject | None:
    """Make the member of a part of a sound that has ended; ``None`` if nothing came."""
    data, missing_bytes = kept.pop()
    if not data and not missing_bytes:
        return None
    sound: JsonObject = {"data": data} if form is None else {"data": data, "format": form}
    return sound | ({"missing_bytes": missing_bytes} if missing_bytes else {})


def put_sound(item: JsonObject, sound: JsonObject | None, at: int = 0) -> JsonObject:
    """Put kept sound into a part of an item; a message may lack the part, if it was broken off."""
    parts = [*list_of(item.get("content"))]
    if sound is None or item.get("type") != "message":
        return item
    if at < len(parts):
        parts[at] = object_of(parts[at]) | {"audio": sound}
    else:
        parts.append({"type": "output_audio", "audio": sound})
    return item | {"content": parts}


def find_sound(item: Any) -> JsonObject | None:
    """Find the sound that was put into the first part of an item."""
    first = object_of(next(iter(list_of(object_of(item).get("content"))), None))
    return object_of(first.get("audio")) or None
