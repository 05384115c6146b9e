"""A browser that watches: the events that wait for it, and which events it wants.

Nobody waits for a browser. An event that does not fit into its queue is dropped and counted, and
the count is sent as ``lost`` once there is room.
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
"""The limit of a browser's queue. A ``hello`` with all open calls has 400 KB; otherwise this is
some seconds of a busy proxy."""


def encode_event(name: str, data: JsonObject, seq: int | None = None) -> bytes:
    """Encode a server-sent event; `seq` becomes its id.

    JSON in ASCII has no line end, and no control character that a terminal or a browser would obey.
    """
    event_id = "" if seq is None else f"id: {seq}\n"
    return f"{event_id}event: {name}\ndata: {json.dumps(data, allow_nan=False)}\n\n".encode()


class LiveBrowser:
    """A browser, from its request to its end.

    Attributes:
        texts: the span ids of the calls whose texts it wants.
        needs_texts_again: texts for it were dropped.
        is_over: no more events are sent.
    """

    def __init__(self, wanted: Filter, texts: Collection[str]) -> None:
        self._wanted = wanted
        self.texts = frozenset(texts)
        self.needs_texts_again = self.is_over = False
        self._events: deque[bytes] = deque()
        self._queued_bytes = 0
        self._dropped = 0
        self._has_some = asyncio.Event()
        self._places: dict[tuple[str, int], int] = {}  # how many characters of a text it has

    def put(self, event: bytes) -> bool:
        """Queue an event; return whether there was room."""
        if self._queued_bytes + len(event) > MAX_QUEUED_BYTES:
            self._dropped += 1
            return False
        self._queued_bytes += len(event)
        self._events.append(event)
        self._has_some.set()
        return True

    @property
    def has_room(self) -> bool:
        """Whether no event waits."""
        return not self._events

    def begin(self, hello: bytes) -> None:
        """Queue a ``hello``, which makes everything that was sent before void, texts too."""
        self._places.clear()
        self.put(hello)

    def put_text(self, said: Said) -> None:
        """Queue the part of a text that this browser does not have.

        A part that would leave a gap is left out, until the text comes again.
        """
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
        """Send no more events."""
        self.is_over = True
        self._has_some.set()

    def fits(self, row: SpanSummary) -> bool:
        """Tell whether a row that has ended fits the filter.

        False if the filter asks for words of the call, which are not known here. The browser finds
        the call in the store later.
        """
        return not self._wanted.texts and self._wanted.matches(row)

    async def take(self, seconds: float) -> bytes:
        """Wait for events, and take all; nothing if none came in so many seconds."""
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
