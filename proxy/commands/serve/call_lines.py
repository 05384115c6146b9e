"""Writes a line for each call to the terminal of ``spantap serve``.

Run as ``python -m proxy.commands.serve.call_lines STORE ALIVE``: the store's file, and a pipe that
closes when the proxy ends.

It is a separate process, which reads the store as ``spantap traces --follow`` does, so that a
terminal that accepts no more output stops nothing else (R2). When the proxy has ended, for whatever
reason, it lists the last calls and ends too.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.standard_streams import accept_all_text
from telemetry.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

    from telemetry.reading.calls import Calls
    from telemetry.store.rows import SpanSummary

POLL_SECONDS = 0.5
"""How often the store is read, which takes a millisecond; soon enough for a person."""

TABLE_ROWS = 100
"""How many calls are read and laid out together."""


def start_call_lines(store: Path) -> None:
    """Start the process; it ends after this process, even if that has become another program."""
    ends, alive = os.pipe()
    try:
        command = [
            sys.executable,
            "-P",
            "-m",
            "proxy.commands.serve.call_lines",
            str(store),
            str(ends),
        ]
        subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(ends,))  # noqa: S603 - ours
    finally:
        os.close(ends)
    os.set_inheritable(alive, True)  # noqa: FBT003 - its only parameter


class CallLines:
    """Writes lines for the calls that come into a store from now on.

    Args:
        store: the store's file, which need not exist yet.
        out: where lines are written.
    """

    def __init__(self, store: Path, out: TextIO) -> None:
        self._store = store
        self._out = out
        self._seen: int | None = None if store.exists() else 0
        self._reader: Calls | None = None
        self._inode = 0  # of the file that is open
        self._above: Mapping[str, int] | None = None

    def look(self) -> None:
        """List the calls since the last look.

        Raises:
            OSError: nothing more can be written.
        """
        from proxy.commands.console import open_console  # noqa: PLC0415 - not before it is needed
        from proxy.commands.table import print_table  # noqa: PLC0415

        while rows := self._read():
            self._above = print_table(open_console(self._out), rows, above=self._above)
            self._out.flush()

    def close(self) -> None:
        """Close the file."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    def _read(self) -> list[SpanSummary]:
        """Read the next new calls; nothing if that fails, and then the next look tries again."""
        try:
            rows = self._open().after(self._seen or 0, TABLE_ROWS)
        except (StoreError, OSError):
            self.close()
            return []
        if rows:
            self._seen = rows[-1].seq
        return rows

    def _open(self) -> Calls:
        """Open the store; again if another file has its name, because it was damaged and replaced.

        Raises:
            StoreError, OSError: it cannot be read.
        """
        from telemetry.reading.stored_calls import open_calls  # noqa: PLC0415 - as above

        inode = self._store.stat().st_ino
        if self._reader is not None and inode == self._inode:
            return self._reader
        is_another = self._reader is not None
        self.close()
        self._reader, self._inode = open_calls(self._store), inode
        if is_another:
            self._seen = 0
        elif self._seen is None:
            self._seen = self._reader.last_seq()
        return self._reader


def main() -> int:
    """List calls until the proxy has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the proxy, and we end after that
    accept_all_text(sys.stdout)
    lines, ends = CallLines(Path(sys.argv[1]), sys.stdout), int(sys.argv[2])
    with contextlib.suppress(OSError):  # the terminal is gone
        has_ended = False
        while not has_ended:
            has_ended = bool(select.select([ends], [], [], POLL_SECONDS)[0])
            lines.look()
    lines.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
