"""The paths of the API, and what answers each: the only module here that knows of HTTP.

Every answer is strict JSON, errors too, except images and downloads. All work is done on a
thread of :class:`~proxy.page.reads.Reads`, because the loop serves live news and must not wait for
the store. :mod:`proxy.page.guard` has checked who asks, and answers a
:exc:`~proxy.page.errors.PageError`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from aiohttp import web

from codec._version import __version__
from proxy.page.api.answers import RAW_PARAMETERS, Download, encode, read_raw
from proxy.page.api.call import read_call
from proxy.page.api.calls import CALLS_PARAMETERS, list_calls
from proxy.page.api.columns import COLUMNS
from proxy.page.api.conversation import (
    BARS_PARAMETERS,
    CONTEXT_PARAMETERS,
    read_context,
    read_conversation,
)
from proxy.page.api.conversations import CONVERSATIONS_PARAMETERS, list_conversations
from proxy.page.api.copies import COPY_PARAMETERS, copy_call
from proxy.page.api.differences import DIFF_PARAMETERS, compare_calls
from proxy.page.api.failures import FAILURES_PARAMETERS, list_failures
from proxy.page.api.groups import GROUPS_PARAMETERS, list_groups
from proxy.page.api.parameters import Parameters
from proxy.page.api.rankings import RANKINGS_PARAMETERS, read_rankings
from proxy.page.api.runs import read_run
from proxy.page.api.settings import read_settings
from proxy.page.api.slices import (
    MESSAGE_PARAMETERS,
    PICTURE_PARAMETERS,
    TOOL_PARAMETERS,
    read_kept_picture,
    read_message_text,
    read_part_picture,
    read_tool_text,
)
from proxy.page.api.statistics import STATS_PARAMETERS, read_stats
from proxy.page.api.stream import STREAM_PARAMETERS, read_stream
from proxy.page.api.transcript import TRANSCRIPT_PARAMETERS, read_transcript
from proxy.page.app_keys import LIVE_STATE, NOT_LIVE, READS, SETTINGS, UNREAD
from proxy.page.errors import PageError
from proxy.page.reads import Busy, Line
from proxy.reading.record import format_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codec.text.jsontext import JsonObject
    from proxy.page.app_keys import LiveState
    from proxy.page.page_settings import PageSettings
    from telemetry.reading.calls import Calls

    Resource = Callable[[Calls, Parameters], JsonObject | Download]
    Work = Callable[[Calls, Parameters], Download]
    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _read_status(reader: Calls, live: LiveState, settings: PageSettings, now_ns: int) -> JsonObject:
    """Read the status."""
    states = reader.count_states()
    return {
        "version": __version__,
        "store": str(reader.path),
        "store_option": settings.store_option,
        "calls": reader.count(),
        "newest_seq": reader.last_seq(),
        "pending": states.get("pending", 0),
        "rejected": states.get("rejected", 0),
        **live._asdict(),
        "now": format_time(now_ns),
    }


_JSON: Final = "application/json"


def _serve(resource: Resource, *allowed: str, line: Line = Line.LISTS) -> Handler:
    """Make the handler of a resource with these parameters, which waits in a line.

    With a filter it waits in the line of searches, because it may read content or all rows.
    """

    def work(reader: Calls, parameters: Parameters) -> Download:
        found = resource(reader, parameters)
        return found if isinstance(found, Download) else Download(_JSON, encode(found))

    async def handle(request: web.Request) -> web.StreamResponse:
        return await _answer(request, work, allowed, line)

    return handle


async def _answer(
    request: web.Request, work: Work, allowed: Sequence[str], line: Line
) -> web.StreamResponse:
    parameters = Parameters([*request.query.items()], request.match_info, allowed, time.time_ns())
    try:
        line = Line.SEARCHES if parameters.has_filter else line
        download = await request.app[READS].run(work, parameters, line=line)
    except Busy as error:
        raise PageError("busy", str(error)) from error
    response = web.StreamResponse()
    response.content_type, response.content_length = download.kind, len(download.data)
    if download.name:
        response.headers["Content-Disposition"] = f'attachment; filename="{download.name}"'
    await request.app[UNREAD].send(request, response, download.data)
    return response


def _find_live_state(request: web.Request) -> LiveState:
    find_state = request.app.get(LIVE_STATE)
    return NOT_LIVE if find_state is None else find_state()


async def _status(request: web.Request) -> web.StreamResponse:
    live, settings = _find_live_state(request), request.app[SETTINGS]

    def work(reader: Calls, parameters: Parameters) -> Download:
        return Download(_JSON, encode(_read_status(reader, live, settings, parameters.now_ns)))

    return await _answer(request, work, (), Line.LISTS)


async def _copy(request: web.Request) -> web.StreamResponse:
    proxy_url = _find_live_state(request).proxy_url or request.app[SETTINGS].proxy_url

    def work(reader: Calls, parameters: Parameters) -> Download:
        return Download(_JSON, encode(copy_call(reader, parameters, proxy_url)))

    return await _answer(request, work, COPY_PARAMETERS, Line.CALLS)


async def _columns(request: web.Request) -> web.StreamResponse:
    # This refuses any parameter, because the path has none.
    Parameters([*request.query.items()], request.match_info, (), time.time_ns())
    return web.Response(body=encode(COLUMNS), content_type=_JSON)


async def _settings(request: web.Request) -> web.StreamResponse:
    Parameters([*request.query.items()], request.match_info, (), time.time_ns())  # there are none
    answer = read_settings(request.app[SETTINGS].shown)
    return web.Response(body=encode(answer), content_type=_JSON)


ROUTES: Final[tuple[tuple[str, Handler], ...]] = (
    ("status", _status),
    ("columns", _columns),
    ("settings", _settings),
    ("calls", _serve(list_calls, *CALLS_PARAMETERS)),
    ("calls/{id}", _serve(read_call, line=Line.CALLS)),
    (
        "calls/{id}/messages/{index}",
        _serve(read_message_text, *MESSAGE_PARAMETERS, line=Line.CALLS),
    ),
    ("calls/{id}/images/{index}", _serve(read_part_picture, *PICTURE_PARAMETERS, line=Line.CALLS)),
    ("calls/{id}/pictures/{digest}", _serve(read_kept_picture, line=Line.CALLS)),
    ("calls/{id}/tools/{index}", _serve(read_tool_text, *TOOL_PARAMETERS, line=Line.CALLS)),
    ("calls/{id}/raw", _serve(read_raw, *RAW_PARAMETERS, line=Line.CALLS)),
    ("calls/{id}/stream", _serve(read_stream, *STREAM_PARAMETERS, line=Line.CALLS)),
    ("calls/{id}/copy", _copy),
    ("calls/{id}/diff", _serve(compare_calls, *DIFF_PARAMETERS, line=Line.COMPARISONS)),
    ("stats", _serve(read_stats, *STATS_PARAMETERS, line=Line.SEARCHES)),
    ("conversations", _serve(list_conversations, *CONVERSATIONS_PARAMETERS)),
    ("conversations/{number}", _serve(read_conversation, *BARS_PARAMETERS, line=Line.SEARCHES)),
    (
        "conversations/{number}/transcript",
        _serve(read_transcript, *TRANSCRIPT_PARAMETERS, line=Line.CALLS),
    ),
    ("failures", _serve(list_failures, *FAILURES_PARAMETERS, line=Line.CALLS)),
    ("groups", _serve(list_groups, *GROUPS_PARAMETERS, line=Line.SEARCHES)),
    ("rankings", _serve(read_rankings, *RANKINGS_PARAMETERS, line=Line.SEARCHES)),
    ("runs/{number}", _serve(read_run, line=Line.SEARCHES)),
    ("conversations/{number}/context", _serve(read_context, *CONTEXT_PARAMETERS, line=Line.CALLS)),
)
"""Paths below ``/api/``, as aiohttp writes them, each with its handler of GET."""
