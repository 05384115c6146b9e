"""The demo upstream: a small OpenAI-shaped server for loopback.

``POST /v1/chat/completions`` (whole or streamed) and ``GET /v1/models``. It is as strict as OpenAI
where clients and proxies have to notice: a body that is no JSON, no ``messages``, no ``model``, an
``n`` or ``max_tokens`` that makes no sense, ``stream_options`` without ``stream``. What it says is
:mod:`proxy.demo.script`'s part.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from codec.jsontext import decode_json_object
from proxy.demo.script import ERROR_MODEL, MAX_CHOICES, answer_request
from proxy.demo.shapes import build_completion, build_error, build_models, iter_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.jsontext import JsonObject
    from proxy.demo.script import Answer

__all__ = ("DIALECTS", "MAX_BODY_BYTES", "Pace", "create_demo_upstream")

DIALECTS = ("openai",)
"""The dialects that the demo upstream speaks."""

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


_PACE = web.AppKey("pace", Pace)


def create_demo_upstream(*, pace: Pace | None = None, dialect: str = "openai") -> web.Application:
    """The demo upstream as an aiohttp application.

    Args:
        pace: the default is slow enough for the time to first token to be seen.
        dialect: one of :data:`DIALECTS`.

    Raises:
        ValueError: there is no such dialect.
    """
    if dialect not in DIALECTS:
        raise ValueError(f"unknown dialect {dialect!r}: there is {', '.join(DIALECTS)}")
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app[_PACE] = pace or Pace()
    app.router.add_post("/v1/chat/completions", _complete_chat)
    app.router.add_get("/v1/models", _list_models)
    app.router.add_route("*", "/{path:.*}", _refuse_url)
    return app


async def _complete_chat(request: web.Request) -> web.StreamResponse:
    try:
        body = decode_json_object(await request.read())
    except ValueError:
        return _answer_error(400, build_error("We could not parse the JSON body of your request."))
    if refusal := _find_fault(body):
        return _answer_error(400, refusal)
    if body["model"] == ERROR_MODEL:
        message = f"Rate limit reached for {ERROR_MODEL}. Please try again in 20s."
        error = build_error(message, error_type="requests", code="rate_limit_exceeded")
        return _answer_error(429, error)
    answers = answer_request(body)
    if body.get("stream") is True:
        return await _stream(request, body, answers)
    pace = request.app[_PACE]
    words = max(len(answer.deltas) for answer in answers)
    await asyncio.sleep(pace.first_seconds + words * pace.chunk_seconds)
    completion = build_completion(body, answers, completion_id=_new_id(), created=int(time.time()))
    return web.json_response(completion, headers=_request_id())


async def _stream(
    request: web.Request, body: JsonObject, answers: Sequence[Answer]
) -> web.StreamResponse:
    content_type = {"Content-Type": "text/event-stream; charset=utf-8"}
    response = web.StreamResponse(headers=content_type | _request_id())
    await asyncio.sleep(request.app[_PACE].first_seconds)
    with contextlib.suppress(ConnectionError):  # whoever left does not miss the rest
        await response.prepare(request)
        await _write_chunks(response, body, answers, request.app[_PACE])
    return response


async def _write_chunks(
    response: web.StreamResponse, body: JsonObject, answers: Sequence[Answer], pace: Pace
) -> None:
    created = int(time.time())
    for chunk in iter_chunks(body, answers, completion_id=_new_id(), created=created):
        text = json.dumps(chunk, ensure_ascii=False, separators=(",", ":"))
        # A lone surrogate that the request brought along is no reason to break the stream.
        await response.write(f"data: {text}\n\n".encode(errors="replace"))
        await asyncio.sleep(pace.chunk_seconds)
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()


async def _list_models(_: web.Request) -> web.Response:
    return web.json_response(build_models(), headers=_request_id())


async def _refuse_url(request: web.Request) -> web.Response:
    return _answer_error(404, build_error(f"Invalid URL ({request.method} {request.path})"))


def _find_fault(body: JsonObject) -> JsonObject | None:
    """The error body for the first thing wrong with a request, ``None`` for a good one."""
    if not isinstance(body.get("model"), str):
        return build_error("you must provide a model parameter")
    if "messages" not in body:
        message = "Missing required parameter: 'messages'."
        return build_error(message, param="messages", code="missing_required_parameter")
    messages = body["messages"]
    if not (isinstance(messages, list) and messages and all(isinstance(m, dict) for m in messages)):
        return _invalid("messages", "expected a non-empty array of objects")
    if body.get("stream") is not True and body.get("stream_options") is not None:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        return build_error(message, param="stream_options")
    if not isinstance(body.get("stream_options") or {}, dict):
        return _invalid("stream_options", "expected an object")
    tools = body.get("tools") or []
    if not (isinstance(tools, list) and all(_is_tool(tool) for tool in tools)):
        return _invalid("tools", "expected an array of functions, each with a name")
    if not _is_count(body.get("n"), MAX_CHOICES):
        return _invalid("n", f"expected an integer from 1 to {MAX_CHOICES}")
    for name in ("max_tokens", "max_completion_tokens"):
        if not _is_count(body.get(name)):
            return _invalid(name, "expected a positive integer")
    return None


def _is_tool(value: object) -> bool:
    function = value.get("function") if isinstance(value, dict) else None
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _is_count(value: object, most: int | None = None) -> bool:
    """A positive integer up to ``most``, or nothing at all; ``true`` is no integer in JSON."""
    if value is None:
        return True
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return value >= 1 and (most is None or value <= most)


def _invalid(name: str, reason: str) -> JsonObject:
    return build_error(f"Invalid '{name}': {reason}.", param=name, code="invalid_value")


def _answer_error(status: int, error: JsonObject) -> web.Response:
    return web.json_response(error, status=status, headers=_request_id())


def _new_id() -> str:
    return f"chatcmpl-{uuid.uuid4().hex}"


def _request_id() -> dict[str, str]:
    return {"x-request-id": f"req_{uuid.uuid4().hex}"}
