"""All attributes of a span: whole exchanges, their order, and the metadata."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from codec.chat.answer import ChatMessage, ToolCall
from codec.chat.request import ChatRequest
from telemetry.observing.exchange import ClientContext, Exchange, Outcome
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans import exchange_attributes, message_attributes, request_attributes
from telemetry.spans.exchange_attributes import build_span_content
from telemetry.spans.flattening import MAX_FLATTENED_MESSAGES
from telemetry.spans.recorder import MAX_SPAN_ATTRIBUTES
from telemetry.spans.rules import SpanRules
from telemetry.spans.size_limits import SizeLimits
from telemetry.spans.value_texts import ValueForm
from tests.telemetry.exchanges import (
    FIRST_CHUNK_NS,
    FIRST_CONTENT_NS,
    build_exchange_attributes,
    make_exchange,
    make_response,
)

if TYPE_CHECKING:
    from telemetry.attribute_values import AttributePairs

BODY = {"id": "chatcmpl-1", "choices": []}


TWINS = ("gen_ai.", "openai.")
JSON_KEYS = ("metadata", "input.value", "output.value", "llm.invocation_parameters")


def attributes_of(exchange: Exchange, decode: tuple[str, ...] = JSON_KEYS) -> dict[str, Any]:
    """All attributes but the GenAI twins (test_vocabulary.py), JSON objects decoded."""
    attributes: dict[str, Any] = {
        key: value
        for key, value in build_exchange_attributes(exchange).items()
        if not key.startswith(TWINS)
    }
    for key in decode:
        if key in attributes:
            attributes[key] = json.JSONDecoder().decode(attributes[key])
    return attributes


REQUEST_SIDE = {
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": "Hi",
    "openinference.span.kind": "LLM",
    "llm.system": "openai",
    "llm.invocation_parameters": {"model": "gpt-4o"},
    "input.value": {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]},
    "input.mime_type": "application/json",
    "url.path": "/v1/chat/completions",
}
"""What every exchange with the plain request says, whatever became of it."""

USAGE = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}


def test_plain_exchange() -> None:
    """A plain completed chat, every attribute of it (``docs/contract/sources.md#s4-24``)."""
    exchange = make_exchange(
        response=make_response(ChatMessage(role="assistant", content="Hello"), body=BODY),
        response_status=200,
        request_id="req_1",
        server_address="api.openai.com",
        server_port=443,
    )
    assert attributes_of(exchange) == REQUEST_SIDE | {
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Hello",
        "metadata": {
            "upstream": "default",
            "request_id": "req_1",
            "outcome": "completed",
            "usage_source": "provider",
            "usage_raw": USAGE,
        },
        "llm.provider": "openai",
        "llm.request.model_name": "gpt-4o",
        "llm.response.model_name": "gpt-4o-2024-08-06",
        "llm.model_name": "gpt-4o-2024-08-06",
        "server.address": "api.openai.com",
        "server.port": 443,
        "http.response.status_code": 200,
        "llm.token_count.prompt": 12,
        "llm.token_count.completion": 3,
        "llm.token_count.total": 15,
        "llm.finish_reason": "stop",
        "output.value": BODY,
        "output.mime_type": "application/json",
    }


def test_streamed_exchange_with_tool_calls() -> None:
    """A stream whose usage the proxy asked for (``docs/contract/sources.md#s4-17``)."""
    calls = (
        ToolCall(id="c1", name="f", arguments='{"a":1}'),
        ToolCall(id="c2", name="g", arguments="{}"),
    )
    message = ChatMessage(role="assistant", tool_calls=calls)
    exchange = make_exchange(
        response=make_response(message, finish_reason="tool_calls", model="gpt-4o", body=BODY),
        response_status=200,
        streamed=True,
        first_chunk_ns=FIRST_CHUNK_NS,
        first_content_ns=FIRST_CONTENT_NS,
        rewrites=("stream_options.include_usage",),
        provider="together",
        server_address="127.0.0.1",
        server_port=8000,
    )
    assert attributes_of(exchange) == REQUEST_SIDE | {
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "f",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"a":1}',
        "llm.output_messages.0.message.tool_calls.1.tool_call.id": "c2",
        "llm.output_messages.0.message.tool_calls.1.tool_call.function.name": "g",
        "llm.output_messages.0.message.tool_calls.1.tool_call.function.arguments": "{}",
        "metadata": {
            "upstream": "default",
            "proxy_rewrites": ["stream_options.include_usage"],
            "ttft_ms": 250.0,
            "first_content_ms": 260.5,
            "outcome": "completed",
            "usage_source": "provider",
            "usage_raw": USAGE,
        },
        "llm.provider": "together",
        "llm.model_name": "gpt-4o",
        "server.address": "127.0.0.1",
        "server.port": 8000,
        "http.response.status_code": 200,
        "llm.token_count.prompt": 12,
        "llm.token_count.completion": 3,
        "llm.token_count.total": 15,
        "llm.finish_reason": "tool_calls",
        "output.value": BODY,
        "output.mime_type": "application/json",
    }


