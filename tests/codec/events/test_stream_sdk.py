"""The events beside openai-python's own, of the same chunks and in its order.

Where the two differ, :data:`DIFFERENCES` has the reason by name.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import omit
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk
from pydantic import BaseModel

from codec.errors import LengthReached
from codec.events import (
    ArgumentsDelta,
    ArgumentsDone,
    ChatEventStream,
    ChunkEvent,
    ContentDelta,
    ContentDone,
    EventOrder,
    LogprobsContentDelta,
    LogprobsContentDone,
    LogprobsRefusalDelta,
    LogprobsRefusalDone,
    RefusalDelta,
    RefusalDone,
)
from tests.fixtures.wire import call, calls, open_stream, usage_of

if TYPE_CHECKING:
    from codec.events import ChatEvent
    from codec.text.jsontext import JsonObject

CHUNK = open_stream("kettle-1", system_fingerprint="fp_1")
ROLE = {"role": "assistant", "content": "", "refusal": None}


class Order(BaseModel):
    """What a structured answer is read as."""

    cups: list[int]
    warm: bool


def ours(chunks: list[JsonObject]) -> list[JsonObject]:
    """Our events, in the words of openai-python's."""
    stream = ChatEventStream(order=EventOrder.OPENAI_PYTHON)
    return [_describe(event) for chunk in chunks for event in stream.feed(chunk)]


def theirs(chunks: list[JsonObject], response_format: Any = omit) -> list[JsonObject]:
    """Its events, each as it was when it came: snapshots change later."""
    state: ChatCompletionStreamState[Any] = ChatCompletionStreamState(
        response_format=response_format
    )
    told = []
    for chunk in chunks:
        for event in state.handle_chunk(ChatCompletionChunk.construct(**copy.deepcopy(chunk))):
            shown = event.to_dict(mode="json", warnings=False)
            shown.pop("parsed_arguments", None)
            if event.type == "chunk":
                shown = {"type": "chunk", "chunk": chunk}
            told.append(shown)
    return told


_SHOWN: dict[type[Any], dict[str, str]] = {
    ChunkEvent: {"chunk": "chunk"},
    ContentDelta: {"delta": "delta", "snapshot": "snapshot", "parsed": "parsed"},
    ContentDone: {"content": "content", "parsed": "parsed"},
    RefusalDelta: {"delta": "delta", "snapshot": "snapshot"},
    RefusalDone: {"refusal": "refusal"},
    ArgumentsDelta: {
        "index": "index", "name": "name", "arguments_delta": "delta", "arguments": "snapshot",
    },
    ArgumentsDone: {"index": "index", "name": "name", "arguments": "arguments"},
    LogprobsContentDelta: {"content": "delta", "snapshot": "snapshot"},
    LogprobsContentDone: {"content": "content"},
    LogprobsRefusalDelta: {"refusal": "delta", "snapshot": "snapshot"},
    LogprobsRefusalDone: {"refusal": "refusal"},
}  # fmt: skip
"""The members of openai-python's events, and ours."""


def _describe(event: ChatEvent) -> JsonObject:
    shown = {theirs: getattr(event, ours) for theirs, ours in _SHOWN[type(event)].items()}
    lists = {name: [*value] for name, value in shown.items() if isinstance(value, tuple)}
    return {"type": event.type} | shown | lists


def without_parsed(events: list[JsonObject]) -> list[JsonObject]:
    """The events but for what is made of JSON."""
    return [{key: value for key, value in e.items() if key != "parsed"} for e in events]


def token(text: str) -> JsonObject:
    """One entry of log probabilities."""
    return {"token": text, "logprob": -0.25, "bytes": list(text.encode()), "top_logprobs": []}


def spoken(member: str, *pieces: str, index: int = 0, logprobs: bool = False) -> list[JsonObject]:
    """Chunks with text, and the log probabilities of it."""
    other = {"content": "refusal", "refusal": "content"}[member]
    return [
        CHUNK(
            {member: piece},
            index=index,
            choice={"logprobs": {member: [token(piece)], other: None} if logprobs else None},
        )
        for piece in pieces
    ]


