"""A browser that watches: the events on their way to it, and what it wants of them.

Rules:

1. What waits is bounded by :data:`MAX_QUEUED_BYTES`. What does not fit is dropped, counted, and
   told as ``lost`` once there is room; nobody waits for a browser.
2. Texts come to it from their beginning and without a gap: what it has is left out, and what would
   leave a gap is, too, until the text is told once more.
3. A row that has ended is told if it fits the filter. Where that cannot be known, for what a call
   says is asked, it is not; the browser finds it in the store.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from codec.text.jsontext import JsonObject
    from telemetry.finding.filter import Filter
    from telemetry.news.messages import Said
    from telemetry.store.rows import SpanSummary

MAX_QUEUED_BYTES: Final = 512 * 1024
"""A ``hello`` with all open calls has 300 KB; else some seconds of a busy proxy."""


def encode_event(name: str, data: JsonObject, seq: int | None = None) -> bytes:
    """Encode a server-sent event; `seq` becomes its id.

    JSON in ASCII has no line end, and nothing that a terminal or a browser would obey.
    """
    told_id = "" if seq is None else f"id: {seq}\n"
    return f"{told_id}event: {name}\ndata: {json.dumps(data, allow_nan=False)}\n\n".encode()


class LiveBrowser:
    """A browser, from its request to its end.

    Attributes:
        texts: the span ids of calls whose texts it wants.
        needs_texts_again: texts were dropped on their way to it.
        is_over: nothing more is told.
    """

    def __init__(self, wanted: Filter, texts: Collection[str]) -> None:
        self._wanted = wanted
        self.texts = frozenset(texts)
        self.needs_texts_again = self.is_over = False
        self._events: deque[bytes] = deque()
        self._queued_bytes = 0
        self._dropped = 0
        self._has_some = asyncio.Event()
        self._places: dict[tuple[str, int], int] = {}  # characters that it was told, by text

    def put(self, event: bytes) -> bool:
        """Queue an event; returns whether there was room (rule 1)."""
        if self._queued_bytes + len(event) > MAX_QUEUED_BYTES:
            self._dropped += 1
            return False
        self._queued_bytes += len(event)
        self._events.append(event)
        self._has_some.set()
        return True

    @property
    def has_room(self) -> bool:
        """Whether nothing waits."""
        return not self._events

    def begin(self, hello: bytes) -> None:
        """Tell what there is now: all that was told before is void, texts too."""
        self._places.clear()
        self.put(hello)

    def put_text(self, said: Said) -> None:
        """Queue what is new to this browser of a text (rule 2)."""
        if said.span_id not in self.texts:
            return
        key = said.span_id, said.part
        known = self._places.get(key, 0)
        new = said.text[known - said.at :]
        if said.at > known or not new:
            return
        data = {
            "span_id": said.span_id,
            "kind": said.kind,
            "part": said.part,
            "name": said.name,
            "at": known,
            "text": new,
        }
        if self.put(encode_event("text", data)):
            self._places[key] = known + len(new)
        else:
            self.needs_texts_again = True

    def end(self) -> None:
        """Tell nothing more."""
        self.is_over = True
        self._has_some.set()

    def fits(self, row: SpanSummary) -> bool:
        """Tell whether a row that has ended is to be told (rule 3)."""
        return not self._wanted.texts and self._wanted.matches(row)

    async def take(self, seconds: float) -> bytes:
        """Wait for events, and take all; nothing where none has come in so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._has_some.wait()
        except TimeoutError:
            return b""
        self._has_some.clear()
        taken = b"".join(self._events)
        self._events.clear()
        self._queued_bytes = 0
        if self._dropped:
            taken += encode_event("lost", {"count": self._dropped})
            self._dropped = 0
        return taken
