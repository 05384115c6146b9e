"""News as lines of JSON, and what a watcher sends to get them.

It is light to import, because a process that watches observes nothing.

A watcher first sends what it wants (:class:`Watch`), and may send it again. The first line that it
gets is :class:`Hello`, or the reason why it gets nothing (:class:`Refused`). The news have nothing
that a span would hide.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from telemetry.facts import NO_COLUMNS, CallColumns
from telemetry.observing.open_call import OpenCall
from telemetry.store.rows import SpanStatus

MAX_ASKED_TEXTS: Final = 64
"""Calls whose texts one watcher gets: eight for each of eight browsers."""

MAX_HELLO_CALLS: Final = 300
"""Open calls in a :class:`Hello`: more than a list shows, and 400 KB at most."""


class Watch(msgspec.Struct, frozen=True, kw_only=True, tag="watch"):
    """A watcher says what it wants.

    Attributes:
        version: the watcher's version of spantap.
        texts: the span ids of open calls whose texts are wanted.
        again: which of them are wanted from the beginning once more.
    """

    version: str
    texts: tuple[str, ...] = ()
    again: tuple[str, ...] = ()


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """A watcher gets no news, and why: ``version``, or ``watchers`` if there are enough."""

    reason: str


class Opened(msgspec.Struct, frozen=True, kw_only=True, tag="open"):
    """A call is under way.

    Attributes:
        chars: of the texts so far; ``None`` while no stream has begun.
        first_ns: when the first chunk came, since the epoch.
    """

    call: OpenCall
    chars: int | None = None
    first_ns: int | None = None

    def advance(self, progress: Progress) -> Opened:
        """Return the call as it is after this progress."""
        call = replace(
            self.call,
            model=progress.model,
            what=progress.what,
            http_status=progress.http_status,
            chunks=progress.chunks,
        )
        return Opened(call=call, chars=progress.chars, first_ns=progress.first_ns)


class ProxyPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where clients on this machine reach the proxy.

    Attributes:
        url: of its traffic port, without a final slash; empty if that is not known.
        asks_for_key: it accepts calls only with one of its inbound keys.
    """

    url: str = ""
    asks_for_key: bool = False


class Numbers(msgspec.Struct, frozen=True, kw_only=True, tag="numbers"):
    """Numbers of the whole proxy; sent when one has changed.

    Attributes:
        dropped: spans that were given up or lost since the proxy began.
        web_sockets: how many WebSockets are open, observed or not.
    """

    dropped: int = 0
    web_sockets: int = 0


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """What there is when somebody begins to watch.

    Attributes:
        seq: no span in the store has a greater number.
        live_text: whether texts are sent to a watcher that asks for them.
        open: the calls that are under way; if there are too many, those that began last.
        numbers: of the whole proxy.
        proxy: where clients reach the proxy.
    """

    seq: int
    live_text: bool
    numbers: Numbers = Numbers()
    proxy: ProxyPlace = ProxyPlace()
    open: tuple[Opened, ...] = ()


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """More of an open call has come; members as in :class:`Opened`."""

    span_id: str
    model: str | None
    http_status: int | None
    chunks: int
    chars: int | None
    first_ns: int | None
    what: str | None = None


class Said(msgspec.Struct, frozen=True, kw_only=True, tag="text"):
    """More of a text of an open call.

    Attributes:
        kind: see :class:`codec.growing_text.TextKind`.
        part: the number of the text among those of the call.
        name: of the tool, if the text is the arguments of a tool call.
        at: how many characters of it were sent before; at 0 it begins, perhaps once more.
    """

    span_id: str
    kind: str
    part: int
    name: str | None
    at: int
    text: str


class EndedCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The row of a call, as the store will have it; see :class:`telemetry.store.rows.SpanRow`."""

    span_id: str
    trace_id: str
    name: str
    start_ns: int
    end_ns: int
    model: str | None
    status: SpanStatus
    outcome: str
    prompt_tokens: int | None
    completion_tokens: int | None
    total_tokens: int | None
    launch: str | None
    recorded_ns: int
    size_bytes: int
    columns: CallColumns = NO_COLUMNS


class Ended(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="end"):
    """A call is no longer open; `call` is ``None`` if it has no row."""

    span_id: str
    call: EndedCall | None


class Recorded(msgspec.Struct, frozen=True, kw_only=True, tag="recorded"):
    """Spans were committed: the newest number, and the conversations that have changed.

    Attributes:
        conversations: their numbers; ``None`` if too many changed to be named.
    """

    seq: int
    conversations: tuple[int, ...] | None = ()


class Lost(msgspec.Struct, frozen=True, kw_only=True, tag="lost"):
    """The number of news that did not reach the watcher, because it reads too slowly."""

    count: int


News = Hello | Refused | Opened | Progress | Said | Ended | Recorded | Numbers | Lost

_encoder = msgspec.json.Encoder()
_news_decoder: msgspec.json.Decoder[News] = msgspec.json.Decoder(News)
_watch_decoder = msgspec.json.Decoder(Watch)


def encode_line(message: News | Watch) -> bytes:
    """Encode a message, with its line end."""
    return _encoder.encode(message) + b"\n"


def decode_news(line: bytes) -> News | None:
    """Decode a line of news; ``None`` for any other line."""
    try:
        return _news_decoder.decode(line)
    except ValueError:
        return None


def decode_watch(line: bytes) -> Watch | None:
    """Decode a line from a watcher; ``None`` for any other line."""
    try:
        return _watch_decoder.decode(line)
    except ValueError:
        return None
