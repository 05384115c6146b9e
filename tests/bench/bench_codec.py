"""What folding a stream costs, beside parsing it and beside the openai SDK (``make benchcodec``).

Goals, in times of a plain parse of the same chunks by msgspec, framing included for ours: the fold
2, typed chunks and events 10; and the fold 20 times faster than the SDK's accumulation. Nothing is
asserted: machines differ and are shared. Each figure is the best of several rounds.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from codec.chat.stream import ChatStream
from codec.events.stream import ChatEventStream
from codec.text.sse import SseDecoder
from codec.wire.chunks import decode_chunk
from tests.bench.streams import CHUNKS, STREAMS, events_of, payloads_of, reads_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_parse = msgspec.json.Decoder().decode
_best_us: dict[tuple[str, str], float] = {}


def _fold(reads: list[bytes]) -> None:
    stream = ChatStream()
    for read in reads:
        stream.feed(read)
    stream.finish()


def _type_chunks(reads: list[bytes]) -> None:
    decoder = SseDecoder()
    for read in reads:
        for event in decoder.feed(read):
            for choice in decode_chunk(event.data or b"").choices:
                _ = choice.delta.content if choice.delta else None


def _tell_events(reads: list[bytes]) -> None:
    stream = ChatEventStream()
    for read in reads:
        stream.feed_bytes(read)
    stream.finish()


def _tell_chunk_events(payloads: list[bytes]) -> None:
    stream = ChatEventStream()
    for payload in payloads:
        stream.feed(_parse(payload))
    stream.finish()


def _accumulate_by_sdk(payloads: list[bytes]) -> None:
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for payload in payloads:
        state.handle_chunk(ChatCompletionChunk.construct(**json.loads(payload)))  # noqa: TID251 - as the SDK does


_WAYS: dict[str, tuple[Callable[[str], list[bytes]], Callable[[list[bytes]], Any]]] = {
    "plain parse": (payloads_of, lambda payloads: [_parse(payload) for payload in payloads]),
    "fold, an event a read": (events_of, _fold),
    "fold, large reads": (reads_of, _fold),
    "typed chunks from bytes": (events_of, _type_chunks),
    "events from chunks": (payloads_of, _tell_chunk_events),
    "events from bytes": (events_of, _tell_events),
    "openai SDK": (payloads_of, _accumulate_by_sdk),
}


@pytest.fixture(scope="module", autouse=True)
def _print_ratios() -> Iterator[None]:
    yield
    print(f"\n\n{'us per chunk (times the plain parse)':40}" + "".join(f"{s:>18}" for s in STREAMS))
    for way in _WAYS:
        cells = []
        for stream in STREAMS:
            best, parse = _best_us.get((way, stream)), _best_us.get(("plain parse", stream))
            cells.append(f"{best:.2f} ({best / parse:.1f})" if best and parse else "-")
        print(f"{way:40}" + "".join(f"{cell:>18}" for cell in cells))


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("way", _WAYS)
def test_cost_of_a_chunk(benchmark: Any, way: str, stream: str) -> None:
    """How long each way takes for each stream of 2,000 chunks."""
    prepare, run = _WAYS[way]
    data = prepare(stream)
    rounds = 1 if way == "openai SDK" else 15
    benchmark.pedantic(run, args=(data,), rounds=rounds, warmup_rounds=min(rounds - 1, 1))
    _best_us[way, stream] = benchmark.stats.stats.min / CHUNKS * 1e6
