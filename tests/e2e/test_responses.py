"""Calls of the Responses API, as a real Phoenix keeps them and as a person sees them there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import openai
import pytest

from proxy.demo.script import FAILING_MODEL, MODEL, REASONING_MODEL
from tests.e2e.calls import TOOL
from tests.e2e.spantap import running_proxy
from tests.e2e.test_browser import open_shown, take_picture

if TYPE_CHECKING:
    from pathlib import Path

    from codec.text.jsontext import JsonObject
    from tests.e2e.phoenix import Phoenix, StoredSpan

pytestmark = pytest.mark.e2e

PROJECT = "responses"
INSTRUCTIONS = "You are a friendly guide. Answer in one short sentence."
QUESTION = "What is the weather like in Lisbon and in Oslo?"
TOOLS = [{"type": "function", **TOOL["function"]}]
RESULT = "24 degrees and sunny"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A call, told by both sides.

    Attributes:
        response: the last that the client heard of it.
        span: as Phoenix has it.
        view: what Phoenix makes of the span.
        url: its page.
    """

    response: JsonObject
    span: StoredSpan
    view: JsonObject
    url: str


@pytest.fixture(name="told", scope="module")
def _told(
    phoenix: Phoenix, upstream_port: int, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Told]:
    """Streamed calls by name."""
    folder = tmp_path_factory.mktemp(PROJECT)
    with (
        running_proxy(
            folder,
            upstream_port=upstream_port,
            project=PROJECT,
            endpoint=phoenix.url,
            protocol="http/protobuf",
        ) as proxy,
        openai.OpenAI(
            api_key="demo",
            base_url=proxy.base_url,
            max_retries=0,
            http_client=openai.DefaultHttpx2Client(trust_env=False),
        ) as client,
    ):
        heard = have_responses(client)
        spans = {span.request_id: span for span in phoenix.wait_for_spans(PROJECT, len(heard))}
    assert len(spans) == len(heard)
    project = phoenix.read_project(PROJECT)
    views = {view["spanId"]: view for view in project["spans"]}
    return {
        name: Told(
            response=response,
            span=(span := spans[request_id]),
            view=views[span.span_id],
            url=f"{phoenix.url}/projects/{project['id']}/traces/{span.trace_id}",
        )
        for name, (request_id, response) in heard.items()
    }


def have_responses(client: openai.OpenAI) -> dict[str, tuple[str, JsonObject]]:
    """Have one of each kind: the provider's id of each call, and its last event's response."""

    def call(**request: Any) -> tuple[str, JsonObject]:
        with client.responses.create(**request, instructions=INSTRUCTIONS, stream=True) as stream:
            *_, last = stream
        response: JsonObject = last.response.model_dump(exclude_unset=True)
        return stream.response.headers["x-request-id"], response

    question = {"role": "user", "content": QUESTION}
    tools = call(model=MODEL, input=[question], tools=TOOLS)
    calls = tools[1]["output"]
    results = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": RESULT}
        for item in calls
    ]
    return {
        "tools": tools,
        "tool results": call(model=MODEL, input=[question, *calls, *results], tools=TOOLS),
        "reasoning": call(model=REASONING_MODEL, input=QUESTION),
        "failed": call(model=FAILING_MODEL, input=QUESTION),
    }


@pytest.mark.parametrize("name", ["tools", "tool results", "reasoning", "failed"])
def test_phoenix_knows_kind_status_and_tokens(told: dict[str, Told], name: str) -> None:
    """The counts are the provider's, and only the failed call is an error."""
    call = told[name]
    assert (call.span.name, call.view["spanKind"]) == ("Response", "llm")
    assert call.view["statusCode"] == ("ERROR" if name == "failed" else "OK")
    assert call.span.attributes["llm.finish_reason"] == call.response["status"]
    usage = call.response["usage"]
    assert call.view["tokenCountPrompt"] == usage["input_tokens"]
    assert call.view["tokenCountCompletion"] == usage["output_tokens"]
    cached = usage["input_tokens_details"]["cached_tokens"]
    assert call.view["tokenPromptDetails"]["cacheRead"] == cached


async def test_page_shows_items_and_calls(told: dict[str, Told], tmp_path: Path) -> None:
    """Instructions, question, and the calls with their arguments."""
    call = told["tools"]
    first, last = (f"Tool Call: {item['call_id']}" for item in call.response["output"])
    async with open_shown(call.url, tmp_path) as page:
        text = await page.wait_for("Response", f"model: {MODEL}", INSTRUCTIONS, QUESTION, last)
        assert first not in text
        await page.unfold("assistant")
        await page.wait_for(first, "Lisbon", last, "Oslo")
        await take_picture(page, "response-tools")


async def test_page_shows_the_results_of_tools(told: dict[str, Told], tmp_path: Path) -> None:
    """Calls that went back to the model, their results, and what came of them."""
    call = told["tool results"]
    answer = call.response["output"][0]["content"][0]["text"]
    async with open_shown(call.url, tmp_path) as page:
        await page.wait_for("Response", QUESTION, RESULT, answer)
        await take_picture(page, "response-results")


async def test_page_shows_the_summary_of_reasoning(told: dict[str, Told], tmp_path: Path) -> None:
    """Before the answer, as a message of its own."""
    call = told["reasoning"]
    thoughts, answer = call.response["output"]
    texts = thoughts["summary"][0]["text"], answer["content"][0]["text"]
    async with open_shown(call.url, tmp_path) as page:
        await page.wait_for("Response", *texts)
        await page.unfold("assistant")
        await page.wait_for("Reasoning", *texts)
        await take_picture(page, "response-reasoning")


async def test_page_shows_the_failure(told: dict[str, Told], tmp_path: Path) -> None:
    """Beside the words that came before it."""
    call = told["failed"]
    error = call.response["error"]
    async with open_shown(call.url, tmp_path) as page:
        said = call.response["output"][0]["content"][0]["text"]
        await page.wait_for("Response", f"{error['code']}: {error['message']}", said)
        await take_picture(page, "response-failed")
