"""The programs that check what is deployed: ``make deploy`` installs them into ``.deploy``."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ("ROOT", "fail_or_skip", "run", "tool")

ROOT = Path(__file__).resolve().parents[2]

_PROGRAMS = ROOT / ".deploy" / "bin"


def tool(name: str) -> str:
    """The path of a program of ``.deploy/bin``: ``zizmor``, or ``python`` for the libraries."""
    program = _PROGRAMS / name
    if not program.exists():
        fail_or_skip("make deploy installs its tools")
    return str(program)


def fail_or_skip(reason: str) -> None:
    """End a test whose tools are absent: skipped, but failed where ``SPANTAP_DEPLOY=1``.

    That is how ``make deploy`` runs the tests, which has installed all of them.
    """
    if os.environ.get("SPANTAP_DEPLOY") == "1":
        pytest.fail(f"a tool is absent: {reason}")
    pytest.skip(reason)


def run(
    command: Sequence[str | Path], *, cwd: Path = ROOT, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, whatever its status; its output is text, both streams together."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
