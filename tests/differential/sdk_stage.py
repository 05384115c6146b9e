"""Runs calls of the instrumented anthropic SDK through the proxy: the two spans of each."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anthropic
from openinference.instrumentation import TraceConfig
from openinference.instrumentation.anthropic import AnthropicInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from proxy.settings.settings import UpstreamConfig
from telemetry.spans.otlp.encoding import decode_spans, encode_span
from telemetry.spans.recorder import MAX_SPAN_ATTRIBUTES, SpanRecorder, build_span_limits
from tests.corpus.oracle import parse_json
from tests.proxy.harness import ScriptedUpstream, running_proxy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opentelemetry.sdk.trace import ReadableSpan

    from telemetry.spans.otlp.encoding import DecodedSpan
    from tests.corpus.recordings import Recording
    from tests.proxy.harness import Connection

__all__ = ("MessagePair", "run_message_calls")

_PARAMETERS = frozenset(inspect.signature(anthropic.resources.Messages.create).parameters)


@dataclass(frozen=True, kw_only=True)
class MessagePair:
    """The two spans of one call, both as OTLP carries them.

    Attributes:
        asked: the request's body.
        theirs: of the instrumentation in the client's process.
        ours: of the proxy.
    """

    id: str
    asked: dict[str, Any]
    theirs: DecodedSpan
    ours: DecodedSpan


def run_message_calls(recordings: Iterable[Recording]) -> list[MessagePair]:
    """Make each call, one after the other."""
    return asyncio.run(_run(recordings))


async def _run(recordings: Iterable[Recording]) -> list[MessagePair]:
    player = _Player()
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits())
    pairs = []
    with _instrumented_sdk() as exporter:
        async with ScriptedUpstream(player) as upstream:
            table = UpstreamConfig(name="spoken-of", url=upstream.url, provider="anthropic")
            async with running_proxy(upstream.url, upstreams=(table,)) as proxy:
                with _open_client(proxy.url) as client:
                    for recording in recordings:
                        player.recording = recording
                        asked = parse_json(recording.request)
                        with contextlib.suppress(anthropic.AnthropicError, ValueError):
                            await asyncio.to_thread(_make, client, asked)
                        ours = recorder.record(await proxy.sink.wait_for(seconds=20))
                        [theirs] = exporter.get_finished_spans()
                        pair = MessagePair(
                            id=recording.id, asked=asked, theirs=_decode(theirs), ours=_decode(ours)
                        )
                        pairs.append(pair)
                        exporter.clear()
                        proxy.sink.exchanges.clear()
    return pairs


def _open_client(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        api_key="k",
        base_url=url,
        max_retries=0,
        http_client=anthropic.DefaultHttpxClient(trust_env=False),
    )


def _make(client: anthropic.Anthropic, asked: dict[str, Any]) -> None:
    known = {name: value for name, value in asked.items() if name in _PARAMETERS}
    extra = {name: value for name, value in asked.items() if name not in _PARAMETERS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of models that are no more
        _call(client, known, extra)


def _call(client: anthropic.Anthropic, known: dict[str, Any], extra: dict[str, Any]) -> None:
    answer: Any = client.messages.create(**known, extra_body=extra or None, timeout=60)
    if known.get("stream"):
        for _ in answer:
            pass


def _decode(span: ReadableSpan | None) -> DecodedSpan:
    assert span is not None
    [decoded] = decode_spans(encode_span(span))
    return decoded


class _Player:
    """The script of the upstream: answers with the recording."""

    recording: Recording

    async def __call__(self, connection: Connection) -> None:
        recording = self.recording
        fields = b"".join(b"%b: %b\r\n" % pair for pair in recording.head)
        head = b"HTTP/1.1 %d Said\r\n%bTransfer-Encoding: chunked\r\n\r\n"
        await connection.send(head % (recording.status, fields))
        if recording.body:
            await connection.send_chunks(recording.body, end=False)
        await connection.send_chunks()


@contextlib.contextmanager
def _instrumented_sdk() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(
        sampler=ALWAYS_ON,
        span_limits=SpanLimits(max_span_attributes=MAX_SPAN_ATTRIBUTES),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = AnthropicInstrumentor()
    instrumentor.instrument(tracer_provider=provider, config=TraceConfig())
    try:
        yield exporter
    finally:
        instrumentor.uninstrument()
        provider.shutdown()
