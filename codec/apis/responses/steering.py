"""Steering: input that a client adds to a response under way (``response.steer``).

The server accepts it first, and uses it later: it ends the response and begins a successor with the
input, without a request. If the response waits for the results of tools, the input instead comes
first in the next request that continues it. The beginning of either is the moment at which the
input is used. Input that cannot be used fails, and is dropped here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codec.apis.responses.messages import items_of
from codec.members import object_of, text_of

if TYPE_CHECKING:
    from codec.apis.responses.session_memory import SessionMemory
    from codec.text.jsontext import JsonObject

__all__ = ("Steering",)


@dataclass(slots=True, eq=False)
class _Input:
    """Input for one response; the server gives it an id when it accepts it."""

    items: list[Any]
    size_bytes: int
    id: str | None = None
    is_accepted: bool = False


@dataclass(slots=True)
class _Queue:
    """The input for one response, in the order in which it was sent."""

    inputs: list[_Input] = field(default_factory=list)
    waits_for_request: bool = False
    lane: str | None = None


class Steering:
    """All steering input of a connection that was not used yet.

    Args:
        memory: the room that it takes; what does not fit is lost.
    """

    __slots__ = ("_memory", "_queues")

    def __init__(self, memory: SessionMemory) -> None:
        self._memory = memory
        self._queues: dict[str, _Queue] = {}  # by the id of the response that is steered

    @property
    def state(self) -> list[Any]:
        """The input that was not used yet, as JSON, for :meth:`restore`."""
        return [
            [
                steered,
                queue.lane,
                queue.waits_for_request,
                [[each.items, each.id, each.is_accepted] for each in queue.inputs],
            ]
            for steered, queue in self._queues.items()
        ]

    def restore(self, state: list[Any]) -> None:
        """Note the input of a former state."""
        for steered, lane, waits, inputs in state:
            for items, steer_id, is_accepted in inputs:
                self._add(steered, items, steer_id, is_accepted=is_accepted)
            if (queue := self._queues.get(steered)) is not None:
                queue.lane, queue.waits_for_request = lane, waits

    def send(self, event: JsonObject) -> None:
        """Note what a client sends."""
        if (steered := text_of(event.get("previous_response_id"))) is not None:
            self._add(steered, items_of(event.get("input")))

    def _add(
        self,
        steered: str,
        items: list[Any],
        steer_id: str | None = None,
        *,
        is_accepted: bool = False,
    ) -> None:
        if size := self._memory.hold([steered, items]):
            queue = self._queues.setdefault(steered, _Queue())
            queue.inputs.append(_Input(items, size, steer_id, is_accepted))

    def answer(self, kind: str, event: JsonObject, lane: str | None) -> None:
        """Note what the server says of it, in the lane of the response that is steered."""
        steer = object_of(event.get("steer"))
        steered, steer_id = text_of(steer.get("previous_response_id")), text_of(steer.get("id"))
        queue = self._queues.get(steered or "")
        if steered is None or queue is None:
            return
        found = _find(queue.inputs, steer_id, steer.get("input"))
        if kind == "response.steer.failed":
            if found is not None:
                queue.inputs.remove(found)
                self._memory.release(found.size_bytes)
            if not queue.inputs:
                del self._queues[steered]
            return
        if found is not None:
            found.is_accepted, found.id = True, steer_id
        queue.lane = lane
        queue.waits_for_request = queue.waits_for_request or kind == "response.steer.pending"

    def makes_successor(self, response_id: str, lane: str | None) -> bool:
        """Tell whether the server will begin a successor of a response in a lane by itself."""
        queue = self._queues.get(response_id)
        if queue is None or queue.waits_for_request or queue.lane != lane:
            return False
        return any(each.is_accepted for each in queue.inputs)

    def take(self, response_id: str, lane: str | None) -> list[Any]:
        """Take the accepted input for a response, which is used now if it is of this lane."""
        queue = self._queues.get(response_id)
        if queue is None or queue.lane != lane:
            return []
        del self._queues[response_id]
        for each in queue.inputs:
            self._memory.release(each.size_bytes)
        return [item for each in queue.inputs if each.is_accepted for item in each.items]


def _find(inputs: list[_Input], steer_id: str | None, given: Any) -> _Input | None:
    """Find the input that the server means: by its id, what it repeats, or the oldest one."""
    unanswered = [each for each in inputs if not each.is_accepted]
    named = (each for each in inputs if steer_id is not None and each.id == steer_id)
    same = (each for each in unanswered if given is not None and each.items == items_of(given))
    return next(named, None) or next(same, None) or next(iter(unanswered), None)
