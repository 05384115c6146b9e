"""The tap: copies what the relay sees into frames, stamped at the read.

Promises to the relay and to telemetry:

1. Memory only: nothing here waits, and no method raises. A sink that fails is not called again
   for this exchange, and the relay does not notice (R2).
2. Each tap emits exactly one ``begin`` and one ``end`` (R3); :meth:`Tap.end` may be called twice.
3. What may be a credential is encrypted. In a body with status >= 400, a credential that is whole
   within one read is masked at the speed of a copy, because frames may wait on a disk. If the head
   takes more than a millisecond to search, no error's body is copied. Telemetry finds everything
   else that a provider quotes, whatever its form (R7).
4. Past a limit, which a setting gives, the rest of an answer is left out and counted (R5). At most
   :data:`~telemetry.frames.frame.MAX_ERROR_BYTES` of an error are copied, or fewer if many values
   are to be masked in it (:data:`MAX_MASKED_BYTES`).
"""

from __future__ import annotations

import functools
import itertools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from codec.text.jsontext import encode_json
from proxy.headers import MAX_SHAPES
from proxy.limits import MAX_ANSWER_BYTES
from proxy.logging.logs import limit_lines
from proxy.relay.credentials import gather_fields
from telemetry.frames.frame import (
    MAX_ERROR_BYTES,
    RECORDED_REQUEST_HEADERS,
    RECORDED_RESPONSE_HEADERS,
    RECORDED_RESPONSE_PREFIXES,
    Begin,
    End,
    Frame,
    RequestBody,
    ResponseData,
    ResponseHead,
    SocketData,
)
from telemetry.frames.kept import OBJECT_BYTES, frame_bytes
from telemetry.observing.encryption import OWN_CIPHER
from telemetry.privacy.credential_names import leave_out_credentials, looks_like_credential
from telemetry.privacy.head_credentials import find_head_credentials, read_fields
from telemetry.privacy.json_strings import REDACTED

if TYPE_CHECKING:
    from codec.text.blocks import Blocks
    from codec.text.multipart import Form
    from proxy.clock import Clock
    from proxy.downstream.downstream import Downstream
    from proxy.headers import Head, Shape
    from proxy.upstream.response import UpstreamResponse
    from proxy.upstream.routes import Upstream
    from telemetry.frames.ending import EndKind
    from telemetry.observing.client_context import HeaderMap
    from telemetry.observing.encryption import Cipher
    from telemetry.observing.heads import AllowedFields
    from telemetry.span_identity import SpanIdentity

_log = logging.getLogger("spantap.tap")

_MASK = REDACTED.encode()

MAX_MASKED_BYTES = 4 * MAX_ERROR_BYTES
"""The limit of an error's bytes times the values that are masked in it: half a millisecond for
hostile text. Most heads have two values, a key with its scheme and without it."""


class ExchangeSink(Protocol):
    """A sink for the frames of one exchange; it never blocks."""

    def add(self, frame: Frame, size_bytes: int) -> None:
        """Add the next frame; its size is that of :func:`telemetry.frames.kept.frame_bytes`."""
        ...


