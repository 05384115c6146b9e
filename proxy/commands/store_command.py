"""What the commands that read a store share: complaints, exit statuses, amounts in words.

Complaints are lines on standard error that begin with the command's name. The exit status is 1 if
the store is missing or cannot be read, and 2 if a filter or a setting is wrong. A wrong filter is
shown with a mark below its first wrong character.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from proxy.commands.console import open_console
from proxy.escape import escape_line
from telemetry.errors import ConfigurationError, FilterError, StoreError, StoreUnavailable
from telemetry.reading.stored_calls import open_calls

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from types import TracebackType
    from typing import Self, TextIO

    from rich.console import Console

    from proxy.reading.costs import Gap
    from telemetry.reading.calls import Calls


class _StoreMissingError(StoreError):
    """There is no file where the store should be."""


class StoreCommand:
    """A command that works on a store; as a context, it reports what went wrong inside.

    Args:
        name: the beginning of its complaints.
        path: the store's file.
        err: for complaints.

    Attributes:
        complaints: the console on `err`.
        status: the exit status after an error.
    """

    def __init__(self, name: str, path: Path, err: TextIO) -> None:
        self._name = name
        self.path = path
        self.complaints = open_console(err)
        self.status = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Report an error of the store, a filter or a setting, and let any other one pass.

        A broken pipe passes too: it ends the whole command line (:mod:`proxy.__main__`).
        """
        if isinstance(error, FilterError):
            self.status = self.refuse(*_explain_filter_error(error))
        elif isinstance(error, ConfigurationError):
            self.status = self.refuse(f"{error}.")
        elif isinstance(error, (StoreError, OSError)) and not isinstance(error, BrokenPipeError):
            self.status = self.fail(self._explain(error))
        else:
            return False
        return True

    def tell(self, words: str, *lines: str) -> None:
        """Print one line; further lines are escaped already."""
        self.complaints.out("\n".join((f"{self._name}: {escape_line(words)}", *lines)))

    def tell_gaps(self, gaps: Iterable[Gap]) -> None:
        """Say why costs are unknown, and what gives them, a line each."""
        for gap in gaps:
            self.tell(f"a cost is unknown: {gap.words}.")

    def tell_marks(self, console: Console, marks: set[str]) -> None:
        """Explain the marks of a list that a terminal shows."""
        if marks and console.is_terminal:
            from proxy.commands.table import explain_marks  # noqa: PLC0415 - not every command has one

            self.tell(f"{explain_marks(marks)}.")

    def fail(self, words: str) -> int:
        """Say why something cannot be done, and return the exit status for that."""
        self.tell(words)
        return 1

    def refuse(self, words: str, *lines: str) -> int:
        """Say what is wrong with the arguments, and return the exit status for that."""
        self.tell(words, *lines)
        return 2

    def check_store(self) -> None:
        """Check that there is a store.

        Raises:
            StoreError: there is no store.
        """
        if not self.path.exists():
            raise _StoreMissingError(
                f"there is no store at {self.path}. `spantap serve` makes it when it"
                " starts; if yours is elsewhere, name it with --store or SPANTAP_STORE."
            )
        if self.path.is_dir():
            raise _StoreMissingError(
                f"{self.path} is a folder: name the store's file in it with --store."
            )

    def open_store(self) -> Calls:
        """Open the store for reading.

        Raises:
            StoreError: there is no store, or it cannot be read.
        """
        self.check_store()
        return open_calls(self.path)

    def _explain(self, error: Exception) -> str:
        """Say what is wrong, also if it is a missing permission, which SQLite does not mention."""
        store = self.path
        # Readers write too, to the file beside the store that they share with its owner.
        may_read = os.access(store, os.R_OK) and os.access(store.parent, os.W_OK | os.X_OK)
        if may_read or not isinstance(error, (StoreUnavailable, OSError)):
            return str(error)
        return (
            f"no permission to read {store} and to write in its folder: run this as the user of"
            f" `spantap serve` ({error})"
        )


_BEFORE: Final = 40
"""Characters before the mark that are shown, so that the line fits in most terminals."""

_BEHIND: Final = 30
"""Characters from the mark on that are shown."""


def _explain_filter_error(error: FilterError) -> tuple[str, str, str]:
    """Say what is wrong in a line, and in two more show where.

    >>> from telemetry.errors import FilterError
    >>> for line in _explain_filter_error(FilterError("unknown key `modle`", "a modle:x", 2)):
    ...     print(line)
    unknown key `modle` (at character 3 of the filter)
      a modle:x
        ^
    """
    text, at = error.text, error.position
    start, end = max(0, at - _BEFORE), at + _BEHIND
    before = escape_line(text[start:at])
    if start:
        before = f"…{before}"
    behind = escape_line(text[at:end]) + ("…" if end < len(text) else "")
    return escape_line(str(error)), f"  {before}{behind}", f"  {' ' * cell_len(before)}^"


_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def count_calls(count: int) -> str:
    """Count calls.

    >>> count_calls(1), count_calls(12345)
    ('1 call', '12,345 calls')
    """
    return "1 call" if count == 1 else f"{count:,} calls"


def count_spans(calls: int, others: int) -> str:
    """Count spans: those of calls and, if there are any, those of runs.

    >>> count_spans(2, 0), count_spans(1, 3)
    ('2 calls', '1 call and 3 spans of runs')
    """
    if not others:
        return count_calls(calls)
    return f"{count_calls(calls)} and {others:,} span{'s' if others > 1 else ''} of runs"


def describe_size(size_bytes: int) -> str:
    """Describe a size in the largest unit that is not larger than it.

    >>> describe_size(0), describe_size(1536), describe_size(5 << 30)
    ('0 bytes', '1.5 KiB', '5.0 GiB')
    """
    for unit, length in _UNITS:
        if size_bytes >= length:
            return f"{size_bytes / length:,.1f} {unit}"
    return f"{size_bytes} bytes"
