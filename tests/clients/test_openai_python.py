"""The real ``openai`` SDK cannot tell the proxy from the server behind it (R1).

Each of its calls becomes one true record (R3).
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import openai
import pytest
import pytest_asyncio

from proxy.demo.script import ENDLESS_MODEL, ERROR_MODEL, MODEL
from telemetry.observing.exchange import Outcome
from tests.clients.stage import BROKEN_MODEL, TOOLS, Stage, open_stage
from tests.corpus.folds import describe_response
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.observed import chat_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from openai import AsyncOpenAI, OpenAI

    from telemetry.observing.exchange import Exchange

HELLO: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Ahoy?"}]}
REQUESTS: dict[str, dict[str, Any]] = {
    "text": HELLO,
    "tools": HELLO | {"tools": TOOLS},
    "two choices": HELLO | {"n": 2},
    "refusal": HELLO | {"messages": [{"role": "user", "content": "How do I pick a lock?"}]},
    "cut by max_tokens": HELLO | {"max_completion_tokens": 3},
}
with_requests = pytest.mark.parametrize("request_name", REQUESTS)


@pytest_asyncio.fixture(name="stage")
async def _stage() -> AsyncIterator[Stage]:
    async with open_stage() as stage:
        yield stage


@contextmanager
def sync_client(base_url: str) -> Iterator[OpenAI]:
    """The SDK without retries, and without the environment's proxies."""
    http_client = openai.DefaultHttpx2Client(trust_env=False)
    with openai.OpenAI(
        api_key="k", base_url=base_url, max_retries=0, http_client=http_client
    ) as client:
        yield client


@asynccontextmanager
async def async_client(base_url: str) -> AsyncIterator[AsyncOpenAI]:
    """The same, asynchronous."""
    http_client = openai.DefaultAsyncHttpx2Client(trust_env=False)
    async with openai.AsyncOpenAI(
        api_key="k", base_url=base_url, max_retries=0, http_client=http_client
    ) as client:
        yield client


async def call_both(stage: Stage, call: Callable[[OpenAI], Any]) -> tuple[Any, Any]:
    """What a call gives directly and through the proxy, from a thread of its own each."""

    def run(base_url: str) -> Any:
        with sync_client(base_url) as client:
            return call(client)

    direct = await asyncio.to_thread(run, stage.direct_url)
    return direct, await asyncio.to_thread(run, stage.proxied_url)


def plain(model: Any) -> dict[str, Any]:
    """A model of the SDK as JSON, without what differs between any two calls."""
    dumped: dict[str, Any] = model.model_dump(exclude_unset=True)
    return {name: value for name, value in dumped.items() if name not in {"id", "created"}}


def check_record(exchange: Exchange, completion: Any) -> None:
    """The record says what the SDK's whole completion says."""
    assert exchange.outcome is Outcome.COMPLETED
    fold = describe_response(chat_answer(exchange))
    assert (fold["id"], fold["model"]) == (completion.id, completion.model)
    for choice in completion.choices:
        told = fold["choices"][str(choice.index)]
        assert told.get("content") == (choice.message.content or None)
        assert told.get("refusal") == (choice.message.refusal or None)
        assert told["finish_reason"] == choice.finish_reason
        assert told.get("tool_calls", []) == [
            [call.id, call.function.name, call.function.arguments]
            for call in choice.message.tool_calls or ()
        ]
    assert len(fold["choices"]) == len(completion.choices)


def check_usage(exchange: Exchange, usage: Any) -> None:
    """The record has the counts that the provider reported."""
    assert exchange.response is not None
    assert exchange.response.usage is not None
    recorded = exchange.response.usage
    assert (recorded.prompt, recorded.completion) == (usage.prompt_tokens, usage.completion_tokens)
    assert recorded.total == usage.total_tokens


