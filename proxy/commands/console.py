"""The console that commands print on, and the pager for what is longer than its screen.

A console is a terminal, or a pipe, which has no width.

Rules:

1. The pager is ``$PAGER``, else ``less`` where there is one, which like git's has the flags ``FRX``
   unless ``$LESS`` says others: it ends by itself where all fits on the screen, and shows colours.
2. There is none without a terminal or on a dumb one, nor where ``NO_PAGER`` is set, or ``PAGER`` to
   nothing or to ``cat``.
3. A pager that ends before it has read all is no error: its reader has seen enough.
4. What is shown is written piece by piece, and never held as a whole: rich's own pager and the
   standard library's hold all of it.
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
"""Wide enough for any table whose cells are bounded, where no terminal sets a width."""


def open_console(out: TextIO) -> Console:
    """Open a console on `out`; rich's own guesses about colours and widths end at a pipe."""
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
_NO_PAGERS: Final[tuple[list[str], ...]] = ([], ["cat"])


class _PagerEndedError(Exception):
    """Nobody reads any more."""


class _Pipe(io.TextIOWrapper):
    """Text for a pager, which may end at any time: rich takes a broken pipe for the very end."""

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
        """Hand on what is written; raises as :meth:`write`."""
        try:
            super().flush()
        except BrokenPipeError as error:
            raise _PagerEndedError from error


@contextlib.contextmanager
def paging(console: Console, *, is_long: bool = True) -> Iterator[None]:
    """Send what the block prints on a console through a pager, if there is to be one.

    The block is left early, without an error, where the pager ends or somebody interrupts it.

    Args:
        console: where it would go without one.
        is_long: whether there is more than the screen has room for.
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
    """Find the command of the pager, and ``None`` where none is wanted or there (rules 1 and 2)."""
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
    """Wait for the pager to end: an interrupt is its own to answer, as the terminal is."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            process.wait()
            return
