"""Strikes: the exchanges that telemetry has died of, written down beforehand.

A process that is killed for its memory says nothing, and its successor is sent the same frames
again. So a step whose cost grows with a body is noted before it begins, in a small file beside the
store, and removed from it afterwards. Rules:

1. An exchange that is noted when the file is opened has a strike: the last process ended in that
   step. With :data:`MAX_STRIKES` it is out: its bodies are not looked at again.
2. Only bodies of more than :data:`LARGE_BYTES` are noted, and compressed ones of any size, for
   their length says nothing: each read of such an answer is a step. A kill that has nothing to do
   with the exchange is hardly ever in such a step, and not twice.
3. At most :data:`MAX_ENTRIES` are remembered; the oldest goes first. A strike is forgotten once the
   span is made.
4. The file holds span ids and counts, and no content (R7); only its owner may read it. One that
   cannot be written or read costs no span (R2).
"""

from __future__ import annotations

import contextlib
import os
from struct import Struct
from typing import TYPE_CHECKING, Self

from telemetry.own_files import open_own

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

LARGE_BYTES = 256 * 1024
"""A large body: smaller ones take some megabytes at most, and no process dies of that."""

MAX_STRIKES = 2
"""The first may have been bad luck."""

MAX_ENTRIES = 64
"""One step is under way at a time; the others have a strike, and wait to be sent again."""

_UNNOTED = contextlib.nullcontext()

_ENTRY = Struct("<8sBB")
"""A span id, its strikes, and whether a step of it is under way."""


class Strikes:
    """The strikes of the exchanges that are not recorded yet. For one thread.

    Args:
        descriptor: of the file, which this object closes; without it nothing is remembered.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = descriptor
        self._counts: dict[bytes, int] = {}
        for span_id, count, under_way in self._read():
            self._counts[span_id] = min(count + under_way, MAX_STRIKES)
        self._write(None)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open or make the file; if that fails, nothing is remembered (rule 4)."""
        try:
            return cls(open_own(path, os.O_RDWR | os.O_CREAT))
        except OSError:
            return cls()

    def is_out(self, span_id: str) -> bool:
        """Tell whether the exchange of a span has all its strikes (rule 1)."""
        return bool(self._counts) and self._counts.get(bytes.fromhex(span_id), 0) >= MAX_STRIKES

    def during(self, span_id: str, *, is_large: bool) -> AbstractContextManager[None]:
        """Note a step that works on the bodies of a span's exchange (rule 2)."""
        return self._noting(span_id) if is_large else _UNNOTED

    @contextlib.contextmanager
    def _noting(self, span_id: str) -> Iterator[None]:
        self._write(bytes.fromhex(span_id))
        try:
            yield
        finally:
            self._write(None)

    def forget(self, span_id: str) -> None:
        """Forget the strikes of a span that was made."""
        if self._counts and self._counts.pop(bytes.fromhex(span_id), None) is not None:
            self._write(None)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _read(self) -> Iterator[tuple[bytes, int, int]]:
        if self._descriptor is None:
            return
        try:
            data = os.pread(self._descriptor, MAX_ENTRIES * _ENTRY.size, 0)
        except OSError:
            return
        yield from _ENTRY.iter_unpack(data[: len(data) - len(data) % _ENTRY.size])

    def _write(self, under_way: bytes | None) -> None:
        """Write all entries, in one piece."""
        if self._descriptor is None:
            return
        others = [(span_id, count, 0) for span_id, count in self._counts.items()]
        if under_way is not None:
            count = self._counts.get(under_way, 0)
            others = [entry for entry in others if entry[0] != under_way]
            others.append((under_way, count, 1))
        data = b"".join(_ENTRY.pack(*entry) for entry in others[-MAX_ENTRIES:])
        with contextlib.suppress(OSError):  # rule 4
            os.pwrite(self._descriptor, data, 0)
            os.ftruncate(self._descriptor, len(data))
