"""``GET /api/failures``: the steps that failed, of a conversation, of a run, or that fit a filter.

A step is a tool or a call. The failed steps of a run are also those of its sub-agents, as in its
tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.reading.failures import describe_failures, has_row_failed
from proxy.reading.record import write_time
from proxy.reading.run_tree import build_tree
from telemetry.facts import tell_what
from telemetry.finding.where import Rows, ask_word
from telemetry.reading.engine import LAST_SEQ

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from proxy.reading.failures import Failure
    from telemetry.reading.calls import Calls
    from telemetry.store.rows import SpanSummary

FAILURE_SECONDS: Final = 0.25

MAX_FAILURES: Final = 100
"""The most steps of an answer, the newest ones. If there are more, ``next`` continues."""

MAX_STEPS: Final = 5_000

FAILURES_PARAMETERS: Final = ("run", "filter", "from", "to", "before")


def list_failures(reader: Calls, parameters: Parameters) -> JsonObject:
    """List failed steps, newest first."""
    run = parameters.number("run", 0)
    before = parameters.number("before", LAST_SEQ)
    if run:
        found = reader.run_tree(run, MAX_STEPS)
        # Near rows of the trace may be an agent's above this one; the tree leaves them out.
        nodes = [] if found is None else build_tree(*found)
        failed = [node.row for node in nodes if node.row is not None and has_row_failed(node.row)]
        newest = sorted(failed, key=lambda row: row.seq, reverse=True)
        rows = [row for row in newest if row.seq < before]
        more = rows[MAX_FAILURES - 1].seq if len(rows) > MAX_FAILURES else None
    else:
        where = (
            parameters.filter()
            .where()
            .also(
                ask_word("status", "ERROR"),
                ask_word("kind", "AGENT", "MARKER", is_not=True),
                rows=Rows.ALL,
                since_ns=parameters.time_ns("from"),
                until_ns=parameters.time_ns("to"),
            )
        )
        page = reader.that(where).page(MAX_FAILURES, before=before, seconds=FAILURE_SECONDS)
        rows = [row for row in page.rows if has_row_failed(row)]
        more = None if page.is_done else page.back_to
    told = describe_failures(reader, rows[:MAX_FAILURES])
    if len(told) < min(len(rows), MAX_FAILURES):
        more = told[-1].row.seq
    return {"failures": [_build_failure(one) for one in told], "next": more}


def _build_failure(failure: Failure) -> JsonObject:
    row = failure.row
    return {
        **_build_step(row),
        "model": row.model,
        "start_time": write_time(row.start_ns),
        "conversation": row.columns.conversation,
        "run": row.columns.run,
        "call": None if failure.caller is None else failure.caller.span_id,
        "error": failure.error,
        "corrected_by": None
        if failure.corrected_by is None
        else {**_build_step(failure.corrected_by), "is_same": failure.is_same},
    }


def _build_step(row: SpanSummary) -> JsonObject:
    return {"span_id": row.span_id, "kind": row.columns.kind, "what": tell_what(row)}
