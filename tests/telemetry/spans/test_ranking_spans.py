"""Whole spans of rankings, by hand from ``docs/apis.md#rankings``."""

from __future__ import annotations

from typing import Any

import pytest

from codec.text.jsontext import decode_json, encode_json
from telemetry.frames.ending import EndKind
from telemetry.observing.exchange import Exchange, Outcome
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.rules import SpanRules
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import begin, exchange_frames

ASKED = {"model": "m-1", "query": "Q?", "documents": ["a", {"text": "b"}, {"title": "c"}]}
RESULTS = [{"index": 2, "relevance_score": 0.75}, {"index": 0, "relevance_score": -4.5}]
SHOWN = SpanRules(shows_genai_content=True)


def rank(
    asked: Any, answered: Any, path: str = "/v1/rerank", status: int = 200, **ending: Any
) -> Exchange:
    """The record of a call."""
    said = answered if isinstance(answered, bytes) else encode_json(answered).encode()
    kind = (("content-type", "application/json"),)
    frames = exchange_frames(
        said, asked=encode_json(asked).encode(), headers=kind, status=status, **ending
    )
    return observe([begin(endpoint="rerank", path=path), *frames[1:]])


def span(exchange: Exchange, *prefixes: str, rules: SpanRules = SHOWN) -> dict[str, Any]:
    """Attributes under these names."""
    attributes = build_exchange_attributes(exchange, rules)
    return {key: value for key, value in attributes.items() if key.startswith(prefixes or "")}


def metadata_of(exchange: Exchange) -> dict[str, Any]:
    value: dict[str, Any] = decode_json(span(exchange)["metadata"])
    return value


def test_a_whole_span() -> None:
    """The ranking by its places; ids are indexes, texts the request's; no LLM's attributes."""
    asked = {**ASKED, "top_n": 2, "rank_fields": ["title"]}
    answered = {
        "id": "r-1",
        "model": "m-1-2026",
        "results": RESULTS,
        "usage": {"prompt_tokens": 7, "total_tokens": 7},
    }
    exchange = rank(asked, answered)
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    assert exchange.api.span_name == "Rerank"
    told = span(exchange)
    body, output, metadata, parameters = (
        decode_json(told.pop(key))
        for key in ("input.value", "output.value", "metadata", "llm.invocation_parameters")
    )
    assert (body, output) == (asked, answered)
    assert parameters == {"model": "m-1", "top_n": 2, "rank_fields": ["title"]}
    assert metadata == {
        "upstream": "default",
        "outcome": "completed",
        "usage_source": "provider",
        "usage_raw": {"prompt_tokens": 7, "total_tokens": 7},
        "headers": {"response": {"content-type": "application/json"}},
    }
    assert told == {
        "openinference.span.kind": "RERANKER",
        "reranker.input_documents.0.document.content": "a",
        "reranker.input_documents.1.document.content": "b",
        "reranker.input_documents.2.document.content": '{"title":"c"}',
        "reranker.query": "Q?",
        "reranker.model_name": "m-1-2026",
        "reranker.top_k": 2,
        "reranker.output_documents.0.document.id": 2,
        "reranker.output_documents.0.document.score": 0.75,
        "reranker.output_documents.0.document.content": '{"title":"c"}',
        "reranker.output_documents.1.document.id": 0,
        "reranker.output_documents.1.document.score": -4.5,
        "reranker.output_documents.1.document.content": "a",
        "llm.token_count.prompt": 7,
        "llm.token_count.total": 7,
        "gen_ai.operation.name": "rerank",
        "gen_ai.provider.name": "openai_compatible",
        "gen_ai.request.model": "m-1",
        "gen_ai.response.id": "r-1",
        "gen_ai.response.model": "m-1-2026",
        "gen_ai.usage.input_tokens": 7,
        "url.path": exchange.path,
        "http.response.status_code": 200,
        "input.mime_type": "application/json",
        "output.mime_type": "application/json",
    }


def test_voyages_form() -> None:
    """``top_k`` samples nothing here; the total is the prompt's."""
    results = [{"index": 1, "relevance_score": 0.5, "document": "b"}]
    answered = {"object": "list", "data": results, "model": "m", "usage": {"total_tokens": 12}}
    told = span(rank({**ASKED, "top_k": 1, "documents": []}, answered))
    assert told["reranker.top_k"] == 1
    assert told["reranker.output_documents.0.document.content"] == "b"
    assert told["llm.token_count.prompt"] == told["llm.token_count.total"] == 12
    assert "gen_ai.request.top_k" not in told


