"""All lanes of a session, and the requests that wait in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codec.apis.responses.lane import Lane
from codec.members import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codec.apis.responses.lane import Create, OpenResponse
    from codec.apis.responses.session_memory import SessionMemory
    from codec.text.jsontext import JsonObject

__all__ = ("MAX_LANES", "MAX_WAITING", "Lanes")

MAX_LANES: Final = 33
"""The most lanes at once: OpenAI allows 32 names, and the connection has one lane without a name.
An idle one is forgotten for a new one."""

MAX_WAITING: Final = 256
"""The most requests that wait. OpenAI answers 16 at once; each costs little, even without room."""

_MAX_NAME_CHARS: Final = 256


class Lanes:
    """The lanes of one connection. Not safe for concurrent calls.

    Args:
        memory: the room that they take.

    Attributes:
        held_bytes: what the first request of each lane and the open responses take beside it.
    """

    __slots__ = ("_lanes", "_memory", "held_bytes")

    def __init__(self, memory: SessionMemory) -> None:
        self.held_bytes = 0
        self._memory = memory
        self._lanes: dict[str | None, Lane] = {}

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._lanes.values())

    def __len__(self) -> int:
        return len(self._lanes)

    @property
    def state(self) -> list[Any] | None:
        """The lanes, as JSON, for :meth:`restore`; ``None`` while one of them is not idle."""
        if not all(lane.is_idle for lane in self):
            return None
        return [[lane.name, lane.last_id, lane.last_body, lane.was_steered] for lane in self]

    def restore(self, state: list[Any]) -> None:
        """Make the lanes of a former state."""
        for name, last_id, last_body, was_steered in state:
            lane = self._lanes[name] = Lane(name=name, last_id=last_id, was_steered=was_steered)
            self.remember(lane, last_body)

    def get(self, name: str | None) -> Lane | None:
        """Get a lane, if there is one of that name."""
        return self._lanes.get(name)

    def find(self, name: str | None) -> Lane | None:
        """Find a lane, or make it; ``None`` if there are too many."""
        if (lane := self._lanes.get(name)) is not None:
            return lane
        if name is not None and len(name) > _MAX_NAME_CHARS:
            return None
        if len(self) >= MAX_LANES:
            idle = next((each for each in self if each.is_idle), None)
            if idle is None:
                return None
            self._memory.release(idle.held_bytes)
            del self._lanes[idle.name]
        lane = self._lanes[name] = Lane(name=name)
        return lane

    def find_open(self, response_id: str | None) -> OpenResponse | None:
        """Find the open response with this id."""
        opened = (lane.open for lane in self if lane.open is not None)
        return next((each for each in opened if each.call.answer_id == response_id), None)

    def has_ended(self, response_id: str | None) -> bool:
        """Tell whether this was the last response of one of the lanes."""
        return response_id is not None and any(lane.last_id == response_id for lane in self)

    def list_failing(self, name: str | None, *, ends_all: bool) -> Sequence[Lane]:
        """List the lanes that an error is about.

        An error about the name of a lane may name none: then it is about the oldest request.
        """
        if ends_all and (lanes := [lane for lane in self if lane.open is not None]):
            return lanes
        lane = self.get(name)
        if name is None and (lane is None or lane.is_idle):
            waiting = [each for each in self if each.creates and each.open is None]
            return sorted(waiting, key=lambda each: each.creates[0].at_ns)[:1]
        return [] if lane is None else [lane]

    def queue(self, name: str | None, create: Create) -> None:
        """Let a request wait. What begins at once takes the room of the open responses."""
        lane = self.find(name)
        if lane is None or sum(len(each.creates) for each in self) >= MAX_WAITING:
            return
        if lane.is_idle:
            self.held_bytes += create.size_bytes
        elif held_bytes := self._memory.hold(create.body):
            create.held_bytes = held_bytes
        else:
            _shorten(create)
        lane.creates.append(create)

    def take(self, lane: Lane) -> Create:
        """Take the oldest request of a lane, which begins now."""
        create = lane.creates.popleft()
        if create.held_bytes:
            self._memory.release(create.held_bytes)
            self.held_bytes += create.size_bytes
        return create

    def end(self, lane: Lane, opened: OpenResponse) -> None:
        """End the open response of a lane."""
        self.held_bytes -= opened.size_bytes
        lane.open = None

    def remember(self, lane: Lane, body: JsonObject) -> None:
        """Remember a request without its input, for a successor of its response."""
        self._memory.release(lane.held_bytes)
        lane.last_body = {name: value for name, value in body.items() if name != "input"}
        lane.held_bytes = self._memory.hold(lane.last_body)
        if not lane.held_bytes:
            lane.last_body = {}

    def give_up(self) -> None:
        """Forget the input of requests, because others need their room."""
        for lane in self:
            if lane.creates and not lane.creates[0].held_bytes:
                _shorten(lane.creates[0])
            if (opened := lane.open) is not None:
                kept = {name: value for name, value in opened.call.body.items() if name != "input"}
                opened.call.body, opened.call.is_partial = kept, True
                opened.own, opened.misses_own, opened.size_bytes = [], True, 0
        self.held_bytes = 0


def _shorten(create: Create) -> None:
    """Keep of a request which response it continues, and the model."""
    names = ("model", "previous_response_id")
    known = {name: text_of(create.body.get(name)) for name in names}
    create.body = {name: it for name, it in known.items() if it and len(it) <= _MAX_NAME_CHARS}
    create.is_partial, create.size_bytes = True, 0
