"""The engines answer alike: SQLite's, and one over a list, of any filter, order, group and page."""

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from telemetry.errors import FilterError
from telemetry.facts import NUMBERED, ORDERS, CallColumns
from telemetry.finding.filter import parse_filter
from telemetry.finding.where import ALL_CALLS, ALL_ROWS, Rows
from telemetry.reading.calls import Calls
from telemetry.reading.engine import LAST_SEQ, never
from telemetry.reading.stored_calls import open_calls
from telemetry.reading.sums import GROUPS
from telemetry.store.store import Store
from tests.same.filters import make_filters
from tests.telemetry.reading.list_engine import ListEngine
from tests.telemetry.run_rows import Run, make_agent_run
from tests.telemetry.span_rows import make_row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from telemetry.finding.where import Where
    from telemetry.store.rows import SpanRow

NOW_NS = 1_769_900_000_000_000_000
"""2026-01-31, 22:53 UTC."""

_HOUR_NS = 3_600_000_000_000
_FILTERS = make_filters()
_PARTS = 10


def _make_rows() -> Iterator[SpanRow]:
    """Calls and other rows of which each filter finds some."""
    dice = random.Random(46)

    def some(*values: Any) -> Any:
        return dice.choice(values)

    for number in range(1, 101):
        start_ns = NOW_NS - (101 - number) * _HOUR_NS
        took_ns = some(0, 392, 392, 4_000, 6_000, 90_000) * 1_000_000
        kind = some("LLM", "LLM", "LLM", None, "EMBEDDING", "TOOL", "AGENT", "MARKER")
        is_call = kind not in {"TOOL", "AGENT", "MARKER"}
        tokens = [some(None, 0, 9, 70, 600, 20_000) if is_call else None for _ in range(4)]
        text = some("the weather in Paris", "say hi", "2 + 2 not found", "Ruby: a b ß", "").encode()
        row = make_row(number, padding_bytes=8)
        yield replace(
            row,
            trace_id=f"{number // 5:032x}",
            start_ns=start_ns,
            end_ns=start_ns + took_ns,
            recorded_ns=start_ns + took_ns,
            name=some("ChatCompletion", "Message", "Response", "GenerateContent"),
            model=some(None, "gpt-4.1-nano", "gpt-5-mini", "claude-x", "m-1", "gemini-2.5-flash"),
            status=some("OK", "OK", "ERROR", "UNSET"),
            outcome=some("completed", "truncated", "cancelled", "not_an_answer"),
            prompt_tokens=tokens[0],
            completion_tokens=tokens[1],
            total_tokens=tokens[2],
            launch=some(None, "nothing", "nothing~~1", "app~~2"),
            span=row.span + b"\x12" + bytes([len(text)]) + text,
            columns=CallColumns(
                kind=kind,
                parent_span_id=some(None, f"{max(1, number - 1):016x}"),
                conversation=some(None, 1, 7, 100),
                run=some(None, None, 1, 100, 163, 1206),
                link_rule=some(None, "state"),
                ttft_ns=some(None, 0, 300_000_000, 2_000_000_000),
                cost_usd=some(None, 0.0, 0.0000152587890625, 0.0625, 0.5) if is_call else None,
                cached_tokens=tokens[3],
                cost_gap=some(None, "no_usage", "unknown_model") if is_call else None,
                input_usd=some(None, 0.0625) if is_call else None,
                finish_reason=some(None, "stop", "length", "tool_calls"),
                error_type=some(None, "429", "invalid_request_error"),
                http_status=some(None, 200, 400, 503),
                api=some(None, "chat.completions", "messages", "responses", "gemini.embed"),
                upstream=some(None, "default", "groq"),
                client=some(None, "codex", "openai-python", "claude-code", "curl"),
                session=some(None, "s-1", "s-2", "conv-9"),
                user=some(None, "u-7", "u-8"),
                request_id=some(None, f"msg_{number}", f"req_{number}", "chatcmpl-A"),
                retry=some(None, 1, 2),
                streamed=some(None, 0, 1),
                anomalies=some(None, "no_usage", "truncated no_usage"),
                tools=some(None, "add", "get_weather\nadd", "web_search"),
                tool_calls=some(None, 1, 2),
                preview=some(None, "hi"),
            ),
        )


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Calls, Calls]]:
    """The same rows, read by SQLite's engine and by that of a list."""
    with open_filled(tmp_path_factory.mktemp("engines") / "t.db", [*_make_rows()]) as (one, other):
        yield one, other


class open_filled:  # noqa: N801 - used as a function
    """A store of these rows, read by both engines."""

    def __init__(self, path: Path, rows: list[SpanRow]) -> None:
        with Store.open(path, delivers=False) as store:
            store.add(rows)
        self._stored = open_calls(path)

    def __enter__(self) -> tuple[Calls, Calls]:
        rows = self._stored.all_rows()
        return self._stored, Calls(ListEngine([*rows.with_bytes(rows.since(0))]))

    def __exit__(self, *exc_info: object) -> None:
        self._stored.close()


def ask_lists(calls: Calls) -> Iterator[Any]:
    """Every order and page of some calls, from either end."""
    yield calls.count()
    yield calls.measure()
    yield calls.measure(80)
    yield [*calls.walk()]
    yield [*calls.walk(70)]
    for limit in (0, 1, 7, 1_000):
        yield [*calls.numbers(limit)]
        for fact in ORDERS.values():
            yield [*calls.numbers(limit, fact)]
    for limit, before, after in ((5, 1 << 60, 0), (5, 100, 0), (50, 100, 30), (500, 90, 89)):
        page = calls.page(limit, before=before, after=after)
        yield page.rows
        yield calls.page(limit, before=page.back_to, after=after).rows
    yield calls.after(20, 9)
    yield [one.run for one in calls.runs(3)]
    for fact in ORDERS.values():
        yield [one.run for one in calls.runs(3, fact)]


