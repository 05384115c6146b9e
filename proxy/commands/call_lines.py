"""A line per call on the terminal of ``spantap serve``.

Run as ``python -m proxy.commands.call_lines STORE ALIVE``: the store's file, and a descriptor that
comes to its end with the proxy.

Rules:

1. It is a process of its own that reads the store, as ``spantap traces --follow`` does: a terminal
   that takes nothing more stops nothing else (R2).
2. It ends with the proxy, whatever ends that, and lists the last calls before.
3. A store that cannot be read is looked at again.
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

from telemetry.errors import StoreError

if TYPE_CHECKING:
    from typing import TextIO

    from proxy.commands.listing import Listing
    from telemetry.store.reader import StoreReader

__all__ = ("CallLines", "main", "start_call_lines")

POLL_SECONDS = 0.5
"""How often it looks: soon enough for a person, and a read of a millisecond."""


def start_call_lines(store: Path) -> None:
    """Start the process; it ends when this one has ended, whichever program that is by then."""
    ends, alive = os.pipe()
    try:
        command = [sys.executable, "-P", "-m", "proxy.commands.call_lines", str(store), str(ends)]
        subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(ends,))  # noqa: S603 - ours
    finally:
        os.close(ends)
    os.set_inheritable(alive, True)  # noqa: FBT003 - its only parameter


class CallLines:
    """The lines of the calls that a store gets from now on.

    Args:
        store: its file, which need not exist yet.
        out: where they are written.
    """

    def __init__(self, store: Path, out: TextIO) -> None:
        self._store = store
        self._out = out
        self._seen: int | None = None if store.exists() else 0
        self._reader: StoreReader | None = None
        self._listing: Listing | None = None

    def look(self) -> None:
        """List what has come since the last look."""
        try:
            self._list()
        except (StoreError, OSError):  # rule 3
            self.close()

    def close(self) -> None:
        """Close the file."""
        if self._reader is not None:
            self._reader.close()
        self._reader = self._listing = None

    def _list(self) -> None:
        """List what is new.

        Raises:
            StoreError, OSError: the store cannot be read.
        """
        # What takes memory and time to import is not needed before the first look.
        from proxy.commands.console import open_console  # noqa: PLC0415
        from proxy.commands.listing import Listing  # noqa: PLC0415
        from telemetry.store.reader import StoreReader  # noqa: PLC0415

        if self._reader is None or self._listing is None:
            if not self._store.exists():
                return
            self._reader = StoreReader(self._store)
            self._listing = Listing(
                open_console(self._out), self._reader, as_json=False, full=False
            )
        if self._seen is None:
            self._seen = self._reader.last_seq()
        self._listing.add(self._reader.since(self._seen))
        self._out.flush()
        self._seen = max(self._seen, self._listing.last_seq)


def main() -> int:
    """List calls until the proxy has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the proxy, and this ends behind it
    lines, ends = CallLines(Path(sys.argv[1]), sys.stdout), int(sys.argv[2])
    with contextlib.suppress(BrokenPipeError):
        has_ended = False
        while not has_ended:
            has_ended = bool(select.select([ends], [], [], POLL_SECONDS)[0])
            lines.look()
    lines.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
