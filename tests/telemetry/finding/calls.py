"""Calls at random, filters at random, and the table of the store with those calls in it."""

from __future__ import annotations

import dataclasses
import functools
import re
import sqlite3
from typing import TYPE_CHECKING, get_args

import msgspec
from hypothesis import strategies as st

from telemetry.facts import COST_BASES, COST_GAPS, OUTCOMES, CallColumns
from telemetry.launch_labels import build_label
from telemetry.store.rows import SpanState, SpanStatus, SpanSummary
from telemetry.store.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = (
    "CONDITION_TEXTS",
    "FILTER_TEXTS",
    "NOW_NS",
    "TEXTS",
    "VALUES",
    "calls_with",
    "fill_table",
    "make_call",
)

NOW_NS = 1_764_086_400_000_000_000
"""2025-11-25, 16:00 UTC."""

TEXTS = st.text(alphabet='ab*?[]\\"-:. né\ud7ff\uffff\U0010ffff', min_size=1, max_size=6)
"""Short ones of few letters, that patterns may hit; with what is special to anybody."""

_SHORT = st.sampled_from(["a", "b", "ab", "aba", "a*b", "a?b", "[a]", "é", "a b", 'a"b']) | TEXTS
_IDS = st.text(alphabet="0af", min_size=4, max_size=4)
_NAMES = st.sampled_from(["app", "app.py", "ap", "a b", ".app", "App", "é", "a" * 70])
_LAUNCHES = st.builds(build_label, _NAMES, st.sampled_from(["", "1", "4f2a"]))
_COUNTS = st.sampled_from([0, 1, 5, 10, 429, 500, 1_000, (1 << 63) - 1]) | st.integers(0, 1 << 40)
_TIMES_NS = st.sampled_from([0, NOW_NS - 1, NOW_NS, NOW_NS - 7_200_000_000_000])
_DOLLARS = st.sampled_from([0.0, 0.05, 1e-05, 0.1, 2.5]) | st.floats(0, 1e12)
_TOOL_NAMES = ["grep", "ripgrep", "gre", "gp", "read file"]
_TOOLS = st.lists(st.sampled_from(_TOOL_NAMES) | _SHORT, min_size=1, max_size=3)
_ANOMALY_NAMES = ["no_usage", "usage", "no", "no_no"]
_ANOMALIES = st.lists(st.sampled_from(_ANOMALY_NAMES), min_size=1, max_size=3)
_CLIENTS = st.sampled_from(["codex", "codex_cli_rs", "codexx", "claude-cli", "a.b"])
_APIS = st.sampled_from(["chat", "chat.completions", "chats", "gemini.embed", "responses"])


def make_call(seq: int = 1, /, **values: object) -> SpanSummary:
    """A call with these columns, of either struct."""
    columns = {name: values.pop(name) for name in CallColumns.__struct_fields__ if name in values}
    call = SpanSummary(
        seq=seq,
        span_id=f"{seq:016x}",
        trace_id=f"{seq:032x}",
        name="ChatCompletion",
        start_ns=NOW_NS,
        end_ns=NOW_NS,
        model=None,
        status="OK",
        outcome="completed",
        prompt_tokens=None,
        completion_tokens=None,
        total_tokens=None,
        size_bytes=0,
        state=SpanState.KEPT,
        attempts=0,
        next_try_ns=0,
        last_error=None,
        launch=None,
        recorded_ns=NOW_NS,
        columns=msgspec.convert(columns, CallColumns),
    )
    return dataclasses.replace(call, **values)  # type: ignore[arg-type]


