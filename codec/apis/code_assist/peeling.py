r"""Peels the requests and answers of Code Assist.

The envelope's own members stay beside those of Gemini's request or answer, which win. An answer's
``traceId`` becomes Gemini's ``responseId``, as in gemini-cli.

>>> peel_answer(b'{"response": {"candidates": []}, "traceId": "t-1"}')
b'{"candidates":[],"responseId":"t-1"}'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from codec.apis.google_framing import ChunkDecoder, split_values
from codec.text.jsontext import split_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.apis.envelope import Peeler
    from codec.text.jsontext import JsonObject
    from codec.text.sse import ServerSentEvent

__all__ = ("REQUEST", "ChunkPeeler", "peel_answer", "peel_request")

REQUEST: Final = "request"

_CONTENT: Final = frozenset(
    {
        *("contents", "systemInstruction", "system_instruction"),
        *("tools", "toolConfig", "tool_config"),
    }
)

_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")
"""Between tokens of JSON all spaces are the same, and in its strings no line ends can be."""

_EVENT_END: Final = b"\r\n\r\n"


def peel_request(body: JsonObject) -> JsonObject:
    """Give the members of the request in a body, and those beside it.

    What the request has, too, is below ``extra_body``, because it may be a credential; but no
    content, and no tools.
    """
    request = body.get(REQUEST)
    if not isinstance(request, dict):
        return body
    beside = {name: value for name, value in body.items() if name != REQUEST}
    doubled = {name: beside[name] for name in (beside.keys() & request.keys()) - _CONTENT}
    return {**beside, **request, **({"extra_body": doubled} if doubled else {})}


def peel_answer(body: bytes) -> bytes:
    """Give the answer in a body, or in a chunk; a body without one is given as it is."""
    try:
        beside = split_object(body)
        members = split_object(beside.pop("response"))
    except (KeyError, ValueError):
        return body
    trace = beside.pop("traceId", msgspec.Raw(b"null"))
    peeled = {**beside, **members}
    if bytes(trace) != b"null":
        peeled["responseId"] = trace
    return msgspec.json.encode(peeled)


class ChunkPeeler:
    """Peels a stream, in any of Google's framings: a :class:`codec.apis.envelope.Peeler`.

    Args:
        shorten: shortens a piece of a large chunk (:class:`codec.text.sse.SseDecoder`).
    """

    __slots__ = ("_decoder", "_in_array", "_is_closed")

    def __init__(self, shorten: Callable[[bytes], bytes] | None) -> None:
        self._decoder = ChunkDecoder(shorten)
        self._in_array = self._is_closed = False

    @property
    def pending_bytes(self) -> int:
        """The size of the chunk under way."""
        return self._decoder.pending_bytes

    def feed(self, data: bytes) -> bytes:
        """Peel one read, cut anywhere.

        Raises:
            LimitExceeded: a chunk passes its limit.
        """
        decoder = self._decoder
        chunks = [self._write(decoder.read(raw), raw) for raw in decoder.split(data)]
        if decoder.has_end and not self._is_closed:
            self._is_closed = True
            chunks.append(self._open_array() + b"]")
        return b"".join(chunks)

    def finish(self) -> bytes:
        """Peel the rest, after the last read.

        Raises:
            LimitExceeded: as :meth:`feed`.
        """
        rest = self._decoder.finish()
        return b"" if rest is None else self._write(rest, rest.raw, end=b"")

    def _write(self, event: ServerSentEvent | None, raw: bytes, end: bytes = _EVENT_END) -> bytes:
        """Write a chunk in the framing that it came in."""
        if event is None or not event.data:
            return raw
        if event.raw is event.data:  # JSON
            return self._open_array() + peel_answer(event.data) + b"\n"
        values = split_values(event.data)
        peeled = [peel_answer(value) for value in values]
        if peeled == values:
            return raw
        lines = (b"data: " + value.translate(_LINE_ENDS) for value in peeled)
        return b"\r\n".join(lines) + end

    def _open_array(self) -> bytes:
        """Begin the array, if it is one, before its first value."""
        is_array = self._decoder.is_open or self._decoder.has_end
        if self._in_array or not is_array:
            return b""
        self._in_array = True
        return b"["


if TYPE_CHECKING:
    _IS_ONE: type[Peeler] = ChunkPeeler
