"""Finds what came in the place of an answer, and the provider's words in it, credentials masked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codec.no_answer import NoAnswer, find_lack, find_page_words, find_words
from telemetry.observing.provider_words import mask_words

if TYPE_CHECKING:
    from codec.call import Said
    from telemetry.privacy.credentials import Credentials


@dataclass(frozen=True, slots=True)
class Lack:
    """What came in the place of an answer.

    Attributes:
        words: of the provider, ``None`` where it has none to tell.
    """

    kind: NoAnswer
    words: str | None = None


NOTHING = Lack(NoAnswer.NOTHING)
BROKEN_OFF = Lack(NoAnswer.HALF)


def find_foreign(response: Said, credentials: Credentials, *, streamed: bool) -> Lack | None:
    """Find what an answer is that was read, ``None`` where it is one of its API."""
    if not response.is_foreign(streamed=streamed):
        return None
    words = find_words(response.body) if response.body else ""
    return Lack(NoAnswer.OTHER, mask_words(words, credentials))


def find_undecoded(data: bytes, text: str, credentials: Credentials) -> Lack | None:
    """Find what a body is that could not be read, ``None`` where only we cannot read it.

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
    return Lack(kind, mask_words(find_page_words(text), credentials))
