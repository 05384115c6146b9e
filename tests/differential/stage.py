"""Runs calls of the instrumented SDK through the proxy, and collects the two spans of each."""

from __future__ import annotations

import asyncio
import contextlib
import re
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import openai
from opentelemetry.sdk.resources import Resource

from codec.apis.chat import CHAT
from codec.apis.completions import COMPLETIONS
from codec.apis.embeddings.route import EMBEDDINGS
from codec.apis.responses.route import RESPONSES
from proxy.settings.settings import Settings
from proxy.settings.spans import SpanSettings, build_span_rules
from proxy.settings.tables import UpstreamConfig
from telemetry.conversation_position import ConversationForm
from telemetry.spans.otlp.decoding import decode_spans
from telemetry.spans.otlp.encoding import encode_span
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.value_texts import ValueForm
from tests.corpus.replay import CUTS
from tests.differential.instrumentation import instrumented_sdk
from tests.proxy.harness import ScriptedUpstream, running_proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from opentelemetry.sdk.trace import ReadableSpan

    from telemetry.spans.otlp.decoding import DecodedSpan
    from tests.differential.calls import Call
    from tests.proxy.harness import Connection, RunningProxy

    Make = Callable[[Call], Awaitable[None]]
    Cut = Callable[[bytes], list[bytes]]

__all__ = ("VECTORS_SHOWN", "Pair", "run_calls")

VECTORS_SHOWN = {"OPENINFERENCE_HIDE_EMBEDDINGS_VECTORS": "false"}
"""The instrumentation shows vectors unless told not to, the proxy only if told to."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The two spans of one call, both as OTLP carries them.

    Attributes:
        theirs: of the instrumentation in the client's process.
        ours: of the proxy.
    """

    call: Call
    theirs: DecodedSpan
    ours: DecodedSpan


def run_calls(calls: Iterable[Call]) -> list[Pair]:
    """Make each call, one after the other: by turns with both clients, in all cuts."""
    return asyncio.run(_run_calls(calls))


async def _run_calls(calls: Iterable[Call]) -> list[Pair]:
    player = _Player()
    pairs = []
    with instrumented_sdk() as exporter:
        async with (
            ScriptedUpstream(player) as upstream,
            _running_proxy(upstream.url) as proxy,
            _open_clients(f"{proxy.url}/v1", player) as clients,
        ):
            rules = build_span_rules(
                SpanSettings.of(
                    Settings(
                        upstream=upstream.url,
                        values=ValueForm.JSON,
                        conversations_as=ConversationForm.OFF,
                    )
                ),
                VECTORS_SHOWN,
            )
            recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), rules)
            turns = [*product(CUTS.values(), clients)]
            for number, call in enumerate(calls):
                cut, make = turns[number % len(turns)]
                player.begin(call, cut)
                try:
                    with contextlib.suppress(openai.OpenAIError, ValueError):  # as the spans tell
                        await make(call)
                    ours = _decode(recorder.record(await proxy.sink.wait_for(seconds=20)))
                    [theirs] = exporter.get_finished_spans()
                except Exception as error:
                    error.add_note(f"in the call {call.id!r}")
                    raise
                pairs.append(Pair(call=call, theirs=_close_hole(call, _decode(theirs)), ours=ours))
                exporter.clear()
                proxy.sink.exchanges.clear()
    return pairs


def _running_proxy(url: str) -> contextlib.AbstractAsyncContextManager[RunningProxy]:
    # The provider of a loopback address is anybody's; the settings say whose it is.
    table = UpstreamConfig(name="spoken-of", url=url, provider="openai")
    return running_proxy(url, upstreams=(table,))


def _decode(span: ReadableSpan | None) -> DecodedSpan:
    assert span is not None
    [decoded] = decode_spans(encode_span(span))
    return decoded


def _close_hole(call: Call, span: DecodedSpan) -> DecodedSpan:
    """The span with messages from 0: theirs keeps a place for instructions.

    See ``docs/contract/apis.md#responses-request``.
    """
    if call.api is not RESPONSES or call.body.get("instructions"):
        return span
    moved = {
        re.sub(r"(?<=^llm\.input_messages\.)\d+", lambda at: str(int(at[0]) - 1), key): value
        for key, value in span.attributes.items()
    }
    return replace(span, attributes=moved)


class _Player:
    """The script of the upstream: answers with what the call says.

    Attributes:
        heard: how many chunks of the answer the client has read.
    """

    def begin(self, call: Call, cut: Cut) -> None:
        self.heard = 0
        self._call = call
        self._cut = cut

    async def __call__(self, connection: Connection) -> None:
        call = self._call
        if call.answer is None:
            connection.reset()
            return
        fields = b"".join(b"%b: %b\r\n" % pair for pair in call.head)
        head = b"HTTP/1.1 %d Said\r\n%bTransfer-Encoding: chunked\r\n\r\n" % (call.status, fields)
        await connection.send(head)
        for piece in filter(None, self._cut(call.answer)):
            await connection.send_chunks(piece, end=False)
            await asyncio.sleep(0)  # for the proxy to read it
        if call.breaks_off:
            await self._wait_until_heard(call.answer.count(b"data: "))
            connection.reset()
        elif call.leaves_after is not None:
            await connection.wait_closed_by_peer()
        else:
            await connection.send_chunks()

    async def _wait_until_heard(self, count: int) -> None:
        async with asyncio.timeout(10):
            while self.heard < count:
                await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def _open_clients(base_url: str, player: _Player) -> AsyncIterator[tuple[Make, Make]]:
    """The synchronous and the asynchronous way to make a call."""
    options: dict[str, Any] = {"api_key": "k", "base_url": base_url, "max_retries": 0}
    plain = openai.DefaultHttpx2Client(trust_env=False)
    plain_async = openai.DefaultAsyncHttpx2Client(trust_env=False)
    with openai.OpenAI(**options, http_client=plain) as client:
        async with openai.AsyncOpenAI(**options, http_client=plain_async) as async_client:

            async def make(call: Call) -> None:
                await asyncio.to_thread(_make, client, call, player)

            async def make_async(call: Call) -> None:
                await _make_async(async_client, call, player)

            yield make, make_async


def _make(client: openai.OpenAI, call: Call, player: _Player) -> None:
    answer = _resource(client, call).create(**call.arguments)
    if call.streams:
        with answer as chunks:
            for _ in chunks:
                player.heard += 1
                if player.heard == call.leaves_after:
                    break


async def _make_async(client: openai.AsyncOpenAI, call: Call, player: _Player) -> None:
    answer = await _resource(client, call).create(**call.arguments)
    if call.streams:
        async with answer as chunks:
            async for _ in chunks:
                player.heard += 1
                if player.heard == call.leaves_after:
                    break


def _resource(client: openai.OpenAI | openai.AsyncOpenAI, call: Call) -> Any:
    return {
        CHAT: client.chat.completions,
        COMPLETIONS: client.completions,
        EMBEDDINGS: client.embeddings,
        RESPONSES: client.responses,
    }[call.api]
