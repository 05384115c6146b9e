"""Requests of a Realtime session that wait for their responses.

A client asks by ``response.create``. The server answers by beginning a response, which repeats the
request's metadata and nothing else of it, or refuses by an error.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from codec.members import text_of

if TYPE_CHECKING:
    from codec.apis.realtime.conversation import Conversation
    from codec.apis.responses.messages import ResponseHead
    from codec.text.jsontext import JsonObject

__all__ = ("MAX_WAITING", "Create", "Creates")

MAX_WAITING: Final = 64
"""The most requests that wait. A conversation refuses a request while it answers another one."""

_BUSY: Final = "conversation_already_has_active_response"
"""The code of the error that refuses a request, also if it does not name the request."""


@dataclass(slots=True, kw_only=True, eq=False)
class Create:
    """A request; `asked` is what it says itself."""

    asked: JsonObject
    at_ns: int
    event_id: str | None
    held_bytes: int
    is_partial: bool


class Creates:
    """The requests that wait, the oldest one first.

    Args:
        room: the room that they take.
    """

    __slots__ = ("_room", "_waiting")

    def __init__(self, room: Conversation) -> None:
        self._room = room
        self._waiting: deque[Create] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, asked: JsonObject, event_id: Any, at_ns: int, *, is_cut: bool) -> None:
        """Let a request wait; if it does not fit, only that there is one is known."""
        if len(self._waiting) >= MAX_WAITING:
            return
        held_bytes = self._room.hold(asked)
        create = Create(
            asked=asked if held_bytes else {},
            at_ns=at_ns,
            event_id=text_of(event_id),
            held_bytes=held_bytes,
            is_partial=is_cut or not held_bytes,
        )
        self._waiting.append(create)

    def pop(self) -> Create:
        """Take the oldest request."""
        return self._take(self._waiting[0])

    def take_of(self, response: ResponseHead) -> Create | None:
        """Take the request of a response; ``None`` if the server began it by itself.

        If the response has no metadata, it is that of the oldest request.
        """
        for create in self._waiting:
            asked = create.asked.get("metadata") or None
            if response.metadata is msgspec.UNSET or asked == (response.metadata or None):
                return self._take(create)
        return None

    def take_refused(self, error: JsonObject) -> Create | None:
        """Take the request that an error refuses; ``None`` if it is about something else.

        The error names the event, if that has an id. Else the oldest request is refused, if what is
        wrong is a member of a request.
        """
        named, member = text_of(error.get("event_id")), text_of(error.get("param")) or ""
        is_oldest = error.get("code") == _BUSY or member.partition(".")[0] == "response"
        for create in self._waiting:
            if create.event_id == named if named is not None else is_oldest:
                return self._take(create)
        return None

    def _take(self, create: Create) -> Create:
        self._waiting.remove(create)
        self._room.release(create.held_bytes)
        return create
