"""What the commands that read a store have in common: how they complain, and how they end.

Rules:

1. What is told beside the output is a line on standard error that begins with the command's name.
2. The exit status is 1 where the store is missing or cannot be read, and 2 where what is asked
   cannot be followed: a filter, a setting.
3. A pipe that nobody reads any more ends the whole command line (:mod:`proxy.__main__`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from proxy.commands.console import open_console
from proxy.escape import escape_line
from telemetry.errors import ConfigurationError, FilterError, StoreError, StoreUnavailable
from telemetry.store.reader import StoreReader

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self, TextIO


class _StoreMissingError(StoreError):
    """There is no file where the store should be."""


class StoreCommand:
    """A command at work on a store; as a context, it says what went wrong in it.

    Args:
        name: what its complaints begin with.
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
        """Tell an error that rules 2 and 3 name, and let any other one pass."""
        if isinstance(error, FilterError):
            from proxy.commands.filter_errors import explain_filter_error  # noqa: PLC0415 - rare

            self.status = self.refuse(*explain_filter_error(error))
        elif isinstance(error, ConfigurationError):
            self.status = self.refuse(f"{error}.")
        elif isinstance(error, (StoreError, OSError)) and not isinstance(error, BrokenPipeError):
            self.status = self.fail(self._explain(error))
        else:
            return False
        return True

    def tell(self, words: str, *lines: str) -> None:
        """Say something in one line; the lines that follow it are escaped already."""
        self.complaints.out("\n".join((f"{self._name}: {escape_line(words)}", *lines)))

    def fail(self, words: str) -> int:
        """Say why it cannot be done, and return the exit status of that."""
        self.tell(words)
        return 1

    def refuse(self, words: str, *lines: str) -> int:
        """Say what is wrong with the order, and return the exit status of that."""
        self.tell(words, *lines)
        return 2

    def check_store(self) -> None:
        """Look whether there is a store.

        Raises:
            StoreError: there is none.
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

    def open_store(self) -> StoreReader:
        """Open the store for reading.

        Raises:
            StoreError: there is none, or it cannot be read.
        """
        self.check_store()
        return StoreReader(self.path)

    def _explain(self, error: Exception) -> str:
        """Say what is wrong; of missing permissions SQLite does not speak."""
        store = self.path
        # Readers write too: beside the store lies what they share with its owner.
        may_read = os.access(store, os.R_OK) and os.access(store.parent, os.W_OK | os.X_OK)
        if may_read or not isinstance(error, (StoreUnavailable, OSError)):
            return str(error)
        return (
            f"no permission to read {store} and to write in its folder: run this as the user of"
            f" `spantap serve` ({error})"
        )
