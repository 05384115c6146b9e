"""The spans whose calls were followed lately: frames may come again after a kill (R8)."""

from __future__ import annotations

from collections import deque
from typing import Final

MAX_KNOWN_SPANS: Final = 10_000
"""Spans that are known again, at some 150 bytes each. What comes again is what was recorded and not
yet acknowledged, less than a second's calls; and the calls of a segment of the spool that was not
read to its end, some 10,000 small ones."""


class SeenSpans:
    """The newest span ids, up to :data:`MAX_KNOWN_SPANS`."""

    def __init__(self) -> None:
        self._order: deque[str] = deque()
        self._known: set[str] = set()

    def note(self, *span_ids: str) -> bool:
        """Note spans; true if none of them was known."""
        are_new = True
        for span_id in span_ids:
            if span_id in self._known:
                are_new = False
                continue
            self._known.add(span_id)
            self._order.append(span_id)
            if len(self._order) > MAX_KNOWN_SPANS:
                self._known.discard(self._order.popleft())
        return are_new
