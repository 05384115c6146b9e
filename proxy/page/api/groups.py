"""``GET /api/groups``: sessions or users, the one with the newest call first.

Sums are of the calls that fit the filter and the time. No request reads for longer than
:data:`GROUP_SECONDS`: ``next`` then has the sums of older calls, which are to be added to these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.page.errors import PageError
from proxy.reading.record import write_time
from proxy.reading.sum_members import build_sums
from telemetry.reading.engine import LAST_SEQ

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from telemetry.reading.calls import Calls
    from telemetry.reading.groups import GroupSums
    from telemetry.store.rows import SpanSummary

GROUP_SECONDS: Final = 0.25

DEFAULT_LIMIT: Final = 100

MAX_LIMIT: Final = 300
"""The most groups of one answer."""

GROUPS_PARAMETERS: Final = ("by", "filter", "from", "to", "before", "limit")


def list_groups(reader: Calls, parameters: Parameters) -> JsonObject:
    """List the sessions or the users that have a call which fits a filter."""
    by = parameters.word("by", ("session", "user"))
    wanted = parameters.filter()
    if wanted.texts:
        raise PageError("filter", "groups take conditions alone, and no text", position=0)
    limit = parameters.number("limit", DEFAULT_LIMIT, least=1, most=MAX_LIMIT)
    before = parameters.number("before", LAST_SEQ)
    where = wanted.where().also(
        since_ns=parameters.time_ns("from"), until_ns=parameters.time_ns("to")
    )
    found = reader.that(where).newest_groups(by, before=before, seconds=GROUP_SECONDS)
    shown = found.groups[:limit]
    newest = {row.seq: row for row in reader.rows_of(sorted(one.last_seq for one in shown))}
    back_to = found.back_to
    return {
        "by": by,
        "groups": [_build_group(one, newest.get(one.last_seq)) for one in shown],
        "unnamed": found.unnamed,
        "left_out": found.left_out or len(found.groups) > limit,
        "next": back_to or None,
        "searched_to": write_time(reader.began_at(back_to)) if back_to else None,
    }


def _build_group(sums: GroupSums, newest: SpanSummary | None) -> JsonObject:
    """Build the record of a group; what it is about comes from its newest call."""
    columns = None if newest is None else newest.columns
    return {
        "value": sums.key,
        **build_sums(sums),
        "start_time": write_time(sums.start_ns),
        "end_time": write_time(sums.end_ns),
        "last_seq": sums.last_seq,
        "preview": columns and columns.preview,
        "client": columns and columns.client,
        "model": newest and newest.model,
    }
