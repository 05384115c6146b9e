"""Whole spans of calls of Ollama's own API, by hand from the tables of ``docs/apis.md#ollama``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json, encode_json
from telemetry.frames.ending import EndKind
from telemetry.observing.exchange import Outcome
from telemetry.spans.rules import SpanRules
from tests.codec.apis.ollama.lines import COUNTS, DONE, call, end, said, write_line, written
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import begin as open_exchange
from tests.telemetry.tap_frames import exchange_frames

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

SHOWN = SpanRules(shows_genai_content=True)
CONTENT = "message_content"
HI = [{"role": "user", "content": "Hi"}]
PLAIN = {"stream": False}
TOKENS = {
    "llm.token_count.prompt": 26,
    "llm.token_count.completion": 7,
    "llm.token_count.total": 33,
    "gen_ai.usage.input_tokens": 26,
    "gen_ai.usage.output_tokens": 7,
}
PNG = "iVBORw0KGgoAAAA"


def ask(
    asked: Any,
    *pieces: bytes | dict[str, Any],
    endpoint: str = "ollama.chat",
    path: str = "/api/chat",
    kind: str | None = None,
    ending: dict[str, Any] | None = None,
    **head: Any,
) -> Exchange:
    """The record of a call; pieces of bytes are a stream's."""
    answered = [one if isinstance(one, bytes) else encode_json(one).encode() for one in pieces]
    is_stream = not pieces or isinstance(pieces[0], bytes)
    kind = kind or ("application/x-ndjson" if is_stream else "application/json; charset=utf-8")
    body = encode_json({"model": "m-1", **asked} if isinstance(asked, dict) else asked).encode()
    frames = exchange_frames(
        *answered, asked=body, headers=(("content-type", kind),), **head, **(ending or {})
    )
    return observe([open_exchange(endpoint=endpoint, path=path), *list(frames)[1:]])


def chat(asked: dict[str, Any], *pieces: bytes | dict[str, Any], **others: Any) -> Exchange:
    """The record of a chat."""
    return ask({"messages": HI, **asked}, *pieces, **others)


def generate(asked: dict[str, Any], *pieces: bytes | dict[str, Any], **others: Any) -> Exchange:
    """The record of a text from a prompt."""
    return ask(asked, *pieces, endpoint="ollama.generate", path="/api/generate", **others)


def answer(message: dict[str, Any], reason: str = "stop", **members: Any) -> dict[str, Any]:
    """A whole answer."""
    head = {"model": "m-1:latest", "created_at": "2026-11-23T18:00:00.5Z"}
    told = {"role": "assistant", "content": "", **message}
    return {**head, "message": told, "done": True, "done_reason": reason, **COUNTS, **members}


def span(exchange: Exchange, *prefixes: str) -> dict[str, Any]:
    """Attributes under these names."""
    attributes = build_exchange_attributes(exchange, SHOWN)
    return {key: value for key, value in attributes.items() if key.startswith(prefixes)}


def test_a_plain_chat() -> None:
    """One message; text alone is its content; durations stand in the raw usage."""
    options = {"temperature": 0.5, "top_p": 0.9, "top_k": 40, "seed": 7, "stop": ["END"]}
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}}
    asked = {
        **PLAIN,
        "options": options | {"num_predict": 50, "num_ctx": 4096},
        "format": "json",
        "tools": [{"type": "function", "function": function}],
        "keep_alive": "5m",
    }
    answered = answer({"content": "Hello"})
    exchange = chat(asked, answered)
    attributes = build_exchange_attributes(exchange, SHOWN)
    expected = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Hi",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Hello",
        "llm.tools.0.tool.name": "f",
        "llm.tools.0.tool.description": "d",
        "llm.finish_reason": "stop",
        "llm.system": "ollama",
        "llm.model_name": "m-1:latest",
        "openinference.span.kind": "LLM",
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m-1",
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.top_k": 40,
        "gen_ai.request.seed": 7,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.output.type": "json",
        "gen_ai.response.finish_reasons": ("stop",),
        **TOKENS,
    }
    assert {key: attributes.get(key) for key in expected} == expected
    absent = ("openai.api.type", "gen_ai.response.id", "gen_ai.request.stream", "llm.provider")
    assert not [name for name in absent if name in attributes]
    assert exchange.api.span_name == "Chat"
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    assert decode_json(str(attributes["output.value"])) == answered
    parameters = decode_json(str(attributes["llm.invocation_parameters"]))
    assert parameters == {"model": "m-1"} | {n: v for n, v in asked.items() if n != "tools"}
    assert decode_json(str(attributes["metadata"]))["usage_raw"] == COUNTS
    assert decode_json(str(attributes["gen_ai.output.messages"])) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "Hello"}],
            "finish_reason": "stop",
        }
    ]


