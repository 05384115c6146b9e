"""The demo upstream over real sockets: errors and refusals as the providers word them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codec.dialects import DIALECTS
from codec.text.jsontext import decode_json_object
from proxy.demo.script import ERROR_MODEL, MODEL
from proxy.demo.upstream import create_demo_upstream
from tests.proxy.demo_client import ask, demo_client, prompt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codec.text.jsontext import JsonObject
    from tests.proxy.demo_client import Client


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with demo_client() as client:
        yield client


async def complain(
    client: Client, body: bytes | JsonObject, path: str = "/v1/chat/completions"
) -> JsonObject:
    """Send a faulty request, expect 400 and return the error object."""
    data = {"json": body} if isinstance(body, dict) else {"data": body}
    async with client.post(path, **data) as response:
        assert response.status == 400
        error: JsonObject = decode_json_object(await response.read())["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"
        return error


async def test_error_model_is_over_its_limit(client: Client) -> None:
    """The error model answers 429 with an OpenAI-shaped body, streamed or not."""
    request = ask(model=ERROR_MODEL, stream=True)
    async with client.post("/v1/chat/completions", json=request) as response:
        assert response.status == 429
        error = (await response.json())["error"]
    assert error["code"] == "rate_limit_exceeded"
    assert ERROR_MODEL in error["message"]


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/chat/completions"), ("POST", "/v2")])
async def test_unknown_url_is_refused(client: Client, method: str, path: str) -> None:
    """Another path or method gets 404 with an OpenAI-shaped body."""
    async with client.request(method, path) as response:
        assert response.status == 404
        assert (await response.json())["error"]["message"] == f"Invalid URL ({method} {path})"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"\xff"])
async def test_malformed_json_is_refused(client: Client, body: bytes) -> None:
    """What is not a JSON object gets 400."""
    assert "could not parse the JSON body" in (await complain(client, body))["message"]


@pytest.mark.parametrize(
    ("request_body", "param"),
    [
        ({"messages": [{}]}, None),
        ({"model": MODEL}, "messages"),
        (ask() | {"messages": []}, "messages"),
        (ask() | {"messages": ["hi"]}, "messages"),
        (ask(stream_options={"include_usage": True}), "stream_options"),
        (ask(stream=False, stream_options={}), "stream_options"),
        (ask(stream=True, stream_options="all"), "stream_options"),
        (ask(tools={}) | {"tools": {"a": 1}}, "tools"),
        (ask(tools=[{"type": "function"}]), "tools"),
        (ask(tools=[{"type": "custom", "custom": {}}]), "tools"),
        (ask(tools=[7]), "tools"),
        (ask(n=0), "n"),
        (ask(n=129), "n"),
        (ask(n=True), "n"),
        (ask(max_tokens="many"), "max_tokens"),
        (ask(max_completion_tokens=-1), "max_completion_tokens"),
        (ask(reasoning_effort=3), "reasoning_effort"),
        (ask(logprobs=2), "logprobs"),
        (ask(logprobs=True, top_logprobs=21), "top_logprobs"),
    ],
)
async def test_faulty_request_is_refused(
    client: Client, request_body: JsonObject, param: str | None
) -> None:
    """What OpenAI refuses is refused with 400, and the error names the parameter."""
    assert (await complain(client, request_body))["param"] == param


@pytest.mark.parametrize(
    ("request_body", "param"),
    [
        ({"prompt": "x"}, None),
        ({"model": MODEL}, "prompt"),
        (prompt([]), "prompt"),
        (prompt(7), "prompt"),
        (prompt(["a", 7]), "prompt"),
        (prompt(logprobs=21), "logprobs"),
        (prompt(logprobs=True), "logprobs"),
        (prompt(["a"] * 129), "n"),
        (prompt(["a"] * 65, n=2), "n"),
        (prompt(max_tokens=0), "max_tokens"),
        (prompt(stream_options={}), "stream_options"),
    ],
)
async def test_faulty_legacy_request_is_refused(
    client: Client, request_body: JsonObject, param: str | None
) -> None:
    """The same strictness for the older API."""
    assert (await complain(client, request_body, "/v1/completions"))["param"] == param


async def test_mistral_refuses_stream_options() -> None:
    """Its 422 names them; without them it streams, and counts unasked."""
    async with demo_client("mistral") as client:
        request = ask(stream=True, stream_options={"include_usage": True})
        async with client.post("/v1/chat/completions", json=request) as response:
            assert response.status == 422
            assert "stream_options" in await response.text()
        async with client.post("/v1/chat/completions", json=ask(stream=True)) as response:
            assert b'"usage":{"prompt_tokens"' in await response.read()


async def test_errors_speak_the_dialect() -> None:
    """Gemini's error bodies stand in a list."""
    async with demo_client("gemini") as client:
        request = ask(model=ERROR_MODEL)
        async with client.post("/v1/chat/completions", json=request) as response:
            assert response.status == 429
            (error,) = await response.json()
    assert error["error"]["code"] == "rate_limit_exceeded"


def test_unknown_dialect_is_refused() -> None:
    """A dialect that does not exist is refused with the ones that do."""
    with pytest.raises(ValueError, match="unknown dialect 'klingon': there is openai"):
        create_demo_upstream(dialect="klingon")
    assert all(create_demo_upstream(dialect=dialect) for dialect in DIALECTS)
