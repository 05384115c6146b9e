"""The facts of a call: one row for each.

The columns of the store, the keys of a filter, the members in JSON, the columns of tables, sums and
orders follow from these rows; :mod:`telemetry.fact` says what a row has.
:mod:`telemetry.spans.columns` finds the values of a call, and :mod:`telemetry.store.rows` has them
once they are stored. Lists on a terminal import this module, so it imports nothing that takes long.

Rules:

1. A field of :class:`CallColumns` is a column of the table of spans, of the same name, in the same
   order. A new one goes to the end. Its ``schema`` is the number of a new migration: one more than
   :data:`telemetry.store.schema.MIGRATIONS` has, or the number that other facts of the same
   release take. Once released it never changes.
2. ``None`` is what is not known, is hidden, or was recorded before the column was there.
"""

from typing import Annotated, Any, Final, get_type_hints

import msgspec
from msgspec.structs import replace

from telemetry.fact import (
    Aggregation,
    Fact,
    FilterKey,
    Form,
    OfExchange,
    OfSpan,
    PageColumn,
    TerminalColumn,
)
from telemetry.launch_labels import read_name

DERIVED_KINDS: Final = ("AGENT", "TOOL", "MARKER")
"""Kinds of rows that are not calls, but were found out from calls. Lists, counts and sums of calls
leave them out. ``MARKER`` is the span of a nanosecond that takes a first call into its session: its
span is a ``CHAIN``, as that of some calls is."""

KINDS: Final = (
    *("TOOL", "CHAIN", "LLM", "RETRIEVER", "EMBEDDING", "AGENT", "RERANKER", "UNKNOWN"),
    *("GUARDRAIL", "EVALUATOR", "PROMPT", "DECISION", "MARKER"),
)
"""The kinds of OpenInference's spans, and ours. Like the words below they are written out, because
a list would wait until the modules that define them are imported."""

STATUSES: Final = ("UNSET", "OK", "ERROR")
"""The values of :data:`telemetry.store.rows.SpanStatus`."""

OUTCOMES: Final = (
    *("completed", "upstream_error", "stream_error", "truncated", "not_an_answer"),
    *("client_disconnected", "cancelled", "timeout", "connect_error", "drain_deadline"),
    *("worker_lost", "relay_error"),
)
"""The values of :class:`telemetry.observing.exchange.Outcome`."""

PURPOSES: Final = (
    *("title", "topic", "summary", "compaction", "memory", "quota", "router", "suggestion"),
    *("commit", "prewarm", "other"),
)
"""What agents make helper calls for (:mod:`telemetry.observing.purposes`)."""

STATES: Final = ("pending", "delivered", "rejected", "kept")
"""The values of :class:`telemetry.store.rows.SpanState`."""

LIST_BASIS: Final = "list"
"""The value of ``cost_basis`` where a subscription pays: the cost is the list price."""

COST_BASES: Final = (LIST_BASIS,)
"""The values of :class:`telemetry.pricing.span_cost.CostBasis`."""

COST_GAPS: Final = (
    *("no_usage", "unknown_provider", "unknown_model", "unpriced_terms", "unpriced_tool"),
    "unpriced_tokens",
)
"""The values of :class:`telemetry.pricing.span_cost.CostGap`."""

MAX_PREVIEW_CHARS: Final = 120
"""The most characters of a question: what fits into a line of a wide terminal."""

ID_DIGITS: Final = 8
"""How many digits of a span id are shown if it is not whole. Of a million calls some hundred share
them with another call, and then ``show`` lists both."""


