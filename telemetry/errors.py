"""The errors of telemetry that its callers are meant to see.

Each message is one sentence or two: what is wrong, where, and what to do. None holds a credential
(R7). What a backend says is a value, not an error: :class:`telemetry.export.delivery.Answer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class TelemetryError(Exception):
    """Base of what telemetry raises; catch it, raise one of its children."""


class ConfigurationError(TelemetryError):
    """A setting has a value that cannot be followed; the message names the setting."""


class FilterError(TelemetryError):
    """A filter cannot be followed; the message says where, and what would be right.

    Attributes:
        text: the whole filter, its words joined by spaces.
        position: of the first character that is wrong, counted from 0; always inside the text.
    """

    def __init__(self, problem: str, text: str, position: int) -> None:
        super().__init__(f"{problem} (at character {position + 1} of the filter)")
        self.text = text
        self.position = position


class StoreError(TelemetryError):
    """The store cannot do what was asked."""


class StoreLocked(StoreError):  # noqa: N818 - names the condition, as the codec's errors do
    """Another process owns the store.

    Attributes:
        holder_pid: the owner's process id; ``None`` where it has not written it yet.
    """

    WORDS = "is in use by"
    """In each message, for who reads it from a process that failed."""

    def __init__(self, path: Path, holder_pid: int | None) -> None:
        holder = "another process" if holder_pid is None else f"process {holder_pid}"
        super().__init__(
            f"the store {path} {self.WORDS} {holder}; stop that one first, or name another file"
        )
        self.holder_pid = holder_pid


class StoreForeign(StoreError):  # noqa: N818 - as StoreLocked
    """The file is not a store of spantap: it is another program's, or damaged."""


class StoreDamaged(StoreForeign):
    """SQLite finds the file damaged, or no database at all."""


class StoreTooNew(StoreError):  # noqa: N818 - as StoreLocked
    """The file has a schema that this version does not know."""


class StoreUnavailable(StoreError):  # noqa: N818 - as StoreLocked
    """The file or its folder cannot be opened, read or written."""


class StoreFull(StoreUnavailable):
    """The disk has no room for what was to be written; nothing of it was."""


class SpoolFull(StoreError):  # noqa: N818 - as StoreLocked
    """The spool has no room for more frames, or its disk; nothing of them was written."""
