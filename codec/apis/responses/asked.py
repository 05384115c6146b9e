"""A request for a response: instructions, items and tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from codec.apis.responses.items import read_input_item
from codec.asked import Asked, ReadList, Tool
from codec.members import list_of, object_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codec.parts import Message

__all__ = ("ResponseRequest", "read_tools")

_CLIENT_TOOLS = frozenset({"function", "custom"})
_BRINGS_TOOLS = frozenset({"additional_tools", "tool_search_output"})
"""Items that bring tools, which need not be among the request's own."""


class ResponseRequest(Asked, frozen=True, gc=False):
    """A request for a response."""

    content_members: ClassVar[frozenset[str]] = frozenset({"input", "instructions", "tools"})
    names_answers: ClassVar[bool] = True
    tool_members: ClassVar[frozenset[str]] = frozenset({"tools", "tool_choice"})
    function_members: ClassVar[frozenset[str]] = frozenset({"description", "parameters"})

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request for a response; ``None`` if it is one."""
        if not isinstance(self.body.get("input"), str | list | None):
            return "input is neither text nor a list"
        if not isinstance(self.body.get("tools"), list | None):
            return "tools is not a list"
        if not isinstance(self.body.get("tool_choice"), str | dict | None):
            return "tool_choice is neither a word nor an object"
        return None

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters under the names that chat completions give them."""
        body = self.body
        tools = self.read_tools()
        named: dict[str, Any] = {
            "max_tokens": body.get("max_output_tokens"),
            "response_format": object_of(body.get("text")).get("format"),
            "reasoning_effort": object_of(body.get("reasoning")).get("effort"),
        }
        if tools and all(tool.type == "image_generation" for tool in tools):
            named["modalities"] = ["image"]
        return {**body, **{name: value for name, value in named.items() if value is not None}}

    @property
    def conversation_id(self) -> str | None:
        """The conversation that the request continues: its id, or an object that has one."""
        conversation = self.body.get("conversation")
        return text_of(conversation) or text_of(object_of(conversation).get("id"))

    @property
    def prompt_id(self) -> str | None:
        """The stored prompt that it uses."""
        return text_of(object_of(self.body.get("prompt")).get("id"))

    @property
    def references(self) -> Mapping[str, str]:
        """A cache, the response before it, and the version of the stored prompt."""
        named = {
            "previous_response_id": text_of(self.body.get("previous_response_id")),
            "prompt_version": text_of(object_of(self.body.get("prompt")).get("version")),
        }
        known = {name: text for name, text in named.items() if text is not None}
        return {**super().references, **known}

    def read_messages(self) -> Sequence[Message]:
        """Read the instructions, and then the items in their order."""
        return ReadList(self._items(), read_input_item)

    def read_tools(self) -> Sequence[Tool]:
        """Read the tools on offer: the request's own, and those that its items bring."""
        own, given = self.body.get("tools"), self.body.get("input")
        brought = [
            item.get("tools")
            for item in (given if isinstance(given, list) else ())
            if type(item) is dict and item.get("type") == "additional_tools"
        ]
        if not brought:
            return read_tools(own)
        lists = [tools for tools in (own, *brought) if isinstance(tools, list)]
        return read_tools([tool for tools in lists for tool in tools])

    @property
    def offered_names(self) -> frozenset[str] | None:
        """The names of the tools on offer; ``None`` if others may be called, too.

        A stored prompt brings tools, and so may items. Tools in different namespaces may have the
        same name.
        """
        tools = self.read_tools()
        if any(tool.type not in _CLIENT_TOOLS or tool.namespace is not None for tool in tools):
            return None
        if self.body.get("prompt"):
            return None
        kinds = [object_of(item).get("type") for item in self._items()]
        if any(kind in _BRINGS_TOOLS for kind in kinds if isinstance(kind, str)):
            return None
        return frozenset(tool.name for tool in tools if tool.name is not None)

    def _items(self) -> Sequence[Any]:
        given = self.body.get("input")
        items = list_of(given)
        if isinstance(given, str):
            items = [{"role": "user", "content": given}]
        if isinstance(instructions := self.body.get("instructions"), str) and instructions:
            return [{"role": "system", "content": instructions}, *items]
        return items


def read_tools(tools: Any) -> Sequence[Tool]:
    """Read a list of tools; the description of each stands beside its type.

    A namespace only groups tools: calls name the tools in it (OpenAI's ``NamespaceTool``).
    """
    return ReadList([pair for each in list_of(tools) for pair in _split_group(each)], _read_tool)


def _split_group(value: Any) -> Sequence[tuple[Any, str | None]]:
    """List the tools in a namespace, each with the namespace's name; or a tool without one."""
    if isinstance(value, dict) and value.get("type") == "namespace":
        inner, name = list_of(value.get("tools")), text_of(value.get("name")) or ""
        if inner:
            return [(tool, name) for tool in inner]
    return [(value, None)]


def _read_tool(pair: tuple[Any, str | None]) -> Tool:
    value, namespace = pair
    if not isinstance(value, dict):
        return Tool(type="", value=value)
    kind = text_of(value.get("type")) or "function"
    server = kind == "mcp"
    return Tool(
        type=kind,
        name=text_of(value.get("server_label" if server else "name")),
        namespace=namespace,
        description=text_of(value.get("server_description" if server else "description")),
        parameters=value.get("parameters"),
        value=value,
    )
