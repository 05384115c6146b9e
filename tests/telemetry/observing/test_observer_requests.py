"""What the observer takes from a request, its body and its headers."""

from __future__ import annotations

import gzip

import pytest
from msgspec.structs import replace

from telemetry.frames.frame import Begin
from telemetry.observing.client_context import HeaderMap
from telemetry.observing.observer import Observer
from tests.telemetry.observed import chat_answer, content, observe
from tests.telemetry.tap_frames import ANSWER, ASKED, GZIP, exchange_frames


@pytest.mark.parametrize("asked", [b"", b"{", b"[]", b"\xff"])
def test_a_request_that_is_no_json_object_is_marked(asked: bytes) -> None:
    """The answer is observed as ever."""
    exchange = observe(exchange_frames(ANSWER, asked=asked))
    assert exchange.request is None
    assert exchange.request_body == asked
    assert exchange.anomalies == ("request_undecodable",)
    assert content(exchange) == "Hello"


def test_an_encoded_request_is_decoded() -> None:
    """The size is that of the bytes on the wire."""
    encoded = gzip.compress(ASKED)
    exchange = observe(exchange_frames(ANSWER, asked=encoded, request_headers=GZIP))
    assert (exchange.request_body, exchange.request_size_bytes) == (ASKED, len(encoded))


@pytest.mark.parametrize("coding", ["gzip", "sdch"])
def test_a_request_that_is_not_encoded_as_it_says_is_marked(coding: str) -> None:
    """No text is shown that is none."""
    frames = exchange_frames(ANSWER, request_headers=[("content-encoding", coding)])
    exchange = observe(frames)
    assert (exchange.request, exchange.request_body) == (None, None)
    assert exchange.anomalies == ("request_undecodable",)


def test_a_request_over_a_limit_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the relay's, or over that of decoding (``docs/contract/sources.md#n9``)."""
    exchange = observe(exchange_frames(ANSWER, asked=None))
    assert (exchange.request, exchange.request_body) == (None, None)
    assert exchange.request_size_bytes == 1 << 30
    assert exchange.anomalies == ("observer_limit",)
    monkeypatch.setattr("telemetry.observing.content_decoding.MAX_DECODED_BYTES", 10)
    exchange = observe(exchange_frames(ANSWER, asked=gzip.compress(ASKED), request_headers=GZIP))
    assert (exchange.request, exchange.request_body) == (None, None)
    assert exchange.anomalies == ("observer_limit",)


@pytest.mark.parametrize("tools", ["7", '{"0":{}}'])
def test_a_request_of_the_wrong_shape_is_marked_and_kept(tools: str) -> None:
    """The model and the rest stay known (``docs/contract/sources.md#s4-10``)."""
    asked = ASKED[:-1] + b',"tools":' + tools.encode() + b"}"
    exchange = observe(exchange_frames(ANSWER, asked=asked))
    assert exchange.anomalies == ("request_undecodable",)
    assert exchange.request is not None
    assert exchange.request.model == "m-1"


def test_a_call_of_a_tool_that_was_not_offered_is_marked() -> None:
    """The call itself is kept (``docs/contract/sources.md#s3-6``)."""
    call = b'{"id":"c","type":"function","function":{"name":"row","arguments":"{}"}}'
    answer = ANSWER.replace(b'"content":"Hello"', b'"tool_calls":[%b]' % call)
    exchange = observe(exchange_frames(answer))
    assert exchange.anomalies == ("tool_not_offered",)
    assert chat_answer(exchange).choices[0].message.tool_calls[0].name == "row"
    offered = ASKED[:-1] + b',"tools":[{"type":"function","function":{"name":"row"}}]}'
    assert observe(exchange_frames(answer, asked=offered)).anomalies == ()


def test_headers_and_body_say_whose_call_it_is() -> None:
    """The header map and the body's own members together."""
    asked = b'{"model":"m","messages":[],"user":"u-1","metadata":{"team":"blue"}}'
    headers = [("x-session-id", "s-1"), ("content-type", "application/json")]
    exchange = observe(exchange_frames(ANSWER, asked=asked, request_headers=headers))
    assert exchange.context.session_id == "s-1"
    assert exchange.context.user_id == "u-1"
    assert exchange.context.metadata == {"team": "blue"}
    assert not exchange.hides_content


def test_the_header_map_can_be_another_one() -> None:
    """What the settings name is read."""
    observer = Observer(header_map=HeaderMap.build({"x-chat": "session.id"}))
    frames = exchange_frames(ANSWER, request_headers=[("x-chat", "c-9")])
    assert observe(frames, observer).context.session_id == "c-9"


@pytest.mark.parametrize("by", ["setting", "header"])
def test_of_a_hidden_request_nothing_is_taken(by: str) -> None:
    """Neither a user nor metadata of its body, nor a prompt template; ids by header stay."""
    headers = [("x-session-id", "s-1"), ("x-spantap-prompt-template", "secret")]
    if by == "header":
        headers.append(("x-spantap-content", "off"))
    asked = b'{"messages":[],"user":"secret","metadata":{"k":"secret"}}'
    frames = exchange_frames(ANSWER, asked=asked, request_headers=headers)
    exchange = observe(frames, Observer(hides_inputs=by == "setting"))
    assert exchange.hides_content is (by == "header")
    assert "secret" not in repr(exchange.context)
    assert exchange.context.session_id == "s-1"


@pytest.mark.parametrize(
    ("host", "headers", "pays"),
    [
        ("api.anthropic.com", [("anthropic-beta", "oauth-2025-04-20")], True),
        ("chatgpt.com", [], True),
        ("api.anthropic.com", [("anthropic-beta", "x")], False),
    ],
)
def test_a_subscription_is_known_by_host_or_beta(
    host: str,
    headers: list[tuple[str, str]],
    pays: bool,
) -> None:
    """Not by the key, which no frame has."""
    first, *others = exchange_frames(ANSWER, request_headers=headers)
    assert isinstance(first, Begin)
    exchange = observe([replace(first, server_address=host), *others])
    assert exchange.is_subscription is pays
