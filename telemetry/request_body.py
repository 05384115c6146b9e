"""The body of a request as an observer keeps it: gathered, decoded, and given up for want of room.

Rules:

1. What its values will take is told before they are made (:mod:`codec.json_size`). A body that
   would take more than :data:`MAX_DECODED_BODY_BYTES`, or more than there is room for beside all
   others, is left out as a whole (R5).
2. A large body is not held beside its values: what is shown of it is written from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.errors import LimitExceeded, MalformedRequest
from codec.json_size import decoded_bytes
from codec.request import ChatRequest, decode_request
from telemetry.open_bodies import Holding

if TYPE_CHECKING:
    from telemetry.content_decoding import ContentDecoder
    from telemetry.open_bodies import OpenBodies

__all__ = ("MAX_DECODED_BODY_BYTES", "CapturedRequest")

MAX_DECODED_BODY_BYTES = 128 * 1024 * 1024
"""What the values of a body may take: those of any text or image that is captured, of 20 MB with
emoji among them too, of a conversation of 200,000 short messages."""

MAX_KEPT_BYTES = 4 * 1024 * 1024
"""Of a body that is held beside its values: four times the longest value that is shown whole."""


class CapturedRequest:
    """What is held of one request.

    Args:
        bodies: what all of them may take together.

    Attributes:
        body: as it came, its content coding undone; ``None`` where it was not captured, or is large
            and was decoded.
        request: what it says.
        size_bytes: how many bytes the client sent.
        is_cut: it was not captured, or given up.
    """

    def __init__(self, bodies: OpenBodies) -> None:
        self._holding = Holding(bodies, self._give_up)
        self._parts: list[bytes] = []  # while not all have come
        self.body: bytes | None = None
        self.request: ChatRequest | None = None
        self.size_bytes = 0
        self.is_cut = False

    def gather(self, part: bytes | None, size_bytes: int) -> bytes | None:
        """The body of so many bytes, once all parts of it are there; ``None`` until then."""
        self.size_bytes = size_bytes
        if part is not None and len(part) >= size_bytes:
            self.release()
            return part
        if part is None or not self._holding.take(len(part)):
            self.give_up()
            return None
        self._parts.append(part)
        if self._holding.held_bytes < size_bytes:
            return None
        # For a moment there are the parts and the whole.
        body = b"".join(self._parts) if self._holding.take(size_bytes) else None
        self._parts.clear()
        if body is None:
            self.give_up()
        return body

    def take(self, body: bytes, decoder: ContentDecoder | None) -> None:
        """Keep the whole body, decoded.

        Args:
            body: as it came.
            decoder: of its content coding, where it has one.

        Raises:
            LimitExceeded: there is no room.
            MalformedRequest: it is no JSON object; it is kept all the same.
            UndecodableContent: it is not encoded as it says.
        """
        if decoder is not None:
            body = decoder.feed(body)
            if decoder.error is not None:
                raise decoder.error
        size_bytes = decoded_bytes(body)
        if size_bytes > MAX_DECODED_BODY_BYTES or not self._holding.change(len(body) + size_bytes):
            raise LimitExceeded("MAX_DECODED_BODY_BYTES", MAX_DECODED_BODY_BYTES)
        self.is_cut = False
        self.body = body
        try:
            self.request = decode_request(body)
        except MalformedRequest:
            self._holding.change(len(body))
            raise
        if len(body) > MAX_KEPT_BYTES:
            self.body = None
            self._holding.change(size_bytes)

    def give_up(self) -> None:
        """Forget it: there is no room."""
        self._give_up()
        self._holding.release()

    def _give_up(self) -> None:
        self._parts.clear()
        self.body = self.request = None
        self.is_cut = True

    def release(self) -> None:
        """It counts as held no more."""
        self._parts.clear()
        self._holding.release()
