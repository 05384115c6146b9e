"""Generated calls: every dialect, every shape of request and answer, every end, and chance."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from codec.apis.completions import COMPLETIONS
from codec.apis.embeddings.route import EMBEDDINGS
from codec.dialects import DIALECTS
from tests.differential.answer_shapes import BODIES, LEGACY_BODIES, LEGACY_STREAMS, STREAMS
from tests.differential.answers import (
    build_error,
    call_tools,
    error_body,
    plain_body,
    say,
    stream_events,
    think,
)
from tests.differential.calls import EVENTS, Call
from tests.differential.chance import draw_calls
from tests.differential.request_shapes import MEMBERS, MESSAGES, WEATHER
from tests.differential.response_calls import generate_response_calls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.generator import Answer
    from codec.text.jsontext import JsonObject

__all__ = ("generate_calls",)

_CHANCE_CALLS = 150

_HELLO: JsonObject = {"role": "user", "content": "Ahoy?"}
_BODY: JsonObject = {"model": "gpt-4o-mini", "messages": [_HELLO]}
_PROMPT: JsonObject = {"model": "gpt-3.5-turbo-instruct", "prompt": "Once upon a time"}
_STREAM: JsonObject = {"stream": True}
_USAGE: JsonObject = {"stream_options": {"include_usage": True}}
_GREETING = say("Good day! Every word of mine is scripted. ⚓ 🌊")
_THOUGHT = think("They greet me. I greet back.", _GREETING)
_TOOLS = call_tools(("get_weather", '{"city": "Lisbon"}'), ("get_weather", '{"city": "Oslo"}'))


def generate_calls() -> Iterator[Call]:
    """All of them, the same in every run."""
    yield from _in_dialects()
    yield from _by_request()
    yield from _by_answer()
    yield from _by_hand()
    yield from _failing()
    yield from _abandoned()
    yield from _legacy()
    yield from _embeddings()
    yield from draw_calls(_CHANCE_CALLS)
    yield from generate_response_calls()


def _stream(name: str, *answers: Answer, body: JsonObject, **options: Any) -> Call:
    return Call(
        id=f"stream: {name}",
        body=body | _STREAM,
        answer=b"".join(stream_events(*answers, **options)),
        head=EVENTS,
    )


def _plain(name: str, *answers: Answer, body: JsonObject = _BODY, **options: Any) -> Call:
    return Call(id=f"plain: {name}", body=body, answer=plain_body(*answers, **options))


def _in_dialects() -> Iterator[Call]:
    for name, dialect in DIALECTS.items():
        options = {} if dialect.rejected_options else _USAGE
        for what, answer, members in (("text", _THOUGHT, {}), ("tools", _TOOLS, _TOOL)):
            body = _BODY | members
            asked, unasked = f"{name}, {what}", f"{name}, {what}, usage not asked for"
            yield _stream(asked, answer, body=body | options, dialect=name)
            yield _stream(unasked, answer, body=body, dialect=name)
            yield _plain(asked, answer, body=body, dialect=name)
        error = build_error("The model is overloaded.")
        broken = say("Good day", None)
        yield _stream(f"{name}, error", broken, body=_BODY | options, dialect=name, error=error)
        refusal = error_body("The model does not exist.", name)
        yield Call(id=f"error body: {name}", body=_BODY, status=400, answer=refusal)


_TOOL: JsonObject = {"tools": [WEATHER]}


def _by_request() -> Iterator[Call]:
    for name, message in MESSAGES.items():
        yield _plain(name, _GREETING, body=_BODY | {"messages": [_HELLO, message, _HELLO]})
    for name, members in MEMBERS.items():
        yield _plain(name, _GREETING, body=_BODY | members)
    headers = {"x-session-id": "s-1", "helicone-user-id": "u-1", "x-spantap-tags": "a, b"}
    yield replace(_plain("headers", _GREETING), headers=headers)


def _by_answer() -> Iterator[Call]:
    two, three = _BODY | {"n": 2}, _BODY | {"n": 3}
    for name, body, answers in (
        ("text", _BODY, (_GREETING,)),
        ("three choices", three, (_GREETING, say("Hello."), say("", "length"))),
        ("parallel tools", _BODY | _TOOL, (_TOOLS,)),
        ("tools in every choice", three | _TOOL, (_TOOLS,) * 3),
        ("text and tools", _BODY, (call_tools(("f", '{"a":1}'), text="Let me see."),)),
        ("tool arguments no JSON", _BODY, (call_tools(("f", '{"a": tru')),)),
        ("tool without arguments", _BODY, (call_tools(("f", "")),)),
        ("refusal", _BODY, (say("I cannot help with that.", as_refusal=True),)),
        ("refusal among choices", two, (say("No.", as_refusal=True), _GREETING)),
        ("reasoning", _BODY, (_THOUGHT,)),
        ("reasoning and tools", _BODY, (think("Hm, hm.", _TOOLS),)),
        ("reasoning alone", _BODY, (think("Hm, hm.", say("", "length")),)),
        ("cut by length", _BODY, (say("Good", "length"),)),
        ("filtered", _BODY, (say("Good", "content_filter"),)),
        ("nothing said", _BODY, (say(""),)),
        ("white space", _BODY, (say(" \n\t "),)),
        ("NUL and emoji", _BODY, (say("a\0b 🏴‍☠️ \U0010ffff é\u2028x"),)),
    ):
        yield _plain(name, *answers, body=body)
        yield _stream(f"{name}, usage asked for", *answers, body=body | _USAGE)
        yield _stream(f"{name}, usage not asked for", *answers, body=body)
        options = {"stream_options": {"include_usage": False}}
        yield _stream(f"{name}, usage not wanted", *answers, body=body | options)


def _by_hand() -> Iterator[Call]:
    for name, answer in STREAMS.items():
        body = _BODY | _USAGE | _STREAM
        yield Call(id=f"stream by hand: {name}", body=body, answer=answer, head=EVENTS)
    for name, answer in BODIES.items():
        yield Call(id=f"plain by hand: {name}", body=_BODY, answer=answer)
    packed = gzip.compress(plain_body(_GREETING))
    encoding = ((b"content-type", b"application/json"), (b"content-encoding", b"gzip"))
    yield Call(id="gzip", body=_BODY, answer=packed, head=encoding)
    whole = plain_body(_GREETING)
    yield Call(id="a whole answer for a stream", body=_BODY | _STREAM, answer=whole)


def _failing() -> Iterator[Call]:
    for status in (400, 401, 403, 404, 409, 422, 429, 500, 503):
        answer = error_body(f"This is what {status} means.")
        yield Call(id=f"status {status}", body=_BODY, status=status, answer=answer)
        body = _BODY | _STREAM
        yield Call(id=f"status {status} for a stream", body=body, status=status, answer=answer)
    html = ((b"content-type", b"text/html"),)
    answer = b"<html><h1>Bad Gateway</h1></html>"
    yield Call(id="status 502 in HTML", body=_BODY, status=502, head=html, answer=answer)
    yield Call(id="status 500 and no body", body=_BODY, status=500, answer=b"")
    yield Call(id="reset before the answer", body=_BODY, answer=None)
    yield Call(id="reset before the stream", body=_BODY | _STREAM, answer=None)
    yield Call(
        id="reset inside the stream",
        body=_BODY | _STREAM,
        answer=b"".join(stream_events(_GREETING)[:4]),
        head=EVENTS,
        breaks_off=True,
    )


def _abandoned() -> Iterator[Call]:
    for name, answer in (("text", _GREETING), ("tools", _TOOLS), ("reasoning", _THOUGHT)):
        for count in (1, 2, 3, 5, 6):
            yield Call(
                id=f"left after {count} chunks: {name}",
                body=_BODY | _STREAM,
                answer=b"".join(stream_events(answer)[:count]),
                head=EVENTS,
                leaves_after=count,
            )


def _legacy() -> Iterator[Call]:
    calls = [*_legacy_prompts(), *_legacy_answers()]
    yield from (replace(call, api=COMPLETIONS) for call in calls)


def _legacy_prompts() -> Iterator[Call]:
    answers = (say("and then there was light."), say("or not"))
    for name, prompt in (
        ("text", "Once upon a time"),
        ("texts", ["Once upon a time", "🌊"]),
        ("tokens", [1, 2, 3]),
        ("lists of tokens", [[1, 2], [3]]),
        ("empty text", ""),
        ("an empty text among others", ["", "b"]),
    ):
        body = _PROMPT | {"prompt": prompt, "max_tokens": 9, "echo": False, "suffix": "."}
        name = f"legacy, {name}"  # noqa: PLW2901 - the whole of it
        yield _plain(name, *answers, body=body, is_legacy=True)
        yield _stream(name, *answers, body=body | _USAGE, is_legacy=True)
        yield _stream(f"{name}, usage not asked for", *answers, body=body, is_legacy=True)


def _legacy_answers() -> Iterator[Call]:
    for name, answer in LEGACY_STREAMS.items():
        yield Call(id=f"legacy: {name}", body=_PROMPT | _STREAM, answer=answer, head=EVENTS)
    for name, answer in LEGACY_BODIES.items():
        yield Call(id=f"legacy: {name}", body=_PROMPT, answer=answer)
    answer = error_body("There is no such model.")
    yield Call(id="legacy: status 404", body=_PROMPT, status=404, answer=answer)


_NUMBERS = [0.25, -1.0]
_FLOATS = "AACAPgAAgL8="
"""The same as base64 of 32-bit floats."""


def _embeddings() -> Iterator[Call]:
    for name, members, vectors in (
        ("text", {"input": "a"}, [_FLOATS]),
        ("texts", {"input": ["a", "🌊"], "dimensions": 2}, [_FLOATS, _FLOATS]),
        ("numbers", {"input": "a", "encoding_format": "float"}, [_NUMBERS]),
        ("base64", {"input": "a", "encoding_format": "base64", "user": "u-1"}, [_FLOATS]),
        ("tokens", {"input": [1, 2]}, [_FLOATS]),
        ("lists of tokens", {"input": [[1], [2]]}, [_FLOATS, _FLOATS]),
        ("empty text", {"input": ""}, [_FLOATS]),
        ("more vectors than texts", {"input": "a"}, [_FLOATS, _FLOATS]),
    ):
        yield _embedding(name, members, _vectors(vectors))
    error = error_body("There is no such model.")
    yield replace(_embedding("status 400", {"input": "a"}, error), status=400)


def _embedding(name: str, members: JsonObject, answer: bytes) -> Call:
    return Call(
        id=f"embedding: {name}",
        api=EMBEDDINGS,
        body={"model": "text-embedding-3-small", **members},
        answer=answer,
    )


def _vectors(vectors: list[Any]) -> bytes:
    items = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": 2, "completion_tokens": 0, "total_tokens": 2}
    answer = {"object": "list", "data": items, "model": "text-embedding-3-small", "usage": usage}
    return json.dumps(answer).encode()
