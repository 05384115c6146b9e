"""The demo upstream: a small server for loopback that speaks like a provider.

``POST …/chat/completions`` and ``POST …/completions`` (whole or streamed), below whatever path the
provider has them, and ``GET /v1/models``. What it says is :mod:`proxy.demo.script`'s part, what it
refuses :mod:`proxy.demo.faults`'s, and how it looks on the wire that of :mod:`codec.dialects`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from codec.dialects import Dialect, StreamPlayer, find_dialect, play_body, play_error
from codec.generator import find_usage_policy
from codec.jsontext import decode_json_object
from proxy.demo.faults import find_chat_fault, find_completion_fault
from proxy.demo.script import ERROR_MODEL, answer_completion, answer_request
from proxy.demo.shapes import build_error, build_generator, build_models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codec.generator import Answer, ChunkGenerator
    from codec.jsontext import JsonObject

__all__ = ("MAX_BODY_BYTES", "Pace", "create_demo_upstream")

MAX_BODY_BYTES = 64 * 1024 * 1024
"""The largest request body: room for a chat full of images, not for filling the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast the demo upstream speaks.

    Attributes:
        first_seconds: from the request to the first byte of the answer.
        chunk_seconds: between two chunks of a stream.
    """

    first_seconds: float = 0.12
    chunk_seconds: float = 0.015


@dataclass(frozen=True, slots=True, kw_only=True)
class _Endpoint:
    """What makes chats and legacy completions different.

    Attributes:
        find_fault: the error body for a faulty request.
        answer: the answers to a good one.
        id_prefix: of an answer's id.
        is_completion: it is the legacy one.
    """

    find_fault: Callable[[JsonObject], JsonObject | None]
    answer: Callable[[JsonObject], tuple[Answer, ...]]
    id_prefix: str
    is_completion: bool


_CHATS = _Endpoint(
    find_fault=find_chat_fault, answer=answer_request, id_prefix="chatcmpl", is_completion=False
)
_COMPLETIONS = _Endpoint(
    find_fault=find_completion_fault,
    answer=answer_completion,
    id_prefix="cmpl",
    is_completion=True,
)
_PACE = web.AppKey("pace", Pace)
_DIALECT = web.AppKey("dialect", Dialect)


def create_demo_upstream(*, pace: Pace | None = None, dialect: str = "openai") -> web.Application:
    """The demo upstream as an aiohttp application.

    Args:
        pace: the default is slow enough for the time to first token to be seen.
        dialect: one of :data:`codec.dialects.DIALECTS`.

    Raises:
        ValueError: there is no such dialect.
    """
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app[_DIALECT] = find_dialect(dialect)
    app[_PACE] = pace or Pace()
    # The first that fits is taken: the second fits the first one's paths, too.
    app.router.add_post("/{path:(.*/)?}chat/completions", _complete_chat)
    app.router.add_post("/{path:(.*/)?}completions", _complete_prompt)
    app.router.add_get("/v1/models", _list_models)
    app.router.add_route("*", "/{path:.*}", _refuse_url)
    return app


async def _complete_chat(request: web.Request) -> web.StreamResponse:
    return await _answer(request, _CHATS)


async def _complete_prompt(request: web.Request) -> web.StreamResponse:
    return await _answer(request, _COMPLETIONS)


async def _answer(request: web.Request, endpoint: _Endpoint) -> web.StreamResponse:
    try:
        body = decode_json_object(await request.read())
    except ValueError:
        error = build_error("We could not parse the JSON body of your request.")
        return _answer_error(request, 400, error)
    if fault := endpoint.find_fault(body):
        return _answer_error(request, 400, fault)
    refused = request.app[_DIALECT].rejected_options
    if refused is not None and body.get("stream_options") is not None:
        return web.json_response(refused.body, status=refused.status, headers=_request_id())
    if body["model"] == ERROR_MODEL:
        message = f"Rate limit reached for {ERROR_MODEL}. Please try again in 20s."
        error = build_error(message, error_type="requests", code="rate_limit_exceeded")
        return _answer_error(request, 429, error)
    answers = endpoint.answer(body)
    generator = build_generator(
        body,
        answer_id=f"{endpoint.id_prefix}-{uuid.uuid4().hex}",
        created=int(time.time()),
        choice_count=len(answers),
        is_completion=endpoint.is_completion,
    )
    if body.get("stream") is True:
        return await _stream(request, body, generator.generate(answers))
    return await _answer_whole(request, generator, answers)


async def _answer_whole(
    request: web.Request, generator: ChunkGenerator, answers: Sequence[Answer]
) -> web.Response:
    chunk_count = sum(1 for _ in generator.generate(answers)) // len(answers)
    pace = request.app[_PACE]
    await asyncio.sleep(pace.first_seconds + chunk_count * pace.chunk_seconds)
    body = play_body(request.app[_DIALECT], generator.completion())
    return _json(body)


async def _stream(
    request: web.Request, body: JsonObject, chunks: Iterator[JsonObject]
) -> web.StreamResponse:
    dialect, pace = request.app[_DIALECT], request.app[_PACE]
    player = StreamPlayer(dialect, find_usage_policy(body.get("stream_options")))
    head = {"Content-Type": dialect.framing.content_type} | _request_id()
    response = web.StreamResponse(headers=head)
    await asyncio.sleep(pace.first_seconds)
    with contextlib.suppress(ConnectionError):  # whoever left does not miss the rest
        await response.prepare(request)
        for chunk in chunks:
            for event in player.feed(chunk):
                await response.write(event)
            await asyncio.sleep(pace.chunk_seconds)
        for event in player.end():
            await response.write(event)
        await response.write_eof()
    return response


async def _list_models(_: web.Request) -> web.Response:
    return web.json_response(build_models(), headers=_request_id())


async def _refuse_url(request: web.Request) -> web.Response:
    error = build_error(f"Invalid URL ({request.method} {request.path})")
    return _answer_error(request, 404, error)


def _answer_error(request: web.Request, status: int, error: JsonObject) -> web.Response:
    body = play_error(request.app[_DIALECT], error["error"])
    return _json(body, status)


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
