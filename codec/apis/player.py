"""The protocol of players, with which the demo upstream and tests answer in an API.

A :class:`Script` says what the answer is, in no API's shape. Each API's player knows how that looks
on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.asked import Asked
    from codec.dialects import Dialect
    from codec.generator import Answer
    from codec.text.jsontext import JsonObject

__all__ = ("Performance", "PlainPerformance", "Player", "Script")


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The answer that an upstream is to give.

    Attributes:
        answers: one for each choice.
        cached_tokens: how many tokens of the prompt a cache is said to have held.
        answer_id: makes the answer's id unique.
        created: seconds since the epoch.
        query: the query of the request's target; it asks some APIs for a form of stream.
    """

    answers: tuple[Answer, ...]
    prompt_tokens: int
    cached_tokens: int
    answer_id: str
    created: int
    query: str = ""


class Performance(Protocol):
    """Plays one answer on the wire, whole or as a stream.

    A plain answer is JSON, unless an attribute ``plain_type`` has another content type.
    """

    @property
    def content_type(self) -> str:
        """The content type of the stream."""

    def stream(self) -> Iterator[Sequence[bytes]]:
        """The events of the stream; those in one list are sent at once."""

    def whole(self) -> bytes:
        """The body of the plain answer."""


class PlainPerformance:
    """Plays an answer that is not a stream.

    Args:
        body: the JSON of the answer.
    """

    content_type = "application/json"

    def __init__(self, body: bytes) -> None:
        self._body = body

    def whole(self) -> bytes:
        """The body of the answer."""
        return self._body

    def stream(self) -> Iterator[Sequence[bytes]]:
        """The body of the answer in one piece, for a client that asks for a stream."""
        yield [self._body]


class Player(Protocol):
    """Plays the answers of one API."""

    def find_fault(self, body: JsonObject) -> JsonObject | None:
        """The error body for the first thing wrong with a request, ``None`` for a good one."""

    def write_error(self, error: JsonObject, dialect: Dialect) -> bytes:
        """Write the body of an error: ``message``, ``type``, ``param``, ``code``."""

    def play(self, asked: Asked, script: Script, dialect: Dialect) -> Performance:
        """Begin an answer to a request without fault.

        The dialect is a provider's way to write chat completions; other APIs have none.
        """
