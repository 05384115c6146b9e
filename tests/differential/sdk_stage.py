"""Makes recorded calls anew by a provider's own SDK, instrumented, through the proxy."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.resources import Resource

from proxy.settings.settings import Settings
from proxy.settings.spans import SpanSettings, build_span_rules
from proxy.settings.tables import UpstreamConfig
from telemetry.conversation_position import ConversationForm
from telemetry.spans.otlp.decoding import decode_spans
from telemetry.spans.otlp.encoding import encode_span
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.value_texts import ValueForm
from tests.differential.instrumentation import instrumented_by
from tests.differential.recorded import RecordedPair
from tests.differential.stage import VECTORS_SHOWN
from tests.proxy.harness import ScriptedUpstream, running_proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.sdk.trace import ReadableSpan

    from telemetry.spans.otlp.decoding import DecodedSpan
    from tests.corpus.recordings import Recording
    from tests.proxy.harness import Connection

__all__ = ("Sdk", "run_recorded")


@dataclass(frozen=True, kw_only=True)
class Sdk:
    """An SDK, and how it makes a call that was recorded.

    Attributes:
        provider: whose it is.
        instrumentor: makes that of OpenInference.
        open_client: makes a client of a base URL; it is closed at the end.
        make: makes the call, and reads its answer to the end.
        errors: what it raises of a call that fails, and of one that it refuses to make.
    """

    provider: str
    instrumentor: Callable[[], Any]
    open_client: Callable[[str], contextlib.AbstractContextManager[Any]]
    make: Callable[[Any, Recording], None]
    errors: tuple[type[Exception], ...]


def run_recorded(sdk: Sdk, recordings: Iterable[Recording]) -> list[RecordedPair]:
    """Make each call, one after the other; one that the SDK refuses to make is left out."""
    return asyncio.run(_run(sdk, recordings))


async def _run(sdk: Sdk, recordings: Iterable[Recording]) -> list[RecordedPair]:
    player = _Player()
    settings = SpanSettings.of(
        Settings(cost=False, values=ValueForm.JSON, conversations_as=ConversationForm.OFF)
    )
    rules = build_span_rules(settings, VECTORS_SHOWN)
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), rules)
    pairs = []
    with instrumented_by(sdk.instrumentor()) as exporter:
        async with ScriptedUpstream(player) as upstream:
            table = UpstreamConfig(name="spoken-of", url=upstream.url, provider=sdk.provider)
            async with running_proxy(upstream.url, upstreams=(table,)) as proxy:
                with sdk.open_client(proxy.url) as client:
                    for recording in recordings:
                        player.recording = recording
                        asked_before = len(upstream.requests)
                        with contextlib.suppress(*sdk.errors):
                            await asyncio.to_thread(sdk.make, client, recording)
                        if len(upstream.requests) > asked_before:
                            ours = recorder.record(await proxy.sink.wait_for(seconds=20))
                            [theirs] = exporter.get_finished_spans()
                            pairs.append(
                                RecordedPair(
                                    recording=recording, theirs=_decode(theirs), ours=_decode(ours)
                                )
                            )
                        exporter.clear()
                        proxy.sink.exchanges.clear()
    return pairs


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
