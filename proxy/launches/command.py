r"""The command of a launch: how it is started, which signals it is sent on, and how it ended.

Rules:

1. It is in our own process group, with our own standard streams and open descriptors: a terminal
   and a shell's job control see one job.
2. What is sent to us alone is passed on. What a terminal sends (Ctrl-C, Ctrl-\) reaches the whole
   group, and is not: whether it does is told by the terminal's foreground group. Signals that stop
   and continue are left to the kernel.
3. A signal that we were started to ignore (``nohup``) is ignored by both.
4. The exit status is the command's, or 128 and the number of the signal that ended it, as a shell
   tells it. One that cannot be found is 127, one that cannot be started 126.
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


class CannotStart(Exception):  # noqa: N818 - a fact, as told to the user
    """The command cannot be started.

    Attributes:
        status: the exit status that a shell has for it.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def check_program(program: str, path: str | None) -> None:
    """Check that there is such a program, before anything is done for it.

    Args:
        program: its name, or a path of it.
        path: the variable ``PATH``.

    Raises:
        CannotStart: there is none, or it cannot be run.
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
    """Run a command to its end, and return its exit status (rule 4).

    Raises:
        CannotStart: the system says why.
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
    """Tell whether a terminal sends what is typed to this process group."""
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
    if isinstance(error, FileNotFoundError):  # though the program is there
        reason = "the interpreter that its first line names is not there"
    elif isinstance(error, PermissionError):
        reason = "no permission to run it"
    else:
        reason = error.strerror or type(error).__name__
    return CannotStart(f"cannot start {program!r}: {reason}", 126)
