"""The tap: copies what the relay sees into frames, stamped at the read.

Rules:

1. Memory only: nothing here waits, and no method raises. A sink that fails is not called again
   for this exchange, and the relay does not notice (R2).
2. Exactly one ``begin`` and one ``end`` per tap (R3); :meth:`Tap.end` may be called twice.
3. A body with status >= 400 is copied at its end, decoded, without the request's credentials (R7):
   see :mod:`proxy.error_body`.
4. Past a limit, which a setting gives, the rest of an answer is left out and counted (R5).
"""

from __future__ import annotations

import functools
import itertools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from proxy.credentials import find_credentials
from proxy.error_body import ErrorBody
from proxy.limits import MAX_ANSWER_BYTES
from proxy.logs import limit_lines
from telemetry.client_context import looks_like_credential
from telemetry.exchange import EndKind
from telemetry.frames import (
    RECORDED_REQUEST_HEADERS,
    RECORDED_RESPONSE_HEADERS,
    RECORDED_RESPONSE_PREFIXES,
    Begin,
    End,
    Frame,
    RequestBody,
    ResponseData,
    ResponseHead,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.clock import Clock
    from proxy.downstream import Downstream
    from proxy.headers import Head, RawHeaders
    from proxy.routes import Upstream
    from proxy.upstream_response import UpstreamResponse
    from telemetry.client_context import HeaderMap
    from telemetry.identity import SpanIdentity
    from telemetry.rate_limit import RateLimit

__all__ = ("MAX_ANSWER_BYTES", "FrameSink", "RecordedHeaders", "Tap", "TapSource")

_log = logging.getLogger("spantap.tap")


class FrameSink(Protocol):
    """Where frames go: never blocks."""

    def emit(self, frame: Frame) -> None:
        """Take one frame."""
        ...


# Clients choose names within the prefixes: the cache is bounded, and as large as its default.
_names_credential = functools.lru_cache(looks_like_credential)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedHeaders:
    """Which request headers are copied.

    Attributes:
        names: in lower case.
        prefixes: beginnings of the names of further ones.
    """

    names: frozenset[bytes] = RECORDED_REQUEST_HEADERS
    prefixes: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, headers: HeaderMap) -> RecordedHeaders:
        """What an observer needs, and what the map wants."""
        return cls(names=RECORDED_REQUEST_HEADERS | headers.names, prefixes=headers.name_prefixes)

    def select(self, head: Head) -> tuple[tuple[str, str], ...]:
        """Them, of a head; a prefix names no credential (R7)."""
        selected = head.select(self.names, self.prefixes)
        return tuple(header for header in selected if not _names_credential(header[0]))


