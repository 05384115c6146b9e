"""``GET /api/calls/ID``: sizes, roles and previews of a call, and what is new in it.

Each text has a preview; the whole comes in slices (:mod:`proxy.page.api.slices`). What is new is
found by comparison with the call that this one continues (:mod:`proxy.reading.growth`). A value
that was not measured is ``null``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from openinference.semconv.trace import SpanAttributes

from codec.members import object_of, string_of
from proxy.page.api.found_calls import find_call
from proxy.page.api.messages import MAX_PREVIEW_CHARACTERS, build_heads
from proxy.page.api.notes import write_notes
from proxy.page.api.rows import build_row
from proxy.page.api.slices import write_tool
from proxy.reading.call_order import find_question
from proxy.reading.costs import OLD_DAYS, count_days
from proxy.reading.growth import find_before, read_growth
from proxy.reading.link_words import describe_link
from proxy.reading.message_digests import measure_message
from proxy.reading.record import build_limit_record
from proxy.reading.run_record import find_place
from proxy.reading.tool_results import read_error, read_failed_beside
from telemetry.finding.where import ALL_CALLS
from telemetry.pricing.span_cost import CostBasis, CostSource
from telemetry.privacy.json_strings import REDACTED
from telemetry.semconv import REQUEST_BODY, RESPONSE_BODY, MetadataMember

if TYPE_CHECKING:
    from collections.abc import Sequence
    from enum import StrEnum

    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from proxy.reading.call import RecordedCall
    from proxy.reading.flat_messages import RecordedMessage
    from telemetry.reading.calls import Calls

MAX_DESCRIPTION_CHARACTERS: Final = 2_048

MAX_ERROR_CHARACTERS: Final = 8_192
"""How much of a failed tool's error stands at the head of its page; the result has the rest."""

_COUNTS: Final = "llm.token_count"


def read_call(reader: Calls, parameters: Parameters) -> JsonObject:
    """Read a call."""
    call = find_call(reader, parameters)
    before = find_before(reader, call)
    messages = call.input_messages
    growth = read_growth(call, before)
    unchanged = [measure_message(messages[at]) for at in growth.unchanged]
    raw = reader.raw_answer(call.summary.seq)
    return {
        "call": _complete(build_row(call.summary), call),
        "conversation": _describe_place(reader, call, before),
        "timing": _describe_timing(call),
        "parameters": call.parameters,
        "metadata": call.metadata,
        "limits": [build_limit_record(limit) for limit in call.limits],
        "error": _describe_error(call),
        "cost": _describe_cost(call),
        "tokens": _describe_tokens(call),
        "notes": write_notes(call),
        "tools": [
            {
                "name": tool.name or tool.type,
                "description": (tool.description or "")[:MAX_DESCRIPTION_CHARACTERS],
                "chars": len(write_tool(tool)),
            }
            for tool in call.tools
        ],
        "asked": _find_asked(messages),
        "messages": build_heads(
            messages,
            () if before is None else before.output_messages,
            read_failed_beside(reader, call.summary),
        ),
        "answer": build_heads(call.output_messages),
        "new_from": growth.new_from,
        "unchanged": {"messages": len(unchanged), "chars": sum(unchanged)},
        "system_changed": growth.system_changed,
        "raw": {
            "request": _size(call.request_text),
            "response": _size(call.response_text),
            "stream": None if raw is None else len(raw.body),
            "span": call.summary.size_bytes,
        },
        **_describe_other_apis(call),
    }


def _find_asked(messages: Sequence[RecordedMessage]) -> str | None:
    """Find the user's own words: the beginning of what they said last."""
    asked = find_question(messages)
    return None if asked is None else asked[:MAX_PREVIEW_CHARACTERS]


def _complete(row: JsonObject, call: RecordedCall) -> JsonObject:
    """Fill in from the span what the row of an older store lacks."""
    known = {
        "request_id": call.request_id,
        "ttft_ms": _number(call.ttft_ms),
        "error_type": call.error_type,
        "finish_reason": call.finish_reason,
        "cost_usd": call.cost_usd,
    }
    return row | {name: value for name, value in known.items() if row[name] is None}


def _describe_place(
    reader: Calls, call: RecordedCall, before: RecordedCall | None
) -> JsonObject | None:
    columns = call.summary.columns
    if columns.conversation is None:
        return None
    of_conversation = ALL_CALLS.also(conversation=columns.conversation)
    beside = reader.that(of_conversation).beside(call.summary.seq)
    return {
        "number": columns.conversation,
        "turn": columns.turn,
        "run": columns.run,
        "link_rule": columns.link_rule,
        "link": describe_link(columns.link_rule),
        "calls": beside.calls,
        "position": beside.position,
        "previous": None if beside.before is None else beside.before.span_id,
        "next": None if beside.behind is None else beside.behind.span_id,
        **find_place(columns.conversation, columns.run, reader),
        "goes_on_from": None if before is None else before.summary.span_id,
    }


