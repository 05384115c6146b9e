"""What a store has to send, whenever it is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from telemetry.store.store import Store

FOREVER_NS = 2**62
MANY_BYTES = 2**40


def taken(store: Store, limit_spans: int = 1000, limit_bytes: int = MANY_BYTES) -> list[str]:
    """The span ids of what is due, whenever."""
    return [span.span_id for span in store.read_due(limit_spans, limit_bytes, FOREVER_NS)]


def seqs(store: Store) -> list[int]:
    """The numbers of what is due, whenever."""
    return [span.seq for span in store.read_due(1000, MANY_BYTES, FOREVER_NS)]
