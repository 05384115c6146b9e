"""The codec's hot paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.rewrite import UsagePolicy, rewrite_request
from codec.scan import scan_request
from codec.stream import ChatStream
from codec.usage_filter import UsageFilter
from tests.cost.hot_path import HotPath
from tests.cost.traffic import in_reads, request_body, stream

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ("codec_paths", "filter_paths")

_CHUNKS = 200

_REQUESTS = 10
"""At once: so many that the interpreter warms up to them."""


def codec_paths() -> list[HotPath]:
    """Them; each with its input made."""
    body = request_body(streams=True, messages=20)
    events = stream(_CHUNKS)
    reads = in_reads(events)
    return [
        HotPath(
            name="codec: request of 20 messages",
            prepare=lambda: lambda: _rewrite(body),
            units=_REQUESTS,
        ),
        *filter_paths(),
        HotPath(
            name="codec: read of one chunk folded",
            prepare=lambda: lambda: _fold(events),
            units=_CHUNKS,
        ),
        HotPath(
            name="codec: chunk of a large read folded",
            prepare=lambda: lambda: _fold(reads),
            units=_CHUNKS,
        ),
    ]


def filter_paths() -> list[HotPath]:
    """Those of the usage filter."""
    events = stream(_CHUNKS)
    reads = in_reads(events)
    return [
        HotPath(
            name="codec: read of one event filtered",
            prepare=lambda: lambda: _filter(events),
            units=len(events),
        ),
        HotPath(
            name="codec: large read filtered",
            prepare=lambda: lambda: _filter(reads),
            units=len(reads),
        ),
    ]


def _rewrite(body: bytes) -> None:
    for _ in range(_REQUESTS):
        rewrite_request(body, scan_request(body), UsagePolicy.ALWAYS)


def _filter(reads: Sequence[bytes]) -> None:
    usage_filter = UsageFilter()
    for read in reads:
        usage_filter.feed(read)
    usage_filter.finish()


def _fold(reads: Sequence[bytes]) -> None:
    chat = ChatStream()
    for read in reads:
        chat.feed(read)
    chat.finish()