class Tap:
    """The frames of one exchange."""

    def __init__(
        self,
        sink: FrameSink | None,
        clock: Clock,
        number: int,
        headers: RecordedHeaders,
        *,
        defects: RateLimit,
        max_body_bytes: int,
    ) -> None:
        self._defects = defects
        self._max_body_bytes = max_body_bytes
        self._sink = sink
        self._headers = headers
        self._clock = clock
        self._number = number
        self._epoch_ns = clock.wall_ns() - clock.monotonic_ns()
        self._tapped_bytes = 0
        self._shed_bytes = 0
        self._undelivered_reads = 0
        self._asked: tuple[RawHeaders, str] = ((), "")
        self._held: Mapping[bytes, tuple[bytes, bytes]] = {}
        self._error: ErrorBody | None = None

    def _now_ns(self) -> int:
        # One wall reading per exchange: its times never run backwards when the wall clock jumps.
        return self._epoch_ns + self._clock.monotonic_ns()

    def _emit(self, frame: Frame) -> None:
        if self._sink is None:
            return
        try:
            self._sink.emit(frame)
        except Exception:  # noqa: BLE001 - rule 1, whatever it is
            self._sink = None
            if self._defects.admit() is not None:
                _log.exception("the tap failed: exchange %d is no longer observed", self._number)

    def begin(
        self,
        downstream: Downstream,
        upstream: Upstream,
        identity: SpanIdentity,
        *,
        endpoint: str,
        on_disconnect: str,
    ) -> None:
        """The request's head was read."""
        self._asked = (downstream.headers, downstream.target)
        self._held = upstream.credentials
        self._emit(
            Begin(
                exchange=self._number,
                at_ns=self._now_ns(),
                identity=identity,
                endpoint=endpoint,
                method=downstream.method,
                path=downstream.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
                headers=self._headers.select(downstream.headers),
                upstream=upstream.name,
                provider=upstream.provider,
                server_address=upstream.origin.host,
                server_port=upstream.origin.port,
                on_disconnect=on_disconnect,
            )
        )

    def request_body(self, data: bytes | None, size_bytes: int) -> None:
        """The client's body as sent; ``None`` where it passed the limit."""
        self._emit(RequestBody(exchange=self._number, data=data, size_bytes=size_bytes))

    def response_head(
        self,
        response: UpstreamResponse,
        *,
        resend_count: int,
        rewrites: tuple[str, ...],
        hides_usage: bool,
        usage_event_not_stripped: bool,
    ) -> None:
        """The head of the answer that the client gets."""
        recorded = RECORDED_RESPONSE_HEADERS
        if response.status >= 400 and (credentials := self._find_credentials()):
            encoding = response.headers.join(b"content-encoding") or b""
            self._error = ErrorBody(credentials, encoding.decode("latin-1"))
            recorded -= {b"content-encoding"}
        self._emit(
            ResponseHead(
                exchange=self._number,
                at_ns=self._now_ns(),
                status=response.status,
                headers=response.headers.select(recorded, RECORDED_RESPONSE_PREFIXES),
                resend_count=resend_count,
                rewrites=rewrites,
                hides_usage=hides_usage,
                usage_event_not_stripped=usage_event_not_stripped,
            )
        )

    def _find_credentials(self) -> tuple[bytes, ...]:
        """Those of the request, the client's and ours."""
        headers, target = self._asked
        return find_credentials((*headers, *self._held.values()), target)

    def response_data(self, data: bytes) -> None:
        """One read of the body, before anything is done with it."""
        self._undelivered_reads += 1
        self._tapped_bytes += len(data)
        if self._tapped_bytes > self._max_body_bytes:
            self._shed_bytes += len(data)
            return
        if self._error is not None:
            self._error.feed(data)
            return
        self._emit(ResponseData(self._number, self._now_ns(), data))

    def delivered(self) -> None:
        """Every read so far is on its way to the client."""
        self._undelivered_reads = 0

    def end(self, kind: EndKind, message: str = "") -> None:
        """The exchange is over."""
        if self._error is not None:
            is_whole = kind is EndKind.UPSTREAM_EOF and not self._shed_bytes
            text, left_out_bytes = self._error.finish(is_whole=is_whole)
            self._shed_bytes += left_out_bytes
            if text:
                self._emit(ResponseData(self._number, self._now_ns(), text))
        self._emit(
            End(
                exchange=self._number,
                at_ns=self._now_ns(),
                kind=kind,
                message=message,
                undelivered_reads=self._undelivered_reads,
                shed_bytes=self._shed_bytes,
            )
        )
        self._sink = None


class TapSource:
    """Hands out taps; one per worker.

    Args:
        sink: where frames go.
        clock: the worker's.
        headers: which request headers are copied.
        max_body_bytes: of one answer's body, copied.
    """

    def __init__(
        self,
        sink: FrameSink,
        clock: Clock,
        headers: RecordedHeaders | None = None,
        *,
        max_body_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self._defects = limit_lines(clock)
        self._max_body_bytes = max_body_bytes
        self._sink = sink
        self._clock = clock
        self._headers = headers or RecordedHeaders()
        self._numbers = itertools.count(1)

    def open(self, *, observed: bool) -> Tap:
        """A tap for a new exchange; one that is not observed emits nothing."""
        sink = self._sink if observed else None
        return Tap(
            sink,
            self._clock,
            next(self._numbers),
            self._headers,
            defects=self._defects,
            max_body_bytes=self._max_body_bytes,
        )
