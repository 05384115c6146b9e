"""The frames of one exchange, kept until it is acknowledged.

They can be sent again from the first, in their order. Bodies that were sent may be forgotten: the
request then says that it was not captured, the answer ends at the gap, and the ``end`` frame has
the size of the gap.

A WebSocket may last for days. The state of its observer takes the place of what the observer has
read, and then nothing of that is missing any more.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import msgspec

from telemetry.frames.frame import (
    BODIES,
    Begin,
    End,
    RequestBody,
    ResponseData,
    SocketData,
    SocketState,
)
from telemetry.frames.shedding import body_bytes

if TYPE_CHECKING:
    from telemetry.frames.frame import Frame

OBJECT_BYTES = 256
"""Memory of a frame in addition to its body and fields: objects, time, and a place in a list."""

_FIELD_BYTES = 160
"""Memory of a header field in addition to its text."""

_chain = itertools.chain.from_iterable


def frame_bytes(frame: Frame) -> int:
    """Estimate the memory that a frame takes."""
    if isinstance(frame, End):
        return OBJECT_BYTES
    if isinstance(frame, BODIES):
        return OBJECT_BYTES + len(frame.data or b"")
    headers = frame.headers
    encrypted_bytes = len(frame.encrypted) if isinstance(frame, Begin) else 0
    return (
        OBJECT_BYTES
        + encrypted_bytes
        + _FIELD_BYTES * len(headers)
        + sum(map(len, _chain(headers)))
    )


class KeptFrames:
    """Frames of one exchange, and which of them were sent.

    Attributes:
        number: the number of the exchange.
        frames: in their order; code that appends one must add its size to `size_bytes`.
        size_bytes: the estimated memory of all of them.
        has_sent_bodies: whether there is something to forget.
        is_queued: whether the exchange is in the queue of those with something to send.
    """

    __slots__ = (
        "_missing_bytes",
        "_missing_request_bytes",
        "_read_from",
        "_sent_bytes",
        "_sent_count",
        "frames",
        "has_sent_bodies",
        "is_queued",
        "number",
        "size_bytes",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.size_bytes = 0
        self.has_sent_bodies = False
        self.is_queued = False
        self.frames: list[Frame] = []
        self._sent_count = 0
        self._sent_bytes = 0
        self._read_from = 0  # where the last read began
        self._missing_bytes = 0  # of the answer's body, forgotten since it was sent
        self._missing_request_bytes = 0

    @property
    def is_ended(self) -> bool:
        """Whether the ``end`` frame came."""
        return bool(self.frames) and isinstance(self.frames[-1], End)

    @property
    def is_unsent(self) -> bool:
        """Whether none of the kept frames was sent."""
        return not self._sent_count

    @property
    def was_read_from_begin(self) -> bool:
        """Whether the last read began with the first frame."""
        return not self._read_from

    @property
    def is_whole(self) -> bool:
        """Whether nothing was forgotten."""
        return not (self._missing_bytes or self._missing_request_bytes)

    def read(self, into: list[Frame], limit_bytes: int) -> int:
        """Append the next frames to send, at least one, to a list; return their size in bytes.

        The exchange leaves the queue with its last frame. A paced stream has one frame each time,
        some 25,000 times a second.
        """
        frames, first = self.frames, self._sent_count
        end, size_bytes = len(frames), self.size_bytes - self._sent_bytes
        self.is_queued = False
        self._read_from = first
        if size_bytes > limit_bytes and end > first + 1:
            end, size_bytes = self._find_end(limit_bytes)
            self.is_queued = end < len(frames)
        if end == first + 1:
            into.append(frames[first])
        else:
            into += frames[first:end]
        self._sent_count = end
        self._sent_bytes += size_bytes
        # Every frame except `begin` has a body, or comes after one.
        self.has_sent_bodies = end > 1
        return size_bytes

    def _find_end(self, limit_bytes: int) -> tuple[int, int]:
        """Find the end of the frames to send next, at least one, and their size in bytes."""
        frames, end = self.frames, self._sent_count + 1
        size_bytes = frame_bytes(frames[end - 1])
        while end < len(frames) and (
            size_bytes + (more_bytes := frame_bytes(frames[end])) <= limit_bytes
        ):
            end, size_bytes = end + 1, size_bytes + more_bytes
        return end, size_bytes

    def forget(self) -> int:
        """Forget all frames; return how many bytes that frees.

        If the exchange is in the queue, it stays there, with nothing to send.
        """
        freed_bytes, self.size_bytes = self.size_bytes, 0
        self.is_queued = self.has_sent_bodies = False
        self._sent_count = self._sent_bytes = 0
        self._missing_bytes = self._missing_request_bytes = 0
        self.frames = []
        return freed_bytes

    def drop_sent(self) -> tuple[int, bool]:
        """Drop the frames that were sent, because they are now kept elsewhere.

        Returns:
            How many bytes that frees, and whether the ``end`` frame was dropped.
        """
        sent, freed_bytes = self._sent_count, self._sent_bytes
        is_ended = bool(sent) and isinstance(self.frames[sent - 1], End)
        del self.frames[:sent]
        self.size_bytes -= freed_bytes
        self._sent_count = self._sent_bytes = 0
        self.has_sent_bodies = False
        return freed_bytes, is_ended

    def forget_sent_bodies(self) -> int:
        """Forget bodies that were sent; return how many bytes that frees."""
        before_bytes = self.size_bytes
        sent, unsent = self.frames[: self._sent_count], self.frames[self._sent_count :]
        sent = self._without_bodies(sent)
        self.frames, self._sent_count = sent + unsent, len(sent)
        self.has_sent_bodies = False
        freed_bytes = before_bytes - self.size_bytes
        self._sent_bytes -= freed_bytes
        return freed_bytes

    def keep_state(self, state: SocketState) -> int:
        """Keep the state of a WebSocket instead of what it covers, if all of that was sent.

        Returns:
            How many bytes that frees; negative if the state is larger.
        """
        heads: list[Frame] = []
        covered, read_bytes = 0, self._missing_bytes
        for frame in self.frames[: self._sent_count]:
            if isinstance(frame, SocketData):
                if read_bytes >= state.read_bytes:
                    break
                read_bytes += len(frame.data)
            elif isinstance(frame, SocketState):
                read_bytes += frame.read_bytes
            else:
                heads.append(frame)
            covered += 1
        if read_bytes != state.read_bytes:
            return 0
        freed_bytes = sum(map(frame_bytes, self.frames[len(heads) : covered])) - frame_bytes(state)
        self.frames[:covered] = [*heads, state]
        self._sent_count += len(heads) + 1 - covered
        self._missing_bytes = 0
        self.size_bytes -= freed_bytes
        self._sent_bytes -= freed_bytes
        return freed_bytes

    def begin_again(self) -> tuple[int, int]:
        """Send all frames again from the first.

        Returns:
            How many bytes of the request's body and of the answer's were forgotten since the
            previous call.
        """
        self._sent_count = self._sent_bytes = 0
        self.has_sent_bodies = False
        missing_request_bytes, self._missing_request_bytes = self._missing_request_bytes, 0
        if not self._missing_bytes:
            return missing_request_bytes, 0
        self.frames = self._without_bodies(self.frames)
        missing_bytes, self._missing_bytes = self._missing_bytes, 0
        if isinstance(end := self.frames[-1], End):
            shed_bytes = end.shed_bytes + missing_bytes
            self.frames[-1] = msgspec.structs.replace(end, shed_bytes=shed_bytes)
        return missing_request_bytes, missing_bytes

    def _without_bodies(self, frames: list[Frame]) -> list[Frame]:
        """Remove the bodies from frames, and count what is missing."""
        kept: list[Frame] = []
        for frame in frames:
            size_bytes = body_bytes(frame)
            if isinstance(frame, (ResponseData, SocketData)):
                self._missing_bytes += size_bytes
                self.size_bytes -= frame_bytes(frame)
            elif isinstance(frame, RequestBody):
                self._missing_request_bytes += size_bytes
                self.size_bytes -= size_bytes
                kept.append(msgspec.structs.replace(frame, data=None) if size_bytes else frame)
            else:
                kept.append(frame)
        return kept
