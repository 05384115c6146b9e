"""Responses over a WebSocket: the messages of both directions become calls.

See :mod:`codec.apis.responses.lanes`, :mod:`~codec.apis.responses.steering` and
:mod:`~codec.apis.responses.session_memory`. A call is a response, not a request: a response that is
steered has a successor without a request. Events name their lane alone. Only those at the beginning
and the end of a response name it, so all others are about the lane's open response.

An error ends the response of its lane, as it does for OpenAI's SDK; an error before the response
began ends the lane's oldest request. The connection remains. What is on the connection besides,
such as Codex's rate limits, is about no response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codec.apis.responses.lane import Create, OpenResponse
from codec.apis.responses.lanes import Lanes
from codec.apis.responses.messages import (
    ResponseHead,
    decode_object,
    glimpse,
    items_of,
    read_head,
)
from codec.apis.responses.session_memory import SessionMemory
from codec.apis.responses.steering import Steering
from codec.apis.responses.stream import MessageStream
from codec.apis.session import MAX_VALUE_BYTES, CallEnd, SessionCall
from codec.budget import size_bytes
from codec.members import object_of, text_of
from codec.text.json_size import decoded_bytes
from codec.text.jsontext import decode_json, encode_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codec.apis.responses.lane import Lane
    from codec.apis.responses.messages import MessageHead
    from codec.text.jsontext import JsonObject

__all__ = ("ResponseSession",)

_UNWEIGHED_BYTES: Final = 64 * 1024
"""The largest message of a server whose values are not estimated first."""

_CREATE: Final = "response.create"
_APPEND: Final = "response.append"
"""Codex's older name of a request that continues the last response, and names none."""

_NOT_FOUND: Final = "previous_response_not_found"
"""The code of the error that the server does not have the conversation which a request continues.

After an error the server may forget what its request continued (OpenAI: unless it is stored)."""

_LIMIT: Final = "websocket_connection_limit_reached"
"""The code of the error that ends all of a connection's responses, after an hour."""


