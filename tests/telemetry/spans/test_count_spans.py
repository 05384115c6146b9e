"""Spans of token counts, by hand from ``docs/apis.md#token-counts``."""

from __future__ import annotations

from codec.text.jsontext import decode_json, encode_json
from telemetry.observing.exchange import Outcome
from telemetry.spans.rules import SpanRules
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import begin, exchange_frames

ASKED = b'{"model": "m-1", "system": "Be kind", "messages": [{"role": "user", "content": "Hi"}]}'


def test_a_count_is_a_chain_with_its_bodies_and_no_counts() -> None:
    """Phoenix sums the counts of a trace and prices what has a model: neither is there."""
    frames = exchange_frames(b'{"input_tokens": 14}', asked=ASKED)
    opened = begin(endpoint="count_tokens", path="/v1/messages/count_tokens")
    exchange = observe([opened, *list(frames)[1:]])
    assert (exchange.api.span_name, exchange.outcome) == ("CountTokens", Outcome.COMPLETED)
    attributes = build_exchange_attributes(exchange, SpanRules(shows_genai_content=True))
    assert attributes["openinference.span.kind"] == "CHAIN"
    assert attributes["input.value"] == ASKED.decode()
    assert decode_json(str(attributes["output.value"])) == {"input_tokens": 14}
    assert not [key for key in attributes if key.startswith(("llm.", "gen_ai.usage"))]
    metadata = decode_json(str(attributes["metadata"]))
    assert (metadata["model"], "usage_source" in metadata) == ("m-1", False)
    assert exchange.anomalies == ()


def test_a_count_says_nothing_of_a_prompt_or_of_an_account() -> None:
    """A prompt's template belongs to calls of models; Claude Code's user is a session."""
    user = encode_json({"account_uuid": "acct-1", "session_id": "s-1"})
    asked = encode_json({"model": "m", "messages": [], "metadata": {"user_id": user}}).encode()
    headers = (("x-spantap-prompt-template", "Hi {name}"), ("x-spantap-prompt-id", "p-1"))
    opened = begin(endpoint="count_tokens", path="/v1/messages/count_tokens", headers=headers)
    frames = exchange_frames(b'{"input_tokens": 14}', asked=asked)
    attributes = build_exchange_attributes(observe([opened, *list(frames)[1:]]))
    assert not [key for key in attributes if key.startswith("llm.")]
    assert (attributes["session.id"], attributes["prompt.id"]) == ("s-1", "p-1")
    assert "user.id" not in attributes
    assert "acct-1" not in str(attributes["metadata"])


def test_what_is_no_count_is_noted() -> None:
    """And an error is one."""
    opened = begin(endpoint="count_tokens", path="/v1/messages/count_tokens")
    for said, anomaly in ((b'{"x": 1}', "foreign_chunk"), (b"data: {}\n\n", "foreign_chunk")):
        exchange = observe([opened, *list(exchange_frames(said, asked=ASKED))[1:]])
        assert anomaly in exchange.anomalies
    error = b'{"type": "error", "error": {"type": "api_error", "message": "no"}}'
    exchange = observe([opened, *list(exchange_frames(error, asked=ASKED))[1:]])
    assert (exchange.outcome, exchange.error_message) == (Outcome.STREAM_ERROR, "no")


def test_what_asks_for_no_count_is_noted() -> None:
    """A request without messages; its span has its body all the same."""
    opened = begin(endpoint="count_tokens", path="/v1/messages/count_tokens")
    frames = exchange_frames(b'{"input_tokens": 1}', asked=b'{"messages": {}}')
    exchange = observe([opened, *list(frames)[1:]])
    assert exchange.anomalies == ("request_undecodable",)
    assert build_exchange_attributes(exchange)["input.value"] == '{"messages": {}}'
