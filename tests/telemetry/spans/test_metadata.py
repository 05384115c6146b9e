"""``telemetry.spans.metadata``: what no attribute has a name for."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from codec.apis.realtime.said import RealtimeAnswer
from codec.chat.answer import ChatMessage, ChatResponse
from codec.text.jsontext import decode_json
from codec.usage import Usage
from telemetry.conversation_position import ConversationPosition
from telemetry.observing.chunk_timing import ChunkTiming
from telemetry.observing.exchange import ClientContext, Exchange, Outcome
from telemetry.pricing.span_cost import CostBasis, CostSource, SpanCost
from telemetry.semconv import MetadataMember
from telemetry.spans.metadata import MAX_METADATA_BYTES, build_metadata, dump_metadata
from tests.telemetry.exchanges import (
    FIRST_CHUNK_NS,
    FIRST_CONTENT_NS,
    make_exchange,
    make_response,
)

USAGE = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
PLAIN = {"upstream": "default", "outcome": "completed"}


def dumped(exchange: Exchange) -> dict[str, Any]:
    """The object, read back from its text."""
    text, _ = dump_metadata(build_metadata(exchange, {}))
    value: dict[str, Any] = decode_json(text)
    return value


def test_every_member_that_applies() -> None:
    """All of ``docs/contract/spans.md#metadata``, with chunks, refusals and rate limits."""
    exchange = make_exchange(
        request_id="req",
        rewrites=("stream_options.include_usage",),
        resend_count=2,
        client_retry=3,
        first_chunk_ns=FIRST_CHUNK_NS,
        first_content_ns=FIRST_CONTENT_NS,
        chunks=ChunkTiming(
            count=3,
            first_ns=FIRST_CHUNK_NS,
            last_ns=FIRST_CHUNK_NS + 3_000_000,
            longest_wait_ns=2_000_000,
            longest_wait_at=3,
            wait_counts=(2,),
        ),
        outcome=Outcome.CLIENT_DISCONNECTED,
        response=replace(
            make_response(ChatMessage(), ChatMessage(refusal="No")), hidden_members=("timings",)
        ),
        rate_limits={"x-ratelimit-remaining-tokens": "9"},
        heads={"request": {"user-agent": "a"}, "response": {"cf-ray": "r"}},
        anomalies=("foreign_chunk",),
        position=ConversationPosition(
            conversation=7,
            turn=2,
            call=5,
            rule="state",
            session="conv-1",
            source="inferred",
            relation="fork",
            new_items=3,
            system_changed=True,
            trace_id="ab" * 16,
        ),
        context=ClientContext(session_id="conv-1"),
        kept_by="cancelled",
        hides_content=True,
        usage_event_not_stripped=True,
    )
    wanted = {
        "upstream": "default",
        "request_id": "req",
        "proxy_rewrites": ["stream_options.include_usage"],
        "retry_count": 2,
        "retry": 3,
        "ttft_ms": 250.0,
        "first_content_ms": 260.5,
        "chunk_count": 3,
        "chunk_wait_ms": 1.5,
        "longest_chunk_wait_ms": 2.0,
        "longest_chunk_wait_at": 3,
        "outcome": "client_disconnected",
        "on_disconnect": "cancel",
        "refused_choices": [1],
        "usage_source": "provider",
        "usage_raw": USAGE,
        "cost_source": "genai-prices",
        "cost_basis": "list",
        "cost_list_date": "2026-11-09",
        "rate_limits": {"x-ratelimit-remaining-tokens": "9"},
        "headers": {"request": {"user-agent": "a"}, "response": {"cf-ray": "r"}},
        "anomalies": ["foreign_chunk"],
        "conversation": {
            "source": "inferred",
            "rule": "state",
            "turn": 2,
            "call": 5,
            "new_messages": 3,
            "system_changed": True,
            "forked": True,
        },
        "kept_by": "cancelled",
        "content_hidden_by": "client",
        "usage_event_not_stripped": True,
        "left_out_with_usage": ["timings"],
        "cut": {"llm.tools": 600},
    }
    cost = SpanCost(
        source=CostSource.GENAI_PRICES, basis=CostBasis.LIST, list_date="2026-11-09", total=1.0
    )
    assert build_metadata(exchange, {"llm.tools": 600}, cost) == wanted
    # A chat has an attribute for its model, no verdict, and nothing that is only counted.
    of_others = {"model", "flagged", "flagged_categories", "partial_images", "output_bytes"}
    of_others |= {"input_audio", "output_seconds", "transcription_usage"}
    assert wanted.keys() | of_others == {member.value for member in MetadataMember}


def test_what_does_not_apply_is_absent() -> None:
    """An exchange that had nothing special has the two members that always apply."""
    assert build_metadata(make_exchange(), {}) == PLAIN
    empty = make_exchange(response=ChatResponse(usage=Usage(prompt=1)))
    assert build_metadata(empty, {}) == {**PLAIN, "usage_source": "provider"}


