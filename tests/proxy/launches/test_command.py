"""The command of a launch as a process: signals, terminals, descriptors, exit statuses."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from proxy.launches.command import CannotStart, check_program, run_command
from tests.e2e.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUN = "import os, sys; from proxy.launches.command import run_command\n"
RUN += "sys.exit(run_command(sys.argv[1:], dict(os.environ)))"

LISTEN = """\
import signal, sys, time
heard = []
def hear(number, _):
    heard.append(signal.Signals(number).name)
    print(*heard, flush=True)
    if number == signal.SIGTERM:
        sys.exit(3)
for name in ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2"):
    if signal.getsignal(getattr(signal, name)) is not signal.SIG_IGN:
        signal.signal(getattr(signal, name), hear)
print("up", flush=True)
while True:
    time.sleep(0.05)
"""
"""A program that tells which signals it has heard, and ends at the last."""

SECONDS = 20.0


@contextlib.contextmanager
def running(*command: str, **how: object) -> Iterator[subprocess.Popen[str]]:
    """A process that runs a command, ended if it does not end by itself."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *command],
        stdout=subprocess.PIPE,
        text=True,
        **how,  # type: ignore[call-overload]
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)],
)
def test_the_exit_status_is_the_commands(script: str, status: int) -> None:
    """Or 128 and its signal, as a shell tells it."""
    assert run_command(["sh", "-c", script], dict(os.environ)) == status


def test_what_cannot_be_started_is_told(tmp_path: Path) -> None:
    """With the status that a shell has for it."""
    lacking, plain, noise = tmp_path / "lacking", tmp_path / "plain", tmp_path / "noise"
    plain.write_text("x")
    for file, text in ((lacking, "#!/nowhere/sh\n"), (noise, "\x00noise")):
        file.write_text(text)
        file.chmod(0o700)
    folder = str(tmp_path)
    for program, status, words in (
        ("nosuch", 127, "no such program on PATH"),
        (str(tmp_path / "nosuch"), 127, "no such file"),
        (str(plain), 126, "not an executable file"),
        ("plain", 126, "not an executable file"),
        (folder, 126, "a folder"),
    ):
        with pytest.raises(CannotStart, match=words) as caught:
            check_program(program, folder)
        assert (caught.value.status, repr(program) in str(caught.value)) == (status, True)
    for file, words in ((lacking, "interpreter"), (noise, "Exec format error")):
        check_program(str(file), folder)
        with pytest.raises(CannotStart, match=words) as caught:
            run_command([str(file)], {})
        assert caught.value.status == 126


def test_signals_are_passed_on() -> None:
    """Each of them once, where no terminal has sent them."""
    names = ["SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT", "SIGINT", "SIGTERM"]
    with running(sys.executable, "-c", LISTEN, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        for count, name in enumerate(names, 1):
            process.send_signal(getattr(signal, name))
            assert process.stdout.readline().split() == names[:count]
        assert process.wait(SECONDS) == 3


def test_what_nohup_ignores_is_ignored_by_both() -> None:
    """A signal that was ignored at our start."""
    ignore = "trap '' HUP; exec \"$@\""
    command = [sys.executable, "-c", RUN, sys.executable, "-c", LISTEN]
    with subprocess.Popen(
        ["sh", "-c", ignore, "sh", *command],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        for name in ("SIGHUP", "SIGUSR1", "SIGTERM"):
            process.send_signal(getattr(signal, name))
            time.sleep(0.2)
        assert process.stdout.read().split() == ["SIGUSR1", "SIGUSR1", "SIGTERM"]


def test_streams_and_descriptors_are_the_commands() -> None:
    """What a shell opened for it, too: ``<(…)`` is one."""
    reading, writing = os.pipe()
    os.write(writing, b"through the pipe")
    os.close(writing)
    script = f"cat; cat /dev/fd/{reading}; echo err >&2"
    process = subprocess.run(
        [sys.executable, "-c", RUN, "sh", "-c", script],
        input=b"in ",
        capture_output=True,
        pass_fds=[reading],
        check=True,
    )
    os.close(reading)
    assert (process.stdout, process.stderr) == (b"in through the pipe", b"err\n")


class Terminal:
    """A program in a session of its own, with a terminal."""

    def __init__(self, *command: str) -> None:
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            with contextlib.suppress(OSError):
                os.execvp(command[0], command)
            os._exit(1)
        self.shown = ""

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> None:
        """Wait until it is shown, and forget all up to it."""

        def sees() -> bool:
            while select.select([self._master], [], [], 0)[0]:
                with contextlib.suppress(OSError):
                    if data := os.read(self._master, 4096):
                        self.shown += data.decode()
                        continue
                break
            return text in self.shown

        wait_until(sees, SECONDS, f"{text!r} in {self.shown!r}")
        self.shown = self.shown.partition(text)[2]

    def hang_up(self) -> None:
        """End it and all that it began, whatever it waits for: the terminal is gone."""
        os.close(self._master)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def close(self) -> int:
        """End it, and return its exit status."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self._master)
        return os.waitstatus_to_exitcode(status)


def test_what_a_terminal_sends_comes_once() -> None:
    r"""Ctrl-C and Ctrl-\ reach the whole group; the terminal is the command's."""
    terminal = Terminal(sys.executable, "-c", RUN, sys.executable, "-c", LISTEN)
    terminal.wait_for("up\r\n")
    terminal.type("\x03")
    terminal.wait_for("SIGINT\r\n")
    terminal.type("\x1c")
    terminal.wait_for("SIGINT SIGQUIT\r\n")
    os.kill(terminal.pid, signal.SIGTERM)
    terminal.wait_for("SIGINT SIGQUIT SIGTERM\r\n")
    assert terminal.close() == 3


def test_a_shell_stops_and_continues_it_as_one_job(tmp_path: Path) -> None:
    """Ctrl-Z, ``bg``, ``fg``, and Ctrl-C after that."""
    if (bash := shutil.which("bash")) is None:
        pytest.skip("there is no bash")
    (tmp_path / "run.py").write_text(RUN)
    (tmp_path / "listen.py").write_text(LISTEN)
    (tmp_path / "job").write_text(f"exec {sys.executable} run.py {sys.executable} listen.py\n")
    terminal = Terminal("sh", "-c", f"cd {tmp_path}; exec {bash} --norc --noprofile -i")
    try:
        terminal.type("sh job\n")
        terminal.wait_for("\rup\r\n")
        terminal.type("\x1a")
        terminal.wait_for("Stopped")
        terminal.type("bg\n")
        terminal.wait_for("&")
        terminal.type("kill -INT $(jobs -p)\n")  # in the background nobody else hears it
        terminal.wait_for("SIGINT")
        terminal.type("fg\n")
        terminal.wait_for("sh job")
        time.sleep(0.5)
        terminal.type("\x03")
        terminal.wait_for("SIGINT SIGINT")
        terminal.type("\x1a")
        terminal.wait_for("Stopped")
        terminal.type("kill -TERM $(jobs -p); fg; echo status $?\n")
        terminal.wait_for("status 3")
        terminal.type("exit\n")
    finally:
        terminal.hang_up()
