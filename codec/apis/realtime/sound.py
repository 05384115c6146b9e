"""Sound in the messages of Realtime: it is counted, and taken out of what is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codec.media import count_sound
from codec.members import object_of, string_of
from codec.text.integers import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codec.text.jsontext import JsonObject

__all__ = ("count_seconds", "find_rate", "take_sound")

_PCM_RATE: Final = 24_000
"""Samples a second of ``pcm16`` where nothing names another rate; OpenAI has no other."""

_SAMPLE_BYTES: Final = 2
_G711_RATE: Final = 8_000
"""Samples a second of G.711, a byte each, by either law."""

_G711: Final = frozenset({"audio/pcmu", "audio/pcma", "g711_ulaw", "g711_alaw"})
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
    form = object_of(object_of(settings.get("audio")).get(side)).get("format")
    kind, rate = string_of(form), None
    if isinstance(form, dict):
        kind, rate = string_of(form.get("type")), count_of(form.get("rate"))
    if kind is None:
        kind = string_of(settings.get(f"{side}_audio_format"))
        rate = count_of(settings.get(f"{side}_audio_sampling_rate"))  # Azure
    if kind in _G711:
        return _G711_RATE
    return _SAMPLE_BYTES * (rate or _PCM_RATE) if kind in _PCM else None


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
        sound = string_of(object_of(part).get("audio"))
        size += count_sound(sound or "")
        parts.append(part if sound is None else _without_sound(part))
    return item | {"content": parts}, size


def _without_sound(part: JsonObject) -> JsonObject:
    return {name: value for name, value in part.items() if name != "audio"}
