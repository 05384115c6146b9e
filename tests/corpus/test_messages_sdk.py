"""Every recorded message, folded by the codec and by the anthropic SDK: equal, or for a reason.

The SDK reads the same bytes with its own event decoder and its own accumulation. Where the two
differ, one of :data:`REASONS` says why, looked for in the traffic itself. A difference without a
reason fails, and so does a reason that nothing needs.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from anthropic import Anthropic, Stream
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent

from codec.apis.messages.said import read_answer
from codec.apis.messages.stream import MessageStream
from tests.corpus.oracle import is_stream
from tests.corpus.recordings import NEEDS_RECORDINGS, load_all, load_messages

if TYPE_CHECKING:
    from codec.apis.messages.said import MessageAnswer
    from tests.corpus.recordings import Recording

pytestmark = NEEDS_RECORDINGS

_STARTS = re.compile(rb'"type": ?"message_start"')
_COUNTED = re.compile(
    rb'"((?:input|output|cache_read_input|cache_creation_input)_tokens)": ?[0-9]+'
)
_INDEX = re.compile(rb'("type": ?"content_block_[a-z]+", ?"index": ?)[0-9]+')

ANSWERED = [one for one in load_all(load_messages) if one.status < 400]
STREAMS = [one for one in ANSWERED if is_stream(one.body)]
COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


REASONS: dict[str, tuple[str, bytes]] = {
    "input": ("its stream knows no tools of MCP servers", b'"mcp_tool_use"'),
    "model": ("it leaves out that another model goes on", b'"fallback"'),
    "content": ("it reads half of the arguments of a call that was cut", b'"max_tokens"'),
    "id": ("it puts a second message into the first", b'"message_start"'),
    "raised": ("it decodes [DONE]", b"[DONE]"),
}
"""Why something differs, and the bytes in which the reason is seen."""


def fold_by_sdk(body: bytes) -> tuple[Any, Exception | None]:
    """What the SDK accumulates, and what it raised on the way, if anything."""
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    event_type: Any = RawMessageStreamEvent  # a union, which the SDK takes for a type
    try:
        for event in Stream(cast_to=event_type, response=_response(body), client=_client()):
            snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)
    except Exception as error:  # noqa: BLE001 - whatever it raises is what is asked about
        return snapshot, error
    return snapshot, None


@cache
def _client() -> Anthropic:
    return Anthropic(api_key="none", base_url="http://localhost")


def _response(body: bytes) -> httpx2.Response:
    request = httpx2.Request("POST", "http://localhost/v1/messages")
    head = {"content-type": "text/event-stream"}
    return httpx2.Response(200, content=body, headers=head, request=request)


def _events(recording: Recording) -> list[bytes]:
    """The events as they came, each with the blank line behind it."""
    return re.findall(rb"(?s).+?(?:\r?\n\r?\n|$)", recording.body)


def describe(message: dict[str, Any]) -> dict[str, Any]:
    """What is compared: all that is said, and the counts."""
    usage = message.get("usage") or {}
    return {
        "id": message.get("id"),
        "model": message.get("model"),
        "role": message.get("role"),
        "stop_reason": message.get("stop_reason"),
        "content": [_describe_block(block) for block in message.get("content") or []],
        **{name: usage.get(name) for name in COUNTS},
    }


def _describe_block(block: dict[str, Any]) -> dict[str, Any]:
    """The members with a value; a signature is compared where it came in one piece."""
    return {name: _plain(value) for name, value in block.items() if value not in (None, [], "")}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def read(recording: Recording) -> MessageAnswer:
    """What the codec makes of it."""
    if not is_stream(recording.body):
        return read_answer(recording.body)
    stream = MessageStream()
    stream.feed(recording.body)
    return stream.finish()


def find_differences(recording: Recording) -> set[str]:
    """What the SDK makes otherwise of a stream, by the name of its reason."""
    theirs, raised = fold_by_sdk(_named(recording.body))
    told, expected = describe(dict(read(recording).body)), describe(theirs.to_dict(warnings=False))
    found = {"raised"} if raised is not None else set()
    if told["id"] != expected["id"]:
        return found | {"id"}  # all else is another message's
    for name, value in told.items():
        if name != "content" and value != expected[name]:
            found.add(name)
    for ours, other in zip(told["content"], expected["content"], strict=True):
        for name in {*ours, *other}:
            if ours.get(name) != other.get(name):
                is_cut = isinstance(ours.get(name), str)
                found.add("content" if name == "input" and is_cut else name)
    return found


def _named(body: bytes) -> bytes:
    """The events with their names, which the SDK goes by and some recordings lack."""
    if b"event:" in body:
        return body
    return re.sub(rb'(?m)^data: ?(\{"type": ?"([a-z_]+)")', rb"event: \2\ndata: \1", body)


@pytest.mark.parametrize("recording", STREAMS, ids=lambda one: one.id)
def test_a_stream_is_what_the_sdk_makes_of_it(recording: Recording) -> None:
    """Every block, the reason to end, and all counts; or there is a reason."""
    found = find_differences(recording)
    assert found <= REASONS.keys()
    for name in found:
        times = 2 if name == "id" else 1
        assert recording.body.count(REASONS[name][1]) >= times, name


def test_every_reason_is_needed() -> None:
    """By one of the recordings at least."""
    assert set().union(*map(find_differences, STREAMS)) == REASONS.keys()


WHOLE = [one for one in STREAMS if len(_STARTS.findall(one.body)) == 1]
"""Streams of one message."""


@pytest.mark.parametrize("recording", WHOLE, ids=lambda one: one.id)
def test_a_beginning_that_is_told_again_changes_nothing(recording: Recording) -> None:
    """Wherever before the end, with counts that nobody knows; so the SDK has it."""
    events = _events(recording)
    at = next(place for place, event in enumerate(events) if _STARTS.search(event))
    last = len(events) if b"message_stop" not in recording.body else len(events) - 2
    unknown = _COUNTED.sub(rb'"\1":0', events[at])
    events.insert(random.Random(recording.id).randrange(at + 1, max(at + 2, last)), unknown)
    again = replace(recording, body=b"".join(events))
    assert read(again).body == read(recording).body
    assert read(again).usage == read(recording).usage
    theirs, _ = fold_by_sdk(_named(again.body))
    assert theirs == fold_by_sdk(_named(recording.body))[0]


@pytest.mark.parametrize("recording", WHOLE, ids=lambda one: one.id)
def test_blocks_that_all_have_one_index_are_those_of_the_message(recording: Recording) -> None:
    """None takes the place of another, and all stand in the order in which they began."""
    alike = replace(recording, body=_INDEX.sub(rb"\g<1>0", recording.body))
    assert read(alike).body == read(recording).body