def test_a_stream_that_nobody_asked_for() -> None:
    """It is the default. Thinking and text are two parts, and there is no content."""
    exchange = chat({}, said(thinking="H"), said(thinking="m"), said("Hel"), said("lo"), DONE)
    prefix = "llm.output_messages.0.message"
    assert span(exchange, "llm.output_messages") == {
        f"{prefix}.role": "assistant",
        f"{prefix}.contents.0.{CONTENT}.type": "reasoning",
        f"{prefix}.contents.0.{CONTENT}.text": "Hm",
        f"{prefix}.contents.1.{CONTENT}.type": "text",
        f"{prefix}.contents.1.{CONTENT}.text": "Hello",
    }
    assert span(exchange, *TOKENS) == TOKENS
    assert span(exchange, "gen_ai.request.stream") == {"gen_ai.request.stream": True}
    assert (exchange.streamed, exchange.outcome) == (True, Outcome.COMPLETED)
    assert exchange.chunks is not None
    assert exchange.chunks.count == 5
    output = decode_json(span(exchange, "output.value")["output.value"])
    message = {"role": "assistant", "content": "Hello", "thinking": "Hm"}
    assert output == decode_json(DONE) | {"message": message}


def test_calls_and_results_of_tools() -> None:
    """Arguments are JSON texts; no id is invented; the tool's name is its message's."""
    asked = {
        "messages": [
            *HI,
            {"role": "assistant", "content": "Wait", "tool_calls": [call("f", {"a": [1]})]},
            {"role": "tool", "content": "42", "tool_name": "f"},
            {"role": "tool", "content": "43", "tool_call_id": "call_9"},
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}],
    }
    calls = [said(tool_calls=[call("f", {"a": 1})]), said(tool_calls=[call("f", {}, id="call_1")])]
    exchange = chat(asked, *calls, DONE)
    prefix, key = "llm.input_messages", "message.tool_calls.0.tool_call"
    assert span(exchange, prefix) == {
        f"{prefix}.0.message.role": "user",
        f"{prefix}.0.message.content": "Hi",
        f"{prefix}.1.message.role": "assistant",
        f"{prefix}.1.message.content": "Wait",
        f"{prefix}.1.{key}.function.name": "f",
        f"{prefix}.1.{key}.function.arguments": '{"a":[1]}',
        f"{prefix}.2.message.role": "tool",
        f"{prefix}.2.message.name": "f",
        f"{prefix}.2.message.content": "42",
        f"{prefix}.3.message.role": "tool",
        f"{prefix}.3.message.tool_call_id": "call_9",
        f"{prefix}.3.message.content": "43",
    }
    prefix = "llm.output_messages.0.message"
    assert span(exchange, prefix) == {
        f"{prefix}.role": "assistant",
        f"{prefix}.tool_calls.0.tool_call.function.name": "f",
        f"{prefix}.tool_calls.0.tool_call.function.arguments": '{"a":1}',
        f"{prefix}.tool_calls.1.tool_call.id": "call_1",
        f"{prefix}.tool_calls.1.tool_call.function.name": "f",
        f"{prefix}.tool_calls.1.tool_call.function.arguments": "{}",
    }
    assert exchange.anomalies == ()
    other = chat(asked, said(tool_calls=[call("g", {})]), DONE)
    assert other.anomalies == ("tool_not_offered",)


def test_images_and_past_thinking() -> None:
    """An image is a part behind the text, as a URL of its own type."""
    turns = [
        {"role": "user", "content": "Look", "images": [PNG, "aGk="]},
        {"role": "assistant", "content": "A cat", "thinking": "Hm"},
    ]
    prefix = "llm.input_messages"
    assert span(chat({"messages": turns}, said("Hi"), DONE), prefix) == {
        f"{prefix}.0.message.role": "user",
        f"{prefix}.0.message.contents.0.{CONTENT}.type": "text",
        f"{prefix}.0.message.contents.0.{CONTENT}.text": "Look",
        f"{prefix}.0.message.contents.1.{CONTENT}.type": "image",
        f"{prefix}.0.message.contents.1.{CONTENT}.image.image.url": f"data:image/png;base64,{PNG}",
        f"{prefix}.0.message.contents.2.{CONTENT}.type": "image",
        f"{prefix}.1.message.role": "assistant",
        f"{prefix}.1.message.contents.0.{CONTENT}.type": "reasoning",
        f"{prefix}.1.message.contents.0.{CONTENT}.text": "Hm",
        f"{prefix}.1.message.contents.1.{CONTENT}.type": "text",
        f"{prefix}.1.message.contents.1.{CONTENT}.text": "A cat",
    }