class CallColumns(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The columns of a call."""

    kind: Annotated[
        str | None,
        Fact(
            "the kind of the span, in OpenInference's words",
            words=KINDS,
            keys=(
                FilterKey("kind:tool", "the kind; also shows rows that are not calls", place=60),
            ),
            place=70,
        ),
    ] = None
    parent_span_id: Annotated[
        str | None,
        Fact(
            "the span's parent: the caller's span, or that of the run",
            form=Form.ID,
            found=OfExchange("identity.parent_span_id"),
            place=50,
        ),
    ] = None
    conversation: Annotated[
        int | None,
        Fact(
            "the number of the conversation",
            form=Form.COUNT,
            found=OfExchange("position.conversation"),
            keys=(FilterKey("conversation:812", place=120),),
            place=360,
            group="conversation",
        ),
    ] = None
    run: Annotated[
        int | None,
        Fact(
            "the number of an agent's run, which is that of its first call",
            form=Form.COUNT,
            found=OfExchange("position.run"),
            keys=(
                FilterKey(
                    "run:812",
                    "the number of an agent's run; a name is that of `launch`",
                    place=130,
                    of_names="launch",
                ),
            ),
            place=370,
            group="run",
        ),
    ] = None
    turn: Annotated[
        int | None,
        Fact(
            "which word of the user's it answers, from 1",
            form=Form.COUNT,
            found=OfExchange("position.turn"),
            place=380,
        ),
    ] = None
    link_rule: Annotated[
        str | None,
        Fact(
            "by which rule it is known to continue an earlier call",
            found=OfExchange("position.rule"),
            place=390,
        ),
    ] = None
    ttft_ns: Annotated[
        int | None,
        Fact(
            "from the start of the call to the first chunk of its stream",
            form=Form.DURATION,
            keys=(FilterKey("ttft>1s", "how long its first output took", place=270),),
            place=140,
            terminal=TerminalColumn("ttft", 6, rank=10, place=90),
            page=PageColumn("First token", place=80, name="ttft", note="time to the first token"),
            aggregation=Aggregation.RANK,
        ),
    ] = None
    cost_usd: Annotated[
        float | None,
        Fact(
            "the cost of the whole call in dollars",
            form=Form.DOLLARS,
            found=OfSpan("llm.cost.total"),
            keys=(FilterKey("cost>0.05", "the cost in dollars", place=250, also=("price", "usd")),),
            place=270,
            terminal=TerminalColumn("cost", 6, rank=11, place=110),
            page=PageColumn("Cost", place=100, name="cost", note="in US dollars"),
            aggregation=Aggregation.SUM,
            order="cost",
        ),
    ] = None
    cached_tokens: Annotated[
        int | None,
        Fact(
            "tokens of the prompt that came from a cache",
            form=Form.COUNT,
            found=OfExchange("response.usage.cache_read"),
            keys=(FilterKey("cached>0", "tokens read from a cache", place=240, also=("cache",)),),
            place=260,
            terminal=TerminalColumn("cached", 6, rank=12, place=80),
            aggregation=Aggregation.SUM,
        ),
    ] = None
    finish_reason: Annotated[
        str | None,
        Fact(
            "why the first answer ended, in the provider's word; of a run, what ended it",
            found=OfSpan("llm.finish_reason"),
            keys=(FilterKey("finish:length", "why the answer ended", place=160),),
            place=190,
        ),
    ] = None
    error_type: Annotated[
        str | None,
        Fact(
            "the type of the error, as the span says it",
            keys=(FilterKey("error:*", "the type of the error", place=170),),
            place=180,
        ),
    ] = None
    http_status: Annotated[
        int | None,
        Fact(
            "the status that the upstream answered",
            form=Form.COUNT,
            found=OfExchange("response_status"),
            keys=(FilterKey("http>=500", place=290, also=("code",)),),
            place=170,
        ),
    ] = None
    api: Annotated[
        str | None,
        Fact(
            "the name of the API",
            separators=".",
            keys=(
                FilterKey(
                    "api:chat",
                    "the API that was called, or its family",
                    place=70,
                    also=("endpoint", "path"),
                ),
            ),
            place=80,
            terminal=TerminalColumn("api", 9, rank=14, place=45),
            page=PageColumn("API", place=45),
        ),
    ] = None
    upstream: Annotated[
        str | None,
        Fact(
            "the name of the upstream",
            found=OfExchange("upstream"),
            keys=(FilterKey("upstream:groq", place=80, also=("provider",)),),
            place=90,
            group="upstream",
        ),
    ] = None
    client: Annotated[
        str | None,
        Fact(
            "the first product of the User-Agent, without its version, in lower case",
            separators="-_.",
            keys=(
                FilterKey(
                    "client:codex",
                    "the program that called, or its family",
                    place=90,
                    also=("agent",),
                ),
            ),
            place=100,
            terminal=TerminalColumn("client", 8, rank=13, place=40),
            page=PageColumn("Client", place=40),
            group="client",
        ),
    ] = None
    session: Annotated[
        str | None,
        Fact(
            "the session's id",
            keys=(FilterKey("session:ID", place=100),),
            place=280,
            group="session",
        ),
    ] = None
    user: Annotated[
        str | None,
        Fact("the user's id", keys=(FilterKey("user:ID", place=110),), place=290, group="user"),
    ] = None
    request_id: Annotated[
        str | None,
        Fact("the provider's id of the request", form=Form.ID, keys=(FilterKey("id"),), place=10),
    ] = None
    retry: Annotated[
        int | None,
        Fact(
            "the number of the retry, from 1",
            form=Form.COUNT,
            keys=(FilterKey("retry>0", place=280, also=("retries",)),),
            place=210,
        ),
    ] = None
    streamed: Annotated[
        int | None,
        Fact(
            "whether the answer was a stream",
            form=Form.FLAG,
            keys=(FilterKey("streamed:yes", place=300, also=("stream",)),),
            place=200,
        ),
    ] = None
    anomalies: Annotated[
        str | None,
        Fact(
            "what was odd about the call",
            form=Form.ITEMS,
            separators=" ",
            keys=(FilterKey("anomaly:no_usage", place=180),),
            place=220,
        ),
    ] = None
    tools: Annotated[
        str | None,
        Fact(
            "the names of the tools that the answer calls, each once",
            form=Form.ITEMS,
            separators="\n",
            keys=(FilterKey("tool:grep", "a tool that the answer calls, or that ran", place=150),),
            place=340,
            group="tool",
        ),
    ] = None
    tool_calls: Annotated[
        int | None, Fact("how many calls of tools the answer has", form=Form.COUNT, place=350)
    ] = None
    new_messages: Annotated[
        int | None, Fact("how many messages the request has", form=Form.COUNT, place=330)
    ] = None
    preview: Annotated[
        str | None,
        Fact("the beginning of the newest text of the user's, white space folded", place=320),
    ] = None
    step: Annotated[
        str | None,
        Fact(
            "what is new where the user did not speak: tools that answered, and what the model did;"
            " of a tool its call; where no model speaks, what the call is",
            schema=11,
            place=324,
        ),
    ] = None
    purpose: Annotated[
        str | None,
        Fact(
            "what a helper call of an agent is for",
            words=PURPOSES,
            schema=11,
            keys=(
                FilterKey(
                    "purpose:title",
                    "what a helper call of an agent is for; `-purpose:*` leaves all of them out",
                    place=155,
                    also=("helper",),
                ),
            ),
            place=328,
        ),
    ] = None
    saved_usd: Annotated[
        float | None,
        Fact(
            "what the provider's cache saved in dollars, at the price of ordinary input; unknown if"
            " a subscription pays",
            form=Form.DOLLARS,
            schema=11,
            keys=(FilterKey("saved>0", place=252),),
            place=272,
            aggregation=Aggregation.SUM,
        ),
    ] = None
    cost_basis: Annotated[
        str | None,
        Fact(
            "what the cost means: `list` is the list price of a call that a subscription pays",
            words=COST_BASES,
            schema=11,
            keys=(FilterKey("basis:list", place=254),),
            place=274,
        ),
    ] = None
    cost_gap: Annotated[
        str | None,
        Fact(
            "why the cost, or a part of it, is unknown",
            words=COST_GAPS,
            schema=11,
            keys=(FilterKey("unpriced:*", place=256, also=("gap", "nocost")),),
            place=276,
        ),
    ] = None
    input_usd: Annotated[
        float | None,
        Fact(
            "the part of the cost that the request's tokens have",
            form=Form.DOLLARS,
            schema=16,
            found=OfSpan("llm.cost.prompt"),
            place=271,
        ),
    ] = None


COLUMN_NAMES: Final = CallColumns.__struct_fields__
"""In the order of the table (rule 1)."""

NO_COLUMNS: Final = CallColumns()
"""The columns of a call of which nothing is known."""

OWN_FACTS: Final = (
    Fact("its number in the store", "seq", form=Form.COUNT, is_always=True, place=400),
    Fact(
        "the span's id",
        "span_id",
        form=Form.ID,
        is_always=True,
        keys=(
            FilterKey(
                "id:4b34",
                "the beginning of a span id, a trace id or the provider's request id",
                place=190,
                also=("span", "trace"),
            ),
        ),
        place=30,
        terminal=TerminalColumn("id", ID_DIGITS, rank=1, place=20),
    ),
    Fact(
        "the trace's id",
        "trace_id",
        form=Form.ID,
        is_always=True,
        keys=(FilterKey("id"),),
        place=40,
    ),
    Fact(
        "the name of the span",
        "name",
        is_always=True,
        keys=(FilterKey("name:ChatCompletion", place=50),),
        place=60,
    ),
    Fact(
        "when the call began",
        "start_ns",
        form=Form.TIME,
        is_always=True,
        keys=(
            FilterKey(
                "since:2h", "began then or later", place=310, also=("after", "time"), bound=">="
            ),
            FilterKey("until:14:03", "began before", place=320, also=("before",), bound="<"),
        ),
        place=110,
        terminal=TerminalColumn("time", 14, rank=7, place=10),
        page=PageColumn("Time", place=20, name="time"),
    ),
    Fact("when the call ended", "end_ns", form=Form.TIME, is_always=True, place=120),
    Fact(
        "the model that answered, else the one asked for",
        "model",
        keys=(FilterKey("model:gpt-5*", place=40),),
        place=20,
        terminal=TerminalColumn("model", 8, rank=3, place=30),
        page=PageColumn("Model", place=30),
        group="model",
    ),
    Fact(
        "the status of the span",
        "status",
        words=STATUSES,
        is_always=True,
        keys=(FilterKey("status:error", "`error`, `ok` or `unset`", place=10),),
        place=150,
    ),
    Fact(
        "how the call ended",
        "outcome",
        words=OUTCOMES,
        is_always=True,
        keys=(FilterKey("outcome:truncated", place=20),),
        place=160,
        terminal=TerminalColumn("outcome", 9, rank=2, place=120),
        page=PageColumn("State", place=10, name="state"),
    ),
    Fact(
        "tokens of the request",
        "prompt_tokens",
        form=Form.COUNT,
        keys=(FilterKey("in>10k", place=220, also=("input", "prompt")),),
        place=230,
        terminal=TerminalColumn("in", 5, rank=4, place=60),
        page=PageColumn("In", place=60, name="in", note="tokens of the prompt"),
        aggregation=Aggregation.SUM,
    ),
    Fact(
        "tokens of the answer",
        "completion_tokens",
        form=Form.COUNT,
        keys=(FilterKey("out>1000", place=230, also=("output", "completion")),),
        place=240,
        terminal=TerminalColumn("out", 4, rank=5, place=70),
        page=PageColumn(
            "Out", place=70, name="out", note="tokens of the answer; of an open call characters"
        ),
        aggregation=Aggregation.SUM,
    ),
    Fact(
        "tokens in all",
        "total_tokens",
        form=Form.COUNT,
        keys=(FilterKey("tokens>10000", place=210, also=("total",)),),
        place=250,
        order="tokens",
    ),
    Fact("bytes of the span", "size_bytes", form=Form.COUNT, is_always=True, place=410),
    Fact(
        "how far it is on its way to a backend",
        "state",
        words=STATES,
        is_always=True,
        keys=(FilterKey("state:pending", place=30),),
        place=430,
        terminal=TerminalColumn("state", 5, rank=15, place=130),
    ),
    Fact("how often sending it has failed", "attempts", form=Form.COUNT, is_always=True, place=440),
    Fact(
        "the earliest time of the next try; 0 if none has failed",
        "next_try_ns",
        form=Form.TIME,
        is_always=True,
        make=lambda row: row.next_try_ns or None,
        place=450,
    ),
    Fact("why the last try failed", "last_error", place=460),
    Fact(
        "the label of its launch",
        "launch",
        form=Form.LABEL,
        keys=(FilterKey("launch:NAME", "the name of what `spantap run` started", place=140),),
        member="launch_label",
        place=310,
    ),
    Fact("when it was recorded", "recorded_ns", form=Form.TIME, is_always=True, place=420),
)
"""The facts that a :class:`~telemetry.store.rows.SpanSummary` has itself, in its order."""


def tell_what(row: Any) -> str | None:
    """Tell what is new in the call of a row (:class:`~telemetry.store.rows.SpanSummary`)."""
    name = row.name if row.columns.kind in DERIVED_KINDS else None
    return row.columns.step or row.columns.preview or name


MADE_FACTS: Final = (
    Fact(
        "how long the call took",
        "duration_ns",
        form=Form.DURATION,
        keys=(FilterKey("dur>5s", place=260, also=("duration", "latency")),),
        place=130,
        terminal=TerminalColumn("took", 6, rank=8, place=100),
        page=PageColumn("Took", place=90, name="took", note="duration"),
        aggregation=Aggregation.RANK,
        order="slow",
        make=lambda row: row.end_ns - row.start_ns,
    ),
    Fact(
        "the name of its launch",
        "launch_name",
        member="launch",
        place=300,
        make=lambda row: None if row.launch is None else read_name(row.launch),
    ),
    Fact(
        "what is new in the call: the user's words, else the step; if a row is not a call and has"
        " no question, its name",
        "what",
        place=316,
        terminal=TerminalColumn(
            "what", 16, rank=6, place=50, most_chars=MAX_PREVIEW_CHARS, wide=24, wide_rank=9
        ),
        page=PageColumn("What", place=50),
        make=tell_what,
    ),
)
"""Facts that follow from others."""


def _read_fields() -> tuple[Fact, ...]:
    """Read the rows that stand at the fields of :class:`CallColumns`."""
    hints: dict[str, Any] = get_type_hints(CallColumns, include_extras=True)
    return tuple(
        replace(hints[name].__metadata__[0], name=name, path=f"columns.{name}")
        for name in COLUMN_NAMES
    )


COLUMN_FACTS: Final = _read_fields()
"""The facts of :class:`CallColumns`, in its order."""

FACTS: Final = (*OWN_FACTS, *MADE_FACTS, *COLUMN_FACTS)
"""All facts."""

SUMMED: Final = tuple(fact for fact in FACTS if fact.aggregation is Aggregation.SUM)
"""Facts that are summed up."""

RANKED: Final = tuple(fact for fact in FACTS if fact.aggregation is Aggregation.RANK)
"""Facts whose percentiles are shown."""

GROUPED: Final = {
    fact.group: fact.name for fact in FACTS if fact.group and fact.form is not Form.COUNT
}
"""Texts that calls may have in common, by the name of the group."""

NUMBERED: Final = {
    fact.group: fact.name for fact in FACTS if fact.group and fact.form is Form.COUNT
}
"""Numbers that calls may have in common, by the name of the group."""

ORDERS: Final = {fact.order: fact.name for fact in FACTS if fact.order}
"""The orders of lists, each with the fact of which the largest comes first.

Calls whose value is unknown come last; of two equal ones the newer comes first."""
