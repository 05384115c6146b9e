"""Answers with the text of a recording (``docs/contract/apis.md#sound``).

Rules:

1. JSON with a ``text``, or the bare text in a form that was asked for: plain, SRT or WebVTT. What
   begins as JSON, as XML or as a page of HTML does, and is none that can be read, is not text. JSON
   that is no object is text only where a text was asked for. Where a text ends within a character,
   that one is left out.
2. Of tokens a usage tells as chats' or as OpenAI's other APIs do. Seconds are not tokens: they stay
   in the raw usage.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Any, Final

from codec.bodies import decode_response_value
from codec.call import Answer, Ending, Message, Said
from codec.cost import decode_cost
from codec.error_objects import find_error
from codec.errors import MalformedResponse
from codec.members import object_of, string_of, text_of
from codec.usage import decode_token_usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codec.call import ErrorObject
    from codec.text.jsontext import JsonObject

__all__ = ("TranscriptionAnswer", "make_transcription", "read_transcription")

_Utf8Decoder: Final = codecs.getincrementaldecoder("utf-8")

_NO_TEXT: Final = ("{", "<!doctype", "<html", "<?xml")
"""Beginnings of what is not a transcription in bare text (rule 1)."""


class TranscriptionAnswer(Said, frozen=True, kw_only=True):
    """A recording, written down.

    Attributes:
        text: all that was said in it; ``None`` where the answer does not tell.
        is_bare: the text is the whole body.
        is_cut: it came as a stream, of which the end is missing.
        is_json: the text is JSON, too: a list, a number, null.
    """

    text: str | None = None
    is_bare: bool = False
    is_cut: bool = False
    is_json: bool = False

    def is_foreign(self, *, streamed: bool) -> bool:
        """Tell whether it is JSON without a member of an answer (rule 1)."""
        return self.is_json or super().is_foreign(streamed=streamed)

    def read_answers(self) -> Sequence[Answer]:
        """Read the one message, with the text."""
        if self.text is None:
            return ()
        return (Answer(index=0, message=Message("assistant", self.text)),)

    def ending(self, *, streamed: bool) -> Ending:
        """Whole with its last event, or with its text; a bare one may have had more."""
        if streamed:
            return Ending.OPEN if self.is_cut else Ending.COMPLETE
        return Ending.STOPPED if self.is_bare or self.text is None else Ending.COMPLETE

    def output(self, *, streamed: bool) -> Mapping[str, Any] | Sequence[Any] | str:
        """The body as it came."""
        if self.is_bare and self.text is not None:
            return self.text
        return super().output(streamed=streamed)


def read_transcription(body: bytes) -> TranscriptionAnswer:
    """Read the body of an answer, one that reports an error included.

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
        is_told = isinstance(value.get("text"), str)
        odd = () if is_told or error is not None else ("foreign_chunk",)
        return make_transcription(value, error=error, anomalies=odd)
    try:
        text = _Utf8Decoder().decode(body)
    except UnicodeDecodeError as error:
        raise MalformedResponse("response body: neither JSON nor text") from error
    if text[:16].lstrip().lower().startswith(_NO_TEXT):
        raise MalformedResponse("response body: no transcription")
    return TranscriptionAnswer(text=text, is_bare=True, is_json=is_json)


def make_transcription(
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
