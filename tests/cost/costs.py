"""What was counted, what is recorded in ``recorded.json``, and whether the two agree.

Rules:

1. A path that costs 15 % more than recorded is a regression. One that costs 15 % less is a record
   that lets the next regression pass: it is written down in the same change, by ``make costs``.
2. Bytecodes are compared under the Python version that they were recorded with (3.11), and
   instructions with the very build too: elsewhere they say nothing.
3. What libraries cost is counted as well: they are those of the lock, or nothing is compared; and
   the record is of the lock's, so that a new lock comes with a new record.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from codec.jsontext import decode_json
from tests.e2e.processes import clean_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = (
    "COUNTERS",
    "Costs",
    "describe_this_python",
    "find_obstacle",
    "find_tool_obstacle",
    "judge",
    "measure",
    "read_locked",
    "read_record",
    "write_record",
)

TOLERANCE = 0.15
"""From run to run bytecodes differ by nothing, instructions by up to 0.02."""

Costs: TypeAlias = dict[str, int]
"""By the names of paths."""

COUNTERS = ("bytecodes", "instructions")

LIBRARIES = (
    "aiohttp",
    "google-re2",
    "msgspec",
    "multidict",
    "openinference-semantic-conventions",
    "opentelemetry-proto",
    "opentelemetry-sdk",
    "protobuf",
    "yarl",
)
"""Those that a call goes through."""

_ROOT = Path(__file__).parents[2]
_RECORD = Path(__file__).with_name("recorded.json")

_LOCKED = re.compile(r"^([a-z0-9-]+)==([^ ]+)", re.MULTILINE)

_MAX_SECONDS = 300.0
"""Of one child: ten times what it takes where nothing else runs."""


def measure(counter: str, group: str = "all", worsened: Sequence[str] = ()) -> list[Costs]:
    """Count in a process of its own.

    Args:
        counter: one of :data:`COUNTERS`.
        group: see :mod:`tests.cost.child`.
        worsened: see there.

    Returns:
        The costs of the product, and then of it worsened in each way.
    """
    with tempfile.TemporaryDirectory() as folder:
        counts_file = "-" if counter == "bytecodes" else f"{folder}/counts"
        command = [] if counter == "bytecodes" else _callgrind(counts_file)
        command += [sys.executable, "-m", "tests.cost.child", counts_file, group, *worsened]
        ended = subprocess.run(
            command,
            cwd=_ROOT,
            env=_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=_MAX_SECONDS,
        )
    assert ended.returncode == 0, ended.stderr
    costs: list[Costs] = decode_json(ended.stdout.encode())
    return costs


def _callgrind(counts_file: str) -> list[str]:
    return [
        "valgrind",
        "--tool=callgrind",
        "--quiet",
        "--instr-atstart=no",
        "--collect-atstart=no",
        f"--callgrind-out-file={counts_file}",
    ]


def _environment() -> dict[str, str]:
    """Without whoever else traces, and with the same hashes each time."""
    environment = {
        name: value
        for name, value in clean_environment().items()
        if not name.startswith(("COVERAGE_", "PYTHON"))
    }
    # Certificates are loaded in a second under valgrind, and nothing here needs any.
    no_certificates = {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}
    return environment | no_certificates | {"PYTHONHASHSEED": "0"}


def describe_this_python() -> dict[str, Any]:
    """What decides about counts, beside our own code (rules 2 and 3)."""
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "libraries": {name: version(name) for name in LIBRARIES},
        "build": f"{sys.version}, {platform.machine()}, sqlite {sqlite3.sqlite_version}",
    }


def read_locked() -> dict[str, str]:
    """The versions of the libraries that the development lock names."""
    locked = dict(_LOCKED.findall((_ROOT / "locks" / "dev.txt").read_text()))
    return {name: locked[name] for name in LIBRARIES}


def read_record() -> dict[str, Any]:
    """What is recorded: the surroundings, and costs by counter."""
    record: dict[str, Any] = decode_json(_RECORD.read_bytes())
    return record


def write_record(costs: Mapping[str, Costs]) -> None:
    """Record the costs of these surroundings."""
    _RECORD.write_text(json.dumps({**describe_this_python(), **costs}, indent=2) + "\n")


def find_tool_obstacle(counter: str) -> str | None:
    """Why a counter cannot count here."""
    if counter == "instructions":
        if platform.machine() != "x86_64" or not sys.platform.startswith("linux"):
            return "instructions are counted on Linux on x86-64 only"
        if shutil.which("valgrind") is None:
            return "valgrind, which counts instructions, is not installed"
    return None


def find_obstacle(counter: str) -> str | None:
    """Why costs cannot be compared here, ``None`` where they can (rules 2 and 3)."""
    recorded, here = read_record(), describe_this_python()
    matters = ("python", "libraries") if counter == "bytecodes" else tuple(here)
    for name in matters:
        if recorded[name] != here[name]:
            return f"recorded with {name} {recorded[name]}, this is {here[name]}"
    return find_tool_obstacle(counter)


def judge(recorded: Costs, counted: Costs) -> list[str]:
    """A sentence for each path that does not cost what is recorded (rule 1)."""
    sentences = []
    for name in {**recorded, **counted}:
        before, now = recorded.get(name), counted.get(name)
        if before is None or now is None:
            sentences.append(f"{name}: {before} recorded, {now} counted: `make costs`")
        elif now > before * (1 + TOLERANCE):
            sentences.append(f"{name}: {before} -> {now} ({now / before - 1:+.0%}): a regression")
        elif now < before * (1 - TOLERANCE):
            change = f"{before} -> {now} ({now / before - 1:+.0%})"
            sentences.append(f"{name}: {change}: cheaper, record it with `make costs`")
    return sentences
