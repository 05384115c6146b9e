"""Every recorded request of Gemini; the answers are in :mod:`tests.corpus.test_apis`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.gemini.asked import ContentRequest
from codec.parts import Media, Reasoning, Text, ToolCall, ToolResult
from tests.corpus.oracle import parse_json
from tests.corpus.recordings import (
    NEEDS_RECORDINGS,
    load_all,
    load_gemini,
    load_gemini_streams,
)

if TYPE_CHECKING:
    from tests.corpus.recordings import Recording

RECORDINGS = load_all(load_gemini, load_gemini_streams)
PARTS = {
    "functionCall": ToolCall,
    "function_call": ToolCall,
    "executableCode": ToolCall,
    "functionResponse": ToolResult,
    "function_response": ToolResult,
    "inlineData": Media,
    "inline_data": Media,
    "fileData": Media,
    "file_data": Media,
}
"""What parts are read as, but for texts (``docs/contract/apis.md#gemini-request``)."""

pytestmark = NEEDS_RECORDINGS


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda one: one.id)
def test_a_recorded_request_is_read_part_by_part(recording: Recording) -> None:
    """The system instruction, then each content: its parts in order, in either spelling."""
    asked = parse_json(recording.request)
    request = ContentRequest(asked, recording.target.decode().partition("?")[0])
    assert request.fault is None
    assert request.model
    assert request.stream is (b":stream" in recording.target)
    messages = list(request.read_messages())
    if asked.get("systemInstruction") or asked.get("system_instruction"):
        assert messages.pop(0).role == "system"
    assert [one.role for one in messages] == [
        content.get("role", "user") for content in asked["contents"]
    ]
    for content, said in zip(asked["contents"], messages, strict=True):
        expected = [kind for part in content["parts"] if (kind := _kind_of(part)) is not None]
        if len(content["parts"]) == 1 and expected == [Text] and isinstance(said.content, str):
            assert said.content == content["parts"][0]["text"]
            assert "thoughtSignature" not in content["parts"][0]
        else:
            assert [type(part) for part in said.parts] == expected
    declared: list[Any] = []
    for tool in asked.get("tools") or []:
        functions = tool.get("functionDeclarations") or tool.get("function_declarations") or []
        declared += [one["name"] for one in functions]
        declared += [name for name in tool if tool[name] is not None and "unction" not in name]
    assert [tool.title for tool in request.read_tools()] == declared


def _kind_of(part: dict[str, Any]) -> type | None:
    """What a part is read as; ``None`` where it says nothing."""
    for name, kind in PARTS.items():
        if name in part:
            return kind
    if part.get("thought") and ("text" in part or "thoughtSignature" in part):
        return Reasoning
    return Text if "text" in part else None
