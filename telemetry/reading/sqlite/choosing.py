"""Choosing rows: the conditions under which a reader counts, lists, sums up and searches spans.

Rules:

1. All conditions must hold. That a row is a call is asked behind the others
   (:data:`telemetry.store.calls.IS_CALL`), unless somebody asks for rows that are none.
2. No foreign text is part of a condition; it is the value of a parameter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telemetry.launch_labels import build_label, find_range
from telemetry.store.calls import IS_CALL, IS_DERIVED

if TYPE_CHECKING:
    from collections.abc import Sequence

_OF_NAME: Final = "launch >= ? AND launch < ? AND (launch = ? OR launch >= ?)"
"""By the index, from the label without a number to the end of those that have one, and none of
those that merely begin alike."""


class Choosing:
    """Conditions that grow, with the values of their parameters.

    Args:
        spans: the table that they ask (:func:`telemetry.store.spans_table.name_spans`).
    """

    def __init__(self, spans: str) -> None:
        self._asked = spans
        self._chosen: tuple[str, ...] = ()
        self._values: tuple[str | int | float, ...] = ()
        self._has_all = False

    def choose_anew(self) -> None:
        """Forget what was chosen: all calls are listed again."""
        self._chosen, self._values, self._has_all = (), (), False

    def choose(self, where: str, values: Sequence[str | float] = ()) -> None:
        """Count, list and search from now on those spans alone for which this holds, too.

        Args:
            where: a condition on the columns of ``spans``, such as a filter's.
            values: of its parameters.
        """
        self._chosen = (*self._chosen, f"({where})")
        self._values = (*self._values, *values)

    def choose_with_derived(self, where: str, values: Sequence[str | float]) -> None:
        """Choose as :meth:`choose`, and what was found out from a call that fits.

        That is all rows that are no calls of its run, and its own mark.
        """
        fit = f"FROM {self._asked} WHERE ({where}) AND {IS_CALL}"
        found_out = (
            f"{IS_DERIVED} AND (run IN (SELECT run {fit} AND run IS NOT NULL)"
            f" OR kind = 'MARKER' AND parent_span_id IN (SELECT span_id {fit}))"
        )
        self.choose(f"{where} OR {found_out}", (*values, *values, *values))
        self.choose_all_spans()

    def choose_all_spans(self) -> None:
        """Count, list and search from now on rows that are no calls as well (rule 1)."""
        self._has_all = True

    @property
    def _where(self) -> str:
        conditions = self._chosen if self._has_all else (*self._chosen, IS_CALL)
        return " AND ".join(conditions) or "1"

    def choose_launch(self, name: str, number: str = "") -> None:
        """Choose the spans of the launches of that name, or of one of them."""
        if number:
            self.choose("launch = ?", (build_label(name, number),))
        else:
            bare, (first, end) = build_label(name), find_range(name)
            self.choose(_OF_NAME, (bare, end, bare, first))
