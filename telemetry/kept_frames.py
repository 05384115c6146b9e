"""The frames of one exchange, kept until it is acknowledged.

Rules:

1. What is kept can be sent again from its beginning, in its order.
2. Bodies that were sent may be forgotten: then the request says that it was not captured, and
   nothing of the answer follows the gap, whose size the end tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from telemetry.frame_records import decode_record, encode_record, split_record
from telemetry.frames import End, RequestBody, ResponseData
from telemetry.shedding import body_bytes

if TYPE_CHECKING:
    from telemetry.frame_records import Record
    from telemetry.frames import Frame

__all__ = ("KeptFrames",)

_RECORD_BYTES = 112
"""What a record takes beside its bytes: the objects, and its places in two lists."""


class KeptFrames:
    """Frames as records.

    Attributes:
        size_bytes: what all of them take, as an estimate.
        sent_bodies: how many bodies of those sent could be forgotten.
        is_queued: whether they stand in the queue of those with something to send.

    Args:
        number: of the exchange.
    """

    __slots__ = (
        "_end",
        "_fixed",
        "_kept_from",
        "_missing_bytes",
        "_missing_request_bytes",
        "_records",
        "_sent_count",
        "is_queued",
        "number",
        "sent_bodies",
        "size_bytes",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.size_bytes = 0
        self.sent_bodies = 0
        self.is_queued = False
        self._records: list[Record] = []  # empty, where a body was forgotten
        self._sent_count = 0
        self._end: End | None = None
        self._missing_bytes = 0  # of the answer's body, forgotten since it was sent
        self._missing_request_bytes = 0
        self._kept_from = 0  # no body before this place is left to be forgotten
        self._fixed: set[int] = set()  # places of records that are never forgotten

    @property
    def is_ended(self) -> bool:
        """Whether the last frame came."""
        return self._end is not None

    @property
    def next_record(self) -> Record | None:
        """The first that was not sent; None, when all were."""
        place = self._sent_count
        return self._records[place] if place < len(self._records) else None

    def append(self, frame: Frame) -> int:
        """Keep a frame.

        Returns:
            What it takes, in bytes.
        """
        record = encode_record(frame)
        if not isinstance(frame, RequestBody | ResponseData):
            self._fixed.add(len(self._records))
        if isinstance(frame, End):
            self._end = frame
        self._records.append(record)
        size_bytes = _record_bytes(record)
        self.size_bytes += size_bytes
        return size_bytes

    def note_sent(self) -> None:
        """:attr:`next_record` was sent."""
        self.sent_bodies += self._sent_count not in self._fixed
        self._sent_count += 1

    def forget_sent_bodies(self) -> int:
        """Forget them (rule 2); how many bytes that frees."""
        self.sent_bodies = 0
        return self._forget_bodies(self._sent_count)

    def begin_again(self) -> tuple[int, int]:
        """All is to be sent again (rule 1).

        Returns:
            How many bytes of the request's body and of the answer's are missing, and have not been
            told by this before.
        """
        self._sent_count = self.sent_bodies = 0
        missing_request_bytes, self._missing_request_bytes = self._missing_request_bytes, 0
        if not self._missing_bytes:
            return missing_request_bytes, 0
        self._forget_bodies(len(self._records))
        self._records = [record for record in self._records if record]
        self._kept_from = len(self._records)
        self._fixed = set(range(len(self._records)))
        missing_bytes, self._missing_bytes = self._missing_bytes, 0
        if self._end is not None:
            shed_bytes = self._end.shed_bytes + missing_bytes
            self._end = msgspec.structs.replace(self._end, shed_bytes=shed_bytes)
            self._replace(len(self._records) - 1, encode_record(self._end))
        return missing_request_bytes, missing_bytes

    def _forget_bodies(self, count: int) -> int:
        """Of the first so many records; how many bytes that frees."""
        before_bytes = self.size_bytes
        for place in range(self._kept_from, count):
            if place in self._fixed:
                continue
            frame = decode_record(split_record(self._records[place]))
            if isinstance(frame, RequestBody):
                self._fixed.add(place)
                self._missing_request_bytes += body_bytes(frame)
                self._replace(place, encode_record(msgspec.structs.replace(frame, data=None)))
            else:
                self._missing_bytes += body_bytes(frame)
                self._replace(place, ())
        self._kept_from = count
        return before_bytes - self.size_bytes

    def _replace(self, place: int, record: Record) -> None:
        self.size_bytes += _record_bytes(record) - _record_bytes(self._records[place])
        self._records[place] = record


def _record_bytes(record: Record) -> int:
    """What a record takes of memory, as an estimate."""
    return sum(map(len, record)) + _RECORD_BYTES if record else 0
