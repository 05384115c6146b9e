"""The paths of the API, and what answers each: the only module here that knows of HTTP.

Rules:

1. Every answer is strict JSON, errors included, but for images and downloads.
2. All work is done on a thread of :class:`~proxy.page.reads.Reads`: the loop serves live news, and
   waits for no store.
3. Who asks, others have looked at before; what cannot be followed is a
   :exc:`~proxy.page.errors.PageError`, which they answer (:mod:`proxy.page.guard`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from aiohttp import web

from proxy.page.api.call import read_call
from proxy.page.api.calls import CALLS_PARAMETERS, list_calls
from proxy.page.api.context import CONTEXT_PARAMETERS, read_context
from proxy.page.api.conversation import BARS_PARAMETERS, read_conversation
from proxy.page.api.conversations import CONVERSATIONS_PARAMETERS, list_conversations
from proxy.page.api.copies import COPY_PARAMETERS, copy_call
from proxy.page.api.differences import DIFF_PARAMETERS, compare_calls
from proxy.page.api.downloads import RAW_PARAMETERS, Download, read_raw
from proxy.page.api.json_text import encode
from proxy.page.api.parameters import Parameters
from proxy.page.api.slices import (
    MESSAGE_PARAMETERS,
    PICTURE_PARAMETERS,
    TOOL_PARAMETERS,
    read_message_text,
    read_part_picture,
    read_tool_text,
)
from proxy.page.api.statistics import STATS_PARAMETERS, read_stats
from proxy.page.api.status import read_status
from proxy.page.api.transcript import TRANSCRIPT_PARAMETERS, read_transcript
from proxy.page.app_keys import LIVE_STATE, READS
from proxy.page.errors import PageError
from proxy.page.live_state import NOT_LIVE
from proxy.page.reads import Busy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codec.text.jsontext import JsonObject
    from telemetry.store.paged_reader import PagedReader

    Resource = Callable[[PagedReader, Parameters], JsonObject | Download]
    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

__all__ = ("ROUTES",)

_JSON: Final = "application/json"


def _serve(resource: Resource, *allowed: str) -> Handler:
    """Make the handler of a resource, whose parameters may be these."""

    def work(reader: PagedReader, parameters: Parameters) -> Download:
        told = resource(reader, parameters)
        return told if isinstance(told, Download) else Download(_JSON, encode(told))

    async def handle(request: web.Request) -> web.Response:
        return await _answer(request, work, allowed)

    return handle


async def _answer(
    request: web.Request,
    work: Callable[[PagedReader, Parameters], Download],
    allowed: Sequence[str],
) -> web.Response:
    parameters = Parameters([*request.query.items()], request.match_info, allowed, time.time_ns())
    try:
        reads = request.app[READS]
        # With a filter it may be a search of content, or all rows are looked at.
        run = reads.search if parameters.has_filter else reads.run
        told = await run(work, parameters)
    except Busy as error:
        raise PageError("busy", str(error)) from error
    headers = {"Content-Disposition": f'attachment; filename="{told.name}"'} if told.name else None
    return web.Response(body=told.data, content_type=told.kind, headers=headers)


async def _status(request: web.Request) -> web.Response:
    tell = request.app.get(LIVE_STATE)
    live = NOT_LIVE if tell is None else tell()

    def work(reader: PagedReader, parameters: Parameters) -> Download:
        return Download(_JSON, encode(read_status(reader, live, parameters.now_ns)))

    return await _answer(request, work, ())


ROUTES: Final[tuple[tuple[str, Handler], ...]] = (
    ("status", _status),
    ("calls", _serve(list_calls, *CALLS_PARAMETERS)),
    ("calls/{id}", _serve(read_call)),
    ("calls/{id}/messages/{index}", _serve(read_message_text, *MESSAGE_PARAMETERS)),
    ("calls/{id}/images/{index}", _serve(read_part_picture, *PICTURE_PARAMETERS)),
    ("calls/{id}/tools/{index}", _serve(read_tool_text, *TOOL_PARAMETERS)),
    ("calls/{id}/raw", _serve(read_raw, *RAW_PARAMETERS)),
    ("calls/{id}/copy", _serve(copy_call, *COPY_PARAMETERS)),
    ("calls/{id}/diff", _serve(compare_calls, *DIFF_PARAMETERS)),
    ("stats", _serve(read_stats, *STATS_PARAMETERS)),
    ("conversations", _serve(list_conversations, *CONVERSATIONS_PARAMETERS)),
    ("conversations/{number}", _serve(read_conversation, *BARS_PARAMETERS)),
    ("conversations/{number}/transcript", _serve(read_transcript, *TRANSCRIPT_PARAMETERS)),
    ("conversations/{number}/context", _serve(read_context, *CONTEXT_PARAMETERS)),
)
"""Paths below ``/api/``, as aiohttp writes them, each with its handler of GET."""
