"""``telemetry.spans.vocabulary``: every concept in both vocabularies."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from codec.chat.answer import ChatMessage, ChatResponse, Choice
from codec.usage import Usage
from telemetry.observing.exchange import ClientContext
from telemetry.spans.concept_values import MAX_TEXTS
from telemetry.spans.vocabulary import CONCEPTS, build_concept_attributes
from tests.telemetry.exchanges import FIRST_CHUNK_NS, cleaned, make_exchange, make_response

USAGE = Usage(
    prompt=1000,
    completion=200,
    total=1200,
    cache_read=400,
    cache_write=0,
    prompt_audio=0,
    reasoning=50,
    completion_audio=0,
)


ALL_MEMBERS = [
    "model",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "frequency_penalty",
    "presence_penalty",
    "max_completion_tokens",
    "max_tokens",
    "seed",
    "n",
    "stop",
    "messages",
    "encoding_format",
    "modalities",
    "response_format",
    "service_tier",
]
JSON_VALUES = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        1,
        0.5,
        10**400,
        "",
        "auto",
        "flex",
        ["audio"],
        ["END", 1],
        {},
        {"type": "json_object"},
    ]
)


def told(request: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    """What both vocabularies say of an exchange."""
    exchange = make_exchange(request, **members)
    return dict(cleaned(chain(*build_concept_attributes(exchange))))


def test_no_name_stands_twice() -> None:
    """Each name has one row, in one vocabulary."""
    names = [name for c in CONCEPTS for name in (c.openinference, c.opentelemetry) if name]
    assert len(set(names)) == len(names)
    assert all(concept.meaning for concept in CONCEPTS)
    assert all(c.openinference or c.opentelemetry for c in CONCEPTS)
    assert all(c.opentelemetry for c in CONCEPTS if c.read_opentelemetry)


def test_both_vocabularies() -> None:
    """Every word and number of a streamed call (``docs/contract/sources.md#s4-24``)."""
    request = {
        "model": "small",
        "stream": True,
        "temperature": 1,
        "top_p": 0.5,
        "top_k": 40,
        "frequency_penalty": -0.5,
        "presence_penalty": 0,
        "max_tokens": 64,
        "max_completion_tokens": 32,
        "seed": 7,
        "n": 2,
        "stop": ["END", "."],
        "response_format": {"type": "json_schema"},
        "service_tier": "flex",
    }
    choices = (
        Choice(index=0, message=ChatMessage(content="a"), finish_reason="tool_calls"),
        Choice(index=1, message=ChatMessage(content="b"), finish_reason="length"),
    )
    response = ChatResponse(
        id="chatcmpl-9",
        model="small-2026",
        choices=choices,
        usage=USAGE,
        service_tier="default",
        system_fingerprint="fp_1",
    )
    attributes = told(
        request,
        response=response,
        streamed=True,
        first_chunk_ns=FIRST_CHUNK_NS,
        response_status=200,
        resend_count=1,
        server_address="api.mistral.ai",
        server_port=443,
        error_type="stream_error",
        path="/openai/v1/chat/completions",
        protocol="websocket",
        user_agent="OpenAI/Python 2.8.0",
        context=ClientContext(session_id="s", user_id="u"),
    )
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "openai.api.type": "chat_completions",
        "gen_ai.provider.name": "mistral_ai",
        "gen_ai.request.model": "small",
        "gen_ai.response.model": "small-2026",
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 1.0,
        "gen_ai.request.top_p": 0.5,
        "gen_ai.request.top_k": 40.0,
        "gen_ai.request.frequency_penalty": -0.5,
        "gen_ai.request.presence_penalty": 0.0,
        "gen_ai.request.max_tokens": 32,
        "gen_ai.request.seed": 7,
        "gen_ai.request.choice.count": 2,
        "gen_ai.request.stop_sequences": ("END", "."),
        "gen_ai.output.type": "json",
        "openai.request.service_tier": "flex",
        "openai.response.service_tier": "default",
        "openai.response.system_fingerprint": "fp_1",
        "gen_ai.response.id": "chatcmpl-9",
        "gen_ai.response.time_to_first_chunk": 0.25,
        "gen_ai.conversation.id": "s",
        "server.address": "api.mistral.ai",
        "server.port": 443,
        "url.path": "/openai/v1/chat/completions",
        "network.protocol.name": "websocket",
        "user_agent.original": "OpenAI/Python 2.8.0",
        "http.response.status_code": 200,
        "http.request.resend_count": 1,
        "error.type": "stream_error",
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 200,
        "gen_ai.usage.cache_read.input_tokens": 400,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "gen_ai.usage.reasoning.output_tokens": 50,
        "gen_ai.response.finish_reasons": ("tool_calls", "length"),
        "openinference.span.kind": "LLM",
        "llm.system": "openai",
        "llm.provider": "mistralai",
        "llm.model_name": "small-2026",
        "llm.request.model_name": "small",
        "llm.response.model_name": "small-2026",
        "user.id": "u",
        "session.id": "s",
        "llm.token_count.prompt": 1000,
        "llm.token_count.completion": 200,
        "llm.token_count.total": 1200,
        "llm.token_count.prompt_details.cache_read": 400,
        "llm.token_count.prompt_details.cache_write": 0,
        "llm.token_count.prompt_details.audio": 0,
        "llm.token_count.completion_details.reasoning": 50,
        "llm.token_count.completion_details.audio": 0,
        "llm.finish_reason": "tool_calls",
    }
    assert type(attributes["gen_ai.request.temperature"]) is float


