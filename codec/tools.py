"""A tool on offer, in the form of OpenAI's chats and of the APIs that copy it."""

from __future__ import annotations

from typing import Any

from codec.call import Tool
from codec.members import object_of, text_of

__all__ = ("read_tool",)


def read_tool(value: Any) -> Tool:
    """Read a tool, which is described under the name of its type."""
    if not isinstance(value, dict):
        return Tool(type="", value=value)
    kind = text_of(value.get("type")) or "function"
    members = object_of(value.get(kind))
    return Tool(
        type=kind,
        name=text_of(members.get("name")),
        description=text_of(members.get("description")),
        parameters=members.get("parameters"),
        value=value,
    )
