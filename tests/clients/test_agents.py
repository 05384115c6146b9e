"""Agents of others' libraries call tools through the proxy, and each call is one true span."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json_object
from telemetry.observing.exchange import Outcome
from tests.clients.stage import open_stage
from tests.docs.reader import run
from tests.e2e.processes import clean_environment
from tests.lanes import find_programs
from tests.telemetry.exchanges import build_exchange_attributes

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

_ARGUMENTS = "tool_calls.0.tool_call.function.arguments"
_SCRIPT = Path(__file__).with_name("agents_python.py")


def read_messages(exchange: Exchange, which: str) -> list[dict[str, Any]]:
    """The messages of a span, each with the rest of its keys."""
    messages: dict[int, dict[str, Any]] = {}
    for key, value in build_exchange_attributes(exchange).items():
        if key.startswith(f"llm.{which}_messages."):
            index, _, rest = key.removeprefix(f"llm.{which}_messages.").partition(".message.")
            messages.setdefault(int(index), {})[rest] = value
    return [messages[index] for index in sorted(messages)]


@pytest.mark.timeout(180)  # some of them take ten seconds to be imported
@pytest.mark.parametrize("way", ["plain", "streamed"])
@pytest.mark.parametrize("library", ["openai", "pydantic"])
async def test_an_agent_calls_tools(library: str, way: str, tmp_path: Path) -> None:
    """The question with its tools is one span, what they answered and the end is the other."""
    python = find_programs("clients") / "python"
    async with open_stage() as stage:
        environment = clean_environment() | {
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": stage.proxied_url,
        }
        command = f"exec '{python}' '{_SCRIPT}' {library} {way}"
        printed = await run(command, tmp_path, environment)
        await stage.sink.wait_for(2)
    for exchange in stage.sink.exchanges:
        assert (exchange.endpoint, exchange.streamed) == ("responses", way == "streamed")
        assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
        shown = build_exchange_attributes(exchange)
        assert shown["llm.token_count.completion"]
        schema = decode_json_object(str(shown["llm.tools.0.tool.json_schema"]))
        assert schema["name"] == "get_weather"
    asked, answered = stage.sink.exchanges
    question = read_messages(asked, "input")
    assert [message["role"] for message in question] == ["system", "user"]
    calls = read_messages(asked, "output")
    told = read_messages(answered, "input")[len(question) :]
    assert [call["tool_calls.0.tool_call.function.name"] for call in calls] == ["get_weather"] * 2
    made = [message for message in told if message["role"] == "assistant"]
    results = [message for message in told if message["role"] == "tool"]
    for call, again, result in zip(calls, made, results, strict=True):
        for one in (call, again):  # the libraries may write them anew
            one[_ARGUMENTS] = decode_json_object(one[_ARGUMENTS])
        assert again == call
        assert result["tool_call_id"] == call["tool_calls.0.tool_call.id"]
        assert result["content"].startswith(f"{call[_ARGUMENTS]['city']}: sun")
    [said] = read_messages(answered, "output")
    assert said["contents.0.message_content.text"] == printed.strip()
