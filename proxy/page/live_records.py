"""News as the records that the page's API has for the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from proxy.reading.record import build_open_record
from telemetry.store.rows import SpanSummary

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from telemetry.news.messages import EndedCall, Opened, Progress
    from telemetry.store.rows import SpanState


def summarise(call: EndedCall) -> SpanSummary:
    """Make the row of a call that has ended and is not in the store yet: it has no state there."""
    return SpanSummary(
        seq=cast("int", None),
        state=cast("SpanState", None),
        attempts=0,
        next_try_ns=0,
        last_error=cast("str", None),
        **{name: getattr(call, name) for name in call.__struct_fields__},
    )


def build_opened_record(opened: Opened, now_ns: int) -> JsonObject:
    """Build the record of an open call, with how much of its answer has come."""
    call = opened.call
    return build_open_record(call, now_ns) | {
        "chars": opened.chars,
        "ttft_ms": _since(opened.first_ns, call.start_ns),
    }


def build_progress_record(progress: Progress, start_ns: int) -> JsonObject:
    """Build the record of how far a call is that began at `start_ns`."""
    return {
        "span_id": progress.span_id,
        "model": progress.model,
        "http_status": progress.http_status,
        "chunks": progress.chunks,
        "chars": progress.chars,
        "ttft_ms": _since(progress.first_ns, start_ns),
    }


def _since(at_ns: int | None, start_ns: int) -> float | None:
    return None if at_ns is None else max(0, at_ns - start_ns) / 1e6