def calling(index: int, name: str, *pieces: str, choice_index: int = 0) -> list[JsonObject]:
    """Chunks with a tool call, the first without arguments."""
    first = CHUNK(calls(call(index, f"call_{name}", name, "")), index=choice_index)
    more = [CHUNK(calls(call(index, None, None, piece)), index=choice_index) for piece in pieces]
    return [first, *more]


def stream_of(*chunks: JsonObject, finish: str = "stop") -> list[JsonObject]:
    """A well-formed stream of one choice: role, chunks, finish reason, usage."""
    usage = CHUNK.alone(usage=usage_of(9, 4))
    return [CHUNK(dict(ROLE)), *chunks, CHUNK({}, finish), usage]


THREE = [
    chunk
    for pieces in (("Tea", " is"), ("No", " tea"), ("Per", "haps"))
    for chunk in [CHUNK(dict(ROLE), index=("Tea", "No", "Per").index(pieces[0]))]
] + [
    chunk
    for texts in (("Tea", "No", "Per"), (" is", " tea", "haps"))
    for index, text in enumerate(texts)
    for chunk in spoken("content", text, index=index)
]

STREAMS = {
    "plain": stream_of(*spoken("content", "The kettle", " boils", ".")),
    "three choices": [*THREE, *(CHUNK({}, "stop", index=index) for index in (1, 0, 2))],
    "too few tokens": stream_of(*spoken("content", "The ket"), finish="length"),
    "refusal": stream_of(*spoken("refusal", "I will not", " boil", " that.")),
    "log probabilities of content": stream_of(*spoken("content", "Te", "a", logprobs=True)),
    "log probabilities of a refusal": stream_of(
        *spoken("refusal", "No", ",", " not", " in", " this", " pot", "!", logprobs=True)
    ),
    "one tool": stream_of(*calling(0, "boil", '{"cups', '":2', "}"), finish="tool_calls"),
    "two tools": stream_of(
        *spoken("content", "One", " moment."),
        *calling(0, "boil", '{"cups":2}'),
        *calling(1, "pour", "{", "}"),
        finish="tool_calls",
    ),
    "tools and log probabilities": stream_of(
        *spoken("content", "Now.", logprobs=True),
        *calling(0, "boil", "{}"),
        *spoken("content", " Or later.", logprobs=True),
        finish="tool_calls",
    ),
    "obfuscation": [
        chunk | {"obfuscation": "x" * place}
        for place, chunk in enumerate(stream_of(*spoken("content", "Te", "a")))
    ],
    "obfuscation of tools": [
        chunk | {"obfuscation": "9zQ"}
        for chunk in stream_of(*calling(0, "boil", '{"cups":', "1}"), finish="tool_calls")
    ],
}


@pytest.mark.parametrize("name", STREAMS)
def test_the_events_are_openai_pythons(name: str) -> None:
    """The same kinds and payloads in the same order (``docs/contract/sources.md#s1-16``)."""
    chunks = STREAMS[name]
    assert without_parsed(ours(chunks)) == without_parsed(theirs(chunks))


def test_a_structured_answer() -> None:
    """What is parsed on the way and in the end, with no schema on our side."""
    chunks = stream_of(*spoken("content", '{"cups":', " [1", ", 2", "],", ' "warm":', " true", "}"))
    expected = theirs(chunks, Order)
    assert {"cups": [1, 2], "warm": True} in [event.get("parsed") for event in expected]
    for mine, other in zip(ours(chunks), expected, strict=True):
        assert (
            mine == {"parsed": None} | other if mine["type"] == "content.delta" else mine == other
        )


