"""Counts how often telemetry died of an exchange, by noting each step that may kill it.

A process that is killed for its memory leaves no message, and its successor gets the same frames
again. So a step whose cost grows with a body is noted in a small file beside the store before it
begins, and removed from the file afterwards. If an exchange is still noted when the file is opened,
the last process ended in that step, and the exchange has crashed once more. After
:data:`MAX_CRASHES` crashes its bodies are not read again.

Only bodies of more than :data:`LARGE_BYTES` are noted, and compressed bodies of any size, because
their length says nothing about their content: each read of such an answer is a step. A kill for
another reason hardly ever happens within such a step, and not twice.

The file holds span ids and counts, and no content (R7). Only its owner may read it. A file that
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

MAX_CRASHES = 2
"""The first crash may have been bad luck."""

MAX_ENTRIES = 64
"""The most spans in the file. One step is under way at a time; the others have crashed once and
wait to be sent again. The oldest is removed first."""

_UNNOTED = contextlib.nullcontext()

_ENTRY = Struct("<8sBB")
"""A span id, its crashes, and whether a step of it is under way."""


class _Step:
    """Notes a step while it is under way.

    It is not a generator: the interpreter would run the end of one that was abandoned, perhaps
    while it exits itself, and the step would look finished.
    """

    __slots__ = ("_crashes", "_span_id")

    def __init__(self, crashes: CrashCounter, span_id: bytes) -> None:
        self._crashes = crashes
        self._span_id = span_id

    def __enter__(self) -> None:
        self._crashes.note(self._span_id)

    def __exit__(self, *_: object) -> None:
        self._crashes.note(None)


class CrashCounter:
    """Counts the crashes of exchanges that are not recorded yet. For one thread.

    Args:
        descriptor: of the file, which this object closes; without it nothing is remembered.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = descriptor
        self._counts: dict[bytes, int] = {}
        for span_id, count, under_way in self._read():
            self._counts[span_id] = min(count + under_way, MAX_CRASHES)
        self.note(None)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open or make the file; if that fails, nothing is remembered."""
        try:
            return cls(open_own(path, os.O_RDWR | os.O_CREAT))
        except OSError:
            return cls()

    def is_given_up(self, span_id: str) -> bool:
        """Tell whether telemetry died of an exchange so often that its bodies stay unread."""
        return bool(self._counts) and self._counts.get(bytes.fromhex(span_id), 0) >= MAX_CRASHES

    def during(self, span_id: str, *, is_large: bool) -> AbstractContextManager[None]:
        """Note a step that works on the bodies of a span's exchange."""
        return _Step(self, bytes.fromhex(span_id)) if is_large else _UNNOTED

    def forget(self, span_id: str) -> None:
        """Forget the crashes of an exchange whose span was made."""
        if self._counts and self._counts.pop(bytes.fromhex(span_id), None) is not None:
            self.note(None)

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

    def note(self, under_way: bytes | None) -> None:
        """Write down the span of the step that is under way, if any, and all crashes."""
        if self._descriptor is None:
            return
        others = [(span_id, count, 0) for span_id, count in self._counts.items()]
        if under_way is not None:
            count = self._counts.get(under_way, 0)
            others = [entry for entry in others if entry[0] != under_way]
            others.append((under_way, count, 1))
        data = b"".join(_ENTRY.pack(*entry) for entry in others[-MAX_ENTRIES:])
        with contextlib.suppress(OSError):  # a full disk costs no span
            os.pwrite(self._descriptor, data, 0)
            os.ftruncate(self._descriptor, len(data))
