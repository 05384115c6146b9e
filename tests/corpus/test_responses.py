"""Every recorded request of the Responses API; the answers are in :mod:`tests.corpus.test_apis`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.responses.asked import ResponseRequest
from codec.apis.responses.stream import ResponseStream
from tests.corpus.oracle import is_stream, parse_json
from tests.corpus.recordings import NEEDS_RECORDINGS, load_all, load_responses

if TYPE_CHECKING:
    from tests.corpus.recordings import Recording

RECORDINGS = load_all(load_responses)
STREAMS = [one for one in RECORDINGS if is_stream(one.text)]

pytestmark = NEEDS_RECORDINGS


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda one: one.id)
def test_a_recorded_request_is_read_item_by_item(recording: Recording) -> None:
    """The instructions, then a message for each item, roles and call ids as sent."""
    asked = parse_json(recording.request)
    if not isinstance(asked, dict):
        return
    request = ResponseRequest(asked)
    assert request.fault is None
    given = asked.get("input") or []
    items: list[Any] = [{"role": "user", "content": given}] if isinstance(given, str) else given
    messages = list(request.read_messages())
    if asked.get("instructions"):
        first = messages.pop(0)
        assert (first.role, first.content) == ("system", asked["instructions"])
    assert len(messages) == len(items)
    for message, item in zip(messages, items, strict=True):
        kind = item.get("type", "message")
        role = "tool" if kind.endswith("_output") else "assistant"
        assert message.role == (item.get("role") or role)
        if kind == "function_call":
            [call] = message.tool_calls
            assert (call.id, call.name, call.arguments) == (
                item["call_id"],
                item["name"],
                item["arguments"],
            )
    names = [tool.title for tool in request.read_tools()]
    brought = [item["tools"] for item in items if item.get("type") == "additional_tools"]
    given = [tool for some in (asked.get("tools") or [], *brought) for tool in some]
    tools = [one for tool in given for one in tool.get("tools") or [tool]]
    for name, tool in zip(names, tools, strict=True):
        assert name == (tool.get("server_label") or tool.get("name") or tool["type"])


_ENDS = re.compile(
    rb'(?s)event: response\.(?:completed|incomplete|failed)\r?\n.*|data: ?\{"type": ?'
    rb'"response\.(?:completed|incomplete|failed)".*'
)
_INDEX = re.compile(rb'("output_index": ?)[0-9]+')


def read_items(body: bytes) -> Any:
    """What the items of a stream are that nothing tells whole at its end."""
    stream = ResponseStream()
    stream.feed(_ENDS.sub(b"", body))
    return stream.finish().items


@pytest.mark.parametrize("recording", STREAMS, ids=lambda one: one.id)
def test_items_that_all_have_one_index_are_those_of_the_response(recording: Recording) -> None:
    """None takes the place of another, and all stand in the order in which they began."""
    assert read_items(_INDEX.sub(rb"\g<1>0", recording.text)) == read_items(recording.text)
