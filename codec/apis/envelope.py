"""Envelopes: requests and answers that hold those of another API.

An envelope peels the members of a request and the bytes of an answer. It does not know the API that
reads what it held, and that API does not know the envelope: the table puts them together
(:meth:`Envelope.enclose`). What came without an envelope, such as an error, passes as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from codec.budget import Budget
from codec.errors import LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codec.apis.api import Api, Stream
    from codec.apis.player import Player
    from codec.growing_text import GrowingText
    from codec.said import Said
    from codec.text.base64_text import TakenPictures
    from codec.text.jsontext import JsonObject

__all__ = ("Envelope", "OpenPeeler", "Peeler")

_LIMIT: Final = "observer_limit"


class Peeler(Protocol):
    """Peels a streamed answer: its bytes in, those of the stream that it holds out."""

    @property
    def pending_bytes(self) -> int:
        """The size of the chunk under way."""

    def feed(self, data: bytes) -> bytes:
        """Peel one read, cut anywhere.

        Raises:
            LimitExceeded: a chunk passes its limit.
        """

    def finish(self) -> bytes:
        """Peel the rest, after the last read.

        Raises:
            LimitExceeded: as :meth:`feed`.
        """


class OpenPeeler(Protocol):
    """Begins to peel a streamed answer."""

    def __call__(self, shorten: Callable[[bytes], bytes] | None) -> Peeler:
        """Begin; `shorten` is that of :class:`codec.text.sse.SseDecoder`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """An envelope.

    Attributes:
        name: of its APIs, before a dot.
        path: of its APIs, before the ends of the paths of those that it holds.
        request_member: the member of a request that holds the other API's.
        peel_request: gives the members of the request that it holds, and its own beside them.
        peel_answer: gives the body of the plain answer that it holds.
        open_peeler: begins to peel a streamed answer.
        enclose_player: makes a player that puts the answers of another into envelopes.
    """

    name: str
    path: str
    request_member: str
    peel_request: Callable[[JsonObject], JsonObject]
    peel_answer: Callable[[bytes], bytes]
    open_peeler: OpenPeeler
    enclose_player: Callable[[Player], Player]

    def enclose(self, api: Api) -> Api:
        """Make the API whose requests and answers are those of `api`, each in this envelope."""
        pictured, read_pictured, open_player = api.open_pictured, api.read_pictured, api.open_player
        return replace(
            api,
            name=f"{self.name}.{api.name.rpartition('.')[2]}",
            path_ends=tuple(self.path + end for end in api.path_ends),
            owns=None,
            peel_request=self.peel_request,
            open_stream=partial(self._open, api.open_stream),
            read_said=partial(self._read, api.read_said),
            open_pictured=None if pictured is None else partial(self._open, pictured),
            read_pictured=None if read_pictured is None else partial(self._read, read_pictured),
            open_player=None if open_player is None else partial(self._open_player, open_player),
        )

    def _open(
        self,
        opens: Callable[..., Stream],
        *,
        lend: Callable[[int], bool],
        pictures: TakenPictures | None = None,
        **others: Any,
    ) -> Stream:
        if pictures is None:
            return _PeeledStream(opens(lend=lend, **others), self.open_peeler(None), lend)
        stream = opens(lend=lend, pictures=pictures, **others)
        return _PeeledStream(stream, self.open_peeler(pictures.shorten_text), lend)

    def _read(self, read: Callable[..., Said], body: bytes, *pictures: TakenPictures) -> Said:
        return read(self.peel_answer(body), *pictures)

    def _open_player(self, opens: Callable[[], Player]) -> Player:
        return self.enclose_player(opens())


class _PeeledStream:
    """Reads a stream in envelopes by the stream of what they hold."""

    def __init__(self, stream: Stream, peeler: Peeler, lend: Callable[[int], bool]) -> None:
        self._stream = stream
        self._peeler = peeler
        self._budget = Budget(0, lend)  # of the chunk under way
        self._pending_bytes = 0
        self._is_lost = False

    @property
    def chunk_count(self) -> int:
        return self._stream.chunk_count

    @property
    def has_content(self) -> bool:
        return self._stream.has_content

    @property
    def is_complete(self) -> bool:
        return self._stream.is_complete and not (self._pending_bytes or self._is_lost)

    def feed(self, data: bytes) -> None:
        """Peel and feed one read; beyond a limit nothing more is read."""
        self._feed(lambda: self._peeler.feed(data))

    def look(self) -> Sequence[GrowingText]:
        return self._stream.look()

    def finish(self) -> Said:
        """Return the answer, after the last read."""
        self._feed(self._peeler.finish)
        said = self._stream.finish()
        if self._is_lost and _LIMIT not in said.anomalies:
            return msgspec.structs.replace(said, anomalies=(*said.anomalies, _LIMIT))
        return said

    def _feed(self, peel: Callable[[], bytes]) -> None:
        if self._is_lost:
            return
        try:
            peeled = peel()
        except LimitExceeded:
            self._is_lost = True
            return
        if peeled:
            self._stream.feed(peeled)
        pending_bytes = self._peeler.pending_bytes
        self._is_lost = not self._budget.reserve(0, pending_bytes - self._pending_bytes)
        self._pending_bytes = pending_bytes
