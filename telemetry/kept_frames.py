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

__all__ = ("KeptFrames", "record_bytes")

_RECORD_BYTES = 112
"""What a record takes beside its bytes: the objects, and its places in two lists."""


class KeptFrames:
    """Frames as records.

    Attributes:
        records: in their order; empty, where a body was forgotten.
        size_bytes: what all of them take, as an estimate.
        sent_count: how many of them were sent.
        sent_bodies: how many of these could be forgotten.
    """

    __slots__ = (
        "_end",
        "_fixed",
        "_missing_bytes",
        "records",
        "sent_bodies",
        "sent_count",
        "size_bytes",
    )

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.size_bytes = 0
        self.sent_count = 0
        self.sent_bodies = 0
        self._end: End | None = None
        self._missing_bytes = 0  # of the answer's body, forgotten since it was sent
        self._fixed: set[int] = set()  # places of records that are never forgotten

    @property
    def is_ended(self) -> bool:
        """Whether the last frame came."""
        return self._end is not None

    def append(self, frame: Frame) -> Record:
        """Keep a frame, as the record that is to be sent."""
        record = encode_record(frame)
        if not isinstance(frame, RequestBody | ResponseData):
            self._fixed.add(len(self.records))
        if isinstance(frame, End):
            self._end = frame
        self.records.append(record)
        self.size_bytes += record_bytes(record)
        return record

    def note_sent(self) -> None:
        """The next record was sent."""
        self.sent_bodies += self.sent_count not in self._fixed
        self.sent_count += 1

    def forget_sent_bodies(self) -> int:
        """Forget them (rule 2); how many bytes that frees."""
        self.sent_bodies = 0
        return self._forget_bodies(self.sent_count)

    def begin_again(self) -> int:
        """All is to be sent again (rule 1).

        Returns:
            How many bytes of the answer are missing, and have not been told by this before.
        """
        self.sent_count = self.sent_bodies = 0
        if not self._missing_bytes:
            return 0
        self._forget_bodies(len(self.records))
        self.records = [record for record in self.records if record]
        self._fixed = set(range(len(self.records)))
        missing_bytes, self._missing_bytes = self._missing_bytes, 0
        if self._end is not None:
            shed_bytes = self._end.shed_bytes + missing_bytes
            self._end = msgspec.structs.replace(self._end, shed_bytes=shed_bytes)
            self._replace(len(self.records) - 1, encode_record(self._end))
        return missing_bytes

    def _forget_bodies(self, count: int) -> int:
        """Of the first so many records; how many bytes that frees."""
        before_bytes = self.size_bytes
        for place in range(count):
            record = self.records[place]
            if place in self._fixed or not record:
                continue
            frame = decode_record(split_record(record))
            if isinstance(frame, RequestBody):
                self._fixed.add(place)
                self._replace(place, encode_record(msgspec.structs.replace(frame, data=None)))
            else:
                self._missing_bytes += body_bytes(frame)
                self._replace(place, ())
        return before_bytes - self.size_bytes

    def _replace(self, place: int, record: Record) -> None:
        self.size_bytes += record_bytes(record) - record_bytes(self.records[place])
        self.records[place] = record


def record_bytes(record: Record) -> int:
    """What a record takes of memory, as an estimate."""
    return sum(map(len, record)) + _RECORD_BYTES if record else 0
