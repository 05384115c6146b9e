"""Outputs of Codex's shell: whether the command failed (``docs/contract/apis.md#exit-codes``)."""

from __future__ import annotations

from typing import Any

import pytest

from codec.apis.responses.items import read_input_item
from codec.parts import ToolResult

HEAD = "Chunk ID: e96ad4\nWall time: 0.6125 seconds\n"


def fails(output: Any) -> bool:
    """Whether a tool with this output failed."""
    item = {"type": "function_call_output", "call_id": "c-1", "output": output}
    (part,) = read_input_item(item).parts
    assert isinstance(part, ToolResult)
    return part.is_error


@pytest.mark.parametrize(
    "output",
    [
        f"{HEAD}Process exited with code 1\nOriginal token count: 9\nOutput:\nno",
        "Wall time: 0.1 seconds\nProcess exited with code 127\nOutput:\n",
        "Exit code: 2\nWall time: 0.1 seconds\nOutput:\n",
        '{"output":"a","metadata":{"exit_code":1,"duration_seconds":0.1}}',
        '{"output":"a","metadata":{"exit_code":-9}}',
    ],
)
def test_a_command_with_an_exit_code_failed(output: str) -> None:
    """In each form that Codex has written it."""
    assert fails(output)


@pytest.mark.parametrize(
    "output",
    [
        f"{HEAD}Process exited with code 0\nOutput:\nok",
        f"{HEAD}Process running with session ID 3\nOutput:\n",
        '{"output":"a","metadata":{"exit_code":0,"duration_seconds":0.1}}',
        "The manual says:\nExit code: 1\n",
        f"Look:\n{HEAD}Process exited with code 1\n",
        '{"output":"\\"metadata\\":{\\"exit_code\\":1}}"}',
        "Process exited with code 1",
        "",
        None,
        [{"type": "input_text", "text": "Exit code: 1\n"}],
    ],
)
def test_any_other_output_is_no_failure(output: Any) -> None:
    """Whatever a program prints, a page says, or another client writes."""
    assert not fails(output)


def test_a_long_output_is_read_in_linear_time() -> None:
    """Its head and its last bytes alone decide."""
    assert not fails('{"output":"' + '"metadata":{"exit_code":1,' * 400_000)
