"""Every recorded request of Messages; the answers are in :mod:`tests.corpus.test_apis`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.messages.asked import MessageRequest
from codec.parts import Media, Reasoning, Text, ToolCall, ToolResult
from tests.corpus.oracle import parse_json
from tests.corpus.recordings import NEEDS_RECORDINGS, load_all, load_messages

if TYPE_CHECKING:
    from tests.corpus.recordings import Recording

RECORDINGS = load_all(load_messages)
PARTS = {
    "text": Text,
    "image": Media,
    "document": Media,
    "container_upload": Media,
    "thinking": Reasoning,
    "redacted_thinking": Reasoning,
    "tool_use": ToolCall,
    "server_tool_use": ToolCall,
    "mcp_tool_use": ToolCall,
    "tool_result": ToolResult,
    "mcp_tool_result": ToolResult,
}
"""What blocks are read as (``docs/contract/apis.md#messages-request``)."""

pytestmark = NEEDS_RECORDINGS


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda one: one.id)
def test_a_recorded_request_is_read_block_by_block(recording: Recording) -> None:
    """The system prompt, then each message: its blocks in order, results by themselves."""
    asked = parse_json(recording.request)
    if not isinstance(asked, dict):
        return
    request = MessageRequest(asked, recording.target.decode().partition("?")[0])
    assert request.fault is None
    assert request.model
    messages = list(request.read_messages())
    if asked.get("system"):
        assert messages.pop(0).role == "system"
    expected: list[tuple[str, Any]] = []
    for message in asked["messages"]:
        content = message["content"]
        if isinstance(content, str):
            expected.append((message["role"], content))
            continue
        for block in content:
            if (kind := PARTS.get(block["type"])) is not None:
                role = "tool" if kind is ToolResult else message["role"]
                expected.append((role, kind))
    told: list[tuple[Any, Any]] = []
    for said in messages:
        if isinstance(said.content, str):
            told.append((said.role, said.content))
        else:
            told += [(said.role, type(part)) for part in said.parts]
    assert told == expected
    names = [tool.title for tool in request.read_tools()]
    assert names == [tool.get("name") or tool["type"] for tool in asked.get("tools") or []]