def test_a_text_from_a_prompt() -> None:
    """As a legacy completion; the context is counted, and a system prompt is a parameter."""
    asked = {"prompt": "Say ", "system": "Be kind", "context": [1, 2], "images": [PNG]}
    last = written("", done=True, done_reason="length", context=[1, 2, 3], **COUNTS)
    exchange = generate(asked, written("", thinking="Hm"), written("good"), written("bye"), last)
    expected = {
        "llm.prompts.0.prompt.text": "Say ",
        "llm.choices.0.completion.text": "goodbye",
        "llm.system": "ollama",
        "llm.finish_reason": "length",
        "llm.model_name": "m-1",
        "openinference.span.kind": "LLM",
        "gen_ai.operation.name": "text_completion",
        **TOKENS,
    }
    assert span(exchange, *expected) == expected
    assert not span(exchange, "llm.input_messages", "llm.output_messages")
    assert (exchange.api.span_name, exchange.outcome) == ("Generate", Outcome.COMPLETED)
    attributes = build_exchange_attributes(exchange, SHOWN)
    parameters = decode_json(str(attributes["llm.invocation_parameters"]))
    assert parameters == {"model": "m-1", "system": "Be kind"}
    output = decode_json(str(attributes["output.value"]))
    assert (output["context"], output["response"], output["thinking"]) == (
        "<3 tokens>",
        "goodbye",
        "Hm",
    )
    [one] = decode_json(str(attributes["gen_ai.output.messages"]))
    assert [part["type"] for part in one["parts"]] == ["reasoning", "text"]
    assert one["finish_reason"] == "length"


def embed(
    asked: dict[str, Any], answered: dict[str, Any], path: str = "/api/embed", **rules: Any
) -> tuple[Exchange, dict[str, Any]]:
    """The record of embeddings, and its span."""
    exchange = ask(asked, answered, endpoint="ollama.embed", path=path)
    return exchange, build_exchange_attributes(exchange, SpanRules(**rules))


def test_embeddings() -> None:
    """Texts always, vectors where they are asked for; a count of the prompt alone."""
    answered = {"model": "m-1", "embeddings": [[0.5], [1.5]], "prompt_eval_count": 4}
    asked = {"input": ["a", "b"], "options": {"temperature": 0}}
    exchange, attributes = embed(asked, answered, shows_vectors=True)
    prefix = "embedding.embeddings"
    expected = {
        f"{prefix}.0.embedding.text": "a",
        f"{prefix}.0.embedding.vector": (0.5,),
        f"{prefix}.1.embedding.text": "b",
        f"{prefix}.1.embedding.vector": (1.5,),
        "embedding.model_name": "m-1",
        "openinference.span.kind": "EMBEDDING",
        "gen_ai.operation.name": "embeddings",
        "llm.token_count.prompt": 4,
    }
    assert {key: attributes.get(key) for key in expected} == expected
    assert not {"llm.system", "llm.token_count.total"} & attributes.keys()
    assert (exchange.api.span_name, exchange.anomalies) == ("CreateEmbeddings", ())
    assert exchange.outcome is Outcome.COMPLETED
    assert "0.5" not in str(embed(asked, answered)[1]["output.value"])


def test_embeddings_of_the_elder_path() -> None:
    """One prompt, one vector, no model and no count."""
    asked, answered = {"prompt": "a"}, {"embedding": [0.5]}
    exchange, attributes = embed(asked, answered, "/api/embeddings", shows_vectors=True)
    assert attributes["embedding.embeddings.0.embedding.text"] == "a"
    assert attributes["embedding.embeddings.0.embedding.vector"] == (0.5,)
    assert attributes["embedding.model_name"] == "m-1"
    assert exchange.anomalies == ()


def test_embeddings_of_openai_below_the_same_path() -> None:
    """As gateways have them: as much as with ``/v1/embeddings``."""
    answered = {
        "model": "m-2",
        "data": [{"index": 0, "embedding": [0.5]}],
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    }
    asked = {"input": "a", "encoding_format": "float"}
    exchange, attributes = embed(asked, answered, "/api/embeddings", shows_vectors=True)
    expected = {
        "embedding.embeddings.0.embedding.text": "a",
        "embedding.embeddings.0.embedding.vector": (0.5,),
        "embedding.model_name": "m-2",
        "llm.token_count.prompt": 3,
        "llm.token_count.total": 3,
        "gen_ai.request.encoding_formats": ("float",),
    }
    assert {key: attributes.get(key) for key in expected} == expected
    assert exchange.anomalies == ()


