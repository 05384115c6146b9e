"""Where the frames and messages of a WebSocket end, and nothing else of them (RFC 6455 5.2)."""

from __future__ import annotations

import os

GOING_AWAY = 1001
"""The status of a close: an endpoint goes away (RFC 6455 section 7.4.1)."""

_CLOSE = 0x88  # the last fragment of a close frame
_MASKED = 0x80
_ENDS_MESSAGE = 0x88
"""The bits of a first byte that say whether a message ends: the last fragment, a control frame."""
_IS_LAST = 0x80
_LENGTHS = {126: 2, 127: 8}
"""How many bytes of length follow, by the length that the second byte has."""


MAX_FRAMES = 4096
"""How many frames of one read are followed, which takes some 2 ms: a read may have 130,000. After
more than that nobody knows any longer where a frame ends."""


class Passed:
    """What has passed in one direction of all WebSockets.

    Attributes:
        messages: each is counted when the head of its last frame is there.
        bytes: with the heads of frames, pings and closes.
    """

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages = self.bytes = 0


class FrameEnds:
    """Follows the frames of one direction, unless a read has more than :data:`MAX_FRAMES`.

    After such a read only bytes are counted.

    Args:
        passed: counts what is followed.

    Attributes:
        at_end: a frame has just ended, or none has begun.
    """

    __slots__ = ("_head", "_is_lost", "_left", "_passed", "at_end")

    def __init__(self, passed: Passed) -> None:
        self.at_end = True
        self._passed = passed
        self._head = b""  # of a frame whose head is not whole
        self._left = 0  # of the payload
        self._is_lost = False

    def feed(self, data: bytes) -> None:
        """Follow bytes that come next."""
        self._passed.bytes += len(data)
        if self._is_lost:
            return
        if self._head:
            data = self._head + data
            self._head = b""
        at, size, count = self._left, len(data), 0
        while at < size:
            count += 1
            if count > MAX_FRAMES:
                self._is_lost, self.at_end = True, False
                return
            begin = at
            if size < at + 2:
                break
            length = data[at + 1] & 0x7F
            masks = 4 if data[at + 1] & _MASKED else 0
            at += 2
            if (more := _LENGTHS.get(length)) is not None:
                length = int.from_bytes(data[at : at + more])
                at += more
            at += masks
            if at > size:
                at = begin
                break
            if data[begin] & _ENDS_MESSAGE == _IS_LAST:
                self._passed.messages += 1
            at += length
        if at < size:
            self._head, self._left = data[at:], 0
        else:
            self._left = at - size
        self.at_end = at == size


def encode_close(status: int, *, is_masked: bool) -> bytes:
    """Encode a close frame; clients mask theirs (RFC 6455 section 5.3)."""
    payload = status.to_bytes(2)
    if not is_masked:
        return bytes((_CLOSE, len(payload))) + payload
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))
    return bytes((_CLOSE, _MASKED | len(payload))) + mask + masked
