"""The keys of the filter language: what each is called, and stands for.

Rules:

1. Each is one entry of the table; the parser, the SQL, the predicate and the list for people
   (:func:`describe_keys`) follow from it.
2. A key asks columns alone, never the bytes of a span (``docs/contract/page.md#filter``).
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from openinference.semconv.trace import OpenInferenceSpanKindValues

from telemetry.facts import DERIVED_KINDS
from telemetry.finding.quantities import Unit
from telemetry.finding.readers import (
    cut,
    read_id,
    read_launch,
    read_listed,
    read_number,
    read_stem,
    read_text,
    read_time_bound,
    read_word,
)
from telemetry.store.rows import SpanState

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.finding.readers import Reader
    from telemetry.store.rows import SpanSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of the filter language.

    Attributes:
        example: how it is used.
        meaning: what it asks, for people.
        columns: expressions on ``spans``; one of them has to fulfil the predicate.
        values: each gives the value of one of the columns, of a summary.
        has_order: its values may be compared by ``>`` and ``<``.
        of_names: the key that is meant where the value is a name and not a number.
    """

    name: str
    example: str
    meaning: str
    columns: tuple[str, ...]
    values: tuple[Callable[[SpanSummary], Any], ...]
    read: Reader
    has_order: bool = False
    of_names: str = ""


STATUSES: Final = ("UNSET", "OK", "ERROR")
"""The values of :data:`telemetry.store.rows.SpanStatus`."""

OUTCOMES: Final = (
    "completed",
    "upstream_error",
    "stream_error",
    "truncated",
    "not_an_answer",
    "client_disconnected",
    "cancelled",
    "timeout",
    "connect_error",
    "drain_deadline",
    "worker_lost",
    "relay_error",
)
"""The values of :class:`telemetry.observing.exchange.Outcome`; a list would wait 0.15 s for that
to be imported."""

_KINDS = tuple(
    dict.fromkeys((*(kind.value for kind in OpenInferenceSpanKindValues), *DERIVED_KINDS))
)

_MEANT: Final = {
    "after": "since",
    "agent": "client",
    "before": "until",
    "cache": "cached",
    "code": "http",
    "completion": "out",
    "duration": "dur",
    "endpoint": "api",
    "https": "",  # rather an address
    "input": "in",
    "latency": "dur",
    "output": "out",
    "path": "api",
    "price": "cost",
    "prompt": "in",
    "provider": "upstream",
    "retries": "retry",
    "span": "id",
    "stream": "streamed",
    "time": "since",
    "total": "tokens",
    "trace": "id",
    "usd": "cost",
}
"""Words for a key that are not like it, and one that is and means none."""

_OWN_FIELDS = frozenset(
    {
        *("name", "model", "status", "outcome", "state", "launch", "start_ns"),
        *("prompt_tokens", "completion_tokens", "total_tokens"),
    }
)
"""Columns that a summary holds itself; the others are in its ``columns``."""


def _key(example: str, column: str, read: Reader, meaning: str) -> Key:
    """Make a key that asks one column; its example begins with its name."""
    return Key(
        name=example.partition(":")[0],
        example=example,
        meaning=meaning,
        columns=(column,),
        values=(attrgetter(column if column in _OWN_FIELDS else f"columns.{column}"),),
        read=read,
    )


def _quantity(name: str, example: str, column: str, unit: Unit, meaning: str) -> Key:
    """Make a key that asks how much of something there is."""
    return Key(
        name=name,
        example=f"{name}{example}",
        meaning=meaning,
        columns=(column,),
        values=(attrgetter(column if column in _OWN_FIELDS else f"columns.{column}"),),
        read=read_number(unit),
        has_order=True,
    )


