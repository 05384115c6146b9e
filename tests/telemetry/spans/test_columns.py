"""``telemetry.spans.columns``: what a list shows of a call."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from codec.chat.answer import ChatMessage
from codec.cost import Cost
from codec.parts import ToolCall
from codec.usage import Usage
from telemetry.facts import COLUMN_FACTS, MAX_PREVIEW_CHARS, CallColumns
from telemetry.identity import SpanIdentitySource
from telemetry.observing.encryption import OWN_CIPHER
from telemetry.observing.exchange import ClientContext, Outcome
from telemetry.privacy.credentials import Credentials
from telemetry.privacy.json_strings import REDACTED
from telemetry.privacy.redaction import Redaction
from telemetry.privacy.switches import PrivacySwitches
from telemetry.span_identity import TraceParentPolicy
from telemetry.spans.columns import (
    MAX_CLIENT_CHARS,
    MAX_TOOLS_CHARS,
    MAX_WORD_CHARS,
    build_columns,
)
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from telemetry.spans.size_limits import SizeLimits
from tests.telemetry.columns import PICTURE, ask, columns_of, user
from tests.telemetry.exchanges import FIRST_CHUNK_NS, START_NS, make_exchange, make_response
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import ANSWER, begin, exchange_frames


def test_every_column_of_a_call_that_tells_all() -> None:
    """A stream that calls tools, of a session, by an SDK that tried before."""
    calls = tuple(ToolCall(id=str(n), name=name) for n, name in enumerate(("grep", "ls", "grep")))
    answer = make_response(
        ChatMessage(role="assistant", tool_calls=calls),
        finish_reason="tool_calls",
        usage=Usage(prompt=9, completion=1, total=10, cache_read=4),
        cost=Cost(total=0.125),
    )
    assert ask(
        user("Find it"),
        response=answer,
        response_status=200,
        streamed=True,
        first_chunk_ns=FIRST_CHUNK_NS,
        upstream="groq",
        user_agent="codex_cli_rs/0.60.1 (Ubuntu 24.4.0; x86_64)",
        context=ClientContext(session_id="s-1", user_id="ann"),
        request_id="req_1",
        client_retry=2,
        anomalies=("no_usage", "tool_not_offered"),
    ) == CallColumns(
        kind="LLM",
        ttft_ns=FIRST_CHUNK_NS - START_NS,
        cost_usd=0.125,
        cached_tokens=4,
        finish_reason="tool_calls",
        http_status=200,
        api="chat.completions",
        upstream="groq",
        client="codex_cli_rs",
        session="s-1",
        user="ann",
        request_id="req_1",
        retry=2,
        streamed=1,
        anomalies="no_usage tool_not_offered",
        tools="grep\nls",
        tool_calls=3,
        new_messages=1,
        preview="Find it",
    )


def test_rule_2_what_did_not_come_is_in_no_column() -> None:
    """A request that nobody could read and that no upstream took."""
    exchange = make_exchange(outcome=Outcome.CONNECT_ERROR, error_type="connection_error")
    assert columns_of(replace(exchange, request=None)) == CallColumns(
        kind="LLM",
        error_type="connection_error",
        api="chat.completions",
        upstream="default",
        streamed=0,
        new_messages=0,
    )


@pytest.mark.parametrize(
    ("policy", "parent"),
    [
        (TraceParentPolicy.HONOR, "b7ad6b7169203331"),
        (TraceParentPolicy.LINK, None),
        (TraceParentPolicy.IGNORE, None),
    ],
)
def test_the_parent_is_the_callers_span(policy: TraceParentPolicy, parent: str | None) -> None:
    """Where its ``traceparent`` is honoured; a call without one is a root."""
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    decide = SpanIdentitySource(policy, sampler=ALWAYS_ON).decide
    called = ask(user("Hi"), identity=decide(traceparent, None, name="ChatCompletion"))
    assert called.parent_span_id == parent
    assert ask(user("Hi"), identity=decide(None, None, name="n")).parent_span_id is None


def test_an_error_calls_no_tools() -> None:
    """Its body is no answer (``docs/contract/spans.md#output-value``)."""
    message = ChatMessage(role="assistant", tool_calls=(ToolCall(name="f"),))
    refused = ask(
        user("Hi"), response=make_response(message), response_status=429, error_type="429"
    )
    assert (refused.tool_calls, refused.tools, refused.error_type) == (None, None, "429")
    answered = ask(user("Hi"), response=make_response(ChatMessage(content="Ho")))
    assert (answered.tool_calls, answered.tools) == (0, None)


def test_rule_3_names_of_tools_are_whole() -> None:
    """As many as there is room for, each in one line."""
    names = [f"tool_{n:03}_{'x' * 55}" for n in range(20)] + ["a\nb"]
    for first in (names, names[::-1]):
        calls = tuple(ToolCall(name=name) for name in first)
        columns = ask(user("Hi"), response=make_response(ChatMessage(tool_calls=calls)))
        assert columns.tools is not None
        assert len(columns.tools) <= MAX_TOOLS_CHARS < len("\n".join(first))
        shown = columns.tools.split("\n")
        assert shown == [name.replace("\n", " ") for name in first[: len(shown)]]
        assert columns.tool_calls == len(names)


def test_rule_3_words_have_a_limit() -> None:
    """Whatever a provider writes; a number of a list is none."""
    long = "x" * 10_000
    columns = ask(
        user(long),
        response=make_response(ChatMessage(content="a"), finish_reason=long),
        error_type=long,
        request_id=long,
        user_agent=long,
    )
    for word in (columns.finish_reason, columns.error_type, columns.request_id):
        assert word == long[:MAX_WORD_CHARS]
    assert columns.client == long[:MAX_CLIENT_CHARS]
    assert columns.preview == long[: MAX_PREVIEW_CHARS - 1].rstrip() + "…"


@pytest.mark.parametrize(
    ("agent", "client"),
    [
        ("OpenAI/Python 2.8.0", "openai"),
        ("AsyncOpenAI/Python 2.8.0", "openai"),
        ("claude-cli/2.0.14 (external, cli)", "claude-cli"),
        ("ai-sdk/openai/2.0.1 runtime/node.js/22", "ai-sdk"),
        ("curl/8.5.0", "curl"),
        ("Mozilla/5.0 (X11; Linux x86_64) Gecko", "mozilla"),
        ("GeminiCLI/0.8.1/gemini-2.5-pro (linux; x64)", "geminicli"),
        ("agent", "agent"),
        ("(only a comment)", None),
        ("Größe/1", "gr"),
        (None, None),
    ],
)
def test_the_client_is_the_first_product(agent: str | None, client: str | None) -> None:
    """Without its version, in lower case; the name of an SDK does not say how it is called."""
    assert ask(user("Hi"), user_agent=agent).client == client


SECRET = "c4n4ry"
CALLED = ChatMessage(role="assistant", content=SECRET, tool_calls=(ToolCall(name="grep"),))


def hidden_by(**switches: bool) -> CallColumns:
    """The columns of a call under these switches."""
    rules = SpanRules(privacy=PrivacySwitches(**switches))
    return ask(user(SECRET), rules=rules, response=make_response(CALLED), response_status=200)


SHOWN = {"preview": SECRET, "new_messages": 1, "tools": "grep", "tool_calls": 1}


@pytest.mark.parametrize(
    ("switch", "hidden"),
    [
        ("hide_inputs", {"preview", "new_messages"}),
        ("hide_input_messages", {"preview", "new_messages"}),
        ("hide_input_text", {"preview"}),
        ("hide_outputs", {"tools", "tool_calls"}),
        ("hide_output_messages", {"tools", "tool_calls"}),
        ("hide_output_text", set()),
        ("hide_llm_tools", set()),
        ("hide_llm_invocation_parameters", set()),
    ],
)
def test_rule_1_switches_hide_columns_as_they_hide_attributes(
    switch: str, hidden: set[str]
) -> None:
    """What stays on the span stays in its column: which tools were called, how it ended."""
    columns = hidden_by(**{switch: True})
    wanted = {name: None if name in hidden else value for name, value in SHOWN.items()}
    assert {name: getattr(columns, name) for name in SHOWN} == wanted
    assert columns.finish_reason == "stop"


@pytest.mark.parametrize(
    ("switch", "endpoint", "body"),
    [
        ("hide_prompts", "completions", {"model": "m", "prompt": SECRET}),
        ("hide_embeddings_text", "embeddings", {"model": "m", "input": SECRET}),
        ("hide_retrieval_documents", "rerank", {"query": SECRET, "documents": []}),
        ("hide_inputs", "images", {"prompt": SECRET}),
    ],
)
def test_rule_1_switches_of_other_content(switch: str, endpoint: str, body: dict[str, Any]) -> None:
    """Each hides what its API is about."""
    exchange = make_exchange(body, endpoint=endpoint)
    assert columns_of(exchange).preview == SECRET
    rules = SpanRules(privacy=PrivacySwitches(**{switch: True}))
    assert columns_of(exchange, rules).preview is None


def test_rule_1_a_client_that_wants_no_content_recorded() -> None:
    """Its header hides all that the switches could."""
    exchange = make_exchange(
        {"model": "m", "messages": [user(SECRET)]},
        response=make_response(CALLED),
        hides_content=True,
    )
    columns = columns_of(exchange)
    assert all(getattr(columns, name) is None for name in SHOWN)


def test_rule_1_patterns_find_in_columns_what_they_find_on_the_span() -> None:
    """In every text of the client's or the provider's; what is hidden as a whole is absent."""
    rules = SpanRules(redaction=Redaction({"secret": r"c4n4ry[a-z]*", "whole": r"^gone$"}))
    columns = ask(
        user(f"tell {SECRET} now"),
        rules=rules,
        response=make_response(ChatMessage(tool_calls=(ToolCall(name=f"x_{SECRET}"),))),
        user_agent=f"{SECRET}/1",
        request_id="gone",
        error_type="gone",
        context=ClientContext(session_id=f"s-{SECRET}", user_id="gone"),
    )
    assert SECRET not in repr(columns)
    assert columns.preview == f"tell {REDACTED} now"
    assert columns.tools == f"x_{REDACTED}"
    assert columns.session == f"s-{REDACTED}"
    assert (columns.user, columns.request_id, columns.error_type) == (None, None, None)
    assert columns.client is None


KEY = "sk-proj-0123456789abcdefghijklmnop"


def test_rule_1_no_credential_gets_into_a_column() -> None:
    """That of the call's head, wherever the client repeats it."""
    columns = ask(
        user(f"my key is {KEY}"),
        response=make_response(ChatMessage(tool_calls=(ToolCall(name=KEY),))),
        user_agent=f"{KEY}/1",
        context=ClientContext(session_id=KEY, user_id=KEY),
        credentials=Credentials([KEY]),
    )
    assert KEY not in repr(columns)
    assert columns.preview == f"my key is {REDACTED}"


def test_rule_1_no_credential_gets_into_a_column_from_the_provider() -> None:
    """Its id of the call may quote one of the head's, or of the body's."""
    said = [("x-request-id", f"req-{KEY}")]
    encrypted = OWN_CIPHER.encrypt(f"authorization:Bearer {KEY}".encode())
    frames = exchange_frames(ANSWER, headers=said)
    of_head = observe([begin(encrypted=encrypted), *frames[1:]])
    servers = [{"type": "mcp", "server_url": "https://x.test", "authorization": KEY}]
    of_body = make_exchange(
        {"model": "m", "input": "Hi", "tools": servers}, endpoint="responses", request_id=KEY
    )
    for exchange in (of_head, of_body):
        columns = columns_of(exchange)
        assert KEY not in repr(columns)
        assert columns.preview is not None


def test_rule_1_half_a_secret_is_not_shown() -> None:
    """What a pattern finds beyond the preview's end is hidden before that is cut."""
    rules = SpanRules(redaction=Redaction({"key": r"key-[0-9]{40}"}))
    text = "x" * (MAX_PREVIEW_CHARS - 10) + " key-" + "7" * 40
    for content in (text, [PICTURE, {"type": "text", "text": text}]):
        assert "7" not in str(ask(user(content), rules=rules).preview)


def test_rule_1_long_images_and_cut_values() -> None:
    """A preview begins as the span's own message does."""
    image = "data:image/png;base64," + "iVBORw0KGgo" * 4_000
    assert ask(user(image)).preview is None
    small = SpanRules(sizes=SizeLimits(value_bytes=40))
    assert ask(user("y" * 500), rules=small).preview == "y" * 20 + "… [cut: 500 bytes]"


def test_the_caller_is_read_from_the_headers() -> None:
    """Of frames, as the proxy sends them."""
    headers = [("user-agent", "OpenAI/Python 2.8.0"), ("x-stainless-retry-count", "2")]
    columns = columns_of(observe(exchange_frames(ANSWER, request_headers=headers)))
    assert (columns.client, columns.retry) == ("openai", 2)


def test_a_span_that_no_recorder_made_has_no_columns() -> None:
    """Nobody knows what is hidden of it."""
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits())
    span = recorder.record(make_exchange())
    assert span is not None
    span.mask = None
    with pytest.raises(TypeError):
        build_columns(make_exchange(), span)


def test_values_are_handed_over_in_the_order_of_the_facts() -> None:
    """They have no names there, and a proxy would record its calls without columns."""
    (written,) = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(build_columns)))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "_build"
    ]
    names = {"api.kind": "kind", "api.name": "api"}
    given = [names.get(name, name) for name in map(ast.unparse, written.args)]
    facts = [fact.name for fact in COLUMN_FACTS if fact.found is None]
    assert given == ["exchange", "get", *facts]
