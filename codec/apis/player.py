"""Plays an API's answers: what the demo upstream and tests speak an API with.

What is said is a :class:`Script`, in no API's shape; how it looks on the wire each API's own player
knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.call import Asked
    from codec.dialects import Dialect
    from codec.generator import Answer
    from codec.text.jsontext import JsonObject

__all__ = ("Performance", "Player", "Script")


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The answer that an upstream is to give.

    Attributes:
        answers: one for each choice.
        cached_tokens: of the prompt's, those that a cache is said to have held.
        answer_id: what makes the answer's id its own.
        created: seconds since the epoch.
        query: of the request's target, in which some APIs are told how to write a stream.
    """

    answers: tuple[Answer, ...]
    prompt_tokens: int
    cached_tokens: int
    answer_id: str
    created: int
    query: str = ""


class Performance(Protocol):
    """Plays one answer on the wire, whole or as a stream.

    A plain answer is JSON; one that is not has its content type in an attribute ``plain_type``.
    """

    @property
    def content_type(self) -> str:
        """The content type of the stream."""

    def stream(self) -> Iterator[Sequence[bytes]]:
        """The events of the stream, those together that come at once."""

    def whole(self) -> bytes:
        """The body of the plain answer."""


class Player(Protocol):
    """Speaks one API."""

    def find_fault(self, body: JsonObject) -> JsonObject | None:
        """The error body for the first thing wrong with a request, ``None`` for a good one."""

    def write_error(self, error: JsonObject, dialect: Dialect) -> bytes:
        """Write the body of an answer that is none: ``message``, ``type``, ``param``, ``code``."""

    def play(self, asked: Asked, script: Script, dialect: Dialect) -> Performance:
        """Begin an answer to a request without fault.

        The dialect is a provider's way to write chat completions; other APIs have none.
        """
