r"""Runs the command of a launch: its start, the signals that it gets, and its end.

The command runs in our process group, with our standard streams and open descriptors, so that a
terminal and a shell's job control see one job.

A signal that is sent only to us is passed on. A signal from the terminal (Ctrl-C, Ctrl-\) is not,
because it reaches the whole process group. Signals that stop and continue are left to the kernel.
A signal that we ignored from the start (``nohup``) stays ignored by both.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

_TYPED = frozenset({signal.SIGINT, signal.SIGQUIT})
"""Signals that a terminal sends to its foreground group."""

_PASSED_ON = (
    *(signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
)


class CannotStart(Exception):  # noqa: N818 - a fact, in the words that the user reads
    """The command cannot be started.

    Attributes:
        status: the exit status that a shell would give: 127 if the command cannot be found, 126 if
            it cannot be started.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def check_program(program: str, path: str | None) -> None:
    """Check that a program exists, before anything is done for it.

    Args:
        program: its name or path.
        path: the variable ``PATH``.

    Raises:
        CannotStart: there is no such program, or it cannot be run.
    """
    if shutil.which(program, path=path) is not None:
        return
    if os.sep in program and Path(program).is_dir():
        raise CannotStart(f"cannot start {program!r}: it is a folder", 126)
    if shutil.which(program, os.F_OK, path) is None:
        where = "no such file" if os.sep in program else "no such program on PATH"
        raise CannotStart(f"cannot start {program!r}: {where}", 127)
    raise CannotStart(f"cannot start {program!r}: it is not an executable file", 126)


def run_command(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a command to its end, and return its exit status.

    If a signal ended it, the status is 128 plus the signal's number, as in a shell.

    Raises:
        CannotStart: the system cannot start it.
    """
    early: list[int] = []
    process: subprocess.Popen[bytes] | None = None

    def pass_on(number: int, _: FrameType | None) -> None:
        if number in _TYPED and _is_in_foreground():
            return
        if process is None:
            early.append(number)
        else:
            process.send_signal(number)

    before = {
        number: signal.signal(number, pass_on)
        for number in _PASSED_ON
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        try:
            process = subprocess.Popen(command, env=environ, close_fds=False)  # noqa: S603 - that is what is wanted
        except OSError as error:
            raise _explain(command[0], error) from error
        for number in early:
            process.send_signal(number)
        status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status


def _is_in_foreground() -> bool:
    """Tell whether a terminal sends its signals to this process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _explain(program: str, error: OSError) -> CannotStart:
    if isinstance(error, FileNotFoundError):  # the program itself is there
        reason = "the interpreter that its first line names is not there"
    elif isinstance(error, PermissionError):
        reason = "no permission to run it"
    else:
        reason = error.strerror or type(error).__name__
    return CannotStart(f"cannot start {program!r}: {reason}", 126)
