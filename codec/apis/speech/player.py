"""The player of speech: a frame of silence for each word, as MP3, WAV or bare samples.

The same request always gets the same sound, one frame of 24 ms a word. It comes as events if
``stream_format`` asks for them, else as bytes.
"""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Final

from codec.apis.event_player import FAILURE, EventPlayer, list_words, write_event
from codec.apis.faults import build_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.apis.player import Player, Script
    from codec.asked import Asked
    from codec.text.jsontext import JsonObject

__all__ = ("PLAYER",)

_SAMPLES_PER_SECOND: Final = 24_000
_SAMPLES: Final = bytes(2 * _SAMPLES_PER_SECOND * 24 // 1000)
_WAV: Final = struct.pack(
    *("<4sI4s4sIHHIIHH4sI", b"RIFF", 2**32 - 1, b"WAVE", b"fmt ", 16, 1, 1, _SAMPLES_PER_SECOND),
    *(2 * _SAMPLES_PER_SECOND, 2, 16, b"data", 2**32 - 1),
)
"""The head of a file of unknown length, as OpenAI streams it."""

_FORMS: Final = {
    "mp3": ("audio/mpeg", b"", b"\xff\xf3\x44\xc4" + bytes(92)),
    "wav": ("audio/wav", _WAV, _SAMPLES),
    "pcm": ("audio/pcm", b"", _SAMPLES),
}
"""Content type, head, and a frame of silence: MPEG-2 layer III of 32 kbit/s, or samples."""


def _find_fault(body: JsonObject) -> JsonObject | None:
    """The first thing wrong with a request, ``None`` for a good one."""
    for name in ("model", "input", "voice"):
        if not body.get(name) or (name != "voice" and not isinstance(body[name], str)):
            message = f"Missing required parameter: '{name}'."
            return build_error(message, param=name, code="missing_required_parameter")
    if body.get("response_format", "mp3") not in _FORMS:
        message = f"Invalid 'response_format': the demo speaks {', '.join(_FORMS)}."
        return build_error(message, param="response_format", code="invalid_value")
    return None


class _Performance:
    """Plays one answer."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, asked: Asked, script: Script) -> None:
        [answer] = script.answers
        self._script = script
        self._fails = answer.finish_reason == "error"
        form = asked.body.get("response_format", "mp3")
        self.plain_type, head, frame = _FORMS[form]
        self._frames = [head + frame, *[frame] * (len(list_words(answer)) - 1)]

    def whole(self) -> bytes:
        """The sound."""
        return b"".join(self._frames)

    def stream(self) -> Iterator[Sequence[bytes]]:
        """The events, a word in each."""
        for frame in self._frames:
            sound = base64.b64encode(frame).decode("ascii")
            yield [write_event("speech.audio.delta", {"audio": sound})]
        if self._fails:
            yield [write_event("error", FAILURE)]
            return
        read, said = self._script.prompt_tokens, len(self._frames)
        usage = {"input_tokens": read, "output_tokens": said, "total_tokens": read + said}
        yield [write_event("speech.audio.done", {"usage": usage})]


PLAYER: Final[Player] = EventPlayer(find_fault=_find_fault, perform=_Performance)
