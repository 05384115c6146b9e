"""Writes in SQL which rows are meant.

Rules:

1. What is written says the same of every row as :meth:`~telemetry.finding.where.Where.matches`.
2. No foreign text is part of a condition; it is the value of a parameter.
3. What can be a comparison is one: of a million rows ``=`` and a range take 0.1 s, ``GLOB`` 0.5 s.
   SQLite compares the bytes of UTF-8, which is the order of code points. ``GLOB`` reads a text as
   far as its first NUL, of which only a hostile client sends any.
4. That a row is a call is asked behind all else (:data:`telemetry.store.calls.IS_CALL`).
"""

from __future__ import annotations

import re
from functools import singledispatch
from typing import TYPE_CHECKING, Final, NamedTuple

from telemetry.finding.patterns import Pattern
from telemetry.finding.predicates import (
    Among,
    Begins,
    Compares,
    IsKnown,
    Like,
    Listed,
    OfLaunch,
    Stem,
)
from telemetry.finding.where import Rows
from telemetry.launch_labels import build_label, find_range
from telemetry.reading.engine import LAST_SEQ
from telemetry.store.calls import IS_CALL, IS_DERIVED

if TYPE_CHECKING:
    from telemetry.finding.where import Ask, Where

SqlValue = str | int | float
"""A parameter of a condition."""

Condition = tuple[str, tuple[SqlValue, ...]]
"""A condition in SQL, and the values of its parameters in their order."""

COLUMNS: Final = {"duration_ns": "end_ns - start_ns"}
"""Facts that are no columns of ``spans``."""

_GLOB_SIGN = re.compile(r"[*?\[]")

_LAST_CODE = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)

_SOME_ITEM = """EXISTS (
WITH RECURSIVE items (item, rest) AS (
    SELECT NULL, {column} || {separator}
    UNION ALL SELECT
        substr(rest, 1, instr(rest, {separator}) - 1), substr(rest, instr(rest, {separator}) + 1)
    FROM items WHERE rest <> ''
)
SELECT 1 FROM items WHERE {condition})"""
"""True where an item of a list, joined by a separator, fulfils a condition."""


class Chosen(NamedTuple):
    """Rows in SQL.

    Attributes:
        spans: the table.
        where: the condition.
        values: of its parameters.
        is_calls: all of them are calls.
        after: they have a greater number.
        before: and a smaller one.
    """

    spans: str
    where: str
    values: tuple[str | int | float, ...]
    is_calls: bool
    after: int = 0
    before: int = LAST_SEQ


