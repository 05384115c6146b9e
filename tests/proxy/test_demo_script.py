"""``proxy.demo.script``: what the demo upstream answers."""

from __future__ import annotations

import pytest

from codec.apis.responses.asked import ResponseRequest
from proxy.demo.script import write_script

TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}


@pytest.mark.parametrize(
    ("tools", "may_call"),
    [
        ([TOOL], True),
        ([{"type": "namespace", "name": "functions", "tools": [TOOL]}], False),
        ([{"type": "namespace", "tools": [TOOL]}], False),
    ],
)
def test_tools_in_a_namespace_are_not_called(tools: list[object], *, may_call: bool) -> None:
    """Agents such as Codex offer theirs so, and run what is called."""
    asked = ResponseRequest({"model": "gpt-demo", "input": "Hi", "tools": tools})
    script = write_script(asked, answer_id="1", created=0)
    calls = [delta for answer in script.answers for delta in answer.deltas if delta.call]
    assert bool(calls) is may_call
