"""A lane of a session: requests that wait for their turn, and the response under way.

A lane answers its requests one after the other, in their order. Lanes do not wait for each other. A
connection without lanes is one lane without a name.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codec.members import object_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.apis.responses.stream import MessageStream
    from codec.apis.session import SessionCall
    from codec.text.jsontext import JsonObject

__all__ = ("Create", "Lane", "OpenResponse")


@dataclass(slots=True, kw_only=True, eq=False)
class Create:
    """A request that waits for its response.

    Attributes:
        body: the request, as it came.
        at_ns: when it was relayed.
        is_partial: the body has only the members that tell what it continues.
        continues_lane: it continues the lane's last response, and names none.
        held_bytes: the room that it takes of the session's own; 0 for the first one of a lane.
        size_bytes: the memory that its values take.
    """

    body: JsonObject
    at_ns: int
    is_partial: bool = False
    continues_lane: bool = False
    held_bytes: int = 0
    size_bytes: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class OpenResponse:
    """A response under way.

    Attributes:
        parent: the id of the response that it continues.
        own: the items of its input that no earlier response brought.
        misses_own: some of these are missing.
        size_bytes: the memory that the values of its request take.
        injected: input that the server took while it was under way, each with the number of items
            that the response had then.
        offered: input that the client sent, and the server did not take yet.
    """

    call: SessionCall
    stream: MessageStream
    parent: str | None
    own: list[Any]
    misses_own: bool
    size_bytes: int = 0
    injected: list[tuple[int, list[Any]]] = field(default_factory=list)
    offered: deque[list[Any]] = field(default_factory=deque)

    def list_items(self, output: Sequence[Any]) -> tuple[list[Any], bool]:
        """List what the response adds to a conversation, its own input and its output.

        Nothing before a compaction that the response made matters any more: the list begins there
        then. A compaction in its input was made elsewhere, and the client sent what else matters.

        Returns:
            The items, and whether the conversation begins with them.
        """
        items = [*output]
        for count, each in reversed(self.injected):
            items[count:count] = each
        for at in reversed(range(len(items))):
            if object_of(items[at]).get("type") == "compaction":
                return items[at:], True
        return [*self.own, *items], False


@dataclass(slots=True, kw_only=True, eq=False)
class Lane:
    """A lane: its requests that wait, and its response under way.

    Attributes:
        name: ``None`` for the connection's own.
        creates: the requests that wait, the oldest one first.
        open: the response under way.
        last_id: the id of the last response that ended.
        last_body: its request without the input, as far as there was room.
        held_bytes: the room of that.
        was_steered: it ended because new input came, so that a successor follows.
    """

    name: str | None
    creates: deque[Create] = field(default_factory=deque)
    open: OpenResponse | None = None
    last_id: str | None = None
    last_body: JsonObject = field(default_factory=dict)
    held_bytes: int = 0
    was_steered: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return self.open is None and not self.creates
