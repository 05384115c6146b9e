"""Answers that are speech: how much, and what that took (``docs/contract/apis.md#sound``).

Rules:

1. Sound is counted, in bytes, and not kept.
2. Bytes have no mark of their end: only the framing of the body tells it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from codec.bodies import decode_response_object
from codec.call import Ending, Said
from codec.cost import decode_cost
from codec.error_objects import find_error
from codec.members import object_of, string_of, text_of
from codec.usage import decode_token_usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.call import ErrorObject
    from codec.text.jsontext import JsonObject

__all__ = ("SpeechAnswer", "count_sound", "make_speech", "read_sound", "read_speech")


class SpeechAnswer(Said, frozen=True, kw_only=True):
    """Speech.

    Attributes:
        has_end: its end was seen.
    """

    has_end: bool = False

    def ending(self, *, streamed: bool) -> Ending:
        """Whole with its last event, or with its JSON (rule 2)."""
        if self.has_end:
            return Ending.COMPLETE
        is_bytes = not (streamed or self.body)
        return Ending.OPEN if streamed or is_bytes else Ending.STOPPED


def read_sound(mime_type: str, size_bytes: int | None) -> SpeechAnswer:
    """Make an answer of so many bytes; ``None`` where nobody knows how many."""
    return SpeechAnswer(mime_type=mime_type, output_bytes=size_bytes)


def read_speech(body: bytes) -> SpeechAnswer:
    """Read the body of an answer that is JSON: Mistral's, or one that reports an error.

    Raises:
        MalformedResponse: it is not a JSON object.
    """
    value = decode_response_object(body)
    sound = string_of(value.get("audio_data"))
    error = find_error(value)
    odd = () if sound is not None or error is not None else ("foreign_chunk",)
    if sound is not None:
        value["audio_data"] = f"<{len(sound)} base64 characters>"
    answer = make_speech(value, error=error, anomalies=odd, has_end=sound is not None)
    size_bytes = None if sound is None else count_sound(sound)
    return msgspec.structs.replace(answer, output_bytes=size_bytes, body=value)


def count_sound(base64: str) -> int:
    """Count the bytes that a text is base64 of.

    >>> count_sound("aGVsbG8=")
    5
    """
    return len(base64.rstrip("=")) * 3 // 4


def make_speech(
    told: JsonObject, *, error: ErrorObject | None, anomalies: Sequence[str], has_end: bool
) -> SpeechAnswer:
    """Make an answer of what it says beside the sound."""
    usage = decode_token_usage(told.get("usage"))
    odd = () if usage is None else usage.anomalies
    return SpeechAnswer(
        model=text_of(told.get("model")),
        usage=usage,
        cost=decode_cost(object_of(told.get("usage")), told),
        error=error,
        anomalies=(*anomalies, *odd),
        has_end=has_end,
    )
