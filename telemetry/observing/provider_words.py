"""Masks credentials in a provider's words beside its answer or in its place (R7).

An error's words become metric labels, log lines and the columns of the store, so they are masked
before anything else is done with them. An answer is masked with the span
(:mod:`telemetry.privacy.mask`).

A provider may quote a request in errors, whatever the status and wherever they stand, in bodies
that are not an answer, and in the fields of its head (:mod:`telemetry.observing.masked_heads`).

A text that is not whole loses an end that may be the beginning of a credential. An early end of an
encoded body is not noticed, so an encoded text that is not JSON counts as cut.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from codec.no_answer import NoAnswer, find_lack, find_page_words, find_words
from telemetry.privacy.body_credentials import redact_named

if TYPE_CHECKING:
    from codec.said import Said
    from telemetry.privacy.credentials import Credentials

MAX_WORDS_CHARS = 512
"""The most characters of the words in the place of an answer; the record of the call has the
rest."""

_MAX_MASKED_CHARS = 8 * 1024
"""How much of such words is masked before they are cut, because half a credential would not be
found."""

_LAST_WORD = re.compile(r"[^\s\"]{1,256}(?:[ -][0-9]{1,16}){0,8}\Z")
_LAST_WORD_CHARS = 256 + 8 * 17
"""The longest text that this pattern matches."""


def drop_last_word(text: str) -> str:
    """Drop a text's last word, or its last number in groups: no pattern finds half a secret.

    Only the end is searched, because a text of one long word would take seconds.
    """
    end = text[-_LAST_WORD_CHARS:]
    return text[:-_LAST_WORD_CHARS] + _LAST_WORD.sub("", end)


def mask_error(response: Said | None, credentials: Credentials, *, is_answer: bool) -> Said | None:
    """Mask the credentials in an answer's error, and in its id unless it is a good answer.

    The body stays as it is.
    """
    if response is None or (is_answer and response.error is None):
        return response
    masked_id = response.id and credentials.redact_quote(response.id)
    error = response.error
    if error is not None:
        error = replace(
            error,
            message=redact_named(credentials.redact_quote(error.message)),
            type=error.type and credentials.redact_quote(error.type),
            code=error.code and credentials.redact_quote(error.code),
        )
    return msgspec.structs.replace(response, error=error, id=masked_id)


def _mask_words(words: str, credentials: Credentials) -> str | None:
    """Mask and shorten a provider's words in the place of an answer; ``None`` for no words."""
    begun = words[:_MAX_MASKED_CHARS]
    shown = redact_named(credentials.redact_quote(begun, is_whole=len(words) == len(begun)))
    return shown[:MAX_WORDS_CHARS].strip() or None


@dataclass(frozen=True, slots=True)
class Lack:
    """What came in the place of an answer.

    Attributes:
        words: the provider's; ``None`` if it has none.
    """

    kind: NoAnswer
    words: str | None = None


NOTHING = Lack(NoAnswer.NOTHING)
BROKEN_OFF = Lack(NoAnswer.HALF)


def find_foreign(response: Said, credentials: Credentials, *, streamed: bool) -> Lack | None:
    """Find out what a body is if it is not an answer of its API; ``None`` if it is one."""
    if not response.is_foreign(streamed=streamed):
        return None
    words = find_words(response.body) if response.body else ""
    return Lack(NoAnswer.OTHER, _mask_words(words, credentials))


def find_undecoded(data: bytes, text: str, credentials: Credentials) -> Lack | None:
    """Find out what an unreadable body is; ``None`` if the failure to read it is ours.

    Args:
        data: the body.
        text: the same as text, masked.
        credentials: those that may stand in its words in another spelling.
    """
    kind = find_lack(data)
    if kind is None:
        return None
    if kind is not NoAnswer.OTHER:
        return Lack(kind)
    return Lack(kind, _mask_words(find_page_words(text), credentials))