def test_an_answer_without_usage_says_so() -> None:
    """The source is none; nothing is estimated (``docs/contract/sources.md#s3-13``)."""
    exchange = make_exchange(response=make_response(ChatMessage(content="x"), usage=None))
    assert build_metadata(exchange, {}) == {**PLAIN, "usage_source": "none"}


def test_what_was_left_out_with_the_usage_is_named_within_bounds() -> None:
    """The names are the provider's: of some of them the beginnings."""
    response = ChatResponse(hidden_members=tuple(f"{number:0100}" for number in range(40)))
    names = build_metadata(make_exchange(response=response), {})["left_out_with_usage"]
    assert names == ["0" * 64] * 16


def test_a_single_chunk_waited_for_nothing() -> None:
    """It is counted and has no waits."""
    once = ChunkTiming(
        count=1, first_ns=FIRST_CHUNK_NS, last_ns=FIRST_CHUNK_NS, longest_wait_ns=0, wait_counts=()
    )
    assert build_metadata(make_exchange(chunks=once), {}) == {**PLAIN, "chunk_count": 1}


def test_the_clients_members_stand_beside_ours() -> None:
    """And under another name where they would take the place of one."""
    context = ClientContext(metadata={"tenant": "t", "outcome": "fine", "n": 1})
    assert build_metadata(make_exchange(context=context), {}) == {
        **PLAIN,
        "tenant": "t",
        "client_outcome": "fine",
        "n": 1,
    }


def test_what_cannot_be_written_costs_only_itself() -> None:
    """A raw usage object with a number of 5,000 digits does not take the metadata with it."""
    usage = Usage(prompt=1, raw={"n": 10**5000})
    exchange = make_exchange(response=ChatResponse(usage=usage))
    assert dumped(exchange) == {**PLAIN, "usage_source": "provider", "cut": {"metadata": 1}}


def test_what_is_too_large_is_left_out() -> None:
    """A client's metadata of any size leaves our own members alone."""
    context = ClientContext(metadata={"novel": "x" * MAX_METADATA_BYTES})
    told = dumped(make_exchange(context=context))
    assert told.pop("cut")["metadata"] > MAX_METADATA_BYTES
    assert told == PLAIN


def test_what_was_cut_before_is_noted_with_it() -> None:
    """The note joins the others, and the limit may be a smaller one."""
    context = ClientContext(metadata={"novel": "x" * 2_000})
    metadata = build_metadata(make_exchange(context=context), {"input.value": 7})
    text, size = dump_metadata(metadata, 1_000)
    assert size > 2_000
    assert decode_json(text)["cut"] == {"input.value": 7, "metadata": size}
    assert dump_metadata(metadata)[1] == 0


def test_numbers_are_finite() -> None:
    """A browser's JSON knows neither infinity nor NaN; words that look like them stay."""
    context = ClientContext(metadata={"a": float("inf"), "b": [float("nan"), "NaN"]})
    assert dumped(make_exchange(context=context)) == {**PLAIN, "a": None, "b": [None, "NaN"]}


def test_rate_limits_are_short() -> None:
    """A policy of some words, no novel."""
    exchange = make_exchange(rate_limits={"ratelimit-policy": "x" * 5_000})
    assert len(dumped(exchange)["rate_limits"]["ratelimit-policy"]) == 256


def test_fields_of_heads_make_room_for_our_members() -> None:
    """Others wrote them, so they are left out with the rest that is foreign."""
    exchange = make_exchange(heads={"response": {"cf-ray": "r" * 256}})
    assert dumped(exchange) == {**PLAIN, "headers": {"response": {"cf-ray": "r" * 256}}}
    text, size = dump_metadata(build_metadata(exchange, {}), 256)
    assert decode_json(text) == {**PLAIN, "cut": {"metadata": size}}


@given(st.dictionaries(st.text(), st.none() | st.text() | st.integers() | st.floats()))
def test_no_member_of_the_clients_replaces_one_of_ours(members: dict[str, Any]) -> None:
    """Whatever the names, ours have our values."""
    exchange = make_exchange(context=ClientContext(metadata=members))
    assert build_metadata(exchange, {}).items() >= PLAIN.items()
    assert dumped(exchange).items() >= PLAIN.items()


def test_sound_is_counted_on_both_sides() -> None:
    """Bytes and seconds, and nothing else that a client calls so."""
    body = {"model": "m", "input": [], "input_audio": {"bytes": 9, "seconds": "x", "data": "Ann"}}
    heard = {"item_id": "u", "transcript": "Ann", "usage": {"type": "tokens", "total_tokens": 3}}
    said = RealtimeAnswer(output_bytes=4, audio_seconds=0.5, transcriptions=[heard, {}])
    metadata = build_metadata(make_exchange(body, endpoint="realtime", response=said), {})
    assert metadata["input_audio"] == {"bytes": 9}
    assert (metadata["output_bytes"], metadata["output_seconds"]) == (4, 0.5)
    assert metadata["transcription_usage"] == [heard["usage"]]
