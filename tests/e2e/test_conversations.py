"""A conversation that nobody names, by the real SDK through the proxy: a session in Phoenix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import openai
import pytest

from tests.e2e.browser import open_page
from tests.e2e.spantap import running_proxy
from tests.e2e.test_browser import take_picture

if TYPE_CHECKING:
    from pathlib import Path

    from codec.text.jsontext import JsonObject
    from tests.e2e.phoenix import Phoenix, StoredSpan

pytestmark = pytest.mark.e2e

PROJECT = "conversations"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
THANKS = "Thanks. And what should I pack?"
LONE = "What is the capital of France?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A conversation of three calls, and a lone question, as Phoenix has them.

    Attributes:
        spans: in the order of the calls.
        project: what Phoenix makes of all.
    """

    spans: list[StoredSpan]
    project: JsonObject


@pytest.fixture(scope="module")
def told(phoenix: Phoenix, upstream_port: int, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """A question that takes tools, its results, a further question; and a lone one."""
    with running_proxy(
        tmp_path_factory.mktemp(PROJECT),
        upstream_port=upstream_port,
        project=PROJECT,
        endpoint=phoenix.url,
        protocol="http/protobuf",
        environment={"SPANTAP_VALUES": "text", "SPANTAP_CONVERSATIONS_AS": "links"},
    ) as proxy:
        with openai.OpenAI(api_key="demo", base_url=proxy.base_url, max_retries=0) as client:
            talk(client)
            ask(client, [{"role": "user", "content": LONE}])
        spans = phoenix.wait_for_spans(PROJECT, 4)
    return Told(spans=spans, project=phoenix.read_project(PROJECT))


def ask(client: openai.OpenAI, messages: list[Any], **more: Any) -> Any:
    """The message of an answer, as it goes back."""
    answer = client.chat.completions.create(model="gpt-demo", messages=messages, **more)
    return answer.choices[0].message.model_dump(exclude_none=True)


def talk(client: openai.OpenAI) -> None:
    """Three calls of an agent, as any program makes them."""
    messages: list[Any] = [{"role": "user", "content": "How is the weather in Lisbon?"}]
    calls = ask(client, messages, tools=[TOOL])
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "Sunny, 24"}
        for call in calls["tool_calls"]
    ]
    messages += [calls, *results]
    messages.append(ask(client, messages, tools=[TOOL]))
    messages.append({"role": "user", "content": THANKS})
    ask(client, messages)


def test_the_calls_are_one_session(told: Told) -> None:
    """Named after its first span; the lone question is in none."""
    (session,) = told.project["sessions"]
    assert session["sessionId"] == f"conv-{told.spans[0].span_id}"
    assert session["numTraces"] == 3
    traces = {edge["node"]["traceId"] for edge in session["traces"]["edges"]}
    assert traces == {span.trace_id for span in told.spans[:3]}
    assert "session.id" not in told.spans[3].attributes


def test_each_call_tells_its_place(told: Told) -> None:
    """The results of a tool are in the turn of their question."""
    places = [
        {
            name.removeprefix("metadata.conversation."): value
            for name, value in span.attributes.items()
            if name.startswith("metadata.conversation.")
        }
        for span in told.spans
    ]
    assert [(one.get("turn"), one.get("call"), one.get("rule")) for one in places] == [
        (1, 1, None),
        (1, 2, "state"),
        (2, 3, "state"),
        (None, None, None),
    ]


async def test_the_page_of_the_session_shows_the_dialogue(
    phoenix: Phoenix, told: Told, tmp_path: Path
) -> None:
    """Turn by turn, in order."""
    (session,) = told.project["sessions"]
    url = f"{phoenix.url}/projects/{told.project['id']}/sessions/{session['id']}"
    async with open_page(tmp_path) as page:
        await page.open(url)
        text = await page.wait_for(session["sessionId"], "Turn 03", THANKS)
        await take_picture(page, "conversation")
    assert not page.faults
    assert text.index("How is the weather in Lisbon?") < text.index(THANKS)