@with_requests
async def test_a_plain_call_gives_what_it_gives_directly(stage: Stage, request_name: str) -> None:
    """The same completion, and a record of it."""
    request = REQUESTS[request_name]
    direct, proxied = await call_both(stage, lambda c: c.chat.completions.create(**request))
    assert plain(proxied) == plain(direct)
    exchange = await stage.sink.wait_for()
    check_record(exchange, proxied)
    check_usage(exchange, proxied.usage)


async def test_an_asynchronous_call_gives_what_it_gives_directly(stage: Stage) -> None:
    """Also over a connection that is used again."""
    async with async_client(stage.direct_url) as client:
        direct = await client.chat.completions.create(**HELLO)
    async with async_client(stage.proxied_url) as client:
        for count in (1, 2):
            proxied = await client.chat.completions.create(**HELLO)
            assert plain(proxied) == plain(direct)
            check_record(await stage.sink.wait_for(count), proxied)


@with_requests
async def test_a_stream_has_the_chunks_that_it_has_directly(
    stage: Stage, request_name: str
) -> None:
    """The client, who asked for no usage, gets none; the record has it."""
    request = REQUESTS[request_name]

    def call(client: OpenAI) -> list[Any]:
        with client.chat.completions.create(**request, stream=True) as chunks:
            return [plain(chunk) for chunk in chunks]

    direct, proxied = await call_both(stage, call)
    assert [without_nulls(chunk) for chunk in proxied] == direct
    assert all(chunk["choices"] and chunk.get("usage") is None for chunk in proxied)
    exchange = await stage.sink.wait_for()
    assert exchange.outcome is Outcome.COMPLETED
    assert exchange.rewrites == ("stream_options.include_usage",)
    assert exchange.response is not None
    assert exchange.response.usage is not None
    assert exchange.response.usage.completion


def without_nulls(chunk: dict[str, Any]) -> dict[str, Any]:
    """A chunk without the ``usage: null`` that asking brings along.

    See ``docs/contract/wire.md#asking-for-usage``.
    """
    return {name: value for name, value in chunk.items() if (name, value) != ("usage", None)}


async def test_an_asynchronous_stream_has_its_usage_where_the_client_asks(stage: Stage) -> None:
    """The usage event is the client's own then, and nothing is changed."""
    request = HELLO | {"stream": True, "stream_options": {"include_usage": True}}
    collected = []
    for base_url in (stage.direct_url, stage.proxied_url):
        async with (
            async_client(base_url) as client,
            await client.chat.completions.create(**request) as chunks,
        ):
            collected.append([chunk async for chunk in chunks])
    direct, proxied = collected
    assert [plain(chunk) for chunk in proxied] == [plain(chunk) for chunk in direct]
    exchange = await stage.sink.wait_for()
    assert exchange.rewrites == ()
    check_usage(exchange, proxied[-1].usage)


@with_requests
async def test_the_streaming_accumulator_ends_with_the_same_completion(
    stage: Stage, request_name: str
) -> None:
    """``chat.completions.stream`` is the strictest reader of chunks that the SDK has."""
    request = REQUESTS[request_name]

    def call(client: OpenAI) -> Any:
        events = []
        try:
            with client.chat.completions.stream(**request) as stream:
                events = [event.type for event in stream]
                return events, stream.get_final_completion()
        except openai.LengthFinishReasonError as error:
            return events, error.completion

    (direct_events, direct), (events, proxied) = await call_both(stage, call)
    assert events == direct_events
    assert plain(proxied) == plain(direct)
    check_record(await stage.sink.wait_for(), proxied)


async def test_a_raw_response_has_the_same_status_fields_and_bytes(stage: Stage) -> None:
    """``with_raw_response`` shows what is on the wire, but for the ids of the two calls."""
    direct, proxied = await call_both(
        stage, lambda client: client.chat.completions.with_raw_response.create(**HELLO)
    )
    assert proxied.status_code == direct.status_code == 200
    assert [name for name, _ in proxied.headers.raw] == [name for name, _ in direct.headers.raw]
    first, second = direct.parse(), proxied.parse()
    expected = direct.content
    for was, now in ((first.id, second.id), (first.created, second.created)):
        assert str(was).encode() in expected
        expected = expected.replace(str(was).encode(), str(now).encode())
    assert proxied.content == expected
    exchange = await stage.sink.wait_for()
    assert exchange.request_id == proxied.headers["x-request-id"] == proxied.request_id


