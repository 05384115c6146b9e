"""``GET /api/calls``: rows of calls, newest first, page by page.

A row is made only from columns (:mod:`proxy.reading.record`). A damaged one hides no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.page.api.rows import build_row
from proxy.reading.record import format_time
from telemetry.reading.engine import LAST_SEQ

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from telemetry.reading.calls import Calls

SEARCH_SECONDS: Final = 0.25
"""How long a request may search content: a person sees progress, and four requests a second are no
load. If that was not enough, ``complete`` is false, and ``next`` continues from there, even if no
row was found."""

DEFAULT_LIMIT: Final = 100

MAX_LIMIT: Final = 300
"""The most rows of one answer."""

CALLS_PARAMETERS: Final = ("filter", "from", "to", "before", "after", "limit")


def list_calls(reader: Calls, parameters: Parameters) -> JsonObject:
    """List the calls that fit a filter."""
    wanted = parameters.filter()
    limit = parameters.number("limit", DEFAULT_LIMIT, least=1, most=MAX_LIMIT)
    before = parameters.number("before", LAST_SEQ)
    after = parameters.number("after", 0)
    where = wanted.where().also(
        since_ns=parameters.time_ns("from"), until_ns=parameters.time_ns("to")
    )
    page = reader.that(where).page(limit, before=before, after=after, seconds=SEARCH_SECONDS)
    searched_ns = reader.began_at(page.back_to) if wanted.texts or page.is_late else None
    return {
        "calls": [build_row(row) for row in page.rows],
        "next": None if page.is_done else page.back_to,
        "searched_to": None if searched_ns is None else format_time(searched_ns),
        "complete": not page.is_late,
    }