def _maybe(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | values


COLUMNS: dict[str, st.SearchStrategy[object]] = {
    "status": st.sampled_from(get_args(SpanStatus)),
    "outcome": st.sampled_from(OUTCOMES),
    "state": st.sampled_from(SpanState),
    "name": _SHORT,
    "start_ns": _TIMES_NS,
    "end_ns": _TIMES_NS,
    "span_id": _IDS,
    "trace_id": _IDS,
    **{name: _maybe(_SHORT) for name in ("model", "upstream", "user", "session")},
    **{name: _maybe(_SHORT) for name in ("finish_reason", "error_type")},
    **{name: _maybe(_COUNTS) for name in ("prompt_tokens", "completion_tokens")},
    **{name: _maybe(_COUNTS) for name in ("total_tokens", "cached_tokens", "retry")},
    **{name: _maybe(_COUNTS) for name in ("ttft_ns", "http_status", "conversation", "run")},
    "kind": _maybe(st.sampled_from(["LLM", "EMBEDDING", "TOOL", "MARKER"])),
    "purpose": _maybe(st.sampled_from(["title", "topic", "quota"])),
    "api": _maybe(_APIS),
    "client": _maybe(_CLIENTS),
    "launch": _maybe(_LAUNCHES),
    **{name: _maybe(_DOLLARS) for name in ("cost_usd", "saved_usd")},
    "cost_basis": _maybe(st.sampled_from(COST_BASES)),
    "cost_gap": _maybe(st.sampled_from(COST_GAPS)),
    "request_id": _maybe(_IDS | _IDS.map(str.upper) | TEXTS),
    "streamed": _maybe(st.sampled_from([0, 1])),
    "anomalies": _maybe(_ANOMALIES.map(" ".join)),
    "tools": _maybe(_TOOLS.map("\n".join)),
}
"""Values of each column that is asked; ``None`` where it may be unknown."""


def calls_with(*columns: str) -> st.SearchStrategy[list[SpanSummary]]:
    """Some calls with values in these columns; all have some id of their own."""
    values = st.fixed_dictionaries({name: COLUMNS[name] for name in columns})
    return st.lists(values, min_size=1, max_size=6).map(_make_calls)


def _make_calls(values: list[dict[str, object]]) -> list[SpanSummary]:
    calls = [make_call(seq, **each) for seq, each in enumerate(values, 1)]
    return [dataclasses.replace(call, span_id=f"{call.span_id}{call.seq}") for call in calls]


def _written(text: str, *, is_quoted: bool) -> str:
    """The pattern as it is written in a filter; a star is one."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if is_quoted or re.search(r"\s", text) else escaped


def _values(texts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A text, or what it begins with, ends with or has in it."""
    cut = st.builds(
        lambda text, at, form: form.format(text[:at] or "a", text[at:]),
        texts,
        st.integers(1, 3),
        st.sampled_from(["{0}{1}", "{0}*", "*{1}", "{0}*{1}", "*{0}*"]),
    )
    return st.builds(lambda text, quoted: _written(text, is_quoted=quoted), cut, st.booleans())


_SIGNS = st.sampled_from([":", ">", ">=", "<", "<=", "="])
_DURATIONS = st.sampled_from(["0s", "1ns", "5s", "1.5h", "2h", ".5ms", "7200s", "1ns1s"])
_MOMENTS = st.sampled_from(["2h", "0s", "16:00", "15:59:59", "today", "2025-11-25T14:00", "99w"])
_WORDS: dict[str, tuple[str, ...]] = {
    "status": ("ok", "ERR", "*", "unset"),
    "outcome": (*OUTCOMES, "*error", "c*", "Trunc"),
    "state": (*SpanState, "*e*", "pend"),
    "kind": ("llm", "EMBED", "*"),
    "purpose": ("title", "T*", "quot", "*"),
    "basis": ("list", "l*", "*"),
    "unpriced": ("no_usage", "unknown_*", "*"),
    "streamed": ("yes", "no", "1"),
}

VALUES: dict[str, st.SearchStrategy[str]] = {
    **{key: st.sampled_from(words).map(":{}".format) for key, words in _WORDS.items()},
    **{
        key: _values(_SHORT).map(":{}".format)
        for key in ("model", "name", "upstream", "session", "user", "finish", "error")
    },
    "api": _values(_APIS).map(":{}".format),
    "client": _values(_CLIENTS).map(":{}".format),
    "tool": _values(st.sampled_from(_TOOL_NAMES) | _SHORT).map(":{}".format),
    "anomaly": _values(st.sampled_from(_ANOMALY_NAMES)).map(":{}".format),
    "launch": st.one_of(_LAUNCHES, _values(_NAMES)).map(":{}".format),
    "id": st.one_of(_IDS.map(lambda text: text[:2]), _IDS.map(str.upper)).map(":{}".format),
    **{
        key: st.tuples(_SIGNS, _COUNTS.map(str) | st.just("1k")).map("".join)
        for key in ("tokens", "in", "out", "cached", "retry", "http", "conversation", "run")
    },
    **{key: st.tuples(_SIGNS, _DOLLARS.map(repr)).map("".join) for key in ("cost", "saved")},
    "dur": st.tuples(_SIGNS, _DURATIONS).map("".join),
    "ttft": st.tuples(_SIGNS, _DURATIONS).map("".join),
    "since": _MOMENTS.map(":{}".format),
    "until": _MOMENTS.map(":{}".format),
}
"""Of each key, what may stand behind it, with the sign."""

_CONDITIONS = st.sampled_from([*VALUES]).flatmap(
    lambda key: st.tuples(st.sampled_from(["", "", "-"]), st.just(key), VALUES[key]).map("".join)
)
_TEXTS = st.builds(lambda text: _written(text, is_quoted=True), TEXTS)

CONDITION_TEXTS = st.lists(_CONDITIONS, min_size=1, max_size=2).map(" ".join)
"""Filters of conditions; few of them cannot be followed."""

FILTER_TEXTS = st.lists(_CONDITIONS | _TEXTS | TEXTS, max_size=4).map(" ".join)
"""Texts most of which are filters."""


@functools.cache
def _open_table() -> sqlite3.Connection:
    """A store's tables in memory, made once: that takes longer than an example."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, 0)
    return connection


def fill_table(calls: Iterable[SpanSummary]) -> sqlite3.Connection:
    """A store's tables in memory, with these calls alone; their numbers and span ids differ."""
    connection = _open_table()
    connection.execute("DELETE FROM spans")
    for call in calls:
        row = {field.name: getattr(call, field.name) for field in dataclasses.fields(call)}
        row |= msgspec.structs.asdict(row.pop("columns"))
        names, signs = ", ".join(row), ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO spans ({names}) VALUES ({signs})", [*row.values()])
    return connection
