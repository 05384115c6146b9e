"""Whole spans of moderations, by hand from ``docs/apis.md#moderations``."""

from __future__ import annotations

from typing import Any

import pytest

from codec.text.jsontext import decode_json, encode_json
from telemetry.frames.ending import EndKind
from telemetry.observing.exchange import Exchange, Outcome
from telemetry.spans.rules import SpanRules
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import begin, exchange_frames

ASKED = {"model": "m-1", "input": ["kind words", "harsh words"]}
CLEAN = {"flagged": False, "categories": {"hate": False, "violence": False}}
FOUND = {"flagged": True, "categories": {"hate": False, "violence": True, "self-harm": True}}


def judge(answered: Any, asked: Any = ASKED, status: int = 200, **ending: Any) -> Exchange:
    """The record of a call."""
    said = answered if isinstance(answered, bytes) else encode_json(answered).encode()
    body = encode_json(asked).encode()
    frames = exchange_frames(said, asked=body, status=status, **ending)
    return observe([begin(endpoint="moderations", path="/v1/moderations"), *frames[1:]])


def span(exchange: Exchange) -> dict[str, Any]:
    return {**build_exchange_attributes(exchange, SpanRules(shows_genai_content=True))}


def metadata_of(exchange: Exchange) -> dict[str, Any]:
    value: dict[str, Any] = decode_json(span(exchange)["metadata"])
    return value


def test_a_whole_span() -> None:
    """A guardrail with its bodies and what it found; no LLM's attribute, no count; it went well."""
    answered = {"id": "modr-1", "model": "m-1-2026", "results": [CLEAN, FOUND]}
    exchange = judge(answered)
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    assert exchange.api.span_name == "ModerationCreateResponse"
    told = span(exchange)
    assert decode_json(told.pop("input.value")) == ASKED
    assert decode_json(told.pop("output.value")) == answered
    assert decode_json(told.pop("metadata")) == {
        "upstream": "default",
        "model": "m-1-2026",
        "outcome": "completed",
        "flagged": True,
        "flagged_categories": ["violence", "self-harm"],
    }
    assert told == {
        "openinference.span.kind": "GUARDRAIL",
        "gen_ai.operation.name": "apply_guardrail",
        "gen_ai.provider.name": "openai_compatible",
        "gen_ai.request.model": "m-1",
        "gen_ai.response.id": "modr-1",
        "gen_ai.response.model": "m-1-2026",
        "url.path": exchange.path,
        "http.response.status_code": 200,
        "input.mime_type": "application/json",
        "output.mime_type": "application/json",
    }


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([CLEAN], {"flagged": False}),
        ([], {}),
        ([{"categories": {"pii": True}}], {"flagged_categories": ["pii"]}),
        ([FOUND, FOUND], {"flagged": True, "flagged_categories": ["violence", "self-harm"]}),
        ([7, {"flagged": "yes", "categories": ["hate"]}], {}),
        ([{"categories": {"x": 1, "y": "true"}}], {}),
    ],
)
def test_what_was_found(results: list[Any], expected: dict[str, Any]) -> None:
    """Mistral says no word on the whole; nothing is made up of what is odd."""
    metadata = metadata_of(judge({"results": results}))
    shown = {name: value for name, value in metadata.items() if name.startswith("flagged")}
    assert shown == expected


def test_categories_are_few_and_short() -> None:
    """Their names are the provider's."""
    categories = {f"{number:0100}": True for number in range(40)}
    names = metadata_of(judge({"results": [{"categories": categories}]}))["flagged_categories"]
    assert names == ["0" * 64] * 16


@pytest.mark.parametrize("asked", [{}, {"input": None}, {"input": 5}])
def test_what_asks_for_no_judgement_is_noted(asked: dict[str, Any]) -> None:
    """It has a span all the same, with its body."""
    exchange = judge({"results": [CLEAN]}, asked)
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ("request_undecodable",))
    assert decode_json(span(exchange)["input.value"]) == asked


def test_what_is_no_judgement_is_noted() -> None:
    """Another object, or an event stream."""
    odd: tuple[Any, ...] = ({"data": []}, b"data: {}\n\n")
    for said in odd:
        assert "foreign_chunk" in judge(said).anomalies


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "no input", "type": "t", "param": None}}, "no input"),
        ({"object": "error", "message": "bad model", "code": "1500"}, "bad model"),
        ({"detail": "Unauthorized"}, "Unauthorized"),
    ],
)
def test_errors(body: Any, message: str) -> None:
    """OpenAI's, Mistral's two."""
    exchange = judge(body, status=400)
    assert (exchange.outcome, exchange.error_message) == (Outcome.UPSTREAM_ERROR, message)
    assert "output.value" not in span(exchange)
    assert not metadata_of(exchange).keys() & {"flagged", "flagged_categories"}


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (EndKind.UPSTREAM_BROKEN, Outcome.TRUNCATED),
        (EndKind.CLIENT_GONE, Outcome.CLIENT_DISCONNECTED),
    ],
)
def test_half_an_answer_is_none(kind: EndKind, outcome: Outcome) -> None:
    """It judges nothing."""
    whole = encode_json({"results": [FOUND]}).encode()
    exchange = judge(whole[:-1], kind=kind)
    assert exchange.outcome is outcome
    assert "flagged" not in metadata_of(exchange)
    assert judge(whole, kind=EndKind.CLIENT_GONE).outcome is Outcome.COMPLETED
