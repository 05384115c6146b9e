"""The tools of a request, and the choice of them (``docs/contract/sources.md#s4-9``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from codec.errors import MalformedRequest
from codec.members import object_of, string_of
from codec.values._members import Members, others, put

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("ToolChoice", "ToolDefinition", "decode_tool", "decode_tool_choice")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """A tool that may be called.

    Attributes:
        parameters: the JSON Schema of its arguments.
        strict: whether the arguments must follow the schema.
        function_extra: other members of ``function``.
        native: the definition as it came, if it is not a function (such as null); else ``UNSET``.
    """

    name: str | None = None
    description: str | None = None
    parameters: Any = None
    strict: bool | None = None
    function_extra: Members = field(default_factory=dict)
    extra: Members = field(default_factory=dict)
    native: Any = UNSET

    def to_json(self) -> Any:
        """Return the definition as OpenAI has it."""
        if self.native is not UNSET:
            return self.native
        function = put(
            {},
            name=self.name,
            description=self.description,
            parameters=self.parameters,
            strict=self.strict,
        )
        whole = {"type": "function", "function": function | dict(self.function_extra)}
        return whole | dict(self.extra)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """Which tools must be called. One of the three is set.

    Attributes:
        mode: a word: ``auto``, ``none``, ``required``, or a provider's own.
        function: the name of the one function to call.
        native: any other form, as it came.
    """

    mode: str | None = None
    function: str | None = None
    native: JsonObject | None = None

    def to_json(self) -> Any:
        """Return the value of ``tool_choice``."""
        if self.function is not None:
            return {"type": "function", "function": {"name": self.function}}
        return self.native if self.mode is None else self.mode


def decode_tool(value: Any) -> ToolDefinition:
    """Read one definition, of any JSON type."""
    tool = object_of(value)
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, dict):
        return ToolDefinition(native=value)
    strict = function.get("strict")
    read: dict[str, Any] = {
        "name": string_of(function.get("name")),
        "description": string_of(function.get("description")),
        "parameters": function.get("parameters"),
        "strict": strict if isinstance(strict, bool) else None,
    }
    return ToolDefinition(
        **read,
        function_extra=others(function, **read),
        extra=others(tool, "type", "function"),
    )


def decode_tool_choice(value: Any) -> ToolChoice | None:
    """Read ``tool_choice``; ``None`` if it is absent or null.

    Raises:
        MalformedRequest: it is neither a word nor an object.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return ToolChoice(mode=value)
    if not isinstance(value, dict):
        raise MalformedRequest("tool_choice is neither a word nor an object")
    name = string_of(object_of(value.get("function")).get("name"))
    choice = ToolChoice(function=name) if name is not None else None
    return choice if choice and choice.to_json() == value else ToolChoice(native=value)