def test_teis_form() -> None:
    """A list and nothing else, also an empty one; nobody says a model or counts."""
    asked = {"query": "Q?", "texts": ["a", "b"]}
    answered = [{"index": 1, "score": 0.5, "text": "b"}, {"index": 0, "score": 0.25}]
    exchange = rank(asked, answered, "/rerank")
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    told = span(exchange)
    assert decode_json(told["output.value"]) == answered
    assert told["output.mime_type"] == "application/json"
    assert told["reranker.input_documents.1.document.content"] == "b"
    assert told["reranker.output_documents.0.document.content"] == "b"
    assert told["reranker.output_documents.1.document.content"] == "a"
    assert not [key for key in told if "model" in key or "token" in key]
    assert metadata_of(exchange)["usage_source"] == "none"
    assert span(rank(asked, []))["output.value"] == "[]"


def test_coheres_form() -> None:
    """Tokens where they are sent; search units are none and stay in the raw usage."""
    units = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
    exchange = rank(ASKED, {"id": "c-1", "results": RESULTS, "meta": units}, "/v2/rerank")
    assert span(exchange, "llm.token_count", "gen_ai.usage") == {}
    assert metadata_of(exchange)["usage_raw"] == {"billed_units": {"search_units": 1}}
    assert span(exchange)["reranker.model_name"] == "m-1"
    meta = units | {"tokens": {"input_tokens": 30, "output_tokens": 0}}
    told = span(rank(ASKED, {"results": RESULTS, "meta": meta}), "llm.token_count")
    assert told == {"llm.token_count.prompt": 30, "llm.token_count.completion": 0}


def test_what_openrouter_says_of_the_cost() -> None:
    """It is the provider's."""
    usage = {"total_tokens": 9, "search_units": 1, "cost": 0.001}
    exchange = rank(ASKED, {"results": RESULTS, "usage": usage})
    assert exchange.response is not None
    assert exchange.response.cost is not None
    assert exchange.response.cost.total == 0.001


def test_a_total_that_is_too_small_is_left_out() -> None:
    """And noted, as with every API."""
    usage = {"prompt_tokens": 9, "total_tokens": 3}
    exchange = rank(ASKED, {"results": [], "usage": usage})
    assert span(exchange, "llm.token_count") == {"llm.token_count.prompt": 9}
    assert exchange.anomalies == ("total_inconsistent",)


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ("one", ["one"]),
        ({"content": [{"type": "text", "text": "part"}]}, ["part"]),
        ([{"image": "i"}, "", {}, None, 7], ['{"image":"i"}', "", None, None, "7"]),
        (3, []),
        (None, []),
    ],
)
def test_documents_of_other_kinds(documents: Any, expected: list[str | None]) -> None:
    """Single ones and parts, as vLLM has them; an image; what is none keeps its place."""
    exchange = rank({"query": {"text": "Q?"}, "documents": documents}, {"results": []})
    prefix = "reranker.input_documents"
    wanted = {f"{prefix}.{i}.document.content": text for i, text in enumerate(expected)}
    told = span(exchange, "reranker.")
    assert told.pop("reranker.query") == "Q?"
    assert told == {key: text for key, text in wanted.items() if text is not None}


def test_items_that_are_odd_say_what_they_can() -> None:
    """A place stays with its item; what is beyond the request has no text."""
    items = [7, {"index": 9, "relevance_score": "x"}, {"index": "1", "score": 2, "document": {}}]
    told = span(rank(ASKED, {"results": items}), "reranker.output_documents")
    assert told == {
        "reranker.output_documents.1.document.id": 9,
        "reranker.output_documents.2.document.id": 1,
        "reranker.output_documents.2.document.score": 2.0,
        "reranker.output_documents.2.document.content": "b",
    }
    huge = b'{"results": [{"score": 1e999}, {"score": 1%s}, {"score": true}]}' % (b"0" * 400)
    assert span(rank(ASKED, huge), "reranker.output_documents") == {}


