"""Agents of the OpenAI Agents SDK over WebSockets: by Responses, and in a Realtime session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codec.text.jsontext import decode_json_object
from tests.clients.web_sockets import Stage, read_roles, serving
from tests.docs.reader import read_spans, run
from tests.e2e.processes import clean_environment
from tests.lanes import find_programs

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = Path(__file__).parent

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(name="stage")
def _stage(tmp_path: Path) -> Iterator[Stage]:
    find_programs("clients")
    with serving(tmp_path) as stage:
        yield stage


async def test_an_agent_calls_tools_over_one_connection(stage: Stage, tmp_path: Path) -> None:
    """It says what it says directly; the second span has what the tools told."""
    python = find_programs("clients") / "python"
    printed = []
    for url in (stage.direct_url, stage.proxied_url):
        environment = clean_environment() | {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": url}
        command = f"exec '{python}' '{_HERE}/agents_python.py' openai websocket"
        printed.append(await run(command, tmp_path, environment))
    direct, proxied = printed
    assert proxied == direct
    spans = await asyncio.to_thread(read_spans, stage.store, 2)
    asked = ["system", "user"]
    told = [*asked, *["assistant"] * 2, *["tool"] * 2]
    assert [read_roles(span) for span in spans] == [asked, told]
    text = "llm.output_messages.0.message.contents.0.message_content.text"
    assert spans[1][text] == proxied.strip()


async def test_an_agent_speaks_in_a_session_as_directly(stage: Stage, tmp_path: Path) -> None:
    """It uses its tools, and tells by sound what they said."""
    python = find_programs("clients") / "python"
    talks = []
    for url in (stage.direct_url, stage.proxied_url):
        session = f"{url.replace('http', 'ws', 1)}/realtime?model=gpt-demo"
        command = f"exec '{python}' '{_HERE}/agents_realtime.py' '{session}'"
        printed = await run(command, tmp_path, clean_environment())
        talks.append(decode_json_object(printed.encode()))
    direct, proxied = talks
    assert proxied == direct
    assert [output for _, _, output in proxied["tools"]] == ["Lisbon: sun", "Oslo: sun"]
    assert proxied["errors"] == []
    said, answered = await asyncio.to_thread(read_spans, stage.store, 2)
    names = [
        said[f"llm.output_messages.{at}.message.tool_calls.0.tool_call.function.name"]
        for at in (0, 1)
    ]
    assert names == ["get_weather"] * 2
    transcript = "llm.output_messages.0.message.contents.0.message_content.audio.audio.transcript"
    assert answered[transcript] == proxied["said"][-1][1][0]
