"""The command line as a process: what it prints where, and how it ends."""

from __future__ import annotations

import subprocess
import sys

from codec.dialects import DIALECTS

PROGRAM = [sys.executable, "-m", "proxy"]


def test_dialects_are_listed() -> None:
    """On standard output, one a line, and that is no error."""
    done = subprocess.run(
        [*PROGRAM, "upstream", "--dialect", "?"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == list(DIALECTS)
    assert not done.stderr


def test_a_reader_that_has_enough_is_no_error() -> None:
    """As ``spantap upstream --dialect '?' | head -1``: no traceback."""
    with subprocess.Popen(
        [*PROGRAM, "upstream", "--dialect", "?"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 1
