"""The values that go into the store and come out of it.

All times are integer nanoseconds since the epoch, all sizes are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, NamedTuple

import msgspec

from telemetry.facts import NO_COLUMNS, CallColumns

SpanStatus = Literal["UNSET", "OK", "ERROR"]
"""Status of a span, in the words of OpenTelemetry."""


class SpanState(StrEnum):
    """The state of a recorded span on its way to the backend."""

    PENDING = "pending"
    """To be sent, now or at its next try."""
    DELIVERED = "delivered"
    """The backend answered 2xx and rejected nothing."""
    REJECTED = "rejected"
    """The backend refused this very span, or its stored bytes are damaged: see the last error."""
    KEPT = "kept"
    """Recorded while no endpoint was configured, and never sent: a user who sets an endpoint later
    does not expect it to get last month's prompts."""


MAX_CALL_PICTURES: Final = 500
"""The most pictures of a call that are noted: OpenAI takes as many in a request."""


class LeftOut(StrEnum):
    """Why a picture of a call is not kept; :attr:`words` names the limit and the setting."""

    OFF = "off"
    IMAGE_LIMIT = "image_limit"
    TOO_LARGE = "too_large"
    NO_MEMORY = "no_memory"
    TYPE = "type"
    NO_ROOM = "no_room"
    TOO_MANY = "too_many"

    @property
    def words(self) -> str:
        """The reason, for people, to stand behind "not kept:"."""
        return _WHY_LEFT_OUT[self]

    @classmethod
    def read(cls, word: object) -> LeftOut:
        """Find the reason that a store has; a picture without one was kept, and had to go."""
        return next((one for one in cls if one.value == word), cls.NO_ROOM)


_WHY_LEFT_OUT = {
    LeftOut.OFF: "SPANTAP_PICTURES is false",
    LeftOut.IMAGE_LIMIT: (
        "it is longer than OPENINFERENCE_BASE64_IMAGE_MAX_LENGTH, 32,000 characters unless set"
    ),
    LeftOut.TOO_LARGE: "it is larger than 8 MiB, the limit of SPANTAP_PICTURES",
    LeftOut.NO_MEMORY: "memory was short: SPANTAP_PICTURES keeps 32 MiB of a call's pictures",
    LeftOut.TYPE: "SPANTAP_PICTURES keeps PNG, JPEG, GIF and WebP",
    LeftOut.NO_ROOM: "all pictures together take at most a quarter of SPANTAP_STORE_MAX_BYTES",
    LeftOut.TOO_MANY: f"SPANTAP_PICTURES keeps {MAX_CALL_PICTURES} pictures of a call",
}