@pytest.mark.parametrize("reason", ["load", "unload"])
@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "application/x-ndjson"])
def test_a_model_that_is_loaded(reason: str, kind: str) -> None:
    """OK, with nothing said and nothing counted: no messages were sent, or no prompt."""
    line = write_line(message={"role": "assistant", "content": ""}, done=True, done_reason=reason)
    loaded = chat({"messages": []}, line.rstrip(), kind=kind)
    text = generate({}, write_line(response="", done=True, done_reason=reason), kind=kind)
    for exchange in (loaded, text):
        assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
        said_of_it = ("llm.output_messages", "llm.choices", "llm.token_count", "llm.prompts")
        assert not span(exchange, *said_of_it)
        assert span(exchange, "llm.finish_reason") == {"llm.finish_reason": reason}


def test_an_error_line_is_the_spans() -> None:
    """ERROR, with what was said before."""
    exchange = chat({}, said("Hel"), b'{"error": "model runner has stopped"}')
    assert (exchange.outcome, exchange.error_type) == (Outcome.STREAM_ERROR, "stream_error")
    assert exchange.error_message == "model runner has stopped"
    key = "llm.output_messages.0.message.content"
    assert span(exchange, key) == {key: "Hel"}


@pytest.mark.parametrize(
    ("kind", "outcome", "error"),
    [
        (EndKind.UPSTREAM_EOF, Outcome.TRUNCATED, "stream_truncated"),
        (EndKind.UPSTREAM_BROKEN, Outcome.TRUNCATED, "stream_truncated"),
        (EndKind.CLIENT_GONE, Outcome.CLIENT_DISCONNECTED, None),
    ],
)
def test_a_stream_without_its_end(kind: EndKind, outcome: Outcome, error: str | None) -> None:
    """An error unless the client left; once the end was seen, neither."""
    exchange = chat({}, said("Hel"), ending={"kind": kind})
    assert (exchange.outcome, exchange.error_type) == (outcome, error)
    assert chat({}, said("Hi"), DONE, ending={"kind": kind}).outcome is Outcome.COMPLETED
    nothing = chat({}, ending={"kind": kind})
    assert (nothing.outcome, nothing.error_type) == (outcome, error)


def test_an_http_error_tells_the_servers_words() -> None:
    """And is no output."""
    error = {"error": "model 'm-1' not found"}
    exchange = chat({}, error, status=404)
    assert (exchange.outcome, exchange.error_type) == (Outcome.UPSTREAM_ERROR, "404")
    assert exchange.error_message == "model 'm-1' not found"
    assert not span(exchange, "output.", "llm.output")


def test_old_servers_give_no_reason() -> None:
    """It is whole all the same."""
    exchange = chat({}, said("Hi"), end(None))
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ("no_finish_reason",))
    assert not span(exchange, "llm.finish_reason")


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/x-ndjson"])
def test_lines_are_lines_whatever_they_are_called(kind: str) -> None:
    """Where a stream was asked for; and where they are called so, though none was."""
    assert chat({}, said("Hel"), said("lo"), DONE, kind=kind).outcome is Outcome.COMPLETED
    exchange = chat(PLAIN, said("Hel"), said("lo"), DONE, kind=kind)
    is_read = kind == "application/x-ndjson"
    assert (exchange.response is not None) is is_read
    assert ("response_undecodable" in exchange.anomalies) is not is_read


def test_a_first_line_that_is_broken_costs_itself() -> None:
    """The content type tells that there are others."""
    exchange = chat({}, b"oops\n", said("Hi"), DONE)
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ("non_json_event",))


@pytest.mark.parametrize("asked", [{"messages": "Hi"}, {"model": 7, "messages": []}, [1], {}])
def test_a_body_of_another_shape_is_marked(asked: Any) -> None:
    """Of a program that has the path for something else; what it says is recorded as it came."""
    exchange = ask(asked, b'{"reply": "Hello"}', kind="application/json")
    assert exchange.anomalies[:2] == ("request_undecodable", "foreign_chunk")
    assert exchange.outcome is Outcome.COMPLETED
    attributes = span(exchange, "input.value", "output.value", "llm.input_messages")
    assert decode_json(attributes.pop("output.value")) == {"reply": "Hello"}
    sent = {"model": "m-1", **asked} if isinstance(asked, dict) else asked
    assert decode_json(attributes.pop("input.value")) == sent
    assert not attributes


@pytest.mark.parametrize(
    ("kind", "piece"),
    [
        ("text/event-stream", b'data: {"type": "text"}\n\n'),
        ("text/plain", b"Hello"),
        ("application/json", b'{\n  "reply": "Hello"\n}\n'),
    ],
)
def test_a_foreign_answer_is_no_error(kind: str, piece: bytes) -> None:
    """Whatever it looks like: nobody but its program knows how it ends."""
    exchange = ask({"text": "Hi"}, piece, kind=kind)
    assert exchange.anomalies[0] == "request_undecodable"
    assert (exchange.outcome, exchange.error_type) == (Outcome.COMPLETED, None)
