"""``GET /api/columns``: the columns of the list of calls, in their order.

The page draws these columns; only the rows of the facts (:mod:`telemetry.facts`) say which they
are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from telemetry.facts import FACTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codec.text.jsontext import JsonObject
    from telemetry.fact import Fact


def list_columns(facts: Iterable[Fact]) -> JsonObject:
    """List the columns of facts.

    A column's ``member`` is the member of a call's record that it shows, ``null`` if it shows more
    than one. Its ``format`` is the form of the member's values (:class:`telemetry.fact.Form`).
    """
    shown = [(fact, fact.page) for fact in facts if fact.page is not None]
    return {
        "columns": [
            {
                "name": column.name or fact.name,
                "title": column.title,
                "note": column.note or None,
                "member": fact.json_name,
                "format": fact.form.value,
            }
            for fact, column in sorted(shown, key=lambda one: one[1].place)
        ]
    }


COLUMNS: Final = list_columns(FACTS)
"""The answer."""