def test_of_nothing_only_the_kind_is_told() -> None:
    """A request that nobody could read, and no answer: what is always known, and no more."""
    assert told(request=None, server_address=None, user_agent=None) == told()
    assert told({}) == {
        "gen_ai.operation.name": "chat",
        "openai.api.type": "chat_completions",
        "gen_ai.provider.name": "openai_compatible",
        "url.path": "/v1/chat/completions",
        "openinference.span.kind": "LLM",
        "llm.system": "openai",
    }
    assert "url.path" not in told(path="")


@pytest.mark.parametrize(
    ("endpoint", "operation", "kind", "model_key"),
    [
        ("chat.completions", "chat", "LLM", "llm.model_name"),
        ("completions", "text_completion", "LLM", "llm.model_name"),
        ("embeddings", "embeddings", "EMBEDDING", "embedding.model_name"),
    ],
)
def test_what_an_endpoint_does(endpoint: str, operation: str, kind: str, model_key: str) -> None:
    """Operation, kind and the model's key (``docs/contract/spans.md#models-and-providers``)."""
    attributes = told({"model": "m"}, endpoint=endpoint, response=make_response(model="m-2"))
    assert attributes["gen_ai.operation.name"] == operation
    assert attributes["openinference.span.kind"] == kind
    assert attributes[model_key] == "m-2"
    is_embedding = endpoint == "embeddings"
    assert ("llm.model_name" in attributes) is not is_embedding
    assert ("llm.response.model_name" in attributes) is not is_embedding


def test_the_model_that_was_asked_for_stands_in() -> None:
    """Without an answer; equal names stand once (``docs/contract/spans.md#model-name``)."""
    assert told({"model": "m"})["llm.model_name"] == "m"
    same = told({"model": "m"}, response=make_response(model="m"))
    assert "llm.request.model_name" not in same
    assert same["gen_ai.request.model"] == same["gen_ai.response.model"] == "m"


@pytest.mark.parametrize(
    ("response", "wanted"),
    [
        (None, {}),
        (ChatResponse(), {}),
        (ChatResponse(usage=Usage(prompt=0)), {"llm.token_count.prompt": 0}),
        (ChatResponse(usage=Usage(prompt=2**70, completion=1)), {"llm.token_count.completion": 1}),
    ],
)
def test_unreported_counts(response: ChatResponse | None, wanted: dict[str, int]) -> None:
    """A count that did not come, or that OTLP cannot hold, is absent and never zero."""
    attributes = told(response=response)
    assert {k: v for k, v in attributes.items() if "token_count" in k} == wanted


