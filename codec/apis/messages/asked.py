"""A request for a message: a system prompt, messages and tools."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import unquote

from codec.apis.claude_code import find_session, read_labels
from codec.apis.messages.blocks import read_message, split_results
from codec.asked import Asked, ReadList, Tool
from codec.members import list_of, object_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codec.parts import Message

__all__ = ("MessageRequest",)

_CLIENT_TOOL: Final = "custom"
"""The type of a tool that the client runs; most clients leave it out."""

_MODEL_IN_PATH: Final = re.compile(r"/models/(?P<model>[^/]+):[A-Za-z]+$")
"""Vertex AI names the model in the path, and not in the body."""


class MessageRequest(Asked, frozen=True, gc=False):
    """A request for a message."""

    content_members: ClassVar[frozenset[str]] = frozenset({"messages", "system", "tools"})
    tool_members: ClassVar[frozenset[str]] = frozenset(
        {"tools", "tool_choice", "mcp_servers", "context_management"}
    )
    server_members: ClassVar[frozenset[str]] = frozenset({"mcp_servers"})
    function_members: ClassVar[frozenset[str]] = frozenset({"description", "input_schema"})

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request for a message; ``None`` if it is one."""
        if not isinstance(self.body.get("messages"), list):
            return "messages is not a list"
        if not isinstance(self.body.get("system"), str | list | None):
            return "system is neither text nor a list"
        if not isinstance(self.body.get("tools"), list | None):
            return "tools is not a list"
        return None

    @property
    def model(self) -> str | None:
        """The model asked for, in the body or in the path."""
        named = text_of(self.body.get("model"))
        found = None if named else _MODEL_IN_PATH.search(self.path)
        return unquote(found["model"]) if found else named

    @property
    def stream(self) -> bool:
        """Whether a stream was asked for, by the body or by Vertex AI's path."""
        return self.body.get("stream") is True or self.path.endswith(":streamRawPredict")

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters under the names that chat completions give them.

        The service tier is left out: the names here are for OpenAI's tiers, and Anthropic has
        others.
        """
        body = self.body
        output = object_of(body.get("output_config"))
        named: dict[str, Any] = {
            "stop": body.get("stop_sequences"),
            "response_format": output.get("format") or body.get("output_format"),
            "reasoning_effort": output.get("effort"),
        }
        known = {name: value for name, value in named.items() if value is not None}
        return {name: value for name, value in body.items() if name != "service_tier"} | known

    @property
    def instruction_count(self) -> int:
        """1 if there is a system prompt, which is not part of the history."""
        return 1 if self.body.get("system") else 0

    @property
    def session_id(self) -> str | None:
        """The session of Claude Code."""
        return find_session(self.body)

    @property
    def labels(self) -> Mapping[str, Any]:
        """The metadata, without an id that names a session."""
        return read_labels(self.body)

    def read_messages(self) -> Sequence[Message]:
        """Read the system prompt, and then the messages in their order."""
        asked = [
            one for message in list_of(self.body.get("messages")) for one in split_results(message)
        ]
        if self.instruction_count:
            asked.insert(0, {"role": "system", "content": self.body["system"]})
        return ReadList(asked, read_message)

    def read_tools(self) -> Sequence[Tool]:
        """Read the tools on offer."""
        return ReadList(list_of(self.body.get("tools")), _read_tool)

    @property
    def offered_names(self) -> frozenset[str] | None:
        """The names of the tools on offer; ``None`` if a server may offer more."""
        return None if self.body.get("mcp_servers") else super().offered_names


def _read_tool(value: Any) -> Tool:
    if not isinstance(value, dict):
        return Tool(type="", value=value)
    kind = text_of(value.get("type")) or _CLIENT_TOOL
    return Tool(
        type="function" if kind == _CLIENT_TOOL else kind,
        name=text_of(value.get("name")),
        description=text_of(value.get("description")),
        parameters=value.get("input_schema"),
        value=value,
    )
