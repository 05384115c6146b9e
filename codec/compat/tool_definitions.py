"""Tool definitions from a table of parameters (``docs/contract/sources.md#s3-10``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codec.text.jsontext import JsonObject

__all__ = ("ToolParameter", "build_tool_definition")

_TYPES = {
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "str": "string",
    "list": "array",
    "dict": "object",
}
"""Python's names; a name of JSON Schema stands for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParameter:
    """One parameter of a tool.

    Attributes:
        type: a type by Python's name or by JSON Schema's.
        description: left out where it is empty.
        default: left out where it is false in Python's sense, as it is there.
    """

    type: str
    description: str = ""
    required: bool = True
    default: Any = None


def build_tool_definition(
    name: str, parameters: Mapping[str, ToolParameter], *, description: str = ""
) -> JsonObject:
    """Build the definition of a tool as OpenAI has it."""
    function: JsonObject = {"name": name}
    if description:
        function["description"] = description
    function["parameters"] = {
        "type": "object",
        "properties": {name: _schema(parameter) for name, parameter in parameters.items()},
        "required": [name for name, parameter in parameters.items() if parameter.required],
    }
    return {"type": "function", "function": function}


def _schema(parameter: ToolParameter) -> JsonObject:
    schema: JsonObject = {"type": _TYPES.get(parameter.type, parameter.type)}
    if parameter.description:
        schema["description"] = parameter.description
    if parameter.default:
        schema["default"] = parameter.default
    return schema
