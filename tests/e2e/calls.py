"""Chats by the real ``openai`` SDK, and everything that the client sent and saw of them."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import openai
from openai.lib.streaming.chat import ChatCompletionStreamState

from codec.text.jsontext import decode_json_object
from proxy.demo.script import ENDLESS_MODEL, ERROR_MODEL, MODEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.text.jsontext import JsonObject

__all__ = ("CALLS", "PIXEL", "TOOL", "Call", "Client", "ask", "have_chats", "open_client")

CHUNKS_BEFORE_LEAVING = 8
"""How many chunks the impatient client waits for."""

TOOL: JsonObject = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city, now.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["celsius"]},
            },
            "required": ["city"],
        },
    },
}

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWj"
    "R9awAAAABJRU5ErkJggg=="
)
_SYSTEM = {"role": "system", "content": "You are a friendly guide. Answer in one short sentence."}
_WEATHER = {"Lisbon": "24 degrees and sunny", "Oslo": "8 degrees and rain"}

CALLS = (
    "plain",
    "streamed",
    "streamed, usage asked",
    "tool calls",
    "tool results",
    "refusal",
    "upstream error",
    "abandoned",
    "two choices",
    "image",
    "traced caller",
)
"""The calls of :func:`have_chats`, in order."""


@dataclass(kw_only=True)
class Call:
    """One call from the client's side.

    Attributes:
        request: what was sent, decoded.
        request_text: the body as it went out.
        path: of the request, as it went out.
        headers: those of the request, names in lower case.
        upstream: which of the proxy's upstreams was called, by its name in the settings.
        status: of the HTTP response.
        request_id: the provider's, from the response's header.
        answer_type: the content type of the response.
        completion: what the client holds in the end; of a stream the SDK's own accumulation.
        error_text: the body of an error response.
        stream_error: the error that ended a stream which had begun well.
        usage: what the provider counts for such a request, ``None`` for a call with no such count.
        is_left: whether the client hung up.
        started_ns: before it was sent.
        finished_ns: after the last was read.
        chunk_ns: when the client held the first chunk.
        chunk_count: how many it held in the end.
    """

    request: JsonObject = field(default_factory=dict)
    request_text: str = ""
    path: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    upstream: str = "default"
    status: int = 0
    request_id: str = ""
    answer_type: str = ""
    completion: JsonObject = field(default_factory=dict)
    error_text: str = ""
    stream_error: JsonObject | None = None
    usage: JsonObject | None = None
    is_left: bool = False
    started_ns: int = 0
    finished_ns: int = 0
    chunk_ns: int | None = None
    chunk_count: int = 0

    @property
    def message(self) -> JsonObject:
        """The answer's first message."""
        message: JsonObject = self.completion["choices"][0]["message"]
        return message


class Client:
    """The SDK pointed at a server; every call is noted.

    Args:
        sdk: whose HTTP client reports to :meth:`note_request` and :meth:`note_response`.
        direct: the SDK pointed at the provider itself, to learn its count of tokens.
        upstream: the name of the upstream behind the server.
    """

    def __init__(self, sdk: openai.OpenAI, direct: openai.OpenAI, upstream: str) -> None:
        self._create = sdk.chat.completions.create
        self._create_directly = direct.chat.completions.create
        self._upstream = upstream
        self._call = Call()

    def note_request(self, request: Any) -> None:
        """Take path, headers and body as they go out."""
        self._call.path = request.url.path
        self._call.headers = dict(request.headers)
        self._call.request_text = request.read().decode()
        self._call.request = decode_json_object(self._call.request_text)

    def note_response(self, response: Any) -> None:
        """Take status, type and id as they come in."""
        self._call.status = response.status_code
        self._call.answer_type = response.headers["content-type"]
        self._call.request_id = response.headers["x-request-id"]

    def complete(self, **request: Any) -> Call:
        """Have the answer in one piece, or an error."""
        with self._calling() as call:
            try:
                completion = self._create(**request)
            except openai.APIStatusError as error:
                call.error_text = error.response.text
            else:
                call.completion = completion.model_dump(exclude_unset=True)
                call.usage = call.completion["usage"]
        return call

    def stream(self, *, leave_after: int | None = None, **request: Any) -> Call:
        """Read a stream to its end, or hang up after so many chunks."""
        state = ChatCompletionStreamState()
        with self._calling() as call, self._create(**request, stream=True) as chunks:
            try:
                for chunk in chunks:
                    call.chunk_ns = call.chunk_ns or time.time_ns()
                    call.chunk_count += 1
                    state.handle_chunk(chunk)
                    if call.chunk_count == leave_after:
                        call.is_left = True
                        break
            except openai.APIError as error:
                call.stream_error = cast("JsonObject", error.body)
        call.completion = state.current_completion_snapshot.model_dump()
        if not call.is_left and call.stream_error is None:
            # The demo upstream counts a streamed answer and a whole one alike.
            request.pop("stream_options", None)
            call.usage = self._create_directly(**request).model_dump(exclude_unset=True)["usage"]
        return call

    @contextmanager
    def _calling(self) -> Iterator[Call]:
        self._call = call = Call(upstream=self._upstream, started_ns=time.time_ns())
        yield call
        call.finished_ns = time.time_ns()