class CallPicture(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A picture of a call, whether it is kept or not.

    Attributes:
        is_answer: it stands in the answer, else in the request.
        message: the position of its message in the span.
        part: its position in the message; one behind all parts is in the result of a tool.
        type: its MIME type by its first bytes; ``None`` if that is not known.
        size_bytes: its size; 0 if that is not known.
        data: its bytes, when it is recorded.
        digest: the SHA-256 of its bytes in hexadecimal digits, when it is read and still there.
        left_out: why it is not kept; ``None`` if it is.
    """

    is_answer: bool
    message: int
    part: int
    type: str | None = None
    size_bytes: int = 0
    data: bytes | None = None
    digest: str | None = None
    left_out: LeftOut | None = None


class SpanRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A span to be recorded.

    Attributes:
        span_id: 16 lower-case hexadecimal digits; a span is recorded once under it.
        trace_id: 32 lower-case hexadecimal digits.
        model: the model that answered, else the one asked for.
        outcome: how the exchange ended (:class:`telemetry.observing.exchange.Outcome`).
        prompt_tokens: as the provider reported them, ``None`` if it did not (R6).
        launch: the label of the launch that it belongs to; ``None`` without one.
        recorded_ns: when it is recorded, by the caller's clock.
        kept_call: what is kept of the call, so that later ones can continue it after a restart
            (:mod:`telemetry.store.kept_calls`); ``None`` for nothing.
        pictures: those of the call, which its span has only in short.
        raw: the true bytes of its answer, packed (:mod:`telemetry.raw_answer`).
        columns: everything else that a list shows of the call.
        span: a serialised ``ExportTraceServiceRequest`` of this one span. Joined end to end such
            messages are one batch: protobuf appends repeated fields. It stays the last field.
    """

    span_id: str
    trace_id: str
    name: str
    start_ns: int
    end_ns: int
    model: str | None = None
    status: SpanStatus
    outcome: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    launch: str | None = None
    recorded_ns: int
    kept_call: bytes | None = None
    pictures: tuple[CallPicture, ...] = ()
    raw: bytes | None = None
    columns: CallColumns = NO_COLUMNS
    span: bytes


class PendingSpan(NamedTuple):
    """A span to be sent.

    Attributes:
        seq: its number in the store, by which its fate is reported back.
        failed_alone: how often it failed by itself while the backend accepted others.
    """

    seq: int
    span_id: str
    span: bytes
    failed_alone: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanSummary:
    """The row of a span: what the store knows without reading its bytes.

    Attributes:
        seq: its number in the store: later ones are greater, and none is given twice.
        attempts: how often sending it has failed.
        next_try_ns: the earliest time of the next try; 0 if none has failed.
        last_error: why the last try failed, if possible in the backend's words.
        launch: the label of its launch (:mod:`telemetry.launch_labels`), ``None`` for none.
        columns: what else is known of the call; nothing if it is older than the columns.
    """

    seq: int
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
    size_bytes: int
    state: SpanState
    attempts: int
    next_try_ns: int
    last_error: str | None
    launch: str | None
    recorded_ns: int
    columns: CallColumns = NO_COLUMNS


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSpan:
    """A span with its bytes.

    Attributes:
        span: a serialised ``ExportTraceServiceRequest``; empty if it is damaged.
    """

    summary: SpanSummary
    span: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSpans:
    """How many spans fit a selection, and their totals.

    Attributes:
        derived: how many are agent, tool or marker rows, not calls.
        pending: how many are still to be sent.
        size_bytes: the bytes of all of them.
        first_ns: when the earliest of them began; ``None`` if there are none.
        last_ns: when the latest of them began.
    """

    count: int = 0
    derived: int = 0
    pending: int = 0
    size_bytes: int = 0
    first_ns: int | None = None
    last_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCounts:
    """The number of spans in each state.

    Attributes:
        oldest_pending_ns: when the oldest pending span was recorded; ``None`` if none waits.
        lost: spans that this owner removed before they were sent, to make room.
        damaged: spans that this owner found damaged or missing in its files.
        size_bytes: of the file, its write-ahead log included.
    """

    pending: int = 0
    delivered: int = 0
    rejected: int = 0
    kept: int = 0
    oldest_pending_ns: int | None = None
    lost: int = 0
    damaged: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The limits on what the store keeps.

    Attributes:
        max_age_ns: older spans that nobody waits for are removed. A pending span never is: a
            backend may be away for long.
        max_bytes: of the file and its WAL after every pruning; between two they grow by what is
            added, and while a foreign reader pins the WAL it cannot be cut. Pending spans are
            removed only when nothing else is left, because a full disk would hurt more.
    """

    max_age_ns: int = 7 * 24 * 3600 * 1_000_000_000
    max_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneResult:
    """The effect of one step of pruning.

    Attributes:
        removed: all spans removed.
        lost: how many of them were still to be sent.
        more: work is left that another step can do.
    """

    removed: int = 0
    lost: int = 0
    more: bool = False


class DeleteStep(msgspec.Struct, frozen=True, kw_only=True, tag="deleted"):
    """The effect of one step of deleting.

    Attributes:
        looked_at: how many of the given numbers are done; the rest is for the next step.
        deleted: how many of these were spans in the store, and are deleted.
        unsent: how many of the deleted spans were still to be sent.
    """

    looked_at: int
    deleted: int
    unsent: int


class CompactStep(msgspec.Struct, frozen=True, kw_only=True, tag="compacted"):
    """The effect of one step of compacting.

    Attributes:
        is_folded: the write-ahead log is empty; false if a reader is in the way.
        free_bytes: what the file has still to give back.
        size_bytes: of the file and its write-ahead log.
    """

    is_folded: bool
    free_bytes: int
    size_bytes: int
