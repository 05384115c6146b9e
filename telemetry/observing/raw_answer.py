"""Keeps the true bytes of an answer while its call is open, with the time of each read.

They take only room that nobody else needs (:mod:`telemetry.observing.open_bodies`), and are given
up first. It is known only at the end whether they may be kept
(:mod:`telemetry.recording.raw_answer`).
"""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from telemetry.observing.open_bodies import Holding
from telemetry.raw_answer import MAX_RAW_BYTES, MAX_RAW_READS, RawAnswer

if TYPE_CHECKING:
    from telemetry.frames.frame import Headers, ResponseData
    from telemetry.observing.open_bodies import OpenBodies

_READ_BYTES: Final = 12
"""What the time and the size of a read take."""


class RawCapture:
    """The bytes of one answer so far, within the room for all bodies."""

    def __init__(self, bodies: OpenBodies) -> None:
        self._holding = Holding(bodies, self.give_up, is_spare=True)
        self._is_given_up = False
        self._forget()

    def _forget(self) -> None:
        self._body = bytearray()
        self._times_ns = array("q")
        self._sizes_bytes = array("I")
        self._left_bytes = 0

    def feed(self, frame: ResponseData) -> None:
        """Keep the next read, as far as the limits allow."""
        if self._is_given_up:
            return
        has_room = not self._left_bytes and len(self._sizes_bytes) < MAX_RAW_READS
        taken = frame.data[: MAX_RAW_BYTES - len(self._body)] if has_room else b""
        self._left_bytes += len(frame.data) - len(taken)
        if not taken:
            return
        if not self._holding.reserve(len(taken) + _READ_BYTES):
            self._holding.give_up()
            return
        self._body += taken
        self._times_ns.append(frame.at_ns)
        self._sizes_bytes.append(len(taken))

    def finish(self, headers: Headers, shed_bytes: int) -> RawAnswer | None:
        """Make the record, after the last read; ``None`` if nothing came, or room was short.

        Args:
            headers: of the answer.
            shed_bytes: how many bytes at the end came in no read.
        """
        if not self._body:
            return None
        times_ns = self._times_ns
        waits_ns = [later - earlier for earlier, later in pairwise(times_ns)]
        return RawAnswer(
            content_type=_join("content-type", headers),
            content_encoding=_join("content-encoding", headers),
            first_ns=times_ns[0],
            waits_ns=(0, *waits_ns),
            sizes_bytes=tuple(self._sizes_bytes),
            left_bytes=self._left_bytes + shed_bytes,
            body=bytes(self._body),
        )

    def give_up(self) -> None:
        """Forget the bytes, and keep no more."""
        self._is_given_up = True
        self._forget()

    def release(self) -> None:
        """Give back the room that they take."""
        self._holding.release()

    def close(self) -> None:
        """Forget the bytes for good; a record that was made keeps them."""
        self._holding.close()
        self._forget()


def _join(name: str, headers: Headers) -> str:
    return ", ".join(value for one, value in headers if one == name)
