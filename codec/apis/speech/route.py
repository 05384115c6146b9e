"""Speech: a text, spoken (``docs/contract/apis.md#sound``).

Sound is counted, in bytes, and not kept. The stream keeps the rules of :mod:`codec.typed_stream`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from codec.apis.api import Api, load_player
from codec.asked import Asked
from codec.bodies import decode_response_object
from codec.budget import Budget, size_bytes
from codec.cost import decode_cost
from codec.error_objects import find_error
from codec.media import count_sound
from codec.members import object_of, string_of, text_of
from codec.parts import Message
from codec.said import Ending, Said
from codec.typed_stream import MAX_ANSWER_BYTES, TypedFold, TypedStream
from codec.usage import decode_token_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codec.said import ErrorObject
    from codec.text.jsontext import JsonObject

__all__ = ("SPEECH", "SpeechStream", "read_sound")


class SpeechRequest(Asked, frozen=True, gc=False):
    """A request for speech. Mistral's ``ref_audio`` is a voice, recorded."""

    content_members: ClassVar[frozenset[str]] = frozenset({"input", "ref_audio"})

    @property
    def stream(self) -> bool:
        """Whether a stream of events was asked for, in OpenAI's way or in Mistral's."""
        return self.body.get("stream_format") == "sse" or super().stream

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters, and that the answer is sound."""
        return {**self.body, "modalities": ["audio"], "stream": self.stream}

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request for speech; ``None`` if it is one."""
        return None if isinstance(self.body.get("input"), str) else "input is not text"

    def read_messages(self) -> Sequence[Message]:
        """Read one message, with the text."""
        text = string_of(self.body.get("input"))
        return () if text is None else (Message("user", text),)


class SpeechAnswer(Said, frozen=True, kw_only=True):
    """Speech.

    Attributes:
        has_end: its end was seen.
    """

    has_end: bool = False

    def ending(self, *, streamed: bool) -> Ending:
        """Tell how far the answer came: it is complete with its last event, or with its JSON.

        Bytes of sound have no mark of their end; the framing of the body shows it.
        """
        if self.has_end:
            return Ending.COMPLETE
        is_bytes = not (streamed or self.body)
        return Ending.OPEN if streamed or is_bytes else Ending.STOPPED


def read_sound(mime_type: str, size_bytes: int | None) -> SpeechAnswer:
    """Make an answer of so many bytes; ``None`` if their number is not known."""
    return SpeechAnswer(mime_type=mime_type, output_bytes=size_bytes)


def _read_speech(body: bytes) -> SpeechAnswer:
    """Read the body of an answer that is JSON: Mistral's, or an error.

    Raises:
        MalformedResponse: it is not a JSON object.
    """
    value = decode_response_object(body)
    sound = string_of(value.get("audio_data"))
    error = find_error(value)
    odd = () if sound is not None or error is not None else ("foreign_chunk",)
    if sound is not None:
        value["audio_data"] = f"<{len(sound)} base64 characters>"
    answer = _make_speech(value, error=error, anomalies=odd, has_end=sound is not None)
    size_bytes = None if sound is None else count_sound(sound)
    return msgspec.structs.replace(answer, output_bytes=size_bytes, body=value)


def _make_speech(
    members: JsonObject, *, error: ErrorObject | None, anomalies: Sequence[str], has_end: bool
) -> SpeechAnswer:
    """Make an answer of the members beside the sound."""
    usage = decode_token_usage(members.get("usage"))
    odd = () if usage is None else usage.anomalies
    return SpeechAnswer(
        model=text_of(members.get("model")),
        usage=usage,
        cost=decode_cost(object_of(members.get("usage")), members),
        error=error,
        anomalies=(*anomalies, *odd),
        has_end=has_end,
    )


_DELTA: Final = "speech.audio.delta"
_END: Final = "speech.audio.done"
_MIME_TYPE: Final = "text/event-stream"


class _SpeechFold(TypedFold):
    """Folds the events of one stream."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self._size_bytes = 0
        self._end: JsonObject = {}

    def _fold_event(self, kind: str, event: JsonObject) -> None:
        if kind == _DELTA:
            sound = string_of(event.get("audio")) or string_of(event.get("audio_data"))  # Mistral
            self._size_bytes += count_sound(sound or "")
            self.has_content = self.has_content or bool(sound)
        elif kind == _END:
            self.is_complete = True
            if self.budget.reserve(size_bytes(event)):
                self._end = event

    def answer(self) -> SpeechAnswer:
        """The answer as it stands."""
        answer = _make_speech(
            self._end, error=self.error, anomalies=self.anomalies, has_end=self.is_complete
        )
        is_known = "observer_limit" not in answer.anomalies
        return msgspec.structs.replace(
            answer, mime_type=_MIME_TYPE, output_bytes=self._size_bytes if is_known else None
        )


class SpeechStream(TypedStream[_SpeechFold]):
    r"""Reads one stream. Not safe for concurrent calls.

    Args:
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).

    >>> stream = SpeechStream()
    >>> stream.feed(b'data: {"type": "speech.audio.delta", "audio": "aGVsbG8="}\n\n')
    >>> stream.finish().output_bytes
    5
    """

    __slots__ = ()

    def __init__(
        self, *, lend: Callable[[int], bool] | None = None, **_of_other_apis: object
    ) -> None:
        super().__init__(_SpeechFold(Budget(MAX_ANSWER_BYTES, lend)))


SPEECH = Api(
    name="audio.speech",
    path_ends=("/audio/speech",),
    operation="speech",
    span_name="AudioSpeech",
    noun="speech",
    gives_reason=False,
    asked=SpeechRequest,
    open_stream=SpeechStream,
    read_said=_read_speech,
    read_sound=read_sound,
    open_player=partial(load_player, "codec.apis.speech.player", "PLAYER"),
)
"""Speech. OpenTelemetry has no operation for it; span name and operation are Envoy's gateway's."""
