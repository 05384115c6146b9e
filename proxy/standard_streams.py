"""Prepares the standard streams of the command line before anything else runs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO


def open_closed_streams() -> None:
    """Open the null device for each standard stream that was closed (``spantap run … >&-``).

    Otherwise the next file or socket would get its number, and a line for the terminal would be
    written into that. Programs that are started later inherit the device.
    """
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is this one: those below it are open by now.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 - its only way
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115


def accept_all_text(*streams: TextIO) -> None:
    r"""Write a character that a stream's encoding lacks as ``\u65e5`` instead of failing.

    Not every terminal uses UTF-8.
    """
    for stream in streams:
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