class FrameSink(Protocol):
    """A sink for frames."""

    def open_exchange(self, number: int) -> ExchangeSink:
        """Open a sink for the frames of a new exchange."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedHeaders:
    """The headers that are copied.

    Attributes:
        names: those of a request, in lower case.
        prefixes: beginnings of the names of further ones.
        names_answered: those of an answer.
        prefixes_answered: beginnings of the names of further ones.
    """

    names: frozenset[bytes] = RECORDED_REQUEST_HEADERS
    prefixes: tuple[bytes, ...] = ()
    names_answered: frozenset[bytes] = RECORDED_RESPONSE_HEADERS
    prefixes_answered: tuple[bytes, ...] = RECORDED_RESPONSE_PREFIXES

    @classmethod
    def of(cls, headers: HeaderMap, heads: AllowedFields) -> RecordedHeaders:
        """Record the headers that an observer needs, those of the map, and those that are shown."""
        return cls(
            names=RECORDED_REQUEST_HEADERS | headers.names | heads.names_asked,
            prefixes=headers.name_prefixes,
            names_answered=RECORDED_RESPONSE_HEADERS | heads.names_answered,
            prefixes_answered=(*RECORDED_RESPONSE_PREFIXES, *heads.prefixes_answered),
        )

    def select(self, head: Head) -> tuple[tuple[str, str], ...]:
        """Select the headers of a request; a prefix never selects a credential (R7)."""
        selected = head.select(self.names, self.prefixes)
        if not _select_credential(head.shape, self.names, self.prefixes):
            return selected
        return tuple(header for header in selected if not looks_like_credential(header[0]))

    def select_answered(self, head: Head) -> tuple[tuple[str, str], ...]:
        """Select the headers of an answer."""
        return head.select(self.names_answered, self.prefixes_answered)


@functools.lru_cache(MAX_SHAPES)
def _select_credential(shape: Shape, names: frozenset[bytes], prefixes: tuple[bytes, ...]) -> bool:
    """Tell whether names and prefixes select a credential, by its name, in such a head."""
    return any(
        looks_like_credential(name.decode("latin-1"))
        for name in shape.names
        if name in names or name.startswith(prefixes)
    )


class Tap:
    """The frames of one exchange."""

    __slots__ = (
        "_epoch_ns",
        "_error",
        "_error_room_bytes",
        "_fields",
        "_left_bytes",
        "_monotonic_ns",
        "_number",
        "_shed_bytes",
        "_sink",
        "_source",
        "_undelivered_reads",
    )

    def __init__(self, source: TapSource, number: int, sink: FrameSink | None) -> None:
        clock = source.clock
        self._source = source
        self._number = number
        self._sink: ExchangeSink | None = None
        if sink is not None:
            try:
                self._sink = sink.open_exchange(number)
            except Exception:  # noqa: BLE001 - rule 1, whatever it is
                self._give_up()
        self._monotonic_ns = monotonic_ns = clock.monotonic_ns
        # The wall clock is read once: times never run backwards when it jumps.
        self._epoch_ns = clock.wall_ns() - monotonic_ns()
        self._left_bytes = source.max_body_bytes
        self._shed_bytes = self._undelivered_reads = 0
        self._fields = b""  # fields of the request's head that may be credentials
        self._error: tuple[bytes, ...] | None = None  # values to mask, if the answer is an error
        self._error_room_bytes = MAX_ERROR_BYTES

    def _emit(self, frame: Frame, size_bytes: int) -> None:
        if (sink := self._sink) is not None:
            try:
                sink.add(frame, size_bytes)
            except Exception:  # noqa: BLE001 - rule 1, whatever it is
                self._give_up()

    @property
    def is_open(self) -> bool:
        """Whether frames go anywhere."""
        return self._sink is not None

    def _give_up(self) -> None:
        self._sink = None
        self._source.note_defect(self._number)

    def lose_form(self) -> None:
        """Record no form of the client, because of the exception that is being handled."""
        line = "the tap failed: exchange %d is observed without its form"
        self._source.note_defect(self._number, line)

    def begin(
        self,
        downstream: Downstream,
        upstream: Upstream,
        identity: SpanIdentity,
        *,
        endpoint: str,
        on_disconnect: str,
    ) -> None:
        """Record that the request's head was read."""
        if self._sink is None:
            return
        try:
            headers = self._read_fields(downstream, upstream)
        except Exception:  # noqa: BLE001 - rule 1, whatever a client has written
            self._give_up()
            return
        source, fields = self._source, self._fields
        origin = upstream.origin
        frame = Begin(
            exchange=self._number,
            at_ns=self._epoch_ns + self._monotonic_ns(),
            identity=identity,
            endpoint=endpoint,
            method=downstream.method,
            path=downstream.path,
            headers=headers,
            upstream=upstream.name,
            provider=upstream.provider,
            server_address=origin.host,
            server_port=origin.port,
            on_disconnect=on_disconnect,
            encrypted=source.cipher.encrypt(fields) if fields else b"",
            launch=downstream.launch,
            is_socket=downstream.asks_for_websocket,
        )
        self._emit(frame, frame_bytes(frame))

    def _read_fields(
        self, downstream: Downstream, upstream: Upstream
    ) -> tuple[tuple[str, str], ...]:
        """Read the headers to record, and keep the fields that may be credentials."""
        recorded = self._source.headers
        headers = recorded.select(downstream.headers)
        fields = gather_fields(
            downstream.headers,
            downstream.target,
            filter(None, upstream.credentials.values()),
            (recorded.names, recorded.prefixes),
        )
        if said := [field for field in headers if field[1].startswith(("{", "["))]:
            # JSON has its own member names, which count like names of headers.
            fields += b"".join(f"\n{name}:{value}".encode("latin-1") for name, value in said)
            headers = leave_out_credentials(headers)
        self._fields = fields
        return headers

    def request_body(self, data: bytes | Blocks | None, size_bytes: int) -> None:
        """Record the client's body as sent, a frame for each block; ``None`` past the limit."""
        for block in (data,) if data is None or isinstance(data, bytes) else data.blocks:
            frame = RequestBody(exchange=self._number, data=block, size_bytes=size_bytes)
            self._emit(frame, OBJECT_BYTES if block is None else OBJECT_BYTES + len(block))

    def request_form(self, form: Form, size_bytes: int) -> None:
        """Record the client's form, which has this size; no fields if it could not be read."""
        try:
            data = encode_json(form.members).encode() if form.members or form.is_whole else b""
        except Exception:  # noqa: BLE001 - rule 1, whatever a client has written
            self._give_up()
            return
        frame = RequestBody(
            exchange=self._number, data=data, size_bytes=size_bytes, form=form.state
        )
        self._emit(frame, OBJECT_BYTES + len(data))

    def response_head(
        self,
        response: UpstreamResponse,
        *,
        resend_count: int = 0,
        rewrites: tuple[str, ...] = (),
        hides_usage: bool = False,
        usage_event_not_stripped: bool = False,
    ) -> None:
        """Record the head of the answer that the client gets."""
        if response.status >= 400:
            try:
                self._error, self._error_room_bytes = _plan_masks(self._fields)
            except Exception:  # noqa: BLE001 - rule 1, whatever a client has written
                self._error, self._error_room_bytes = (), 0  # nothing is copied
                self._source.note_defect(self._number)
        frame = ResponseHead(
            exchange=self._number,
            at_ns=self._epoch_ns + self._monotonic_ns(),
            status=response.status,
            headers=self._source.headers.select_answered(response.headers),
            resend_count=resend_count,
            rewrites=rewrites,
            hides_usage=hides_usage,
            usage_event_not_stripped=usage_event_not_stripped,
        )
        self._emit(frame, frame_bytes(frame))

    def response_data(self, data: bytes, *, passes: bool = False) -> None:
        """Record one read of the body, before anything is done with it.

        If it `passes`, it is sent to the client before anything else can happen.
        """
        if not passes:
            self._undelivered_reads += 1
        size_bytes = len(data)
        self._left_bytes = left_bytes = self._left_bytes - size_bytes
        if left_bytes < 0:
            self._shed_bytes += size_bytes
        elif self._error is not None:
            self._emit_error(data, self._error)
        elif (sink := self._sink) is not None:  # like `_emit`, but for each event of each stream
            now_ns = self._epoch_ns + self._monotonic_ns()
            try:
                sink.add(ResponseData(self._number, now_ns, data), OBJECT_BYTES + size_bytes)
            except Exception:  # noqa: BLE001 - rule 1, whatever it is
                self._give_up()

    def socket_data(self, data: bytes, *, from_client: bool) -> None:
        """Record one read from an end of a WebSocket, before anything is done with it."""
        if (sink := self._sink) is not None:
            now_ns = self._epoch_ns + self._monotonic_ns()
            try:
                frame = SocketData(self._number, now_ns, from_client, data)
                sink.add(frame, OBJECT_BYTES + len(data))
            except Exception:  # noqa: BLE001 - rule 1, whatever it is
                self._give_up()

    def _emit_error(self, data: bytes, credentials: tuple[bytes, ...]) -> None:
        """Record one read of the body of an error (rule 3)."""
        taken = data[: self._error_room_bytes]
        self._error_room_bytes -= len(taken)
        self._shed_bytes += len(data) - len(taken)
        for value in credentials:
            taken = taken.replace(value, _MASK)
        if taken:
            now_ns = self._epoch_ns + self._monotonic_ns()
            self._emit(ResponseData(self._number, now_ns, taken), OBJECT_BYTES + len(taken))

    def delivered(self) -> None:
        """Note that every read so far was sent to the client."""
        self._undelivered_reads = 0

    def end(self, kind: EndKind, message: str = "") -> None:
        """Record that the exchange is over."""
        now_ns = self._epoch_ns + self._monotonic_ns()
        end = End(
            exchange=self._number,
            at_ns=now_ns,
            kind=kind,
            message=message,
            undelivered_reads=self._undelivered_reads,
            shed_bytes=self._shed_bytes,
        )
        self._emit(end, OBJECT_BYTES)
        self._sink = None