def test_upstream_error() -> None:
    """A refused request: its own side, the wire, the asked model, and no output (2.1)."""
    exchange = make_exchange(
        outcome=Outcome.UPSTREAM_ERROR,
        response_status=429,
        error_type="429",
        error_message="Slow down",
        error_body='{"error":{"message":"Slow down"}}',
        resend_count=1,
    )
    assert attributes_of(exchange) == REQUEST_SIDE | {
        "metadata": {"upstream": "default", "retry_count": 1, "outcome": "upstream_error"},
        "llm.model_name": "gpt-4o",
        "http.response.status_code": 429,
        "http.request.resend_count": 1,
        "error.type": "429",
    }


@pytest.mark.parametrize(
    ("outcome", "error_type"),
    [(Outcome.CONNECT_ERROR, "connection_error"), (Outcome.TIMEOUT, "timeout")],
)
def test_no_answer(outcome: Outcome, error_type: str) -> None:
    """Where no head came there is no status code either."""
    exchange = make_exchange(outcome=outcome, error_type=error_type, error_message="why")
    assert attributes_of(exchange) == REQUEST_SIDE | {
        "metadata": {"upstream": "default", "outcome": outcome.value},
        "llm.model_name": "gpt-4o",
        "error.type": error_type,
    }


@pytest.mark.parametrize(
    ("outcome", "error_type", "member"),
    [
        (Outcome.STREAM_ERROR, "server_error", {}),
        (Outcome.TRUNCATED, "stream_truncated", {}),
        (Outcome.TIMEOUT, "timeout", {}),
        (Outcome.DRAIN_DEADLINE, "drain_deadline", {}),
        (Outcome.CLIENT_DISCONNECTED, None, {"on_disconnect": "drain"}),
    ],
)
def test_partial_answer(outcome: Outcome, error_type: str | None, member: dict[str, str]) -> None:
    """What broke off keeps what came, and invents neither usage nor finish reason (R6)."""
    message = ChatMessage(role="assistant", content="Hel")
    exchange = make_exchange(
        outcome=outcome,
        error_type=error_type,
        response_status=200,
        streamed=True,
        first_chunk_ns=FIRST_CHUNK_NS,
        on_disconnect="drain",
        response=make_response(message, finish_reason=None, usage=None, model="gpt-4o", body=BODY),
        anomalies=("no_finish_reason", "no_usage"),
    )
    expected = REQUEST_SIDE | {
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Hel",
        "metadata": {
            "upstream": "default",
            "ttft_ms": 250.0,
            "outcome": outcome.value,
            "usage_source": "none",
            "anomalies": ["no_finish_reason", "no_usage"],
            **member,
        },
        "llm.model_name": "gpt-4o",
        "http.response.status_code": 200,
        "output.value": BODY,
        "output.mime_type": "application/json",
    }
    assert attributes_of(exchange) == expected | ({"error.type": error_type} if error_type else {})


def test_several_choices() -> None:
    """With n=2 both messages are there, and the finish reason is the first's.

    See ``docs/contract/sources.md#s3-14`` and ``docs/contract/sources.md#n7``.
    """
    messages = (ChatMessage(content="a"), ChatMessage(content="b"))
    attributes = build_exchange_attributes(make_exchange(response=make_response(*messages)))
    assert attributes["llm.output_messages.0.message.content"] == "a"
    assert attributes["llm.output_messages.1.message.content"] == "b"
    assert attributes["llm.finish_reason"] == "stop"


def test_undecodable_request() -> None:
    """Where the request could not be read the span is there all the same."""
    exchange = make_exchange(request_body=b"{oops", anomalies=("request_undecodable",))
    assert attributes_of(replace(exchange, request=None), decode=("metadata",)) == {
        "metadata": {
            "upstream": "default",
            "outcome": "completed",
            "anomalies": ["request_undecodable"],
        },
        "openinference.span.kind": "LLM",
        "llm.system": "openai",
        "url.path": "/v1/chat/completions",
        "input.value": "{oops",
    }


