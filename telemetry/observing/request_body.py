"""Keeps the body of a request for an observer: gathers it, decodes it, or gives it up.

The size of its values is estimated before they are made (:mod:`codec.text.json_size`). A body is
left out as a whole if it would take more than
:data:`telemetry.observing.open_bodies.MAX_DECODED_BYTES`, or more than the room that all others
leave (R5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.errors import LimitExceeded, MalformedRequest
from telemetry.observing.content_decoding import ContentDecoder, UndecodableContent
from telemetry.observing.open_bodies import MAX_DECODED_BYTES, Holding

if TYPE_CHECKING:
    from codec.apis.api import Api
    from codec.asked import Asked
    from telemetry.observing.open_bodies import OpenBodies

MAX_KEPT_BYTES = 4 * 1024 * 1024
"""The largest body that is kept beside its values: four times the longest value that is shown
whole. If a larger body is shown, the text is written from its values."""


class CapturedRequest:
    """One request, as far as it is held.

    Attributes:
        body: as it came, its content coding undone, or the fields of a form; ``None`` if it was
            not captured, or is large and was decoded.
        request: the decoded request.
        size_bytes: how many bytes the client sent.
        is_cut: it was not captured, or given up.
    """

    def __init__(self, bodies: OpenBodies, api: Api, path: str = "") -> None:
        self._api = api
        self._path = path
        self._holding = Holding(bodies, self.give_up)
        self._parts: list[bytes] = []  # while not all have come
        self.body: bytes | None = None
        self.request: Asked | None = None
        self.size_bytes = 0
        self.is_cut = False

    def gather(self, part: bytes | None, size_bytes: int, *, is_form: bool = False) -> bytes | None:
        """Gather the next part of a body of `size_bytes`; return the body once it is whole.

        The fields of a form come in one part, whatever the form's size.
        """
        self.size_bytes = size_bytes
        if part is not None and (is_form or len(part) >= size_bytes):
            self.release()
            return part
        if part is None or not self._holding.reserve(len(part)):
            self.give_up()
            return None
        self._parts.append(part)
        if self._holding.held_bytes < size_bytes:
            return None
        # For a moment there are both the parts and the whole.
        body = b"".join(self._parts) if self._holding.reserve(size_bytes) else None
        self._parts.clear()
        if body is None:
            self.give_up()
        return body

    def decode(self, body: bytes, decoder: ContentDecoder | None) -> None:
        """Decode the whole body, and keep it; `decoder` undoes its content coding, if any.

        Raises:
            LimitExceeded: there is no room.
            MalformedRequest: it is not a JSON object; it is kept all the same.
            UndecodableContent: it is not encoded as it says.
        """
        if decoder is not None:
            body = decoder.feed(body)
            # Not the decoder's error itself: what is raised refers to this frame, and so to the
            # decoder, which keeps its error.
            if isinstance(decoder.error, LimitExceeded):
                raise LimitExceeded(decoder.error.limit, decoder.error.limit_bytes)
            if decoder.error is not None:
                raise UndecodableContent(*decoder.error.args)
        size_bytes = self._holding.reserve_decoded(body)
        if size_bytes is None:
            raise LimitExceeded("MAX_DECODED_BYTES", MAX_DECODED_BYTES)
        self.is_cut = False
        self.body = body
        try:
            self.request = self._api.decode_asked(body, self._path)
        except MalformedRequest:
            over_bytes = max(0, len(body) - MAX_KEPT_BYTES)
            self._holding.give_back(size_bytes + over_bytes)
            if over_bytes:  # only long texts are cut, to more than is shown of them
                self.body = body[:MAX_KEPT_BYTES]
                self.is_cut = True
            raise
        if len(body) > MAX_KEPT_BYTES:
            self.body = None
            self._holding.give_back(len(body))

    @property
    def held_bytes(self) -> int:
        """The room that the request takes now, in bytes."""
        return self._holding.held_bytes

    def give_up(self) -> None:
        """Forget the request: there is no room."""
        self.forget()
        self.is_cut = True

    def forget(self) -> None:
        """Forget the request."""
        self.release()
        self.body = self.request = None

    def release(self) -> None:
        """Give back the room that it takes."""
        self._parts.clear()
        self._holding.release()

    def close(self) -> None:
        """Forget the request, for good."""
        self.forget()
        self._holding.close()