def ask_sums(calls: Calls) -> Iterator[Any]:
    """What some calls come to, by every group, of the whole time and of parts of it."""
    for groups in (*GROUPS.values(), ("model", "upstream")):
        yield calls.aggregate(*groups)
    for by, limit in product(NUMBERED.values(), (2, 1_000)):
        yield calls.dearest_groups(by, limit)
    yield calls.aggregate("model", step_seconds=7_200, seconds=60)
    yield sorted(map(str, calls.usages("model")))
    yield calls.tool_calls()
    yield calls.notable(5, 60)


def read(words: str) -> Where | None:
    """What a filter asks; nothing of a text that is none."""
    try:
        return parse_filter(words, now_ns=NOW_NS).where()
    except FilterError:
        return None


@pytest.mark.parametrize("part", range(_PARTS))
def test_filters_find_the_same(both: tuple[Calls, Calls], part: int) -> None:
    """Five hundred of them, in every order, group and page; those with texts by their texts."""
    hits = 0
    for words in _FILTERS[part::_PARTS]:
        if (where := read(words)) is None:
            continue
        one, other = (calls.that(where) for calls in both)
        if where.texts:
            assert one.page(500).rows == other.page(500).rows, words
            assert one.page(3, before=99).rows == other.page(3, before=99).rows, words
            continue
        for told, expected in zip(ask_lists(one), ask_lists(other), strict=True):
            assert told == expected, words
        hits += one.count()
        for told, expected in zip(ask_sums(one), ask_sums(other), strict=True):
            assert told == expected, words
    assert hits


@pytest.mark.parametrize("rows", Rows)
@pytest.mark.parametrize("words", ["", "status:error", "model:gpt-*", "id:000000000000001"])
def test_all_kinds_of_rows_are_found(both: tuple[Calls, Calls], rows: Rows, words: str) -> None:
    """Also what was found out from calls, and rows of a time alone."""
    wanted = parse_filter(words, now_ns=NOW_NS).where().also(rows=rows)
    since_ns = (NOW_NS - 40 * _HOUR_NS) // 60_000_000_000 * 60_000_000_000
    until_ns = since_ns + 20 * _HOUR_NS
    for where in (wanted, wanted.also(since_ns=since_ns), wanted.also(until_ns=until_ns)):
        one, other = (calls.that(where) for calls in both)
        assert [*ask_lists(one)] == [*ask_lists(other)]
        assert [*ask_sums(one)] == [*ask_sums(other)]


def test_ids_find_the_same(both: tuple[Calls, Calls]) -> None:
    """Whole ones and beginnings, of either case."""
    for prefix in ("0", "000000000000000A", "msg_1", "chatcmpl-A", "req_", "f", "", f"{9:032x}"):
        one, other = both
        assert one.find(prefix) == other.find(prefix), prefix
        assert one.one(prefix) == other.one(prefix), prefix
    assert both[0].last_seq() == both[1].last_seq() == 100
    assert both[0].first_ns() == both[1].first_ns()
    assert both[0].count_states() == both[1].count_states()
    assert both[0].began_at(50) == both[1].began_at(50)


def test_sessions_and_users_come_to_the_same(both: tuple[Calls, Calls]) -> None:
    """With any filter, from any number back."""
    one, other = both
    for words in ("", "status:error", "model:m*", "dur>1s"):
        where = parse_filter(words, now_ns=NOW_NS).where()
        for by in ("session", "user"):
            for before in (LAST_SEQ, 60):
                mine, others = (
                    calls.that(where).newest_groups(by, before=before, seconds=60)
                    for calls in (one, other)
                )
                assert mine == others, (words, by)
    assert one.newest_groups("session", seconds=60).groups


def test_runs_and_conversations_come_to_the_same(tmp_path: Path) -> None:
    """With their rows, their sub-agents and the calls beside each."""
    run, second = make_agent_run(), make_agent_run(900, begin_ms=9_000)
    sub = Run(815, trace_id=run.trace_id, conversation=9)
    for start in range(4):
        sub.call(start, 1)
    rows = [*_make_rows()][:40] + run.rows[:4] + sub.rows + run.rows[4:] + second.rows
    with open_filled(tmp_path / "t.db", rows) as (one, other):
        for number in (1, 163, 812, 815, 900, 5_000):
            assert one.run_tree(number) == other.run_tree(number)
        assert [*one.that(ALL_CALLS).runs(99)] == [*other.that(ALL_CALLS).runs(99)]
        assert one.run_of_trace(run.trace_id) == other.run_of_trace(run.trace_id) == 812
        for number in (1, 7, 9, 100, 5_000):
            mine, others = one.of_conversation(number), other.of_conversation(number)
            assert mine.sum() == others.sum()
            assert mine.calls(5, after=2) == others.calls(5, after=2)
            assert mine.family(never) == others.family(never)
            assert one.is_in(number, 30) == other.is_in(number, 30)
            of_it = ALL_CALLS.also(conversation=number)
            for row in one.that(ALL_ROWS).since(0):
                assert one.that(of_it).beside(row.seq) == other.that(of_it).beside(row.seq)