_TABLE = (
    _key("status:error", "status", read_word(*STATUSES), "`error`, `ok` or `unset`"),
    _key("outcome:truncated", "outcome", read_word(*OUTCOMES), "how the call ended"),
    _key("state:pending", "state", read_word(*SpanState), "how far it is on its way to a backend"),
    _key("model:gpt-5*", "model", read_text, "the model that answered, else the one asked for"),
    _key("name:ChatCompletion", "name", read_text, "the name of the span"),
    _key("kind:tool", "kind", read_word(*_KINDS), "the kind; also shows rows that are not calls"),
    _key("api:chat", "api", read_stem("."), "the API that was called, or its family"),
    _key("upstream:groq", "upstream", read_text, "the name of the upstream"),
    _key("client:codex", "client", read_stem("-_."), "the program that called, or its family"),
    _key("session:ID", "session", read_text, "the session's id"),
    _key("user:ID", "user", read_text, "the user's id"),
    _quantity("conversation", ":812", "conversation", Unit.COUNT, "the number of the conversation"),
    Key(
        name="run",
        example="run:812",
        meaning="the number of an agent's run; a name is that of `launch`",
        columns=("run",),
        values=(attrgetter("columns.run"),),
        read=read_number(Unit.COUNT),
        has_order=True,
        of_names="launch",
    ),
    _key("launch:NAME", "launch", read_launch, "the name of what `spantap run` started"),
    _key("tool:grep", "tools", read_listed("\n"), "a tool that the answer calls, or that ran"),
    _key("finish:length", "finish_reason", read_text, "why the answer ended"),
    _key("error:*", "error_type", read_text, "the type of the error"),
    _key("anomaly:no_usage", "anomalies", read_listed(" "), "what was odd about the call"),
    Key(
        name="id",
        example="id:4b34",
        meaning="the beginning of a span id, a trace id or the provider's request id",
        columns=("span_id", "trace_id", "request_id"),
        values=(attrgetter("span_id"), attrgetter("trace_id"), attrgetter("columns.request_id")),
        read=read_id,
    ),
    _quantity("tokens", ">10000", "total_tokens", Unit.COUNT, "tokens in all"),
    _quantity("in", ">10k", "prompt_tokens", Unit.COUNT, "tokens of the request"),
    _quantity("out", ">1000", "completion_tokens", Unit.COUNT, "tokens of the answer"),
    _quantity("cached", ">0", "cached_tokens", Unit.COUNT, "tokens read from a cache"),
    _quantity("cost", ">0.05", "cost_usd", Unit.USD, "the cost in dollars"),
    Key(
        name="dur",
        example="dur>5s",
        meaning="how long the call took",
        columns=("end_ns - start_ns",),
        values=(lambda summary: summary.end_ns - summary.start_ns,),
        read=read_number(Unit.DURATION),
        has_order=True,
    ),
    _quantity("ttft", ">1s", "ttft_ns", Unit.DURATION, "how long its first output took"),
    _quantity("retry", ">0", "retry", Unit.COUNT, "the number of the retry, from 1"),
    _quantity("http", ">=500", "http_status", Unit.COUNT, "the status that the upstream answered"),
    _key("streamed:yes", "streamed", read_number(Unit.FLAG), "whether the answer was a stream"),
    _key("since:2h", "start_ns", read_time_bound(">="), "began then or later"),
    _key("until:14:03", "start_ns", read_time_bound("<"), "began before"),
)

KEYS: Final = {key.name: key for key in _TABLE}
"""Every key by its name, in the order in which people read them."""


def describe_keys() -> list[tuple[str, str]]:
    """List an example and the meaning of each key."""
    return [(key.example, key.meaning) for key in _TABLE]


def explain_unknown_key(name: str) -> str:
    """Say what would be right instead of a key that there is not."""
    meant = _MEANT.get(name.lower())
    if meant is None and (near := get_close_matches(name.lower(), KEYS, n=1)):
        meant = near[0]
    if meant:
        return f"unknown key `{cut(name)}`; did you mean `{meant}`?"
    return f"unknown key `{cut(name)}`; put a text to be searched for in double quotes"