class ResponseSession:
    """Reads one connection. Not safe for concurrent calls.

    Args:
        lend: whether that many more bytes may be reserved beside all others (:mod:`codec.budget`).
        state: the :attr:`state` of the session that it continues.
    """

    __slots__ = ("_lanes", "_lend", "_memory", "_steering")

    def __init__(
        self,
        *,
        lend: Callable[[int], bool] | None = None,
        state: bytes = b"",
        **_of_other_apis: object,
    ) -> None:
        self._lend = lend
        self._memory = SessionMemory()
        self._steering = Steering(self._memory)
        self._lanes = Lanes(self._memory)
        if state:
            self._restore(decode_json(state))

    @property
    def state(self) -> bytes | None:
        """What a new session needs to continue (:attr:`codec.apis.session.Session.state`)."""
        if (lanes := self._lanes.state) is None:
            return None
        return encode_json([self._memory.state, self._steering.state, lanes]).encode()

    def _restore(self, state: list[Any]) -> None:
        responses, inputs, lanes = state
        self._memory.restore(responses)
        self._steering.restore(inputs)
        self._lanes.restore(lanes)

    def feed(
        self, text: bytes, *, from_client: bool, at_ns: int, is_whole: bool = True
    ) -> Sequence[SessionCall]:
        """Feed the next message (:meth:`codec.apis.session.Session.feed`)."""
        value_bytes = 0
        if from_client or len(text) > _UNWEIGHED_BYTES:
            value_bytes = decoded_bytes(text)
            is_whole = is_whole and value_bytes <= MAX_VALUE_BYTES
        if from_client:
            self._read_command(text, at_ns, value_bytes if is_whole else 0, is_whole=is_whole)
            return ()
        head = read_head(text) if is_whole else glimpse(text)[0]
        if head.type == "error":
            return [*self._fail(head, text, at_ns, is_whole=is_whole)]
        if not head.type.startswith("response."):
            return ()
        if head.type.startswith("response.steer."):
            event = decode_object(text) if is_whole else {}
            self._steering.answer(head.type, event, head.stream_id)
            return ()
        if head.type.startswith("response.inject."):
            self._answer_offer(head.type, decode_object(text) if is_whole else {})
            return ()
        return [*self._read_event(head, text, at_ns, is_whole=is_whole)]

    def close(self, at_ns: int) -> Sequence[SessionCall]:
        """End the calls that the end of the connection cuts off, and return them."""
        ended = []
        for lane in self._lanes:
            if lane.open is not None:
                ended.append(self._end(lane, lane.open, CallEnd.CLOSED, at_ns))
            while lane.creates:
                ended.append(self._end(lane, self._begin_create(lane), CallEnd.CLOSED, at_ns))
        return ended

    @property
    def held_bytes(self) -> int:
        """What requests take (:attr:`codec.apis.session.Session.held_bytes`)."""
        return self._lanes.held_bytes

    def give_up(self) -> None:
        """Forget the input of requests (:meth:`codec.apis.session.Session.give_up`)."""
        self._lanes.give_up()

    def _read_command(self, text: bytes, at_ns: int, size_bytes: int, *, is_whole: bool) -> None:
        if is_whole:
            body = decode_object(text)
            kind, lane = text_of(body.pop("type", None)), text_of(body.pop("stream_id", None))
        else:
            head, body = glimpse(text)
            kind, lane = head.type, head.stream_id
        if kind in {_CREATE, _APPEND}:
            create = Create(
                body=body,
                at_ns=at_ns,
                is_partial=not is_whole,
                continues_lane=kind == _APPEND,
                size_bytes=size_bytes,
            )
            self._lanes.queue(lane, create)
        elif kind == "response.steer":
            self._steering.send(body)
        elif kind == "response.inject":
            self._offer(body)

    def _read_event(
        self, head: MessageHead, text: bytes, at_ns: int, *, is_whole: bool
    ) -> Iterator[SessionCall]:
        response, name = head.response, head.stream_id
        lane = self._lanes.get(name) if response is None else self._lanes.find(name)
        if lane is None:
            return
        if response is not None:
            if lane.open is not None and head.type == "response.created":
                ids = lane.open.call.answer_id, response.id
                if None not in ids and ids[0] != ids[1]:
                    yield self._end(lane, lane.open, CallEnd.REPLACED, at_ns)
            has_ended = self._lanes.has_ended(response.id)
            if has_ended and lane.open is not None and lane.open.call.answer_id != response.id:
                return  # it is the end of another one
            if lane.open is None and (response.id or lane.creates) and not has_ended:
                self._begin(lane, response, at_ns)
        if (opened := lane.open) is None:
            return
        call, stream = opened.call, opened.stream
        if response is not None and call.answer_id is None:
            call.answer_id = response.id
        if is_whole:
            stream.feed_message(text)
        else:
            stream.feed_cut(head.type)
        if call.first_ns is None:
            call.first_ns = at_ns
        yield self._end(lane, opened, CallEnd.ANSWERED, at_ns) if stream.is_complete else call

    def _fail(
        self, head: MessageHead, text: bytes, at_ns: int, *, is_whole: bool
    ) -> Iterator[SessionCall]:
        """End what an error is about."""
        event = decode_object(text) if is_whole else {}
        code = object_of(event.get("error")).get("code")
        for lane in self._lanes.list_failing(head.stream_id, ends_all=code == _LIMIT):
            if (opened := lane.open) is not None:
                end = CallEnd.BROKEN
            elif lane.creates:
                opened = self._begin_create(lane, is_found=code != _NOT_FOUND)
                end = CallEnd.REFUSED
            else:
                continue
            if is_whole:
                opened.stream.feed_message(text)
            else:
                opened.stream.feed_cut(head.type)
            yield self._end(lane, opened, end, at_ns)

    def _begin(self, lane: Lane, response: ResponseHead, at_ns: int) -> None:
        """Begin the response that an event names: a successor, or that of the oldest request."""
        parent = response.previous_response_id
        if parent is None and lane.was_steered:
            parent = lane.last_id
        is_successor = parent is not None and self._steering.makes_successor(parent, lane.name)
        if lane.creates and not is_successor:
            self._begin_create(lane)
            return
        body = dict(lane.last_body) if parent is not None and parent == lane.last_id else {}
        if parent is not None:
            body["previous_response_id"] = parent
        opened = self._open(lane, body, parent, [], misses_own=not is_successor)
        opened.call.start_ns, opened.call.has_request = at_ns, False

    def _begin_create(self, lane: Lane, *, is_found: bool = True) -> OpenResponse:
        """Begin the response of the oldest request.

        If the server did not find what it continues, the request has only what is new.
        """
        create = self._lanes.take(lane)
        body, parent = create.body, text_of(create.body.get("previous_response_id"))
        if create.continues_lane:
            body, parent = lane.last_body | body, lane.last_id
        new = items_of(create.body.get("input"))
        opened = self._open(
            lane, body, parent, new, misses_own=create.is_partial, is_found=is_found
        )
        opened.call.start_ns, opened.size_bytes = create.at_ns, create.size_bytes
        return opened

    def _open(
        self,
        lane: Lane,
        body: JsonObject,
        parent: str | None,
        new: list[Any],
        *,
        misses_own: bool,
        is_found: bool = True,
    ) -> OpenResponse:
        """Open a response, and put before its input what the session knows of the conversation."""
        steered: list[Any] = []
        history: list[Any] = []
        knows_history = True
        if parent is not None:
            steered = self._steering.take(parent, lane.name)
            history, knows_history = self._memory.join(parent) if is_found else ([], False)
        own = [*steered, *new]
        if history or steered:
            body = body | {"input": [*history, *own]}
        stream = MessageStream(lend=self._lend)
        call = SessionCall(
            body=body,
            is_partial=misses_own or not knows_history,
            lane=lane.name,
            previous_id=parent,
            stream=stream,
        )
        lane.open = OpenResponse(
            call=call, stream=stream, parent=parent, own=own, misses_own=misses_own
        )
        return lane.open

    def _end(self, lane: Lane, opened: OpenResponse, end: CallEnd, at_ns: int) -> SessionCall:
        call = opened.call
        said = call.said = opened.stream.finish()
        call.end, call.end_ns = end, at_ns
        if end is CallEnd.ANSWERED and call.answer_id is not None:
            items, is_beginning = opened.list_items(said.items)
            parent = None if is_beginning else opened.parent
            is_partial = opened.misses_own and not is_beginning
            self._memory.keep(call.answer_id, parent, items, is_partial=is_partial)
        self._lanes.end(lane, opened)
        if call.answer_id is not None:
            lane.last_id = call.answer_id
            lane.was_steered = any(reason == "steered" for _, reason in said.finish_reasons)
            self._lanes.remember(lane, call.body)
        return call

    def _offer(self, event: JsonObject) -> None:
        """Note input that a client sends to a response under way."""
        items = items_of(event.get("input"))
        opened = self._lanes.find_open(text_of(event.get("response_id")))
        if opened is not None and items and opened.stream.reserve(size_bytes(items)):
            opened.offered.append(items)

    def _answer_offer(self, kind: str, event: JsonObject) -> None:
        opened = self._lanes.find_open(text_of(event.get("response_id")))
        if opened is None or not opened.offered:
            return
        items = opened.offered.popleft()
        if kind == "response.inject.created":
            opened.injected.append((opened.stream.item_count, items))