def _plan_masks(fields: bytes) -> tuple[tuple[bytes, ...], int]:
    """Choose the values to mask in an error's body, and how many bytes to copy (rule 3)."""
    credentials = find_head_credentials(read_fields(fields))
    if not credentials.are_known:
        return (), 0
    values = credentials.plain_values()
    return values, min(MAX_ERROR_BYTES, MAX_MASKED_BYTES // max(1, len(values)))


@dataclass(eq=False, repr=False)
class TapSource:
    """Hands out taps; one per worker.

    Attributes:
        sink: where frames go.
        headers: which headers are copied.
        max_body_bytes: how much of one answer's body is copied.
        cipher: encrypts what may be credentials.
    """

    sink: FrameSink
    clock: Clock
    headers: RecordedHeaders = RecordedHeaders()
    max_body_bytes: int = MAX_ANSWER_BYTES
    cipher: Cipher = OWN_CIPHER

    def __post_init__(self) -> None:
        self._defects = limit_lines(self.clock)
        self._numbers = itertools.count(1)

    def open(self, *, observed: bool) -> Tap:
        """Make a tap for a new exchange; if that is not observed, the tap emits nothing."""
        return Tap(self, next(self._numbers), self.sink if observed else None)

    def note_defect(
        self, number: int, line: str = "the tap failed: exchange %d is no longer observed"
    ) -> None:
        """Log the exception that is being handled."""
        if self._defects.admit() is not None:
            _log.exception(line, number)
