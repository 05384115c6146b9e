"""Whole spans of calls of Gemini, by hand from the tables of ``docs/apis.md#gemini``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json, encode_json
from telemetry.frames.ending import EndKind
from telemetry.observing.exchange import Outcome
from telemetry.spans.rules import SpanRules
from tests.codec.apis.gemini.chunks import USAGE, chunk, write_array, write_events
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import begin, exchange_frames

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

SHOWN = SpanRules(shows_genai_content=True)
PLAIN = "/v1beta/models/gemini%2D3:generateContent"
STREAMED = "/v1/projects/p/locations/l/publishers/google/models/gemini-3:streamGenerateContent"
HOST = "generativelanguage.googleapis.com"
CONTENTS = [{"role": "user", "parts": [{"text": "Hi"}]}]
CONTENT = "message_content"
SAID = "llm.output_messages.0.message"
ASKED = "llm.input_messages"
COUNTS = {
    "llm.token_count.prompt": 10,
    "llm.token_count.completion": 12,
    "llm.token_count.total": 22,
    "llm.token_count.completion_details.reasoning": 7,
    "gen_ai.usage.input_tokens": 10,
    "gen_ai.usage.output_tokens": 12,
}
RATE_LIMITED = {"error": {"code": 429, "message": "Too much", "status": "RESOURCE_EXHAUSTED"}}


def ask(asked: dict[str, Any], *pieces: bytes | dict[str, Any], **ending: Any) -> Exchange:
    """The record of a call; of a streamed one where the answer comes as bytes."""
    answered = [one if isinstance(one, bytes) else encode_json(one).encode() for one in pieces]
    is_stream = isinstance(pieces[0], bytes)
    opened = begin(
        endpoint="gemini.stream" if is_stream else "gemini.generate",
        path=STREAMED if is_stream else PLAIN,
        server_address=HOST,
    )
    body = encode_json({"contents": CONTENTS, **asked}).encode()
    return observe([opened, *exchange_frames(*answered, asked=body, **ending)[1:]])


def answer(*parts: dict[str, Any], reason: Any = "STOP", **members: Any) -> dict[str, Any]:
    """A whole answer."""
    head = {"modelVersion": "gemini-3-pro", "responseId": "r-1", "usageMetadata": USAGE}
    return chunk(*parts, reason=reason, **head, **members)


def span(exchange: Exchange, *prefixes: str) -> dict[str, Any]:
    """Attributes under these names."""
    attributes = build_exchange_attributes(exchange, SHOWN)
    return {key: value for key, value in attributes.items() if key.startswith(prefixes)}


def test_a_plain_call() -> None:
    """The system instruction first; parameters under the names of chats; tools one by one."""
    declared = {"name": "f", "description": "d", "parameters": {"type": "OBJECT"}}
    asked = {
        "systemInstruction": {"role": "user", "parts": [{"text": "Be kind"}]},
        "tools": [{"functionDeclarations": [declared]}, {"googleSearch": {}}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "labels": {"team": "blue"},
        "generationConfig": {
            "temperature": 0.5,
            "topP": 0.25,
            "topK": 3,
            "maxOutputTokens": 50,
            "stopSequences": ["END"],
            "seed": 7,
            "candidateCount": 2,
            "responseMimeType": "application/json",
        },
    }
    answered = answer({"text": "Hello"})
    exchange = ask(asked, answered)
    attributes = build_exchange_attributes(exchange, SHOWN)
    expected = {
        f"{ASKED}.0.message.role": "system",
        f"{ASKED}.0.message.content": "Be kind",
        f"{ASKED}.1.message.role": "user",
        f"{ASKED}.1.message.content": "Hi",
        f"{SAID}.role": "model",
        f"{SAID}.content": "Hello",
        "llm.tools.0.tool.name": "f",
        "llm.tools.0.tool.description": "d",
        "llm.tools.0.tool.json_schema": encode_json(declared),
        "llm.tools.1.tool.name": "googleSearch",
        "llm.tools.1.tool.json_schema": '{"googleSearch": {}}',
        "llm.finish_reason": "STOP",
        "llm.system": "vertexai",
        "llm.provider": "google",
        "llm.model_name": "gemini-3-pro",
        "openinference.span.kind": "LLM",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.operation.name": "generate_content",
        "gen_ai.output.type": "json",
        "gen_ai.request.choice.count": 2,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.model": "gemini-3",
        "gen_ai.request.seed": 7,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_k": 3,
        "gen_ai.request.top_p": 0.25,
        "gen_ai.response.finish_reasons": ("STOP",),
        "gen_ai.response.id": "r-1",
        **COUNTS,
    }
    assert {key: attributes.get(key) for key in expected} == expected
    assert exchange.api.span_name == "GenerateContent"
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    assert decode_json(str(attributes["output.value"])) == answered
    assert decode_json(str(attributes["metadata"]))["team"] == "blue"
    parameters = decode_json(str(attributes["llm.invocation_parameters"]))
    assert parameters.keys() == {"toolConfig", "labels", "generationConfig"}
    assert decode_json(str(attributes["gen_ai.system_instructions"])) == [
        {"type": "text", "content": "Be kind"}
    ]
    [said] = decode_json(str(attributes["gen_ai.output.messages"]))
    assert (said["role"], said["finish_reason"]) == ("model", "stop")


def test_requests_may_spell_names_with_underlines() -> None:
    """Of messages, tools and parameters alike (``docs/contract/apis.md#gemini-request``)."""
    asked = {
        "contents": [
            {
                "role": "model",
                "parts": [
                    {"function_call": {"name": "f", "args": {}}, "thought_signature": "c2ln"},
                    {"inline_data": {"mime_type": "image/png", "data": "aGk="}},
                ],
            },
            {"parts": {"function_response": {"name": "f", "id": "c-1", "response": {"a": 1}}}},
        ],
        "system_instruction": {"parts": [{"text": "Be kind"}]},
        "tools": [{"function_declarations": [{"name": "f"}], "google_search": {}}],
        "generation_config": {"max_output_tokens": 9, "response_modalities": ["IMAGE"]},
    }
    exchange = ask(asked, answer({"text": "Hello"}))
    assert span(exchange, ASKED) == {
        f"{ASKED}.0.message.role": "system",
        f"{ASKED}.0.message.content": "Be kind",
        f"{ASKED}.1.message.role": "model",
        f"{ASKED}.1.message.contents.0.{CONTENT}.type": "image",
        f"{ASKED}.1.message.contents.0.{CONTENT}.image.image.url": "data:image/png;base64,aGk=",
        f"{ASKED}.1.message.tool_calls.0.tool_call.function.name": "f",
        f"{ASKED}.1.message.tool_calls.0.tool_call.function.arguments": "{}",
        f"{ASKED}.1.message.tool_calls.0.tool_call.reasoning_signature": "c2ln",
        f"{ASKED}.2.message.role": "user",
        f"{ASKED}.2.message.name": "f",
        f"{ASKED}.2.message.tool_call_id": "c-1",
        f"{ASKED}.2.message.content": '{"a":1}',
    }
    told = span(exchange, "gen_ai.request.max", "gen_ai.output.type", "llm.tools")
    assert told["gen_ai.request.max_tokens"] == 9
    assert told["gen_ai.output.type"] == "image"
    assert [told[f"llm.tools.{n}.tool.name"] for n in (0, 1)] == ["f", "google_search"]


@pytest.mark.parametrize(
    ("mime_type", "key"),
    [("image/jpeg", "image.image.url"), ("audio/wav", "audio.audio.url")],
)
def test_media_of_googles_own_sdk_can_be_shown(mime_type: str, key: str) -> None:
    """It sends the base64 of URLs, which no ``data:`` URL may have; the body stays as it was."""
    blob = {"inlineData": {"mimeType": mime_type, "data": "_9j_4AAQ-A=="}}
    told = span(ask({"contents": [{"parts": [blob]}]}, answer({"text": "Seen"})), "llm", "input")
    shown = told[f"{ASKED}.0.message.contents.0.{CONTENT}.{key}"]
    assert shown == f"data:{mime_type};base64,/9j/4AAQ+A=="
    assert "_9j_4AAQ-A==" in told["input.value"]


def test_several_results_in_one_content_are_parts() -> None:
    """The id is the first one's; as OpenTelemetry has it each keeps its own."""
    results = [
        {"functionResponse": {"name": "f", "id": f"c-{n}", "response": {"n": n}}} for n in (1, 2)
    ]
    exchange = ask({"contents": [{"role": "user", "parts": results}]}, answer({"text": "Hello"}))
    parts = f"{ASKED}.0.message.contents"
    assert span(exchange, ASKED) == {
        f"{ASKED}.0.message.role": "user",
        f"{ASKED}.0.message.tool_call_id": "c-1",
        f"{parts}.0.{CONTENT}.type": "text",
        f"{parts}.0.{CONTENT}.text": '{"n":1}',
        f"{parts}.1.{CONTENT}.type": "text",
        f"{parts}.1.{CONTENT}.text": '{"n":2}',
    }
    [told] = decode_json(span(exchange, "gen_ai.input.messages")["gen_ai.input.messages"])
    assert [part["id"] for part in told["parts"]] == ["c-1", "c-2"]


@pytest.mark.parametrize("write", [write_events, write_array])
def test_a_stream(write: Any) -> None:
    """Thoughts, signed text, calls and code; whichever way it is framed."""
    data = write(
        chunk({"text": "H", "thought": True}, responseId="r-1", modelVersion="gemini-3-pro"),
        chunk({"text": "m", "thought": True}),
        chunk({"text": "Hel"}),
        chunk({"text": "lo"}, {"executableCode": {"language": "PYTHON", "code": "1"}}),
        chunk({"codeExecutionResult": {"output": "1"}}, {"toolCall": {"id": "x"}}),
        chunk({"functionCall": {"id": "c-1", "name": "f", "args": {"a": "b"}}}),
        chunk({"text": "", "thoughtSignature": "c2ln"}, reason="STOP", usageMetadata=USAGE),
    )
    tools = [{"functionDeclarations": [{"name": "f"}]}]
    exchange = ask(
        {"tools": tools}, *(data[start : start + 50] for start in range(0, len(data), 50))
    )
    assert span(exchange, "llm.output_messages") == {
        f"{SAID}.role": "model",
        f"{SAID}.contents.0.{CONTENT}.type": "reasoning",
        f"{SAID}.contents.0.{CONTENT}.text": "Hm",
        f"{SAID}.contents.1.{CONTENT}.type": "text",
        f"{SAID}.contents.1.{CONTENT}.text": "Hello",
        f"{SAID}.contents.2.{CONTENT}.type": "text",
        f"{SAID}.contents.2.{CONTENT}.signature": "c2ln",
        f"{SAID}.tool_calls.0.tool_call.function.name": "code_execution",
        f"{SAID}.tool_calls.0.tool_call.function.arguments": '{"language":"PYTHON","code":"1"}',
        f"{SAID}.tool_calls.1.tool_call.id": "c-1",
        f"{SAID}.tool_calls.1.tool_call.function.name": "f",
        f"{SAID}.tool_calls.1.tool_call.function.arguments": '{"a":"b"}',
    }
    assert span(exchange, *COUNTS) == COUNTS
    assert span(exchange, "gen_ai.request.stream") == {"gen_ai.request.stream": True}
    assert (exchange.api.span_name, exchange.streamed) == ("GenerateContentStream", True)
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    metadata = decode_json(span(exchange, "metadata")["metadata"])
    assert metadata["chunk_count"] == 7
    output = decode_json(span(exchange, "output.value")["output.value"])
    assert len(output["candidates"][0]["content"]["parts"]) == 7


def test_a_long_signature_is_left_out() -> None:
    """Over 4,096 characters; the metadata tell."""
    part = {"functionCall": {"name": "f"}, "thoughtSignature": "s" * 5_000}
    exchange = ask({}, answer(part))
    assert "reasoning_signature" not in str(span(exchange, "llm.output_messages"))
    cut = decode_json(span(exchange, "metadata")["metadata"])["cut"]
    assert cut == {"tool_call.reasoning_signature": 5_000}


STOPPED = chunk({"text": "a"}, reason="STOP", usageMetadata=USAGE)
MORE = chunk({"text": "b"})
WHOLE = write_events(STOPPED)
GONE = EndKind.CLIENT_GONE


@pytest.mark.parametrize(
    ("data", "ending", "outcome", "error_type"),
    [
        ((WHOLE,), {}, "completed", None),
        ((WHOLE,), {"kind": EndKind.UPSTREAM_BROKEN}, "truncated", "stream_truncated"),
        ((WHOLE,), {"kind": GONE}, "completed", None),
        ((WHOLE, WHOLE), {"kind": GONE, "undelivered_reads": 1}, "client_disconnected", None),
        ((write_events(MORE),), {"kind": GONE}, "client_disconnected", None),
        ((write_events(MORE),), {}, "truncated", "stream_truncated"),
        ((WHOLE, b"data: {"), {}, "truncated", "stream_truncated"),
        ((WHOLE, b"d"), {}, "truncated", "stream_truncated"),
        ((WHOLE, b"data: "), {"kind": GONE}, "client_disconnected", None),
        ((write_array(STOPPED),), {"kind": EndKind.UPSTREAM_BROKEN}, "completed", None),
        ((write_array(STOPPED)[:-1],), {}, "truncated", "stream_truncated"),
        ((write_array(STOPPED)[:-1],), {"kind": GONE}, "client_disconnected", None),
        ((WHOLE, write_events(RATE_LIMITED)), {}, "stream_error", "RESOURCE_EXHAUSTED"),
        (
            (WHOLE, b'{\n "error": {"message": "x", "status": "INTERNAL"}\n}'),
            {},
            "stream_error",
            "INTERNAL",
        ),
        ((write_array(RATE_LIMITED),), {}, "stream_error", "RESOURCE_EXHAUSTED"),
        ((write_array(RATE_LIMITED),), {"status": 429}, "upstream_error", "429"),
        ((b"",), {}, "truncated", "stream_truncated"),
    ],
)
def test_endings(
    data: tuple[bytes, ...], ending: dict[str, Any], outcome: str, error_type: str | None
) -> None:
    """Each row of ``docs/apis.md#gemini`` that a stream can have."""
    exchange = ask({}, *data, **ending)
    assert (exchange.outcome.value, exchange.error_type) == (outcome, error_type)
    if outcome == "truncated" and "kind" not in ending:
        has_reason = b"STOP" in b"".join(data)
        assert ("behind a finish reason" in (exchange.error_message or "")) is has_reason
    if error_type == "429":
        assert exchange.error_message == "Too much"


@pytest.mark.parametrize(
    ("answered", "reason", "refused", "anomalies"),
    [
        ({"promptFeedback": {"blockReason": "OTHER"}}, "OTHER", [0], ("no_usage",)),
        (answer(reason="SAFETY"), "SAFETY", [0], ()),
        (answer({"text": "a"}, reason="RECITATION"), "RECITATION", [0], ()),
        (answer(reason="MAX_TOKENS"), "MAX_TOKENS", None, ()),
        (
            answer(reason="MALFORMED_FUNCTION_CALL"),
            "MALFORMED_FUNCTION_CALL",
            None,
            ("bad_tool_arguments",),
        ),
        (answer({"text": "a"}, reason=1), "1", None, ()),
        (answer({"text": "a"}, reason=None), None, None, ("no_finish_reason",)),
    ],
)
def test_reasons_are_no_errors(
    answered: dict[str, Any], reason: str | None, refused: list[int] | None, anomalies: tuple[str]
) -> None:
    """A plain answer that is whole is complete; without parts there is no message."""
    exchange = ask({}, answered)
    assert (exchange.outcome, exchange.error_type) == (Outcome.COMPLETED, None)
    assert exchange.anomalies == anomalies
    told = span(exchange, "llm.finish_reason", "llm.output_messages", "metadata")
    assert told.get("llm.finish_reason") == reason
    assert decode_json(told["metadata"]).get("refused_choices") == refused
    has_parts = '"text"' in encode_json(answered)
    assert (f"{SAID}.role" in told) is has_parts


def embed(asked: dict[str, Any], answered: dict[str, Any], verb: str) -> tuple[Exchange, Any]:
    """The record of embeddings, and its span with vectors."""
    path = f"/v1beta/models/gemini-embedding-001:{verb}"
    opened = begin(endpoint="gemini.embed", path=path, server_address=HOST)
    body, said = encode_json(asked).encode(), encode_json(answered).encode()
    exchange = observe([opened, *exchange_frames(said, asked=body)[1:]])
    return exchange, build_exchange_attributes(exchange, SpanRules(shows_vectors=True))


def test_one_content_is_embedded_as_a_whole() -> None:
    """Its parts are one text; the model is the path's, younger models count the prompt."""
    content = {"parts": [{"text": "a "}, {"inlineData": {"mimeType": "image/png"}}, {"text": "b"}]}
    exchange, attributes = embed(
        {"content": content, "taskType": "RETRIEVAL_QUERY", "outputDimensionality": 2},
        {"embedding": {"values": [0.5, 1.5]}, "usageMetadata": {"promptTokenCount": 3}},
        "embedContent",
    )
    prefix = "embedding.embeddings.0.embedding"
    expected = {
        f"{prefix}.text": "a b",
        f"{prefix}.vector": (0.5, 1.5),
        "embedding.model_name": "gemini-embedding-001",
        "openinference.span.kind": "EMBEDDING",
        "gen_ai.operation.name": "embeddings",
        "llm.token_count.prompt": 3,
    }
    assert {key: attributes.get(key) for key in expected} == expected
    parameters = decode_json(str(attributes["embedding.invocation_parameters"]))
    assert parameters == {"taskType": "RETRIEVAL_QUERY", "outputDimensionality": 2}
    assert not {"llm.system", "llm.token_count.completion"} & attributes.keys()
    assert (exchange.api.span_name, exchange.anomalies) == ("CreateEmbeddings", ())
    assert exchange.outcome is Outcome.COMPLETED


def test_several_contents_keep_their_places() -> None:
    """One without text has its vector all the same."""
    asked = {
        "requests": [
            {"content": {"parts": [{"text": "a"}]}, "output_dimensionality": 1},
            {"content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]}},
            {"content": {"parts": {"text": "c"}}},
        ]
    }
    answered = {"embeddings": [{"values": [n + 0.5]} for n in range(3)]}
    exchange, attributes = embed(asked, answered, "batchEmbedContents")
    found = {key: value for key, value in attributes.items() if "embedding.embeddings" in key}
    prefix = "embedding.embeddings"
    assert found == {
        f"{prefix}.0.embedding.text": "a",
        f"{prefix}.0.embedding.vector": (0.5,),
        f"{prefix}.1.embedding.vector": (1.5,),
        f"{prefix}.2.embedding.text": "c",
        f"{prefix}.2.embedding.vector": (2.5,),
    }
    assert exchange.request is not None
    assert exchange.request.options == {"dimensions": 1}
    assert exchange.anomalies == ()


@pytest.mark.parametrize(
    ("answered", "anomalies"),
    [({}, ("foreign_chunk",)), ({"embedding": 7}, ("foreign_chunk",)), (RATE_LIMITED, ())],
)
def test_an_answer_without_vectors_is_odd(answered: Any, anomalies: tuple[str, ...]) -> None:
    """One that reports an error is not: it says what it is."""
    exchange, _ = embed({"content": {}}, answered, "embedContent")
    assert exchange.anomalies == anomalies


@pytest.mark.parametrize(
    "asked",
    [{"requests": []}, {"requests": [{}]}, {"content": []}, {"requests": [{"content": 5}]}, {}],
)
def test_a_request_without_contents_is_at_fault(asked: dict[str, Any]) -> None:
    """Then there is nothing to embed, whatever the answer."""
    exchange, _ = embed(asked, {"embeddings": [{"values": [0.5]}]}, "batchEmbedContents")
    assert exchange.request is not None
    assert exchange.request.fault == "there is nothing to embed"
    assert exchange.anomalies == ("request_undecodable",)
