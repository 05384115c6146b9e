"""A chat larger than any span may be: it is answered, and what matters of it arrives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json
from proxy.demo.script import MODEL
from tests.e2e.calls import TOOL, Call, open_client
from tests.e2e.spantap import Upstream, running_proxy

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from tests.e2e.phoenix import Phoenix, StoredSpan

pytestmark = pytest.mark.e2e

MESSAGE_COUNT = 100
TOOL_COUNT = 30
MESSAGE_CHARS = 50_000
"""A hundred of these are more than a span may have."""

IMAGE_CHARS = 20 * 1024 * 1024
SPAN_BYTES = 3_670_016
"""The most that a span's attributes have by default: Phoenix takes 4 MiB over gRPC."""

VALUE_BYTES = 1_048_576
"""Likewise of one attribute."""

QUESTION = 'I ask you once more.\ncall get_weather_7 {"city": "Oslo"}'
"""Of so many tools the demo upstream calls the one that it is told to, and no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The call, told by both sides.

    Attributes:
        call: as the client saw it.
        span: as Phoenix has it.
        shows_images: images of any length are shown.
    """

    call: Call
    span: StoredSpan
    shows_images: bool


@pytest.fixture(scope="module", params=["short images", "any image"])
def told(
    request: pytest.FixtureRequest,
    phoenix: Phoenix,
    upstream_port: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> Told:
    """The call and its span, with the default limit of images and without one.

    Over gRPC, which Phoenix reads four mebibytes of.
    """
    unlimited = {"OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH": str(2 * IMAGE_CHARS)}
    shows_images = request.param == "any image"
    project = "large-image" if shows_images else "large"
    with running_proxy(
        tmp_path_factory.mktemp(project),
        upstream_port=upstream_port,
        project=project,
        endpoint=f"http://127.0.0.1:{phoenix.grpc_port}",
        protocol="grpc",
        environment=unlimited if shows_images else {},
    ) as proxy:
        with open_client(proxy.base_url, Upstream(port=upstream_port).base_url) as client:
            call = client.stream(**build_request())
        (span,) = phoenix.wait_for_spans(project, 1, seconds=60)
    return Told(call=call, span=span, shows_images=shows_images)


def build_request() -> JsonObject:
    """A hundred messages, thirty tools, and an image of 20 MB in the last message but one."""
    messages: list[JsonObject] = [{"role": "system", "content": "Answer in one short sentence."}]
    for number in range(1, MESSAGE_COUNT - 1):
        role = "user" if number % 2 else "assistant"
        text = f"Message {number}: {'word ' * (MESSAGE_CHARS // 5)}"
        messages.append({"role": role, "content": text})
    image = {"url": "data:image/png;base64," + "iVBORw0KGgoA" * (IMAGE_CHARS // 12)}
    messages[-1] = {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is in this picture?"},
            {"type": "image_url", "image_url": image},
        ],
    }
    messages.append({"role": "user", "content": QUESTION})
    function = TOOL["function"]
    tools = [
        {"type": "function", "function": function | {"name": f"get_weather_{number}"}}
        for number in range(TOOL_COUNT)
    ]
    return {"model": MODEL, "messages": messages, "tools": tools, "temperature": 0.5}


def test_client_has_its_answer(told: Told) -> None:
    """The upstream got all of it, and the client the whole answer."""
    call = told.call
    assert len(call.request["messages"]) == MESSAGE_COUNT
    assert len(call.request_text) > IMAGE_CHARS + (MESSAGE_COUNT - 3) * MESSAGE_CHARS
    assert call.completion["choices"][0]["finish_reason"] == "tool_calls"
    assert [it["function"]["name"] for it in call.message["tool_calls"]] == ["get_weather_7"]
    assert call.usage is not None
    assert call.usage["prompt_tokens"] > (MESSAGE_COUNT - 3) * MESSAGE_CHARS // 5


def test_span_keeps_what_matters(told: Told) -> None:
    """Model, tokens, parameters, answer and the newest messages are in Phoenix, whole."""
    call, span = told.call, told.span
    assert call.usage is not None
    assert span.status == "OK"
    essentials: dict[str, Any] = {
        "openinference.span.kind": "LLM",
        "llm.model_name": MODEL,
        "llm.finish_reason": "tool_calls",
        "llm.token_count.prompt": call.usage["prompt_tokens"],
        "llm.token_count.completion": call.usage["completion_tokens"],
        "gen_ai.usage.input_tokens": call.usage["prompt_tokens"],
        "metadata.outcome": "completed",
        f"llm.input_messages.{MESSAGE_COUNT - 1}.message.role": "user",
        f"llm.input_messages.{MESSAGE_COUNT - 1}.message.content": QUESTION,
    }
    for position, tool_call in enumerate(call.message["tool_calls"]):
        prefix = f"llm.output_messages.0.message.tool_calls.{position}.tool_call"
        essentials |= {
            f"{prefix}.id": tool_call["id"],
            f"{prefix}.function.name": tool_call["function"]["name"],
            f"{prefix}.function.arguments": tool_call["function"]["arguments"],
        }
    assert essentials.items() <= span.attributes.items()
    parameters = decode_json(span.attributes["llm.invocation_parameters"])
    assert parameters == {"model": MODEL, "temperature": 0.5, "stream": True}
    output = decode_json(span.attributes["output.value"])
    assert output["choices"][0]["finish_reason"] == "tool_calls"
    for number in range(TOOL_COUNT):
        name = span.attributes[f"llm.tools.{number}.tool.name"]
        assert name == call.request["tools"][number]["function"]["name"]


def test_span_says_what_was_cut(told: Told) -> None:
    """What is missing is missing from the oldest messages on, and the metadata say so."""
    call, span = told.call, told.span
    assert sum(map(_size, span.attributes.values())) <= SPAN_BYTES
    cut = span.attributes["metadata.cut.input.value"]
    assert cut > VALUE_BYTES
    assert _size(span.attributes["input.value"]) <= VALUE_BYTES
    texts = {
        number: message["content"]
        for number, message in enumerate(call.request["messages"])
        if isinstance(message["content"], str)
    }
    left_out = {
        number
        for number, text in texts.items()
        if span.attributes.get(f"llm.input_messages.{number}.message.content") != text
    }
    # The system's first message is short enough to find room.
    assert left_out == set(range(1, 1 + len(left_out)))
    assert 30 < len(left_out) < 60
    sizes = [len(texts[number]) for number in left_out]
    if told.shows_images:
        sizes.append(len(call.request["messages"][-2]["content"][1]["image_url"]["url"]))
    assert span.attributes["metadata.cut.llm.input_messages.*"] == sum(sizes)


def test_span_says_that_there_was_an_image(told: Told) -> None:
    """A long image is redacted, or left out where the user wants to see images of any length."""
    prefix = f"llm.input_messages.{MESSAGE_COUNT - 2}.message.contents"
    attributes = told.span.attributes
    assert attributes[f"{prefix}.0.message_content.text"] == "What is in this picture?"
    assert attributes[f"{prefix}.1.message_content.type"] == "image"
    key = f"{prefix}.1.message_content.image.image.url"
    if told.shows_images:
        assert key not in attributes
        assert attributes["metadata.cut.llm.input_messages.*"] > IMAGE_CHARS
    else:
        assert attributes[key] == "__REDACTED__"


def _size(value: Any) -> int:
    return len(value.encode()) if isinstance(value, str) else 8
