"""The player of transcriptions: whatever the recording is, it returns the words of the demo.

The request says the form: JSON, verbose JSON, JSON with speakers, or bare text, SRT and WebVTT.
``whisper-1`` never streams, even if asked to, and is billed by the second; others by the token.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from codec.apis.event_player import FAILURE, EventPlayer, list_words, write_event
from codec.apis.faults import build_error
from codec.members import object_of
from codec.text.integers import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.apis.player import Player, Script
    from codec.asked import Asked
    from codec.text.jsontext import JsonObject

__all__ = ("PLAYER",)

_SECONDS_PER_WORD: Final = 0.4
_BYTES_PER_TOKEN: Final = 3_200
"""A tenth of a second of sound, as much as OpenAI's models make a token of."""

_FORMS: Final = ("json", "text", "srt", "verbose_json", "vtt", "diarized_json")
_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"


def _find_fault(body: JsonObject) -> JsonObject | None:
    """The first thing wrong with a request, ``None`` for a good one."""
    if not isinstance(body.get("model"), str):
        return build_error("you must provide a model parameter")
    if not any(map(body.get, ("file", "input_audio", "file_url", "file_id"))):
        message = "Missing required parameter: 'file'."
        return build_error(message, param="file", code="missing_required_parameter")
    if body.get("response_format", "json") not in _FORMS:
        message = f"Invalid 'response_format': expected one of {', '.join(_FORMS)}."
        return build_error(message, param="response_format", code="invalid_value")
    return None


class _Performance:
    """Plays one answer."""

    def __init__(self, asked: Asked, script: Script) -> None:
        [answer] = script.answers
        self._asked = asked
        self._script = script
        self._words = list_words(answer)
        self._fails = answer.finish_reason == "error"
        self._text = "".join(self._words)
        self._form = asked.body.get("response_format", "json")
        self._is_whisper = asked.model == "whisper-1"

    @property
    def content_type(self) -> str:
        """The content type of the stream."""
        return self.plain_type if self._is_whisper else "text/event-stream; charset=utf-8"

    @property
    def plain_type(self) -> str:
        """The content type of the plain answer."""
        return _TEXT if self._form in {"text", "srt", "vtt"} and not self._fails else _JSON

    def whole(self) -> bytes:
        """The body of the plain answer, in the form that the request says."""
        if self._fails:
            return json.dumps(FAILURE).encode()
        match self._form:
            case "text":
                return f"{self._text}\n".encode()
            case "srt":
                return f"1\n{self._span(',')}\n{self._text}\n\n".encode()
            case "vtt":
                return f"WEBVTT\n\n{self._span('.')}\n{self._text}\n\n".encode()
            case _:
                return json.dumps(self._build(), ensure_ascii=False).encode()

    def stream(self) -> Iterator[Sequence[bytes]]:
        """The events, a word in each."""
        if self._is_whisper:
            yield [self.whole()]
            return
        for word in self._words:
            yield [write_event("transcript.text.delta", {"delta": word}, is_named=False)]
        if self._form == "diarized_json":
            yield [write_event("transcript.text.segment", self._segment(), is_named=False)]
        if self._fails:
            yield [write_event("error", FAILURE)]
            return
        end = {"text": self._text, "usage": self._usage()}
        yield [write_event("transcript.text.done", end, is_named=False), b"data: [DONE]\n\n"]

    @property
    def _seconds(self) -> float:
        return round(len(self._words) * _SECONDS_PER_WORD, 1)

    def _span(self, point: str) -> str:
        seconds, tenths = divmod(round(self._seconds * 10), 10)
        end = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return f"00:00:00{point}000 --> {end}{point}{tenths}00"

    def _segment(self) -> JsonObject:
        segment = {"id": "seg_0", "start": 0.0, "end": self._seconds, "text": self._text}
        return segment | ({"speaker": "A"} if self._form == "diarized_json" else {})

    def _build(self) -> JsonObject:
        body: JsonObject = {"text": self._text}
        if self._form in {"verbose_json", "diarized_json"}:
            body |= {"task": "transcribe", "language": "english", "duration": self._seconds}
            body["segments"] = [self._segment()]
        return body | {"usage": self._usage()}

    def _usage(self) -> JsonObject:
        if self._is_whisper or self._form == "verbose_json":
            return {"type": "duration", "seconds": round(self._seconds + 0.5)}
        file: Any = self._asked.body.get("file")
        heard = (count_of(object_of(file).get("bytes")) or 0) // _BYTES_PER_TOKEN + 1
        read, said = self._script.prompt_tokens, len(self._words)
        return {
            "type": "tokens",
            "input_tokens": read + heard,
            "input_token_details": {"text_tokens": read, "audio_tokens": heard},
            "output_tokens": said,
            "total_tokens": read + heard + said,
        }


PLAYER: Final[Player] = EventPlayer(find_fault=_find_fault, perform=_Performance)
