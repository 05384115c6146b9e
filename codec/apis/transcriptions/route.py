"""Transcriptions and translations: a recording, and its text (``docs/contract/apis.md#sound``).

OpenAI and most others take a form with a ``file``; OpenRouter also takes JSON with
``input_audio``, Mistral a ``file_url`` or a ``file_id``. An answer is JSON with a ``text``, or bare
text if such a form was asked for: plain, SRT or WebVTT.

A usage in tokens has the names of chats or of OpenAI's other APIs. Seconds are not tokens: they
stay in the raw usage. The stream keeps the rules of :mod:`codec.typed_stream`; the events of OpenAI
and of Mistral differ only in their names.
"""

from __future__ import annotations

import codecs
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from codec.apis.api import Api, load_player
from codec.bodies import FormRequest, decode_response_value
from codec.budget import Budget, size_bytes
from codec.cost import decode_cost
from codec.error_objects import find_error
from codec.errors import MalformedResponse
from codec.growing_text import GrowingText, TextKind
from codec.media import read_audio
from codec.members import object_of, string_of, text_of
from codec.parts import Media, Message
from codec.said import Answer, Ending, Said
from codec.text.jsontext import join_text
from codec.typed_stream import MAX_ANSWER_BYTES, TypedFold, TypedStream
from codec.usage import decode_token_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codec.said import ErrorObject
    from codec.text.jsontext import JsonObject

__all__ = ("TRANSCRIPTIONS", "TRANSLATIONS", "TranscriptionStream")

_SOUNDS: Final = ("file", "input_audio", "file_url", "file_id")
"""Members that are the recording, or say where it is."""

_TEXT_FORMS: Final = frozenset({"text", "srt", "vtt"})
"""Forms of an answer that are not JSON."""


