"""Sessions: connections whose messages carry many calls, several of them at the same time.

A session reads the messages of both directions in their order, and makes of them the calls that
they are about. Each call is the same record as if it had come by HTTP: a request's body, and an
answer's stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codec.apis.api import Stream
    from codec.said import Said
    from codec.text.jsontext import JsonObject

__all__ = (
    "MAX_SESSION_BYTES",
    "MAX_VALUE_BYTES",
    "CallEnd",
    "OpenSession",
    "Session",
    "SessionCall",
    "write_event",
)

MAX_SESSION_BYTES: Final = 1024 * 1024
"""The most memory that a connection takes beside its open calls, as :mod:`codec.budget` estimates
it. The conversation of an agent has some 400 KiB before it is compacted, an hour of talk some 60
KiB of transcripts."""

MAX_VALUE_BYTES: Final = 32 * 1024 * 1024
"""The most memory that the values of one message may take, by an estimate: a picture of 5 MB is
6.7 MB of text, which counts four times if a character beside it is an emoji."""

_WITHOUT_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")


def write_event(text: bytes) -> bytes:
    """Write a message as an event of a stream; line ends are outside of strings, so white space."""
    return b"data: " + text.translate(_WITHOUT_LINE_ENDS) + b"\n\n"


class CallEnd(StrEnum):
    """How a call of a session ended; how the answer ended is in its own words."""

    ANSWERED = "answered"
    """By the event that ends an answer, also one that failed, or that a limit or the user cut."""
    REFUSED = "refused"
    """By an error before the answer began."""
    BROKEN = "broken"
    """By an error while the answer was under way."""
    REPLACED = "replaced"
    """The next answer of its lane began although this one had not ended."""
    CLOSED = "closed"
    """The connection ended first."""


@dataclass(slots=True, kw_only=True, eq=False)
class SessionCall:
    """A call of a session; it changes until it has ended.

    Attributes:
        body: the body of the request, with all of the conversation as far as the session knows it.
            Another object takes its place if something of it comes late.
        is_partial: something of the conversation or of the request is not in the body.
        lane: the name of the lane that it came in; ``None`` for the connection's own.
        previous_id: the id of the answer that it continues.
        has_request: a message of the client asked for it; else the server began it by itself.
        start_ns: when it was asked for, or when the server began it.
        first_ns: when the answer began.
        end_ns: when it ended.
        end: how it ended; ``None`` while it is under way.
        waits_until_ns: until when something of its body may come, although it has ended; 0 if
            nothing is missing.
        answer_id: the id of the answer.
        head: further fields for the head of its answer: what earlier messages said, and other APIs
            say in an answer's head, such as limits of the rate.
        stream: what its answer is read by.
        said: the answer, once it has ended.
    """

    body: JsonObject
    is_partial: bool = False
    lane: str | None = None
    previous_id: str | None = None
    has_request: bool = True
    start_ns: int = 0
    first_ns: int | None = None
    end_ns: int | None = None
    end: CallEnd | None = None
    waits_until_ns: int = 0
    answer_id: str | None = None
    head: tuple[tuple[str, str], ...] = ()
    stream: Stream
    said: Said | None = None


class Session(Protocol):
    """The calls of one connection that are being put together."""

    def feed(
        self, text: bytes, *, from_client: bool, at_ns: int, is_whole: bool = True
    ) -> Sequence[SessionCall]:
        """Feed the next message of either direction. Never raises.

        Args:
            text: the message; if it is not whole, its beginning.
            from_client: whether the client sent it, not the server.
            at_ns: when its last byte was relayed.
            is_whole: all of it is there.

        Returns:
            The calls that it began, continued or ended.
        """

    def close(self, at_ns: int) -> Sequence[SessionCall]:
        """End the calls that the end of the connection cuts off, and return them."""

    @property
    def held_bytes(self) -> int:
        """What the bodies of requests take beyond the session's own limit, until a call's end."""

    def give_up(self) -> None:
        """Forget these bodies, because others need the room; their calls are partial."""

    @property
    def state(self) -> bytes | None:
        """What a new session needs to continue; ``None`` while a call is open, or waits."""


class OpenSession(Protocol):
    """Begins to read a session."""

    def __call__(
        self,
        *,
        lend: Callable[[int], bool] | None = None,
        state: bytes = b"",
        keeps_sound: bool = False,
    ) -> Session:
        """Begin a session, or continue one from its state.

        `lend` reserves bytes beside all others (:mod:`codec.budget`). With `keeps_sound`, what was
        said stands as sound in the request that it came with.
        """