@contextmanager
def open_client(base_url: str, direct_url: str, upstream: str = "default") -> Iterator[Client]:
    """A client of the server at ``base_url``; ``direct_url`` is the provider's own."""

    def note_request(request: Any) -> None:
        client.note_request(request)

    def note_response(response: Any) -> None:
        client.note_response(response)

    hooks = {"request": [note_request], "response": [note_response]}
    with _open_sdk(base_url, event_hooks=hooks) as sdk, _open_sdk(direct_url) as direct:
        client = Client(sdk, direct, upstream)
        yield client


def _open_sdk(base_url: str, **options: Any) -> openai.OpenAI:
    http_client = openai.DefaultHttpx2Client(trust_env=False, **options)
    return openai.OpenAI(api_key="demo", base_url=base_url, max_retries=0, http_client=http_client)


def have_chats(client: Client, caller: tuple[str, str]) -> dict[str, Call]:
    """Have one chat of each kind; the calls by the names of :data:`CALLS`.

    Args:
        client: who chats.
        caller: trace and span id of the traced program that makes the last call.
    """
    weather: JsonObject = {"model": MODEL, "tools": [TOOL], "temperature": 0.2}
    question = ask("What is the weather like in Lisbon and in Oslo?")
    tool_calls = client.stream(**weather, messages=question)
    results = _answer_tool_calls(tool_calls.message)
    return {
        "plain": client.complete(
            model=MODEL, messages=ask("Hello, who are you?"), max_tokens=5, user="e2e"
        ),
        "streamed": client.stream(model=MODEL, messages=ask("Grüße, 你好 \N{WAVING HAND SIGN}!")),
        "streamed, usage asked": client.stream(
            model=MODEL, messages=ask("Hello again."), stream_options={"include_usage": True}
        ),
        "tool calls": tool_calls,
        "tool results": client.stream(**weather, messages=[*question, *results]),
        "refusal": client.stream(model=MODEL, messages=ask("How do I break into a house?")),
        "upstream error": client.complete(model=ERROR_MODEL, messages=ask("Are you there?")),
        "abandoned": client.stream(
            model=ENDLESS_MODEL, messages=ask("Count for me."), leave_after=CHUNKS_BEFORE_LEAVING
        ),
        "two choices": client.stream(model=MODEL, messages=ask("Greet me twice."), n=2),
        "image": client.complete(model=MODEL, messages=[_SYSTEM, _IMAGE_MESSAGE]),
        "traced caller": client.complete(
            model=MODEL,
            messages=ask("Who asks?"),
            extra_headers={"traceparent": "00-{}-{}-01".format(*caller)},
        ),
    }


_IMAGE_MESSAGE = {
    "role": "user",
    "content": [
        {"type": "text", "text": "What is in this picture?"},
        {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
    ],
}


def _answer_tool_calls(message: JsonObject) -> Iterator[JsonObject]:
    """The assistant's message as it goes back, and the results of its calls."""
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {key: call["function"][key] for key in ("name", "arguments")},
        }
        for call in message["tool_calls"]
    ]
    yield {"role": "assistant", "content": None, "tool_calls": calls}
    for call in calls:
        city = decode_json_object(call["function"]["arguments"])["city"]
        yield {"role": "tool", "tool_call_id": call["id"], "content": _WEATHER[city]}


def ask(question: str) -> list[JsonObject]:
    """The messages of a new conversation."""
    return [_SYSTEM, {"role": "user", "content": question}]
