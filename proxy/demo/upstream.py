"""The demo upstream: a small server on loopback that answers like a provider.

It serves every API of the table that has a player, below any path, Realtime, and
``GET /v1/models``. :mod:`proxy.demo.script` decides what it answers. An API's player decides what
the API refuses, and how its answers look on the wire.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import uuid
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from codec.apis.api import Content
from codec.apis.faults import build_error
from codec.apis.table import APIS, SESSIONS, get_api
from codec.dialects import Dialect, find_dialect, play_error
from codec.text.jsontext import decode_json_object
from codec.text.multipart import FormReader, find_boundary, is_form
from proxy.demo.realtime_response import RealtimeResponse
from proxy.demo.realtime_session import RealtimeSession
from proxy.demo.script import ERROR_MODEL, MODEL, MODELS, write_script
from proxy.demo.web_sockets import serve_realtime, serve_responses
from proxy.downstream.listening import listen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from codec.apis.api import Api
    from codec.apis.player import Performance, Player, Script
    from codec.asked import Asked
    from codec.text.jsontext import JsonObject

HOST = "127.0.0.1"
"""The upstream answers anybody, so it listens only to this machine."""

_JSON = "application/json; charset=utf-8"

MAX_BODY_BYTES = 64 * 1024 * 1024
"""The largest request body: a chat full of images fits, and it does not fill the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast the demo upstream answers.

    Attributes:
        first_seconds: the time from the request to the first byte of the answer.
        chunk_seconds: the time between two chunks of a stream.
    """

    first_seconds: float = 0.12
    chunk_seconds: float = 0.015


_RATE_LIMITED = build_error(
    f"Rate limit reached for {ERROR_MODEL}. Please try again in 20s.",
    error_type="requests",
    code="rate_limit_exceeded",
)

_PACE = web.AppKey("pace", Pace)
_DIALECT = web.AppKey("dialect", Dialect)


def create_demo_upstream(*, pace: Pace | None = None, dialect: str = "openai") -> web.Application:
    """Make the demo upstream as an aiohttp application.

    Args:
        pace: the default is slow enough that the time to first token can be seen.
        dialect: one of :data:`codec.dialects.DIALECTS`.

    Raises:
        ValueError: there is no such dialect.
    """
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app[_DIALECT] = find_dialect(dialect)
    app[_PACE] = pace or Pace()
    ends = [(end, api) for api in APIS for end in api.path_ends]
    # The first one that fits is taken, and an end may end with another one.
    for end, api in sorted(ends, key=lambda one: len(one[0]), reverse=True):
        if api.open_player is not None:
            handler = partial(_answer, api=api, player=api.open_player())
            path = f"(.*/)?{re.escape(end[1:])}" if end[0] == "/" else f".*{re.escape(end)}"
            app.router.add_post(f"/{{path:{path}}}", handler)
            if api.name in SESSIONS:
                talk = partial(_talk, api=api, player=api.open_player())
                app.router.add_get(f"/{{path:{path}}}", talk)
    app.router.add_get("/{path:(.*/)?realtime}", _talk_in_session)
    app.router.add_get("/v1/models", _list_models)
    app.router.add_route("*", "/{path:.*}", _refuse_url)
    return app


@contextlib.asynccontextmanager
async def serving_demo_upstream(port: int, *, dialect: str = "openai") -> AsyncIterator[str]:
    """Serve the demo upstream until the end of the block, which gets its URL.

    Raises:
        ConfigurationError: the port is taken.
    """
    app = create_demo_upstream(dialect=dialect)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    try:
        sock = listen("demo upstream", HOST, port)
        await web.SockSite(runner, sock).start()
        yield "http://{}:{}".format(*sock.getsockname()[:2])
    finally:
        await runner.cleanup()


async def _answer(request: web.Request, *, api: Api, player: Player) -> web.StreamResponse:
    dialect = request.app[_DIALECT]

    def refuse(status: int, error: JsonObject) -> web.Response:
        return _json(player.write_error(error["error"], dialect), status)

    try:
        body = await _read_body(request, takes_forms=api.takes_forms)
    except ValueError:
        return refuse(400, build_error("We could not parse the JSON body of your request."))
    if fault := player.find_fault(body):
        return refuse(400, fault)
    refused = dialect.rejected_options
    if refused is not None and body.get("stream_options") is not None:
        return web.json_response(refused.body, status=refused.status, headers=_request_id())
    asked = api.ask(body, request.path)
    if asked.model == ERROR_MODEL:
        return refuse(429, _RATE_LIMITED)
    script = _write_script(asked, request)
    performance = player.play(asked, script, dialect)
    if asked.stream:
        return await _stream(request, performance)
    pace = request.app[_PACE]
    # Anything that is not text, such as a vector or a ranking, comes at once.
    is_text = api.content in {Content.MESSAGES, Content.TEXTS}
    longest = max(len(answer.deltas) for answer in script.answers) if is_text else 0
    await asyncio.sleep(pace.first_seconds + longest * pace.chunk_seconds)
    answer = _json(performance.whole())
    answer.headers["Content-Type"] = getattr(performance, "plain_type", _JSON)
    return answer


def _write_script(asked: Asked, request: web.Request) -> Script:
    script = write_script(asked, answer_id=uuid.uuid4().hex, created=int(time.time()))
    return replace(script, query=request.query_string)


async def _talk(request: web.Request, *, api: Api, player: Player) -> web.StreamResponse:
    """Answer requests that come over a WebSocket."""
    if not web.WebSocketResponse().can_prepare(request):
        return await _refuse_url(request)

    def perform(body: JsonObject) -> Performance | JsonObject:
        if fault := player.find_fault(body):
            return fault
        asked = api.ask(body, request.path)
        if asked.model == ERROR_MODEL:
            return _RATE_LIMITED
        return player.play(asked, _write_script(asked, request), request.app[_DIALECT])

    pace = request.app[_PACE]
    return await serve_responses(
        request, perform, first_seconds=pace.first_seconds, chunk_seconds=pace.chunk_seconds
    )


async def _talk_in_session(request: web.Request) -> web.StreamResponse:
    """Answer in a Realtime session, whose requests have the shape of those of Responses."""
    if not web.WebSocketResponse().can_prepare(request):
        return await _refuse_url(request)
    api, query = get_api("responses"), request.query

    def perform(body: JsonObject, heard_tokens: int) -> RealtimeResponse:
        asked = api.ask(body, request.path)
        error = _RATE_LIMITED["error"] if asked.model == ERROR_MODEL else None
        script = _write_script(asked, request)
        return RealtimeResponse(asked, script, heard_tokens=heard_tokens, error=error)

    model = query.get("model") or query.get("deployment") or MODEL
    session = RealtimeSession(uuid.uuid4().hex, model, perform)
    pace = request.app[_PACE]
    return await serve_realtime(
        request, session, first_seconds=pace.first_seconds, chunk_seconds=pace.chunk_seconds
    )


async def _read_body(request: web.Request, *, takes_forms: bool) -> JsonObject:
    """Read the members of a request's JSON, or of its form if a form is allowed.

    Raises:
        ValueError: the body is neither.
    """
    content_type = request.headers.get("Content-Type", "").encode()
    body = await request.read()
    if not (takes_forms and is_form(content_type)):
        return decode_json_object(body)
    if (boundary := find_boundary(content_type)) is None:
        raise ValueError("no boundary")
    reader = FormReader(boundary)
    reader.feed(body)
    form = reader.finish()
    if not form.is_whole:
        raise ValueError(form.state)
    return form.members


async def _stream(request: web.Request, performance: Performance) -> web.StreamResponse:
    pace = request.app[_PACE]
    head = {"Content-Type": performance.content_type} | _request_id()
    response = web.StreamResponse(headers=head)
    await asyncio.sleep(pace.first_seconds)
    with contextlib.suppress(ConnectionError):  # a client that left misses nothing
        await response.prepare(request)
        for events in performance.stream():
            for event in events:
                await response.write(event)
            await asyncio.sleep(pace.chunk_seconds)
        await response.write_eof()
    return response


async def _list_models(_: web.Request) -> web.Response:
    """Answer as OpenAI's API reference describes."""
    models = [
        {"id": model, "object": "model", "created": 1_700_000_000, "owned_by": "spantap-demo"}
        for model in MODELS
    ]
    return web.json_response({"object": "list", "data": models}, headers=_request_id())


async def _refuse_url(request: web.Request) -> web.Response:
    error = build_error(f"Invalid URL ({request.method} {request.path})")
    return _json(play_error(request.app[_DIALECT], error["error"]), 404)


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(
        body=body,
        status=status,
        headers=_request_id(),
        content_type="application/json",
        charset="utf-8",
    )


def _request_id() -> dict[str, str]:
    return {"x-request-id": f"req_{uuid.uuid4().hex}"}