async def test_a_streamed_raw_response_has_the_same_lines(stage: Stage) -> None:
    """``with_streaming_response`` reads lines as they come."""

    def call(client: OpenAI) -> tuple[int, list[str]]:
        create = client.chat.completions.with_streaming_response.create
        with create(**HELLO, stream=True) as response:
            return response.status_code, list(response.iter_lines())

    direct, proxied = await call_both(stage, call)
    assert proxied[0] == direct[0] == 200
    assert len(proxied[1]) == len(direct[1])
    assert proxied[1][-2:] == direct[1][-2:] == ["data: [DONE]", ""]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("changes", "expected", "error_type"),
    [
        ({"model": ERROR_MODEL}, openai.RateLimitError, "429"),
        ({"model": BROKEN_MODEL}, openai.InternalServerError, "500"),
        ({"messages": []}, openai.BadRequestError, "400"),
    ],
)
async def test_an_error_is_the_same_exception(
    stage: Stage, changes: dict[str, Any], expected: type[Exception], error_type: str, stream: bool
) -> None:
    """Type, status, code, words and body; and the record is an error."""

    def call(client: OpenAI) -> openai.APIStatusError:
        with pytest.raises(expected) as raised:
            client.chat.completions.create(**(HELLO | changes), stream=stream)
        assert isinstance(raised.value, openai.APIStatusError)
        return raised.value

    direct, proxied = await call_both(stage, call)
    assert type(proxied) is type(direct)
    assert (proxied.status_code, proxied.code, proxied.body) == (
        direct.status_code,
        direct.code,
        direct.body,
    )
    assert str(proxied) == str(direct)
    exchange = await stage.sink.wait_for()
    assert exchange.outcome is Outcome.UPSTREAM_ERROR
    assert exchange.error_type == error_type
    assert exchange.error_message
    assert exchange.error_message in str(direct)


async def test_an_abandoned_stream_is_recorded_as_far_as_it_came(stage: Stage) -> None:
    """The client leaves: cancelled, partial output kept, no invented usage, no finish reason."""
    heard = ""
    async with async_client(stage.proxied_url) as client:
        request = HELLO | {"model": ENDLESS_MODEL}
        async with await client.chat.completions.create(**request, stream=True) as chunks:
            async for chunk in chunks:
                heard += chunk.choices[0].delta.content or ""
                if len(heard) > 20:
                    break
    exchange = await stage.sink.wait_for()
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
    assert exchange.error_type is None
    [choice] = chat_answer(exchange).choices
    assert (choice.message.content or "").startswith(heard)
    assert choice.finish_reason is None
    assert chat_answer(exchange).usage is None


async def test_other_endpoints_work_and_leave_no_record(stage: Stage) -> None:
    """``models.list`` goes through like everything that is no chat."""
    direct, proxied = await call_both(stage, lambda client: client.models.list())
    assert [model.id for model in proxied.data] == [model.id for model in direct.data]
    assert stage.sink.exchanges == []


async def test_a_moderation(stage: Stage) -> None:
    """The same verdict as without the proxy, and a guardrail's span."""
    direct, proxied = await call_both(
        stage, lambda client: client.moderations.create(input=["Hello", "Let us break into it"])
    )
    assert plain(proxied) == plain(direct)
    first, second = proxied.results
    assert (first.flagged, second.flagged, second.categories.illicit) == (False, True, True)
    shown = build_exchange_attributes(await stage.sink.wait_for())
    assert shown["openinference.span.kind"] == "GUARDRAIL"
    assert '"flagged_categories": ["illicit"]' in str(shown["metadata"])
    assert not [key for key in shown if key.startswith("llm.")]
