"""Makes summaries of rows of ``spans``, and names the columns to select for them.

A value of the wrong type, which a damaged disk may give, is not shown: the row says that it is
damaged, and the other rows are shown. The same is true of a row with a text that is not UTF-8.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from telemetry.fact import Form
from telemetry.facts import COLUMN_FACTS, COLUMN_NAMES, OWN_FACTS, STATES, STATUSES, CallColumns
from telemetry.store.checksum import DAMAGED_WORDS
from telemetry.store.rows import SpanState, SpanSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from telemetry.fact import Fact

_OWN_COLUMNS = tuple(fact.name for fact in OWN_FACTS)
"""The columns that are fields of a summary; the columns in its last field follow."""

SUMMARY_COLUMNS: Final = ", ".join((*_OWN_COLUMNS, *COLUMN_NAMES))
"""What a statement selects."""


def _list_types(fact: Fact) -> frozenset[type]:
    """List the types that SQLite may give for a fact."""
    types = {int, float} if fact.form.value_type is float else {fact.form.value_type}
    return frozenset(types if fact.is_always else {*types, type(None)})


_ALLOWED_OF: Final = {fact.name: _list_types(fact) for fact in (*OWN_FACTS, *COLUMN_FACTS)}

_ALLOWED: Final = tuple(_ALLOWED_OF.values())

_AMOUNTS: Final = tuple(fact.name for fact in COLUMN_FACTS if fact.form is Form.DOLLARS)


def make_summary(row: tuple[Any, ...]) -> SpanSummary:
    """Make the summary of a row of :data:`SUMMARY_COLUMNS`."""
    is_damaged = not all(map(_is_allowed, row, _ALLOWED))
    if is_damaged:
        row = tuple(map(_mend, row, _ALLOWED))
    own = dict(zip(_OWN_COLUMNS, row, strict=False))
    state = own["state"]
    if state in STATES:
        own["state"] = SpanState(state)
    else:
        own["state"], is_damaged = SpanState.REJECTED, True
    known = dict(zip(COLUMN_NAMES, row[len(_OWN_COLUMNS) :], strict=True))
    for name in _AMOUNTS:
        if (amount := known[name]) is not None and not isfinite(amount):
            known[name], is_damaged = None, True
    if own["status"] not in STATUSES:
        own["status"], is_damaged = "UNSET", True
    if is_damaged:
        own["last_error"] = DAMAGED_WORDS
    return SpanSummary(**own, columns=CallColumns(**known))


def choose_facts(
    names: Sequence[str],
) -> tuple[str, Callable[[tuple[Any, ...]], tuple[Any, ...]]]:
    """Choose some columns, for rows of which a summary would hold more than is needed.

    Returns:
        What a statement selects, and what makes the values of such a row. A value of the wrong
        type is replaced, as in a summary.
    """
    allowed = [_ALLOWED_OF[name] for name in names]

    def make(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return row if all(map(_is_allowed, row, allowed)) else tuple(map(_mend, row, allowed))

    return ", ".join(names), make


def _is_allowed(value: object, allowed: frozenset[type]) -> bool:
    return type(value) in allowed


def _mend(value: Any, allowed: frozenset[type]) -> Any:
    """Replace a value of the wrong type by ``None``, zero or an empty text.

    A damaged text keeps what can be read.
    """
    if type(value) in allowed:
        return value
    if isinstance(value, str) and str in allowed:
        return str(value)
    return None if type(None) in allowed else 0 if int in allowed else ""