def test_essentials_come_last() -> None:
    """Messages and tools, then identity, usage, input and output."""
    request = {
        "model": "m",
        "messages": [{"role": "user", "content": "q"}],
        "tools": [{"type": "function"}],
    }
    response = make_response(ChatMessage(content="a"), body=BODY)
    keys = list(build_exchange_attributes(make_exchange(request, response=response)))
    landmarks = [
        "llm.input_messages.0.message.role",
        "llm.tools.0.tool.json_schema",
        "llm.output_messages.0.message.content",
        "openinference.span.kind",
        "llm.token_count.prompt",
        "input.value",
        "output.value",
    ]
    assert [key for key in keys if key in landmarks] == landmarks


def test_a_million_messages_cost_neither_the_essentials_nor_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The newest are attributes, the body is whole, the cut is noted; the rest is not looked at."""
    built: list[str] = []
    flatten = message_attributes.build_message_attributes

    def count(prefix: str, *of_message: Any, **members: Any) -> AttributePairs:
        built.append(prefix)
        return flatten(prefix, *of_message, **members)

    monkeypatch.setattr(request_attributes, "build_message_attributes", count)
    number = 1_000_000
    body = b"the body, whole"
    request = {"model": "gpt-4o", "messages": [{"role": "a", "content": "b"}] * number}
    exchange = make_exchange(
        {}, request_body=body, response=make_response(ChatMessage(content="c"))
    )
    exchange = replace(exchange, request=ChatRequest(request))
    attributes = attributes_of(exchange, decode=("metadata",))
    assert len(built) <= MAX_FLATTENED_MESSAGES
    assert len(attributes) < MAX_SPAN_ATTRIBUTES
    assert attributes["metadata"]["cut"] == {"llm.input_messages": number}
    assert attributes["input.value"] == body.decode()
    assert attributes["llm.output_messages.0.message.content"] == "c"
    assert attributes[f"llm.input_messages.{number - 1}.message.content"] == "b"
    assert attributes["llm.token_count.total"] == 15


def test_the_answer_has_the_first_claim_on_the_room() -> None:
    """An answer of many calls and a request of many tools leave the messages what remains."""
    calls = (ToolCall(id="c", name="f", arguments="{}"),) * 256
    response = make_response(*(ChatMessage(tool_calls=calls),) * 20)
    request = {
        "model": "gpt-4o",
        "messages": [{"role": "a", "content": "b"}] * 100,
        "tools": [{"function": {"name": "f", "description": "d"}}] * 512,
    }
    attributes = attributes_of(make_exchange(request, response=response))
    kinds = [key.partition(".")[2].partition(".")[0] for key in attributes]
    assert kinds.count("output_messages") == 12 * 256 * 3
    assert kinds.count("tools") == (9_900 - 12 * 256 * 3) // 3 * 3
    assert attributes["metadata"]["cut"] == {
        "llm.output_messages": 20,
        "llm.tools": 512,
        "llm.input_messages": 100,
    }
    assert attributes["llm.token_count.total"] == 15


def test_whose_call_it_is() -> None:
    """Session, user, tags and prompt template (``docs/contract/spans.md#client-context``)."""
    context = ClientContext(
        session_id="s-1",
        user_id="u-1",
        tags=("a", "b"),
        metadata={"tenant": "t"},
        attributes={"prompt.id": "p"},
    )
    attributes = attributes_of(make_exchange(context=context))
    assert attributes["session.id"] == "s-1"
    assert attributes["user.id"] == "u-1"
    assert attributes["tag.tags"] == ("a", "b")
    assert attributes["prompt.id"] == "p"
    assert attributes["metadata"] == {"upstream": "default", "outcome": "completed", "tenant": "t"}
    plain = attributes_of(make_exchange())
    assert not {"session.id", "user.id", "tag.tags"} & plain.keys()


def test_values_over_a_size_are_cut_and_noted() -> None:
    """``docs/contract/spans.md#cut``: the essentials stay, whatever the client sent."""
    request = {"model": "m", "messages": [{"role": "user", "content": "x" * 3_000_000}]}
    exchange = make_exchange(request, response=make_response(ChatMessage(content="y")))
    attributes = attributes_of(exchange)
    key = "llm.input_messages.0.message.content"
    assert attributes[key].endswith("… [cut: 3000000 bytes]")
    assert attributes["input.value"]["messages"][0]["content"].endswith("… [cut: 3000000 bytes]")
    cut = attributes["metadata"]["cut"]
    assert cut == {key: 3_000_000, "input.value": len(exchange.request_body or b"")}
    assert attributes["llm.output_messages.0.message.content"] == "y"
    assert attributes["llm.token_count.total"] == 15
    small = SpanRules(sizes=SizeLimits(value_bytes=100, span_bytes=1_000))
    assert sum(map(len, build_exchange_attributes(exchange, small))) < 1_000


def test_a_long_image_is_in_no_attribute() -> None:
    """The limit of images holds in both vocabularies (``docs/contract/spans.md#privacy``)."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * 9_000}}
    request = {"model": "m", "messages": [{"role": "user", "content": [image]}]}
    attributes = build_exchange_attributes(
        make_exchange(request), SpanRules(shows_genai_content=True)
    )
    assert "__REDACTED__" in str(attributes["gen_ai.input.messages"])
    assert not [key for key, value in attributes.items() if "QUJDQUJD" in str(value)]


TEXTS = st.text(st.characters(), max_size=20) | st.just("data:image/png;base64," + "iVBO" * 12)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "tool"]), "content": TEXTS}), max_size=4
)
BODIES = st.fixed_dictionaries(
    {"messages": MESSAGES},
    optional={
        "model": st.sampled_from(["m", 5]),
        "temperature": st.sampled_from([0, 0.5, -0.0, True, "1"]),
        "stop": TEXTS,
        "seed": st.integers(),
    },
)
CONTEXTS = st.builds(
    ClientContext,
    session_id=st.none() | TEXTS,
    metadata=st.dictionaries(TEXTS, TEXTS, max_size=2),
    tags=st.lists(TEXTS, max_size=2).map(tuple),
    attributes=st.dictionaries(
        st.sampled_from(["prompt.id", "session.id", "llm.system", "metadata"]), TEXTS, max_size=2
    ),
)


# Those of every day, or such that anything may be over them.
LIMITS = st.just((32_000, 1_048_576, 3_670_016)) | st.tuples(
    st.integers(0, 200), st.integers(0, 3_000), st.integers(0, 6_000)
)


@given(
    BODIES,
    CONTEXTS,
    st.none() | st.builds(make_response, st.builds(ChatMessage, role=TEXTS, content=TEXTS)),
    LIMITS,
)
def test_the_short_way_comes_to_what_the_long_one_does(
    body: dict[str, Any],
    context: ClientContext,
    response: Any,
    limits: tuple[int, int, int],
) -> None:
    """Names, values, order and bytes, and what was cut, whatever the limits."""
    image_length, value_bytes, span_bytes = limits
    exchange = make_exchange(body, context=context, response=response)
    rules = SpanRules(
        privacy=PrivacySwitches(base64_image_max_length=image_length),
        sizes=SizeLimits(value_bytes=value_bytes, span_bytes=span_bytes),
    )
    mask = rules.mask(exchange)
    short, short_cut, *_ = build_span_content(exchange, rules, mask)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange_attributes, "_write_whole", lambda *_: None)
        long, long_cut, *_ = build_span_content(exchange, rules, mask)
    assert [*map(repr, short.items())] == [*map(repr, long.items())]
    assert b"".join(short.fields) == b"".join(long.fields)
    assert short_cut == long_cut


def test_a_name_that_comes_twice_keeps_its_last_clean_value() -> None:
    """What a client names stands where nothing else has that name, or has nothing to say."""
    context = ClientContext(attributes={"session.id": "s", "llm.system": "theirs"})
    attributes = build_exchange_attributes(make_exchange(context=context))
    assert attributes["session.id"] == "s"
    assert attributes["llm.system"] == "openai"


def test_a_usual_call_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a long one, whose body is longer than an image may be."""
    monkeypatch.delattr(exchange_attributes, "fit_attributes")
    messages = [{"role": "user", "content": "Line by line, " * 10}] * 300
    exchange = make_exchange(
        {"messages": messages}, response=make_response(ChatMessage(content="a"))
    )
    assert len(str(build_exchange_attributes(exchange)["input.value"])) > 32_000


@pytest.mark.parametrize("form", ValueForm)
def test_a_long_body_that_came_compressed_is_not_written_twice(form: ValueForm) -> None:
    """R5: what counts is how long it is, not how few bytes came. Two copies are held at most."""
    text = "word " * 4_000_000
    body = {"model": "m-1", "messages": [{"role": "user", "content": text}]}
    exchange = make_exchange(body, request_size_bytes=50_000)
    tracemalloc.start()
    try:
        attributes = build_exchange_attributes(exchange, SpanRules(values=form))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2.4 * len(text)
    assert (
        len(str(attributes["llm.input_messages.0.message.content"])) < SizeLimits().value_bytes + 1
    )
