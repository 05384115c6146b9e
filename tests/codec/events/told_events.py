"""The chunks that streams of events are made of, and the events in short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.events import (
    ArgumentsDelta,
    ArgumentsDone,
    ChatEventStream,
    ContentDelta,
    EventOrder,
    LogprobsContentDelta,
    LogprobsRefusalDelta,
    RefusalDelta,
)
from tests.fixtures.wire import calls, open_stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codec.chat.answer import ChatResponse
    from codec.events import ChatEvent
    from codec.text.jsontext import JsonObject

DELTAS = (ArgumentsDelta, ContentDelta, LogprobsContentDelta, LogprobsRefusalDelta, RefusalDelta)
CHUNK = open_stream("kettle-1")
SDK = EventOrder.OPENAI_PYTHON


def said(content: str, finish: str | None = None, *, index: int = 0) -> JsonObject:
    """A chunk with text."""
    return CHUNK({"content": content}, finish, index=index)


def called(*entries: JsonObject, finish: str | None = None) -> JsonObject:
    """A chunk with tool calls."""
    return CHUNK(calls(*entries), finish)


def token(text: str) -> JsonObject:
    """One entry of log probabilities."""
    return {"token": text, "logprob": -0.5, "bytes": None, "top_logprobs": []}


def short(event: ChatEvent) -> str:
    """The type of an event, tool calls with their index."""
    if isinstance(event, ArgumentsDelta | ArgumentsDone):
        return f"tool.{event.type.rpartition('.')[2]} {event.index}"
    return event.type


def told(
    *chunks: Any, order: EventOrder = EventOrder.WIRE, stream: ChatEventStream | None = None
) -> list[list[str]]:
    """The events of each chunk, in short."""
    stream = stream or ChatEventStream(order=order)
    return [[short(event) for event in stream.feed(chunk)] for chunk in chunks]


def everything(*chunks: Any, order: EventOrder = EventOrder.WIRE) -> list[ChatEvent]:
    """All events of a stream, its end included."""
    stream = ChatEventStream(order=order)
    return [event for chunk in chunks for event in stream.feed(chunk)] + stream.finish()


def dones(events: Iterable[ChatEvent]) -> list[tuple[int, str]]:
    """Index and arguments of the tool calls that were done."""
    return [(e.index, e.arguments) for e in events if isinstance(e, ArgumentsDone)]


def sums(events: Iterable[ChatEvent]) -> dict[tuple[int, str], Any]:
    """The deltas put together, by choice and kind; of calls the ids and arguments."""
    whole: dict[Any, Any] = {}
    ids = {}
    for event in events:
        if not isinstance(event, DELTAS):
            continue
        key: Any = (event.choice_index, event.type)
        if isinstance(event, ArgumentsDelta):
            key = (event.choice_index, id(event.so_far.items))  # one list for each call
            ids[key] = event.call_id
        whole[key] = whole[key] + event.delta if key in whole else event.delta
        assert event.snapshot == whole[key]
    for key, call_id in ids.items():
        whole.setdefault((key[0], "calls"), []).append((call_id or "", whole.pop(key)))
    return {key: sorted(v) if key[1] == "calls" else v for key, v in whole.items() if v}


def values(response: ChatResponse) -> dict[tuple[int, str], Any]:
    """The same of an answer."""
    whole: dict[tuple[int, str], Any] = {}
    for choice in response.choices:
        message = choice.message
        whole[choice.index, "content.delta"] = message.content
        whole[choice.index, "refusal.delta"] = message.refusal
        for member in ("content", "refusal"):
            tokens = (choice.logprobs or {}).get(member) or ()
            whole[choice.index, f"logprobs.{member}.delta"] = tuple(tokens)
        made = sorted((made.id or "", made.arguments) for made in message.tool_calls)
        whole[choice.index, "calls"] = made
    return {key: value for key, value in whole.items() if value}
