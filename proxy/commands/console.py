"""The console that commands print on, and the pager for long output.

A console is a terminal, or a pipe, which has no width. Output goes to the pager piece by piece; the
pagers of rich and of the standard library would hold all of it in memory.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import subprocess
from typing import IO, TYPE_CHECKING, Final

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TextIO

_PIPE_WIDTH = 1_000
"""The width without a terminal: enough for any table with bounded cells."""


def open_console(out: TextIO) -> Console:
    """Open a console on `out`, without rich's guesses about colours and width for a pipe."""
    is_terminal = out.isatty()
    return Console(
        file=out,
        force_terminal=is_terminal,
        width=None if is_terminal else _PIPE_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )


_LESS_FLAGS: Final = "FRX"
"""git's flags: ``less`` ends by itself if everything fits on the screen, and shows colours.
``$LESS`` takes precedence."""

_NO_PAGERS: Final[tuple[list[str], ...]] = ([], ["cat"])


class _PagerEndedError(Exception):
    """The pager has ended."""


class _Pipe(io.TextIOWrapper):
    """Text for a pager, which may end at any time; rich would end the program at a broken pipe."""

    def write(self, text: str, /) -> int:
        """Write text.

        Raises:
            _PagerEndedError: the pager has ended.
        """
        try:
            return super().write(text)
        except BrokenPipeError as error:
            raise _PagerEndedError from error

    def flush(self) -> None:
        """Pass on what is written; raises as :meth:`write` does."""
        try:
            super().flush()
        except BrokenPipeError as error:
            raise _PagerEndedError from error


@contextlib.contextmanager
def paging(console: Console, *, is_long: bool = True) -> Iterator[None]:
    """Send what the block prints on a console through a pager, if one is wanted.

    If the pager ends early, or somebody interrupts it, the block ends without an error: its reader
    has seen enough.

    Args:
        console: where the output goes without a pager.
        is_long: whether the output is longer than the screen.
    """
    out = console.file
    process = _start(out) if is_long else None
    if process is None or process.stdin is None:
        yield
        return
    pipe = _Pipe(process.stdin, encoding=getattr(out, "encoding", None), errors="backslashreplace")
    console.file = pipe
    try:
        with contextlib.suppress(_PagerEndedError, KeyboardInterrupt):
            yield
    finally:
        console.file = out
        with contextlib.suppress(_PagerEndedError, BrokenPipeError):
            pipe.close()
        _wait(process)


def find_pager(environ: Mapping[str, str]) -> list[str] | None:
    """Find the command of the pager: ``$PAGER``, else ``less``.

    ``None`` on a dumb terminal, if ``NO_PAGER`` is set, if ``PAGER`` is empty or ``cat``, or if
    there is no such program.
    """
    if environ.get("NO_PAGER") or environ.get("TERM") == "dumb":
        return None
    try:
        command = shlex.split(environ.get("PAGER", "less"))
    except ValueError:  # a quote without its end
        return None
    if command in _NO_PAGERS or shutil.which(command[0], path=environ.get("PATH")) is None:
        return None
    return command


def _start(out: IO[str]) -> subprocess.Popen[bytes] | None:
    try:
        terminal = out.fileno()
    except OSError:  # text in memory
        return None
    command = find_pager(os.environ) if os.isatty(terminal) else None
    if command is None:
        return None
    out.flush()
    try:
        return subprocess.Popen(  # noqa: S603 - the user's own command
            command,
            stdin=subprocess.PIPE,
            stdout=terminal,
            env={"LESS": _LESS_FLAGS, **os.environ},
        )
    except OSError:
        return None


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Wait for the pager to end. It has the terminal, so an interrupt is for the pager."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            process.wait()
            return
