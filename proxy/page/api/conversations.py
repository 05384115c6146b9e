"""``GET /api/conversations``: conversations, the one with the newest call first.

A conversation is listed if one of its calls fits the filter, at the place of the newest such call;
its sums are those of all its calls. Like a page of calls, a page may take :data:`SEARCH_SECONDS`.
No conversation is listed twice, except in a search for texts: then one with calls on two pages may
be on both.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from proxy.page.api.calls import SEARCH_SECONDS
from proxy.reading.turns import build_conversation
from telemetry.finding.where import ask_known
from telemetry.reading.engine import LAST_SEQ

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from telemetry.reading.calls import Calls
    from telemetry.reading.conversations import ConversationSums
    from telemetry.store.rows import SpanSummary

DEFAULT_LIMIT: Final = 50

MAX_LIMIT: Final = 100

_PAGE_ROWS: Final = 200
"""How many rows of calls are read at a time; an agent has many rows in one conversation."""

CONVERSATIONS_PARAMETERS: Final = ("filter", "before", "limit", "lone")


def list_conversations(reader: Calls, parameters: Parameters) -> JsonObject:
    """List the conversations that have a call which fits a filter."""
    wanted = parameters.filter()
    limit = parameters.number("limit", DEFAULT_LIMIT, least=1, most=MAX_LIMIT)
    before = parameters.number("before", LAST_SEQ)
    shows_lone = parameters.word("lone", ("false", "true")) == "true"
    where = wanted.where().also(ask_known("conversation"))
    if not (wanted or shows_lone):  # with a filter, its first call may be the one that fits
        where = where.also(ask_known("link_rule", "session", "run"))
    chosen = reader.that(where)
    # A call on an earlier page may fit all conditions and lack a text: then nothing is left out.
    listed_from = LAST_SEQ if wanted.texts else before
    until_seconds = time.monotonic() + SEARCH_SECONDS
    found: list[JsonObject] = []
    seen: set[int] = set()
    at = before
    while True:
        seconds = max(0.0, until_seconds - time.monotonic())
        page = chosen.page(_PAGE_ROWS, before=at, seconds=seconds)
        for row in page.rows:
            sums = _find_new(chosen, row, seen, listed_from)
            if sums is not None and (shows_lone or _is_known(sums)):
                found.append(build_conversation(sums))
            if len(found) == limit:
                return {"conversations": found, "next": row.seq, "complete": True}
        at = page.back_to
        if page.is_done or page.is_late or time.monotonic() >= until_seconds:
            continues_at = None if page.is_done else at
            return {"conversations": found, "next": continues_at, "complete": page.is_done}


def _find_new(
    chosen: Calls, row: SpanSummary, seen: set[int], listed_from: int
) -> ConversationSums | None:
    """Find the conversation of a row; ``None`` if it is on this page or an earlier one already.

    Earlier pages list calls from number `listed_from` on.
    """
    number = row.columns.conversation
    if not isinstance(number, int) or number < 0 or number in seen:  # below 0: damage
        return None
    seen.add(number)
    if listed_from < LAST_SEQ and chosen.is_in(number, listed_from):
        return None
    return chosen.of_conversation(number).sum()


def _is_known(sums: ConversationSums) -> bool:
    """Tell whether a conversation is more than a lone call.

    A lone call has no call that continues it, and its answer calls no tool. There may be a million:
    they are listed only with ``lone=true``.
    """
    return sums.calls > 1 or sums.session is not None or bool(sums.run_numbers)