def write_where(where: Where, spans: str) -> Condition:
    """Write which rows are meant.

    Args:
        where: those; its texts are left out.
        spans: the table (:func:`telemetry.store.spans_table.name_spans`).
    """
    conditions: list[str] = []
    values: list[SqlValue] = []
    for condition, value in (
        ("conversation = ?", where.conversation),
        ("run = ?", where.run),
        ("start_ns >= ?", where.since_ns),
        ("start_ns < ?", where.until_ns),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    for ask in where.asks:
        condition, more = write_ask(ask)
        conditions.append(condition)
        values += more
    if where.rows is Rows.CALLS:
        conditions.append(IS_CALL)
    written, given = " AND ".join(conditions) or "1", tuple(values)
    if where.rows in {Rows.CALLS, Rows.ALL}:
        return written, given
    fit = f"FROM {spans} WHERE ({written}) AND {IS_CALL}"
    found_out = (
        f"{IS_DERIVED} AND (run IN (SELECT run {fit} AND run IS NOT NULL)"
        f" OR kind = 'MARKER' AND parent_span_id IN (SELECT span_id {fit}))"
    )
    either = f"({written} OR {found_out})"
    if where.rows is Rows.FOUND_OUT:
        either += f" AND {IS_DERIVED}"
    return either, (*given, *given, *given)


def write_ask(ask: Ask) -> Condition:
    """Write one condition."""
    conditions: list[str] = []
    values: list[SqlValue] = []
    for name, predicate in ask.options:
        condition, more = write_predicate(predicate, COLUMNS.get(name, name))
        conditions.append(condition)
        values += more
    either = f"({' OR '.join(conditions)})"
    return f"({either} IS NOT TRUE)" if ask.is_not else either, tuple(values)


@singledispatch
def write_predicate(predicate: object, column: str) -> Condition:
    """Write what a column must fulfil; what comes back may hold ``OR``.

    Raises:
        TypeError: nobody has written down how.
    """
    raise TypeError(f"{type(predicate).__name__} of {column} cannot be written in SQL")


@write_predicate.register
def _(_: IsKnown, column: str) -> Condition:
    return f"{column} IS NOT NULL", ()


@write_predicate.register
def _(predicate: Like, column: str) -> Condition:
    return write_pattern(predicate.pattern, column)


@write_predicate.register
def _(predicate: Among, column: str) -> Condition:
    if len(predicate.values) == 1:
        return f"{column} = ?", predicate.values
    return f"{column} IN ({', '.join('?' * len(predicate.values))})", predicate.values


@write_predicate.register
def _(predicate: Compares, column: str) -> Condition:
    return f"{column} {predicate.sign} ?", (predicate.quantity,)


@write_predicate.register
def _(predicate: Listed, column: str) -> Condition:
    separator = f"char({ord(predicate.separator)})"
    items = f"{separator} || {column} || {separator}"
    first, *others = predicate.pattern.pieces
    between = [piece for piece in (first, *others) if piece] if others else [first]
    if len(between) <= 1:
        start = "" if others and not first else predicate.separator
        end = "" if others and not others[-1] else predicate.separator
        return f"instr({items}, ?) > 0", (f"{start}{''.join(between)}{end}",)
    # A star in the middle must not reach from one item into another. Only where one that does
    # would be found are the items looked at: that takes ten times as long.
    anywhere, like = write_pattern(Pattern(("", *between, "")), column)
    condition, values = write_pattern(predicate.pattern, "item")
    some_item = _SOME_ITEM.format(column=column, separator=separator, condition=condition)
    return f"{anywhere} AND {some_item}", (*like, *values)


@write_predicate.register
def _(predicate: Begins, column: str) -> Condition:
    condition, values = find_prefix(column, predicate.prefix)
    if (lower := predicate.prefix.lower()) == predicate.prefix:
        return condition, values
    also, more = find_prefix(column, lower)
    return f"{condition} OR {also}", (*values, *more)


@write_predicate.register
def _(predicate: Stem, column: str) -> Condition:
    conditions, values = [f"{column} = ?"], [predicate.name]
    for prefix in predicate.prefixes:
        condition, bounds = find_prefix(column, prefix)
        conditions.append(condition)
        values += map(str, bounds)
    return " OR ".join(conditions), tuple(values)


@write_predicate.register
def _(predicate: OfLaunch, column: str) -> Condition:
    label = build_label(predicate.name, predicate.number)
    if predicate.number:
        return f"{column} = ?", (label,)
    if predicate.is_prefix:
        return find_prefix(column, label)
    # Read the index from the label without a number to the last one with a number. Labels that
    # merely begin alike are left out.
    first, end = find_range(predicate.name)
    return (
        f"{column} >= ? AND {column} < ? AND ({column} = ? OR {column} >= ?)",
        (label, end, label, first),
    )


def write_pattern(pattern: Pattern, column: str) -> Condition:
    """Write that an expression of type text is like a pattern (rule 3)."""
    if pattern.literal is not None:
        return f"{column} = ?", (pattern.literal,)
    if pattern.prefix is not None:
        return find_prefix(column, pattern.prefix)
    first, *between, last = pattern.pieces
    if len(between) == 1 and not first and not last:
        return f"instr({column}, ?) > 0", (between[0],)
    glob = "*".join(_GLOB_SIGN.sub(r"[\g<0>]", piece) for piece in pattern.pieces)
    return f"{column} GLOB ?", (glob,)


def find_prefix(column: str, prefix: str) -> Condition:
    """Write the condition that a text begins with `prefix`, as a range of code points.

    >>> find_prefix("model", "gpt-5")
    ('model >= ? AND model < ?', ('gpt-5', 'gpt-6'))
    """
    end = prefix
    while end:
        code = ord(end[-1]) + 1
        if code in _SURROGATES:
            code = _SURROGATES.stop
        if code <= _LAST_CODE:
            return f"{column} >= ? AND {column} < ?", (prefix, end[:-1] + chr(code))
        end = end[:-1]  # nothing comes after the last code point
    if prefix:
        return f"{column} >= ?", (prefix,)
    return f"{column} IS NOT NULL", ()