def _describe_timing(call: RecordedCall) -> JsonObject:
    metadata = call.metadata
    return {
        "ttft_ms": _number(call.ttft_ms),
        "first_content_ms": _number(metadata.get(MetadataMember.FIRST_CONTENT_MS)),
        "duration_ms": call.duration_ns / 1e6,
        "mean_pause_ms": _number(metadata.get(MetadataMember.CHUNK_WAIT_MS)),
        "longest_pause_ms": _number(metadata.get(MetadataMember.LONGEST_CHUNK_WAIT_MS)),
        "longest_pause_chunk": _number(metadata.get(MetadataMember.LONGEST_CHUNK_WAIT_AT)),
        "chunks": _number(metadata.get(MetadataMember.CHUNK_COUNT)),
        "request_bytes": _whole_size(call, REQUEST_BODY, call.request_text),
        "response_bytes": _number(metadata.get(MetadataMember.OUTPUT_BYTES))
        or (
            None
            if call.summary.columns.streamed
            else _whole_size(call, RESPONSE_BODY, call.response_text)
        ),
    }


def _describe_error(call: RecordedCall) -> JsonObject | None:
    message = call.span.status_message
    columns = call.summary.columns
    if columns.kind == "TOOL" and call.summary.status == "ERROR":
        return {
            "type": None,
            "message": message or read_error(call.response_text)[:MAX_ERROR_CHARACTERS],
        }
    if call.error_type is None and not message:
        return None
    return {"type": call.error_type, "message": message}


def _describe_cost(call: RecordedCall) -> JsonObject | None:
    total = call.cost_usd
    if total is None:
        return None
    attributes = call.span.attributes
    day = string_of(call.metadata.get(MetadataMember.COST_LIST_DATE))
    return {
        "total": total,
        "prompt": _number(attributes.get(SpanAttributes.LLM_COST_PROMPT)),
        "completion": _number(attributes.get(SpanAttributes.LLM_COST_COMPLETION)),
        "source": _one_of(CostSource, call.metadata.get(MetadataMember.COST_SOURCE)),
        "basis": _one_of(CostBasis, call.metadata.get(MetadataMember.COST_BASIS)),
        "list_date": day,
        "list_is_old": day is not None and (count_days(day, call.summary.start_ns) or 0) > OLD_DAYS,
    }


def _one_of(words: type[StrEnum], value: object) -> str | None:
    """Return a value that is one of some words; the record may be damaged."""
    return value if isinstance(value, str) and value in set(words) else None


def _describe_tokens(call: RecordedCall) -> JsonObject:
    get = call.span.attributes.get
    return {
        "prompt": call.summary.prompt_tokens,
        "cached": _number(get(f"{_COUNTS}.prompt_details.cache_read")),
        "written": _number(get(f"{_COUNTS}.prompt_details.cache_write")),
        "completion": call.summary.completion_tokens,
        "reasoning": _number(get(f"{_COUNTS}.completion_details.reasoning")),
        "total": call.summary.total_tokens,
    }


def _describe_other_apis(call: RecordedCall) -> JsonObject:
    """Build the members that only calls of other APIs than chats have."""
    found: JsonObject = {"query": call.query, "verdict": call.verdict, "sound": call.sound}
    for name, documents in (("documents", call.documents), ("ranking", call.ranking)):
        found[name] = [
            {
                "index": _number(one.index),
                "score": _number(one.score),
                "chars": len(one.text or ""),
                "preview": (one.text or "")[:MAX_DESCRIPTION_CHARACTERS],
            }
            for one in documents
        ]
    return {name: value for name, value in found.items() if value}


def _whole_size(call: RecordedCall, name: str, text: str | None) -> int | None:
    """Count the bytes of a body, also of one that was cut; ``None`` if it is hidden."""
    cut = object_of(call.metadata.get(MetadataMember.CUT))
    value = "input.value" if name == REQUEST_BODY else "output.value"
    noted = _number(cut.get(name)) or _number(cut.get(value))
    if noted is not None:
        return int(noted)
    return None if text == REDACTED else _size(text)


def _size(text: str | None) -> int | None:
    return None if text is None else len(text.encode("utf-8", "surrogatepass"))


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else None