def test_a_structured_answer_that_is_cut() -> None:
    """Where openai-python raises for the length, the check does, and events say the rest."""
    chunks = stream_of(*spoken("content", '{"cups": [1'), finish="length")
    with pytest.raises(Exception, match="length limit"):
        theirs(chunks, Order)
    stream = ChatEventStream(order=EventOrder.OPENAI_PYTHON)
    for chunk in chunks:
        stream.feed(chunk)
    with pytest.raises(LengthReached):
        stream.check()


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A stream of which the events differ.

    Attributes:
        reason: what openai-python does, and why we do not.
        chunks: the stream.
        ours: the kinds of events that only we have, in order.
        theirs: those that only openai-python has.
    """

    reason: str
    chunks: list[JsonObject]
    ours: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()


DELTA_CALL = "tool_calls.function.arguments.delta"
DONE_CALL = "tool_calls.function.arguments.done"
DIFFERENCES = {
    "a call that comes again": Difference(
        reason="is done at the switch with half its arguments, and never again",
        chunks=stream_of(
            *calling(0, "boil", '{"cups"'),
            *calling(1, "pour", "{}"),
            CHUNK(calls(call(0, None, None, ":2}"))),
        ),
        ours=(DONE_CALL,),
        theirs=(DONE_CALL,),
    ),
    "an identity that comes again": Difference(
        reason="is appended there, so that the name is two names",
        chunks=stream_of(
            CHUNK(calls(call(0, "c1", "boil", "{"))), CHUNK(calls(call(0, "c1", "boil", "}")))
        ),
        ours=(DELTA_CALL, DONE_CALL),
        theirs=(DELTA_CALL, DONE_CALL),
    ),
    "a call in the chunk that finishes": Difference(
        reason="is never done there: the finish reason is looked at before the call",
        chunks=[CHUNK(dict(ROLE)), CHUNK(calls(call(0, "c1", "boil", "{}")), "tool_calls")],
        ours=(DONE_CALL,),
    ),
    "a call after the finish reason": Difference(
        reason="is done there with the first piece of its arguments (Together's second call)",
        chunks=[
            CHUNK(dict(ROLE)),
            *calling(0, "boil", "{}"),
            CHUNK({}, "tool_calls"),
            *calling(1, "pour", "{", '"x":1}'),
            CHUNK({}, "tool_calls"),
        ],
        ours=(DONE_CALL,),
        theirs=(DONE_CALL,),
    ),
    "an empty refusal": Difference(
        reason="counts as one there; here nothing was refused",
        chunks=stream_of(CHUNK({"refusal": ""})),
        theirs=("refusal.delta", "refusal.done"),
    ),
    "an empty list of log probabilities": Difference(
        reason="is done there, without a delta; here it never began",
        chunks=stream_of(CHUNK({}, choice={"logprobs": {"content": [], "refusal": None}})),
        theirs=("logprobs.content.done",),
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_the_events_differ_for_a_reason(name: str) -> None:
    """The exceptions, each of which is still one (``docs/contract/sources.md#s1-13``)."""
    difference = DIFFERENCES[name]
    mine, other = ours(difference.chunks), theirs(difference.chunks)
    only_mine = [e for e in mine if e not in other]
    only_theirs = [e for e in other if e not in mine]
    assert tuple(e["type"] for e in only_mine) == difference.ours
    assert tuple(e["type"] for e in only_theirs) == difference.theirs


pieces = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4), max_size=4
)
arguments = st.sampled_from(['{"cups":2,"warm":true}', "{}", '{"x":[1,{"y":"z"}]}'])


@st.composite
def choice_streams(draw: st.DrawFn, index: int) -> list[JsonObject]:
    """The chunks of a well-formed choice after its first one."""
    made = []
    for member in ("content", "refusal"):
        made += spoken(member, *draw(pieces), index=index, logprobs=draw(st.booleans()))
    for number in range(draw(st.integers(0, 3))):
        text = draw(arguments)
        cut = draw(st.integers(0, len(text)))
        made += calling(number, f"f{number}", text[:cut], text[cut:], choice_index=index)
    made += spoken("content", *draw(pieces), index=index)
    reason = draw(st.sampled_from(["stop", "tool_calls", "length", "content_filter"]))
    return [*made, CHUNK({}, reason, index=index)]


@st.composite
def streams(draw: st.DrawFn) -> list[JsonObject]:
    """A well-formed stream of up to three choices that take turns."""
    count = draw(st.integers(1, 3))
    waiting = [draw(choice_streams(index)) for index in range(count)]
    # openai-python keeps choices by their place: each has to be there before a later one is.
    made = [CHUNK(dict(ROLE), index=index) for index in range(count)]
    while any(waiting):
        turn = draw(st.sampled_from([chunks for chunks in waiting if chunks]))
        made.append(turn.pop(0))
    return [*made, CHUNK.alone(usage=usage_of(9, 4))]


@given(chunks=streams())
def test_the_events_of_any_well_formed_stream(chunks: list[JsonObject]) -> None:
    """Nothing but what is made of JSON differs, which is asked for there."""
    assert without_parsed(ours(chunks)) == without_parsed(theirs(chunks))
