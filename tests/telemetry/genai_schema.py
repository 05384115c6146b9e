"""The published message schema of the GenAI conventions, as far as our parts go.

Written from ``gen-ai-input-messages.json``, ``gen-ai-output-messages.json`` and
``gen-ai-tool-definitions.json`` of the conventions: required members and their types. Unlike there,
a part of a known type that does not keep to it is no generic part.
"""

from __future__ import annotations

from typing import Any

TEXT = (str,)
ANYTHING = (str, int, float, bool, list, dict, type(None))

REQUIRED: dict[str, dict[str, tuple[type, ...]]] = {
    "text": {"content": TEXT},
    "reasoning": {"content": TEXT},
    "tool_call": {"name": TEXT},
    "tool_call_response": {"response": ANYTHING},
    "blob": {"modality": TEXT, "content": TEXT},
    "uri": {"modality": TEXT, "uri": TEXT},
    "file": {"modality": TEXT, "file_id": TEXT},
}
OPTIONAL = {"id": TEXT, "mime_type": TEXT, "name": TEXT, "finish_reason": TEXT}


def check_messages(messages: Any) -> None:
    """Fails where a message or one of its parts is not as the schema has it."""
    assert isinstance(messages, list)
    assert messages
    for message in messages:
        assert message.keys() >= {"role", "parts"}
        assert message.keys() <= {"role", "parts", "name", "finish_reason"}
        assert isinstance(message["role"], str)
        _check_optional(message)
        for part in message["parts"]:
            check_part(part)


def check_part(part: Any) -> None:
    """Fails where a part is not as the schema has it."""
    assert isinstance(part["type"], str)
    known = REQUIRED.get(part["type"])
    if known is not None:
        assert all(isinstance(part[name], types) for name, types in known.items())
        _check_optional(part)


def check_tools(tools: Any) -> None:
    """Fails where a tool's definition is not as the schema has it."""
    assert isinstance(tools, list)
    assert tools
    for tool in tools:
        assert isinstance(tool["type"], str)
        assert isinstance(tool["name"], str)


def _check_optional(members: dict[str, Any]) -> None:
    assert all(isinstance(members[name], OPTIONAL[name]) for name in OPTIONAL.keys() & members)
