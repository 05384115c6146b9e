"""An engine over a list of spans: what every other engine has to answer, in the simplest way."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telemetry.fact import Form
from telemetry.facts import FACTS, GROUPED, RANKED, SUMMED
from telemetry.finding.where import Rows
from telemetry.reading.engine import LAST_SEQ, Amounts, Failure, Notable, Page, SearchStep, Times
from telemetry.store.calls import is_call
from telemetry.store.minutes import MAX_COST_USD, MAX_OUTPUT_MS, MAX_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from telemetry.finding.where import Where
    from telemetry.raw_answer import RawAnswer
    from telemetry.reading.engine import Group
    from telemetry.store.rows import CallPicture, SpanSummary, StoredSpan

    Fit = Callable[[SpanSummary], bool]
    Amount = Callable[[list[SpanSummary]], Any]

_GET = {fact.name: fact.get for fact in FACTS}
_MOST = {Form.COUNT: MAX_TOKENS, Form.DOLLARS: MAX_COST_USD}

_of_call: Fit = lambda row: is_call(row.columns.kind)  # noqa: E731 - as those below
_has_failed: Fit = lambda row: row.status == "ERROR"  # noqa: E731
_is_tool: Fit = lambda row: row.columns.kind == "TOOL"  # noqa: E731


def _number(*fits: Fit) -> Amount:
    return lambda rows: sum(all(fit(row) for fit in fits) for row in rows)


def _total(get: Callable[[SpanSummary], float | None], most: float = 1 << 62) -> Amount:
    def add(rows: list[SpanSummary]) -> Any:
        known = [min(max(value, 0), most) for row in rows if (value := get(row)) is not None]
        return sum(known) if known else None

    return add


def _end(best: Callable[..., Any], name: str, fit: Fit = lambda _: True) -> Amount:
    return lambda rows: best((_GET[name](row) for row in rows if fit(row)), default=None)


def _output_ms(row: SpanSummary) -> int | None:
    took_ns = row.end_ns - row.start_ns - (row.columns.ttft_ns or 0)
    return took_ns // 1_000_000 if row.completion_tokens else None


_AMOUNTS: dict[str, Amount] = {
    "rows": len,
    "calls": _number(_of_call),
    "errors": _number(_has_failed),
    "failed_calls": _number(_of_call, _has_failed),
    **{fact.name: _total(fact.get, _MOST[fact.form]) for fact in SUMMED},
    "priced": _number(lambda row: row.columns.cost_usd is not None),
    "unpriced": _number(lambda row: row.columns.cost_gap is not None),
    "list_usd": _total(
        lambda row: row.columns.cost_usd if row.columns.cost_basis == "list" else None,
        MAX_COST_USD,
    ),
    "input_usd": _total(
        lambda row: None if row.columns.cost_usd is None else row.columns.input_usd, MAX_COST_USD
    ),
    "saved_usd": _total(_GET["saved_usd"], MAX_COST_USD),
    "output_ms": _total(_output_ms, MAX_OUTPUT_MS),
    "tools": _number(_is_tool),
    "tool_errors": _number(_is_tool, _has_failed),
    "derived": _number(lambda row: not _of_call(row)),
    "pending": _number(lambda row: row.state == "pending"),
    "size_bytes": _total(lambda row: row.size_bytes),
    "start_ns": _end(min, "start_ns"),
    "last_start_ns": _end(max, "start_ns"),
    "end_ns": _end(max, "end_ns"),
    "first_seq": _end(min, "seq"),
    "last_seq": _end(max, "seq"),
    "last_call_seq": _end(max, "seq", _of_call),
}


def _read_key(row: SpanSummary, by: Sequence[Group]) -> tuple[Any, ...]:
    read = _GET | {name: lambda row, get=_GET[name]: get(row) or "" for name in GROUPED.values()}
    return tuple(row.start_ns // 10**9 // g if isinstance(g, int) else read[g](row) for g in by)


def _place(value: float | None) -> tuple[bool, float]:
    return value is not None, value or 0


class ListEngine:
    """An engine over spans, in the order of their numbers."""

    path = Path("a list")

    def __init__(self, spans: Sequence[StoredSpan]) -> None:
        self._spans = {one.summary.seq: one for one in spans}
        self._rows = [one.summary for one in spans]
        self._meant = cache(self._find)

    def close(self) -> None: ...

    def is_current(self) -> bool:
        return True

    def last_seq(self) -> int:
        return max(self._spans, default=0)

    def first_ns(self) -> int | None:
        return self._rows[0].start_ns // (60 * 10**9) * 60 * 10**9 if self._rows else None

    def _fit(self, where: Where, after: int = 0, before: int = LAST_SEQ, **_: Any) -> list[Any]:
        return [row for row in self._meant(where) if after < row.seq < before]

    def _find(self, where: Where) -> list[SpanSummary]:
        fit = [row for row in self._rows if where.matches(row)]
        calls = [row for row in fit if _of_call(row)]
        runs, ids = {row.columns.run for row in calls} - {None}, {row.span_id for row in calls}

        def is_found_out(row: SpanSummary) -> bool:
            is_mark = row.columns.kind == "MARKER" and row.columns.parent_span_id in ids
            return not _of_call(row) and (row.columns.run in runs or is_mark)

        fitting = {row.seq for row in fit}
        both = [row for row in self._rows if row.seq in fitting or is_found_out(row)]
        found_out = [row for row in both if not _of_call(row)]
        return dict(zip(Rows, (calls, fit, both, found_out), strict=True))[where.rows]

    def select(self, where: Where, limit: int, *, oldest_first: bool = False, **of: Any) -> Page:
        found = self._fit(where, **of)
        rows = (found if oldest_first else found[::-1])[: max(0, limit)]
        back_to = rows[-1].seq if rows else 1
        return Page(rows=rows, back_to=back_to, is_done=rows[-1:] == found[:1], is_late=False)

    def facts(self, where: Where, names: Sequence[str], limit: int, **of: Any) -> list[Any]:
        return [tuple(_GET[n](row) for n in names) for row in self.select(where, limit, **of).rows]

    def numbers(self, where: Where, *, limit: int = LAST_SEQ, **of: Any) -> Iterator[int]:
        return (row.seq for row in self.select(where, limit, **of).rows)

    def largest(self, where: Where, fact: str, limit: int) -> Iterator[int]:
        found = [(_GET[fact](row), row.seq) for row in self._fit(where)]
        found.sort(key=lambda one: (one[0] is not None, one[0] or 0, one[1]), reverse=True)
        return (seq for _, seq in found[: max(0, limit)])

    def rows(self, numbers: Iterable[int], *, at_once: int = 1) -> Iterator[SpanSummary]:
        return (self._spans[seq].summary for seq in numbers if seq in self._spans and at_once)

    def one(self, span_id: str) -> SpanSummary | None:
        return next((row for row in self._rows if row.span_id == span_id), None)

    def find(self, id_prefix: str, limit: int) -> list[SpanSummary]:
        begin = id_prefix.lower()
        found = [
            row
            for row in self._rows[::-1]
            if row.span_id.startswith(begin)
            or (_of_call(row) and row.trace_id.startswith(begin))
            or (_of_call(row) and (row.columns.request_id or "").startswith(id_prefix))
        ]
        whole = [row for row in found if row.columns.request_id == id_prefix]
        return [row for row in found if row.span_id == begin] or (whole or found)[:limit]

    def bodies(self, rows: Iterable[SpanSummary]) -> Iterator[StoredSpan]:
        return (self._spans[row.seq] for row in rows if row.seq in self._spans)

    def pictures(self, seq: int) -> list[CallPicture]:
        return []

    def picture(self, seq: int, digest: str) -> bytes | None:
        return None

    def raw_answer(self, seq: int) -> RawAnswer | None:
        return None

    def search(self, where: Where, *, before: int = LAST_SEQ) -> Iterator[SearchStep]:
        texts = [text.lower().encode() for text in where.texts]
        fit = [(row.seq, self._spans[row.seq].span.lower()) for row in self._fit(where, 0, before)]
        hits = tuple(seq for seq, span in fit[::-1] if all(text in span for text in texts))
        yield SearchStep(hits=hits, back_to=1, back_to_ns=0, spans=0, size_bytes=0, is_done=True)

    def sum(self, where: Where, by: Sequence[Group], names: Sequence[str], **of: Any) -> Amounts:
        groups = defaultdict[tuple[Any, ...], list[Any]](list)
        for row in self._fit(where, **of):
            groups[_read_key(row, by)].append(row)
        return Amounts({k: tuple(_AMOUNTS[n](rows) for n in names) for k, rows in groups.items()})

    def count_by(self, where: Where, by: Sequence[Group]) -> Iterator[tuple[Any, ...]]:
        return ((*key, rows) for key, (rows,) in self.sum(where, by, ("rows",)).groups.items())

    def times(
        self, where: Where, by: Sequence[Group], calls: int, most: int, is_late: Any = None
    ) -> Times:
        times, fit = Times(), self._fit(where)
        for row in [fit[at * len(fit) // most] for at in range(most)] if len(fit) > most else fit:
            times.add(_read_key(row, by), (_GET[fact.name](row) for fact in RANKED))
        return times

    def notable(self, where: Where, count: int, is_late: Any) -> Notable:
        why = {r.seq: r.columns.error_type or r.outcome for r in self._fit(where) if _has_failed(r)}
        failures = [
            Failure(name, calls, max(seq for seq, one in why.items() if one == name))
            for name, calls in Counter(why.values()).items()
        ]
        failures.sort(key=lambda one: (-one.calls, -one.last_seq))
        dear = {row.seq for row in self._fit(where) if row.columns.cost_usd is not None}
        dearest = [seq for seq in self.largest(where, "cost_usd", count) if seq in dear]
        slowest = [*self.largest(where, "duration_ns", count)]
        return Notable(slowest, dearest, failures[:count], is_whole=True)

    def largest_groups(
        self, where: Where, by: str, names: Sequence[str], limit: int
    ) -> tuple[list[tuple[Any, ...]], int]:
        groups = self.sum(where, (by,), (*names, "rows")).groups.items()
        found = [(*key, *amounts) for key, amounts in groups]
        found.sort(key=lambda one: (_place(one[1]), one[-1], _place(one[0])), reverse=True)
        return [one[:-1] for one in found[:limit]], len(found)

    def runs(self, where: Where, limit: int, largest: str = "") -> Sequence[int]:
        runs = {run for row in self._fit(where) if (run := row.columns.run) is not None}
        of = {run: [row for row in self._rows if row.columns.run == run] for run in runs}
        most = _AMOUNTS.get(largest, _total(_GET["total_tokens"], MAX_TOKENS))
        if largest == "duration_ns":
            most = lambda rows: max(r.end_ns for r in rows) - min(r.start_ns for r in rows)  # noqa: E731 - as those above
        place = (lambda run: (_place(most(of[run])), run)) if largest else (lambda run: run)
        return sorted(runs, key=place, reverse=True)[:limit]

    def unobserved(self, since_ns: int) -> list[Any]:
        return []