class TranscriptionRequest(FormRequest, frozen=True, gc=False):
    """A request to write a recording down."""

    content_members: ClassVar[frozenset[str]] = frozenset({*_SOUNDS, "prompt"})
    server_members: ClassVar[frozenset[str]] = frozenset({"file_url"})  # which may be signed

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request for a transcription; ``None`` if it is one."""
        return None if any(map(self.body.get, _SOUNDS)) else "there is no recording"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """All members but sound: the prompt, too, and what is known of the file.

        See ``docs/contract/apis.md#sound``.
        """
        return {name: value for name, value in self.body.items() if name != "input_audio"}

    @property
    def wants_text(self) -> bool:
        """Whether a form of text was asked for; the text of silence is empty."""
        return text_of(self.body.get("response_format")) in _TEXT_FORMS

    def read_messages(self) -> Sequence[Message]:
        """Read one message with the recording, which shows only its type."""
        name = next((name for name in _SOUNDS if name in self.body), None)
        if name is None:
            return ()
        value = self.body[name]
        file = object_of(value[0] if isinstance(value, list) and value else value)
        mime_type = text_of(file.get("content_type"))
        if name == "input_audio":
            mime_type = read_audio(file).mime_type
        return (Message("user", (Media(kind="audio", mime_type=mime_type),)),)


_Utf8Decoder: Final = codecs.getincrementaldecoder("utf-8")

_NO_TEXT: Final = ("{", "<!doctype", "<html", "<?xml")
"""Beginnings of JSON, HTML and XML: a body in bare text that begins so is not a transcription."""


class TranscriptionAnswer(Said, frozen=True, kw_only=True):
    """A recording, written down.

    Attributes:
        text: all that was said in the recording; ``None`` if the answer does not have it.
        is_bare: the text is the whole body.
        is_cut: the answer came as a stream, and its end is missing.
        is_json: the text is also JSON: a list, a number, null.
    """

    text: str | None = None
    is_bare: bool = False
    is_cut: bool = False
    is_json: bool = False

    def is_foreign(self, *, streamed: bool) -> bool:
        """Tell whether the answer is JSON without any member of a transcription.

        JSON that is not an object is a transcription only if a form of text was asked for.
        """
        return self.is_json or super().is_foreign(streamed=streamed)

    def read_answers(self) -> Sequence[Answer]:
        """Read the one message, with the text."""
        if self.text is None:
            return ()
        return (Answer(index=0, message=Message("assistant", self.text)),)

    def ending(self, *, streamed: bool) -> Ending:
        """The answer is whole with its last event, or with its text; a bare text may be cut."""
        if streamed:
            return Ending.OPEN if self.is_cut else Ending.COMPLETE
        return Ending.STOPPED if self.is_bare or self.text is None else Ending.COMPLETE

    def output(self, *, streamed: bool) -> Mapping[str, Any] | Sequence[Any] | str:
        """The body as it came."""
        if self.is_bare and self.text is not None:
            return self.text
        return super().output(streamed=streamed)


def _read_transcription(body: bytes) -> TranscriptionAnswer:
    """Read the body of an answer, or of an error.

    A character that the end of a text cuts in two is left out.

    Raises:
        MalformedResponse: it is neither JSON nor text.
    """
    is_json = True
    try:
        value = decode_response_value(body)
    except MalformedResponse:
        value, is_json = None, False
    if isinstance(value, dict):
        error = find_error(value)
        has_text = isinstance(value.get("text"), str)
        odd = () if has_text or error is not None else ("foreign_chunk",)
        return _make_transcription(value, error=error, anomalies=odd)
    try:
        text = _Utf8Decoder().decode(body)
    except UnicodeDecodeError as error:
        raise MalformedResponse("response body: neither JSON nor text") from error
    if text[:16].lstrip().lower().startswith(_NO_TEXT):
        raise MalformedResponse("response body: no transcription")
    return TranscriptionAnswer(text=text, is_bare=True, is_json=is_json)


def _make_transcription(
    body: JsonObject,
    *,
    error: ErrorObject | None = None,
    anomalies: Sequence[str] = (),
    is_cut: bool = False,
) -> TranscriptionAnswer:
    """Make an answer of its JSON object."""
    usage = decode_token_usage(body.get("usage"))
    odd = () if usage is None else usage.anomalies
    return TranscriptionAnswer(
        model=text_of(body.get("model")),
        usage=usage,
        cost=decode_cost(object_of(body.get("usage")), body),
        error=error,
        anomalies=(*anomalies, *odd),
        body=body,
        text=string_of(body.get("text")),
        is_cut=is_cut,
    )


_DELTAS: Final = {"transcript.text.delta": "delta", "transcription.text.delta": "text"}
_SEGMENTS: Final = frozenset({"transcript.text.segment", "transcription.segment"})
_ENDS: Final = frozenset({"transcript.text.done", "transcription.done"})
_LANGUAGE: Final = "transcription.language"


class _TranscriptionFold(TypedFold):
    """Folds the events of one stream."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self._pieces: list[str] = []
        self._segments: list[JsonObject] = []
        self._end: JsonObject = {}

    def _fold_event(self, kind: str, event: JsonObject) -> None:
        if (member := _DELTAS.get(kind)) is not None:
            piece = event.get(member)
            if isinstance(piece, str) and piece and self.budget.reserve_text(piece):
                self._pieces.append(piece)
                self.has_content = True
        elif kind in _SEGMENTS:
            event.pop("type", None)
            if self.budget.reserve(size_bytes(event)):
                self._segments.append(event)
                self.has_content = True
        elif kind in _ENDS:
            event.pop("type", None)
            self.is_complete = True
            self.has_content = self.has_content or bool(event.get("text"))
            if not self.budget.reserve(size_bytes(event)):
                event = {"usage": object_of(event.get("usage"))}
            self._end |= event
        elif kind == _LANGUAGE:
            language = event.get("audio_language")
            if isinstance(language, str) and self.budget.reserve_text(language):
                self._end = {"language": language}

    def look(self) -> Sequence[GrowingText]:
        """Look at the text that has come so far."""
        if self._segments and not self._pieces:
            return (GrowingText("text", TextKind.TEXT, self._list_spoken(), grows=False),)
        return (GrowingText("text", TextKind.TEXT, self._pieces),)

    def _list_spoken(self) -> list[str]:
        """List the texts of the segments, with a space between two."""
        texts = [text for one in self._segments if (text := string_of(one.get("text")))]
        return [f"{' ' if at else ''}{text.strip()}" for at, text in enumerate(texts)]

    def answer(self) -> TranscriptionAnswer:
        """The answer as it stands.

        The last event repeats the whole text, and wins over the pieces that came. If neither came,
        the segments give the text so far.
        """
        body: JsonObject = {}
        if pieces := self._pieces or self._list_spoken():
            body["text"] = join_text(pieces)
        if self._segments:
            body["segments"] = self._segments
        body |= self._end
        return _make_transcription(
            body, error=self.error, anomalies=self.anomalies, is_cut=not self.is_complete
        )


class TranscriptionStream(TypedStream[_TranscriptionFold]):
    r"""Reads one stream. Not safe for concurrent calls.

    Args:
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).

    >>> stream = TranscriptionStream()
    >>> stream.feed(b'data: {"type": "transcript.text.delta", "delta": "Hel')
    >>> stream.feed(b'lo"}\n\n')
    >>> stream.finish().answers[0].message.content
    'Hello'
    """

    __slots__ = ()

    def __init__(
        self, *, lend: Callable[[int], bool] | None = None, **_of_other_apis: object
    ) -> None:
        super().__init__(_TranscriptionFold(Budget(MAX_ANSWER_BYTES, lend)))


TRANSCRIPTIONS = Api(
    name="audio.transcriptions",
    path_ends=("/audio/transcriptions",),
    operation="transcription",
    span_name="Transcription",
    noun="transcription",
    takes_forms=True,
    gives_reason=False,
    asked=TranscriptionRequest,
    open_stream=TranscriptionStream,
    read_said=_read_transcription,
    open_player=partial(load_player, "codec.apis.transcriptions.player", "PLAYER"),
)
"""Transcriptions. OpenTelemetry has no operation for them; span name and operation are Envoy's."""

TRANSLATIONS = replace(
    TRANSCRIPTIONS,
    name="audio.translations",
    path_ends=("/audio/translations",),
    operation="translation",
    span_name="Translation",
    noun="translation",
)
"""A recording, translated into English."""
