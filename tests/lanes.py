"""Programs and packages that lanes of the Makefile install, each lane in a folder of its own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

__all__ = ("find_agents", "find_node_packages", "find_programs")

_ROOT = Path(__file__).resolve().parents[1]


def find_programs(lane: str) -> Path:
    """The folder of Python's programs that ``make LANE`` installs; a skip where it is absent.

    A framework's lane is ``frameworks/NAME``. A lock may have nothing for a Python, as that of
    CrewAI for 3.14; that is a skip as well.
    """
    folder = _ROOT / f".{lane}"
    if not (folder / ".stamp").exists():
        _miss(lane)
    installed = {
        path.name.partition("-")[0] for path in folder.glob("lib/python*/site-packages/*.dist-info")
    }
    if not installed - {"pip", "setuptools"}:
        pytest.skip(f"locks/{lane}.txt has nothing for this Python")
    return folder / "bin"


def find_node_packages(lane: str) -> Path:
    """The folder of packages for Node that ``make LANE`` installs, likewise."""
    packages = _ROOT / f".{lane}" / "node" / "node_modules"
    if not (packages.parent / ".stamp").exists():
        _miss(lane)
    return packages


def find_agents(program: str) -> list[Path]:
    """The folders of the coding agents that ``make agents`` installs; a skip without this one."""
    packages = find_node_packages("agents")
    # opencode's own package has its program put in place by a script; this is the program's.
    folders = [packages / ".bin", packages / "opencode-linux-x64" / "bin", find_programs("agents")]
    if shutil.which(program, path=os.pathsep.join(map(str, folders))) is None:
        pytest.skip(f"{program} was not installed: it is not for this Python or this machine")
    return folders


def _miss(lane: str) -> None:
    lane = lane.partition("/")[0]
    reason = f"make {lane} installs what this needs"
    if os.environ.get(f"SPANTAP_{lane.upper()}") == "1":
        pytest.fail(f"absent: {reason}")
    pytest.skip(reason)