def test_finish_reasons_are_verbatim() -> None:
    """Choice 0's wherever it stands; of all choices those that have one; none is invented."""
    first = Choice(index=0, message=ChatMessage(), finish_reason="eos_token")
    second = Choice(index=1, message=ChatMessage(), finish_reason="length")
    silent = Choice(index=0, message=ChatMessage())
    both = told(response=ChatResponse(choices=(second, first)))
    assert both["llm.finish_reason"] == "eos_token"
    assert both["gen_ai.response.finish_reasons"] == ("length", "eos_token")
    for choices in ((second,), (silent, second)):
        attributes = told(response=ChatResponse(choices=choices))
        assert "llm.finish_reason" not in attributes
        assert attributes["gen_ai.response.finish_reasons"] == ("length",)
    refused = told(response=ChatResponse(choices=(first,)), response_status=429)
    assert "gen_ai.response.finish_reasons" not in refused


@pytest.mark.parametrize(
    ("request_body", "wanted"),
    [
        ({"response_format": {"type": "text"}}, "text"),
        ({"response_format": {"type": "json_object"}}, "json"),
        ({"response_format": {"type": "grammar"}}, None),
        ({"response_format": {"type": ["json"]}}, None),
        ({"response_format": "json"}, None),
        ({"modalities": ["text", "audio"]}, "speech"),
        ({"modalities": ["text", "image"]}, "image"),
        ({"modalities": ["text"]}, None),
    ],
)
def test_form_of_the_output(request_body: dict[str, Any], wanted: str | None) -> None:
    """By format or modality."""
    assert told(request_body).get("gen_ai.output.type") == wanted


def test_members_of_either_form() -> None:
    """A stop sequence alone, the older limit of tokens, an embedding's encoding."""
    attributes = told({"stop": "END", "max_tokens": 5, "encoding_format": "base64", "n": 1})
    assert attributes["gen_ai.request.stop_sequences"] == ("END",)
    assert attributes["gen_ai.request.max_tokens"] == 5
    assert attributes["gen_ai.request.encoding_formats"] == ("base64",)
    assert "gen_ai.request.choice.count" not in attributes
    assert "gen_ai.request.stream" not in attributes


MEMBERS = sorted(
    {"temperature", "top_k", "max_tokens", "seed", "n", "stop", "modalities", "service_tier"}
)


@given(
    st.dictionaries(
        st.sampled_from(MEMBERS),
        st.none()
        | st.booleans()
        | st.text()
        | st.integers(min_value=10**400)
        | st.lists(st.none() | st.integers())
        | st.dictionaries(st.text(), st.none()),
    )
)
def test_members_of_the_wrong_kind_are_left_out(body: dict[str, Any]) -> None:
    """Nothing raises, and no attribute has a value of another kind than its name takes."""
    for key, value in told(body).items():
        if key.startswith("gen_ai.request."):
            assert isinstance(value, tuple)
            assert all(isinstance(text, str) for text in value)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), True, "hot", 10**400])
def test_what_is_no_finite_number_is_left_out(number: object) -> None:
    """Lenient JSON has ``NaN``, and no backend a place for it."""
    assert "gen_ai.request.temperature" not in told({"temperature": number})


def test_lists_are_bounded() -> None:
    """A million stop sequences would be the whole span; empty ones even cost no bytes."""
    sequences = told({"stop": ["x"] * 1_000_000})["gen_ai.request.stop_sequences"]
    assert sequences == ("x",) * MAX_TEXTS
    assert "gen_ai.request.stop_sequences" not in told({"stop": [""]})


def test_the_default_service_tier_is_not_told() -> None:
    """The conventions want a tier that was asked for, if it is not ``auto``."""
    assert "openai.request.service_tier" not in told({"service_tier": "auto"})


def test_time_to_first_chunk_is_of_streams() -> None:
    """A plain answer has none."""
    assert "gen_ai.response.time_to_first_chunk" not in told(first_chunk_ns=FIRST_CHUNK_NS)
    assert "gen_ai.response.time_to_first_chunk" not in told(streamed=True)


def test_a_request_that_could_not_be_read() -> None:
    """All that was asked is unknown, and nothing raises."""
    exchange = replace(make_exchange(), request=None)
    assert not [
        key
        for key, value in chain(*build_concept_attributes(exchange))
        if key.startswith("gen_ai.request.") and value
    ]
