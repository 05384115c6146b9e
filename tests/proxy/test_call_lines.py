"""A line per call on the terminal of ``spantap serve``."""

from __future__ import annotations

import errno
import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
import requests
from rich.text import Text

from proxy.commands.serve.call_lines import CallLines
from telemetry.store.store import Store
from tests.e2e.processes import clean_environment, find_free_port
from tests.load.tool import LoadUpstream
from tests.proxy.recorded_calls import make_exchange, make_row, span_id_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def ids_in(text: str) -> list[str]:
    """The ids at the beginning of rows."""
    return re.findall(r"0a0000000000000\d", text)


def test_calls_that_come_are_listed_once(tmp_path: Path) -> None:
    """Those that were there before are not; titles stand above the first."""
    path = tmp_path / "t.db"
    with Store.open(path) as store:
        store.add([make_row(make_exchange(1))])
        lines = CallLines(path, out := io.StringIO())
        lines.look()
        assert out.getvalue() == ""
        for number in (2, 3):
            store.add([make_row(make_exchange(number))])
            lines.look()
            lines.look()
    assert ids_in(out.getvalue()) == [span_id_of(2), span_id_of(3)]
    assert out.getvalue().count("outcome") == 1
    lines.close()


def test_a_store_may_come_later_and_be_out_of_order(tmp_path: Path) -> None:
    """All of a new one are listed; one that cannot be read is looked at again."""
    path = tmp_path / "t.db"
    lines = CallLines(path, out := io.StringIO())
    lines.look()
    path.write_bytes(b"no database" * 99)
    lines.look()
    path.unlink()
    with Store.open(path) as store:
        store.add([make_row(make_exchange(1))])
        lines.look()
    assert ids_in(out.getvalue()) == [span_id_of(1)]
    lines.close()


def test_a_store_that_was_begun_anew_is_listed_from_its_beginning(tmp_path: Path) -> None:
    """Its file has another's name: that one was damaged, and moved aside."""
    path = tmp_path / "t.db"
    with Store.open(path) as store:
        store.add([make_row(make_exchange(number)) for number in (1, 2, 3)])
    lines = CallLines(path, out := io.StringIO())
    lines.look()
    for file in tmp_path.iterdir():
        file.rename(tmp_path / f"old-{file.name}")
    with Store.open(path) as store:
        store.add([make_row(make_exchange(4))])
        lines.look()
    assert ids_in(out.getvalue()) == [span_id_of(4)]
    lines.close()


class Full(io.StringIO):
    """A terminal that is gone."""

    def write(self, _: str) -> int:
        """Take nothing."""
        raise OSError(errno.EIO, "Input/output error")


def test_a_terminal_that_is_gone_ends_it(tmp_path: Path) -> None:
    """It is no fault of the store's, and nothing is tried again."""
    path = tmp_path / "t.db"
    lines = CallLines(path, Full())
    with Store.open(path) as store:
        store.add([make_row(make_exchange(1))])
        with pytest.raises(OSError, match="Input/output"):
            lines.look()
    lines.close()


class OnTerminal:
    """``spantap serve`` on a terminal of its own."""

    def __init__(self, folder: Path, upstream: int, *flags: str, **variables: str) -> None:
        self.port = find_free_port()
        self._ours, theirs = pty.openpty()
        ports = ["--port", str(self.port), "--admin-port", str(find_free_port())]
        command = [sys.executable, "-m", "spantap", "serve", *ports, *flags]
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=clean_environment()
            | {
                "SPANTAP_UPSTREAM": f"http://127.0.0.1:{upstream}",
                "SPANTAP_STORE": str(folder / "traces.db"),
                "COLUMNS": "100",
                "NO_COLOR": "1",
            }
            | variables,
            start_new_session=True,
        )
        os.close(theirs)
        self.text = ""

    def wait_for(self, condition: Callable[[str], object], seconds: float = 30) -> None:
        """Read what it writes until this holds."""
        until = time.monotonic() + seconds
        while not condition(self.text):
            assert time.monotonic() < until, self.text
            self.read(0.1)

    def call(self) -> None:
        """Send a chat through it."""
        url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
        assert requests.post(url, json={"model": "load-1", "messages": []}, timeout=30).ok

    def read(self, seconds: float) -> bool:
        """Read what comes within some seconds; false at the end."""
        if select.select([self._ours], [], [], seconds)[0]:
            try:
                data = os.read(self._ours, 65536)
            except OSError:  # how Linux tells that no program has it open any more
                return False
            self.text += data.decode()
            return bool(data)
        return True

    def end(self) -> None:
        """End it as Ctrl-C does: all programs of the terminal are told."""
        os.killpg(self.process.pid, signal.SIGINT)
        assert self.process.wait(30) == 0
        while self.read(5):
            pass
        os.close(self._ours)


def is_row(line: str) -> bool:
    """It is that of a call of the load tool's upstream."""
    return "load-1" in line and "completed" in line


@pytest.mark.timeout(120)
def test_serve_lists_calls_on_its_terminal(tmp_path: Path) -> None:
    """As they are recorded, the last ones before it ends."""
    with LoadUpstream(chunks=2) as upstream:
        serve = OnTerminal(tmp_path, upstream.port)
        serve.wait_for(lambda text: "listening" in text)
        serve.call()
        serve.wait_for(lambda text: any(map(is_row, text.splitlines())))
        serve.call()
        serve.end()
    rows = [
        line
        for line in Text.from_ansi(serve.text.replace("\r", "")).plain.splitlines()
        if is_row(line)
    ]
    assert len(rows) == 2
    assert max(map(len, rows)) <= 100


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("flags", "variables"), [(["--quiet"], {}), ([], {"SPANTAP_LOG_FORMAT": "json"})]
)
def test_serve_is_quiet_where_asked(
    tmp_path: Path, flags: list[str], variables: dict[str, str]
) -> None:
    """By its flag, and where the log is for programs."""
    with LoadUpstream(chunks=2) as upstream:
        serve = OnTerminal(tmp_path, upstream.port, *flags, **variables)
        serve.wait_for(lambda text: "listening" in text)
        serve.call()
        serve.end()
    assert not any(map(is_row, serve.text.splitlines()))
