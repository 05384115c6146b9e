"""``spantap run`` as a process, in surroundings of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from proxy.launches.variables import read_variables
from telemetry.launch_labels import read_name
from telemetry.reading.stored_calls import open_calls
from tests.e2e.processes import clean_environment, wait_until
from tests.e2e.spantap import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("ASK", "Runs")

ASK = """\
import json, os, sys, time, urllib.request
PATHS = {"OPENAI_BASE_URL": "/chat/completions", "ANTHROPIC_BASE_URL": "/v1/messages"}
def ask(name="OPENAI_BASE_URL", model="gpt-demo"):
    chat = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    request = urllib.request.Request(os.environ[name] + PATHS[name], json.dumps(chat).encode())
    with urllib.request.urlopen(request) as answer:
        return answer.status
"""
"""The beginning of programs that call by the variables, with nothing but the standard library.

They run by ``python -S``, which starts sooner, and beside ``coverage`` 0.15 s sooner.
"""

SECONDS = 60.0

_MARK = "RUNS_TEST"
"""A variable that tells our processes from all others, whoever their parent is by now."""


@dataclass(kw_only=True)
class Runs:
    """Runs of one store.

    Attributes:
        variables: further ones of all of them.
    """

    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: uuid4().hex)

    @property
    def store(self) -> Path:
        return self.folder / "traces.db"

    @property
    def environment(self) -> dict[str, str]:
        known = {row.name for row in read_variables()}
        plain = {name: text for name, text in clean_environment().items() if name not in known}
        ours = {"SPANTAP_STORE": str(self.store), _MARK: self.mark, "HOME": str(self.folder)}
        return plain | ours | dict(self.variables)

    def start(
        self, *words: str, stdin: int = subprocess.DEVNULL, **variables: str
    ) -> subprocess.Popen[str]:
        """Start the program with these arguments."""
        return subprocess.Popen(
            [PROGRAM, *words],
            env=self.environment | variables,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def end(self, process: subprocess.Popen[str]) -> tuple[int, str, str]:
        """Wait for its end: status, standard output, standard error.

        Raises:
            subprocess.TimeoutExpired: it does not end; with what hung, for it will not hang again.
        """
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired as error:
            log = Path(f"{self.store}.log")
            error.add_note("left: " + "\n".join(self.processes()))
            error.add_note(f"log: {log.read_text(errors='replace') if log.exists() else '-'}")
            raise
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):  # or another test would fail of them
                if pipe is not None:
                    pipe.close()
        return process.returncode, out, err

    def run(self, *words: str, **variables: str) -> tuple[int, str, str]:
        """``spantap`` with these arguments, to its end."""
        return self.end(self.start(*words, stdin=subprocess.DEVNULL, **variables))

    def python(self, script: str, *flags: str, **variables: str) -> tuple[int, str, str]:
        """``spantap run`` of a script of Python's, after :data:`ASK`."""
        command = (sys.executable, "-S", "-c", ASK + script)
        return self.run("run", *flags, "--", *command, **variables)

    def start_python(self, script: str, *flags: str) -> subprocess.Popen[str]:
        """The same, and not waited for, but for the first line that the script prints."""
        process = self.start("run", *flags, "--", sys.executable, "-Suc", ASK + script)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n", self.end(process)
        return process

    def calls(self) -> list[tuple[str | None, str | None]]:
        """The run and the model of each recorded call, oldest first."""
        with open_calls(self.store) as reader:
            summaries = [stored.summary for stored in reader.newest(1000)]
        return [(it.launch and read_name(it.launch), it.model) for it in summaries]

    def processes(self) -> list[str]:
        """The command lines of all processes that live."""
        lines = self._find_processes().values()
        return [line for line in lines if line and str(os.getpid()) not in line.split()]

    def pids(self, word: str) -> list[int]:
        """The ids of the processes whose command lines have a word."""
        return [pid for pid, line in self._find_processes().items() if word in line.split()]

    def _find_processes(self) -> dict[int, str]:
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if f"{_MARK}={self.mark}".encode() in (path / "environ").read_bytes():
                    line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found[int(path.name)] = line
            except OSError:
                continue  # it has ended
        return found

    def see_none_left(self, seconds: float = 15.0) -> None:
        """See that no process is left, or will be in a moment."""
        wait_until(lambda: not self.processes(), seconds, f"the end of {self.processes()}")
