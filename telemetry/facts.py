"""The columns of a call: what a list shows and filters by, without reading the span's bytes.

The room of spans fills them (:mod:`telemetry.spans.columns`), that of the store writes and reads
them (:mod:`telemetry.store.rows`).

Rules:

1. Each field is a column of the table of spans, of the same name, in the same order. A new one goes
   to the end, with a migration of its own (:mod:`telemetry.store.schema`).
2. ``None`` is what was not told, is hidden, or was recorded before the column was.
"""

from __future__ import annotations

from typing import Final

import msgspec

DERIVED_KINDS: Final = ("AGENT", "TOOL", "MARKER")
"""Kinds of rows that are no calls: what was found out from calls. Lists, counts and sums of calls
leave them out. ``MARKER`` is the span of a nanosecond that takes a first call into its session
(C12): its span is a ``CHAIN``, as that of some calls is."""


class CallColumns(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is told of a call in columns of its own.

    Attributes:
        kind: ``openinference.span.kind``.
        parent_span_id: the span's parent: the caller's span, or that of the run.
        conversation: the number of its conversation (:mod:`telemetry.conversations`).
        run: the number of its run: that of the first call in it.
        turn: which word of the user's it answers, from 1.
        link_rule: by which rule it is known to go on from an earlier call.
        ttft_ns: from the start of the call to the first chunk of its stream.
        cost_usd: of the whole call.
        cached_tokens: those of the prompt that came from a cache.
        finish_reason: why the first answer ended, in the provider's word; of a run, what ended it.
        error_type: as ``error.type`` of the span.
        http_status: what the upstream answered.
        api: the name of the API (:mod:`codec.apis.table`).
        upstream: its name in the settings.
        client: the first product of the User-Agent, without its version, in lower case.
        session: ``session.id``.
        user: ``user.id``.
        request_id: the provider's.
        retry: which retry of its client's it is, from 1; ``None`` for a first attempt.
        streamed: 1 where the answer was a stream, else 0.
        anomalies: their names with a space between two.
        tools: the names of the tools that the answer calls, each once, a line each.
        tool_calls: how many calls of tools the answer has.
        new_messages: how many messages the request has.
        preview: the beginning of the newest text of the user's, white space folded.
    """

    kind: str | None = None
    parent_span_id: str | None = None
    conversation: int | None = None
    run: int | None = None
    turn: int | None = None
    link_rule: str | None = None
    ttft_ns: int | None = None
    cost_usd: float | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    error_type: str | None = None
    http_status: int | None = None
    api: str | None = None
    upstream: str | None = None
    client: str | None = None
    session: str | None = None
    user: str | None = None
    request_id: str | None = None
    retry: int | None = None
    streamed: int | None = None
    anomalies: str | None = None
    tools: str | None = None
    tool_calls: int | None = None
    new_messages: int | None = None
    preview: str | None = None


COLUMN_NAMES: Final = CallColumns.__struct_fields__
"""In the order of the table (rule 1)."""

NO_COLUMNS: Final = CallColumns()
"""The columns of a call of which nothing is told."""