def test_a_hundred_documents_a_side() -> None:
    """The rest is counted; a text is found beyond them all the same."""
    documents = [f"d{number}" for number in range(150)]
    results = [{"index": 149 - place, "relevance_score": 0.5} for place in range(120)]
    exchange = rank({"query": "Q?", "documents": documents}, {"results": results})
    told = span(exchange)
    assert "reranker.input_documents.99.document.content" in told
    assert "reranker.input_documents.100.document.content" not in told
    assert told["reranker.output_documents.0.document.content"] == "d149"
    assert "reranker.output_documents.99.document.id" in told
    assert "reranker.output_documents.100.document.id" not in told
    cut = {"reranker.input_documents": 150, "reranker.output_documents": 120}
    assert metadata_of(exchange)["cut"] == cut


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"query": "Q?"},
        {"documents": ["a"]},
        {"query": 5, "documents": ["a"]},
        {"query": "Q?", "documents": 5},
        {"query": "Q?", "documents": {"content": "a"}},
    ],
)
def test_what_asks_for_no_ranking_is_noted(asked: dict[str, Any]) -> None:
    """It has a span all the same, with its body."""
    exchange = rank(asked, {"results": RESULTS})
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ("request_undecodable",))
    assert decode_json(span(exchange)["input.value"]) == asked


def test_what_is_no_ranking_is_noted() -> None:
    """An object without a list, an event stream, a bare word."""
    for said in ({"x": 1}, b"data: {}\n\n"):
        assert "foreign_chunk" in rank(ASKED, said).anomalies
    assert "response_undecodable" in rank(ASKED, b'"word"').anomalies


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"id": "e-1", "message": "invalid api token"}, "invalid api token"),
        ({"detail": "no such model"}, "no such model"),
        ({"detail": [{"msg": "Field required"}]}, '[{"msg":"Field required"}]'),
        ({"error": "Batch size > 32", "error_type": "Validation"}, "Batch size > 32"),
        ({"error": {"code": 501, "message": "no reranker", "type": "t"}}, "no reranker"),
        ({"object": "error", "message": "too long", "code": 400}, "too long"),
    ],
)
def test_errors_in_the_words_of_each_provider(body: Any, message: str) -> None:
    """Cohere, Jina and Voyage, FastAPI's own, TEI, llama.cpp, vLLM.

    See ``docs/contract/apis.md#shapes-of-errors``.
    """
    exchange = rank(ASKED, body, status=422)
    assert (exchange.outcome, exchange.error_type) == (Outcome.UPSTREAM_ERROR, "422")
    assert exchange.error_message == message
    assert not span(exchange, "output.", "reranker.output_documents")
    inside = rank(ASKED, body)
    is_error = "error" in body or "object" in body
    assert inside.outcome is (Outcome.STREAM_ERROR if is_error else Outcome.NOT_AN_ANSWER)
    assert inside.error_message == message


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (EndKind.UPSTREAM_BROKEN, Outcome.TRUNCATED),
        (EndKind.CLIENT_GONE, Outcome.CLIENT_DISCONNECTED),
        (EndKind.UPSTREAM_EOF, Outcome.COMPLETED),
    ],
)
def test_how_it_ends(kind: EndKind, outcome: Outcome) -> None:
    """Half an answer is none; what was asked is told all the same."""
    whole = encode_json({"results": RESULTS}).encode()
    cut = whole if kind is EndKind.UPSTREAM_EOF else whole[:-1]
    exchange = rank(ASKED, cut, kind=kind)
    assert exchange.outcome is outcome
    assert span(exchange)["reranker.query"] == "Q?"
    gone_late = rank(ASKED, whole, kind=EndKind.CLIENT_GONE)
    assert gone_late.outcome is Outcome.COMPLETED


def test_hidden_documents_are_hidden_where_the_answer_repeats_them() -> None:
    """In the ranking and in the raw value; what is not theirs stays."""
    rules = SpanRules(privacy=PrivacySwitches(hide_inputs=True))
    results = [{"index": 0, "relevance_score": 0.5, "document": {"text": "a"}}]
    told = span(rank(ASKED, {"results": results, "id": "r"}), rules=rules)
    assert told["reranker.output_documents.0.document.content"] == "__REDACTED__"
    assert told["reranker.output_documents.0.document.score"] == 0.5
    shown = decode_json(told["output.value"])
    assert shown == {"results": [{"index": 0, "relevance_score": 0.5}], "id": "r"}
    bare = [{"index": 0, "score": 0.5, "text": "a"}, 7]
    told = span(rank({"query": "Q?", "texts": ["a"]}, bare), rules=rules)
    assert decode_json(told["output.value"]) == [{"index": 0, "score": 0.5}, 7]
