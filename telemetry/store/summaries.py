"""Rows of ``spans`` as summaries: the columns to ask for, and what is made of them."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from telemetry.call_columns import COLUMN_NAMES
from telemetry.store.rows import CallColumns, SpanState, SpanSummary

__all__ = ("SUMMARY_COLUMNS", "make_summary")

_OWN_COLUMNS = tuple(field.name for field in dataclasses.fields(SpanSummary))[:-1]
"""The columns that are fields of a summary; those of its last one come behind them."""

_STATES = frozenset(state.value for state in SpanState)

SUMMARY_COLUMNS: Final = ", ".join((*_OWN_COLUMNS, *COLUMN_NAMES))
"""What a statement selects."""


def make_summary(row: tuple[Any, ...]) -> SpanSummary:
    """Make the summary of a row of :data:`SUMMARY_COLUMNS`."""
    own = dict(zip(_OWN_COLUMNS, row, strict=False))
    state = own["state"]
    own["state"] = SpanState(state) if state in _STATES else state  # a damaged row hides no other
    told = dict(zip(COLUMN_NAMES, row[len(_OWN_COLUMNS) :], strict=True))
    return SpanSummary(**own, columns=CallColumns(**told))
