"""Code as the action of an agent: smolagents' CodeAgents write it into their answers."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final

from codec.parts import ToolCall
from codec.text.python_notation import unescape_python

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = (
    "CODE_TOOL",
    "FINAL_TOOL",
    "cut_code_end",
    "find_code",
    "find_delegations",
    "make_code_call",
    "may_be_final",
)

FINAL_TOOL: Final = "final_answer"
"""The tool with which an agent gives its answer."""

CODE_TOOL: Final = "python_interpreter"
"""The tool that runs the code of an agent that acts by code."""

_CODE: Final = re.compile(
    r"<code>(.*?)(?:</code>|\Z)|```(?:python|py)\n(.*?)(?:\n```|<end_code>|\Z)", re.DOTALL
)
_CODE_END: Final = "</code>"
_FINAL_CALL: Final = re.compile(rf"\b{FINAL_TOOL}\s*\(")

_DELEGATION: Final = re.compile(
    r"\b([A-Za-z_]\w{0,255})\(\s*+(?:task\s*+=\s*+)?"
    r"""(\"{3}(?:[^\\"]|\\.|"(?!""))*+\"{3}|"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')""",
    re.DOTALL,
)
"""A call of a name with a text: ``pilot("Find out ...")``."""


def find_code(text: str) -> str | None:
    r"""Find the code in an answer of an agent that acts by code; ``None`` if there is none.

    >>> find_code("Thought: add.\n<code>\nprint(1 + 1)\n")
    'print(1 + 1)'
    """
    blocks = [(found[1] or found[2] or "").strip() for found in _CODE.finditer(text)]
    return "\n\n".join(blocks) if blocks else None


def cut_code_end(text: str) -> str:
    """Cut off the tag that ends code: a model stops before it, and the agent adds it."""
    return text.rstrip().removesuffix(_CODE_END) if _CODE_END in text else text.rstrip()


def make_code_call(code: str) -> ToolCall:
    """Make the call that runs code."""
    return ToolCall(name=CODE_TOOL, arguments=code, type="custom")


def may_be_final(call: ToolCall) -> bool:
    """Tell whether a call gives the agent's answer, or runs code that may do so."""
    if call.name == CODE_TOOL:
        return _FINAL_CALL.search(call.arguments) is not None
    return call.name == FINAL_TOOL


def find_delegations(code: str) -> Iterator[tuple[str, str]]:
    """Yield what code gives to other agents: each name that it calls with a text, and the text."""
    for found in _DELEGATION.finditer(code):
        quotes = 3 if found[2].startswith('"""') else 1
        with contextlib.suppress(ValueError):
            yield found[1], unescape_python(found[2][quotes:-quotes])
