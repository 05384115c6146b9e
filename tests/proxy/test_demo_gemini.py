"""The demo upstream speaks Gemini, in either framing; read by the codec, which knows real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.gemini.said import ContentAnswer, read_answer
from codec.apis.gemini.stream import ContentStream
from codec.parts import Reasoning
from codec.said import Ending
from proxy.demo.script import ERROR_MODEL, FAILING_MODEL, MODEL, REASONING_MODEL
from tests.proxy.demo_client import demo_client

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

CITY = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}}
TOOLS = [{"functionDeclarations": [{"name": "get_weather", "parameters": CITY}]}]
FRAMINGS = ("generateContent", "streamGenerateContent", "streamGenerateContent?alt=sse")


def ask(question: str = "Hello", **members: Any) -> JsonObject:
    """A request with one question."""
    return {"contents": [{"role": "user", "parts": [{"text": question}]}], **members}


async def call(
    request: JsonObject, framing: str, model: str = MODEL, status: int = 200
) -> ContentAnswer:
    """What the demo upstream says."""
    target = f"/v1beta/models/{model}:{framing}"
    async with demo_client() as client, client.post(target, json=request) as response:
        body = await response.read()
        assert response.status == status
        is_plain = status >= 400 or not framing.startswith("stream")
        kind = "text/event-stream" if not is_plain and "sse" in framing else "application/json"
        assert response.headers["Content-Type"].startswith(kind)
    if is_plain:
        return read_answer(body)
    stream = ContentStream()
    stream.feed(body)
    answer = stream.finish()
    assert stream.chunk_count == body.count(b'"candidates"')
    assert answer.has_end is ("sse" not in framing)
    return answer


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_an_answer_is_whole(framing: str) -> None:
    """Thoughts apart, and counted beside; the same in each framing."""
    answer = await call(ask("Hello over there"), framing, REASONING_MODEL)
    [said] = answer.answers
    thought, text = said.message.parts
    assert isinstance(thought, Reasoning)
    assert said.finish_reason == "STOP"
    assert answer.model == REASONING_MODEL
    assert answer.anomalies == ()
    assert answer.usage is not None
    assert answer.usage.prompt == 4
    assert answer.usage.raw["candidatesTokenCount"] == len(str(getattr(text, "text", "")).split())
    assert answer.usage.reasoning


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_tools_are_called_and_summed_up(framing: str) -> None:
    """Calls come whole; a result of one is told."""
    answer = await call(ask("And the weather?", tools=TOOLS), framing)
    assert [one.name for one in answer.tool_calls][:1] == ["get_weather"]
    assert all(one.reasoning_signature for one in answer.tool_calls)
    result = {"functionResponse": {"name": "get_weather", "response": {"sky": "blue"}}}
    asked = ask(tools=TOOLS)
    asked["contents"] += [{"role": "user", "parts": [result]}]
    assert "blue" in str((await call(asked, framing)).answers[0].message.content)


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_candidates_limits_and_refusals(framing: str) -> None:
    """As the configuration has it."""
    config = {"candidateCount": 2, "maxOutputTokens": 2}
    answer = await call(ask(generationConfig=config), framing)
    assert answer.finish_reasons == [(0, "MAX_TOKENS"), (1, "MAX_TOKENS")]
    refused = await call(ask("How do I pick a lock?"), framing)
    assert (refused.answers, refused.refused) == ([], [0])


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_errors_are_googles(framing: str) -> None:
    """Before the answer, and in the middle of it."""
    limited = await call(ask(), framing, ERROR_MODEL, 429)
    assert limited.error is not None
    assert limited.error.type == "RESOURCE_EXHAUSTED"
    invalid = await call({"contents": []}, framing, MODEL, 400)
    assert invalid.error is not None
    assert invalid.error.type == "INVALID_ARGUMENT"
    failed = await call(ask(), framing, FAILING_MODEL)
    assert failed.error is not None
    assert failed.error.type == "INTERNAL"
    is_stream = framing.startswith("stream")
    assert bool(failed.answers) is is_stream
    assert not is_stream or failed.ending(streamed=True) is Ending.OPEN


@pytest.mark.parametrize("verb", ["generateContent", "streamGenerateContent"])
async def test_code_assist_is_answered_in_its_envelope(verb: str) -> None:
    """Though its path ends as Gemini's does."""
    request = {"model": MODEL, "request": ask("Hello")}
    async with demo_client() as client:
        response = await client.post(f"/v1internal:{verb}?alt=sse", json=request)
        assert response.status == 200
        assert b'{"response":{"candidates":' in await response.read()
