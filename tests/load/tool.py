"""The load tool, built from the C beside this and run as processes.

``main.c`` says what it is. An upstream and a load on it, by way of what is measured::

    with LoadUpstream(chunks=200, rate=50) as upstream:
        load = ClientLoad(port=proxy_port, mode="stream", connections=500, requests=500)
        result = run_client(load)
    assert upstream.counts.streams == result.answered == 500

Rules:

1. A process that was started has ended when its ``with`` block has.
2. The program is built once for each text of its source, compiler flags included, and appears
   under its name whole or not at all, for several test processes may build at a time.
3. Nothing here imports pytest: benchmarks use it too. Who pins processes to cores has their
   ``pid``.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from codec.text.jsontext import decode_json_object

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = (
    "LOAD_TOOL_OBSTACLE",
    "ClientLoad",
    "ClientResult",
    "LoadApi",
    "LoadClient",
    "LoadToolError",
    "LoadUpstream",
    "Percentiles",
    "UpstreamCounts",
    "run_client",
)

LoadApi = Literal["chat", "responses", "messages", "gemini"]
"""The APIs that the tool speaks."""

_FOLDER = Path(__file__).parent
_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror")

_END_SECONDS = 10.0
"""How long an upstream may take to print its counts: it drains nothing."""


def _find_obstacle() -> str | None:
    if not sys.platform.startswith("linux"):
        return "the load tool needs Linux (epoll)"
    if shutil.which("cc") is None:
        return "the load tool needs a C compiler called cc"
    return None


LOAD_TOOL_OBSTACLE = _find_obstacle()
"""Why the tool cannot run here, for a test's ``skipif``; None where it can."""


class LoadToolError(Exception):
    """The tool could not be built, was called wrongly, or failed; its own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Durations of one kind, at most 1/128 too high but for the longest; 0 where there are none."""

    count: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamCounts:
    """What an upstream did.

    Attributes:
        requests: whole ones.
        aborted: answers whose connection went away before they were sent whole.
        broken: connections closed for bytes that are not HTTP, or was pipelined.
    """

    connections: int
    requests: int
    streams: int
    chunks: int
    aborted: int
    broken: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLoad:
    """What a client sends.

    Attributes:
        connections: kept ones, and so the most requests at a time.
        requests: how many in all; 0: until ``seconds`` are over.
        seconds: when it stops to send; 0: when ``requests`` are sent.
        rate: requests/s in all, counted from when they are due; 0: each connection sends its next
            request when it has its answer.
        messages: of each chat.
        model: the model, and what the users of the requests (``MODEL-0``, ``MODEL-1``, ...) begin
            with; up to 64 letters, digits, dots, dashes and underscores.
        api: what it calls.
    """

    port: int
    mode: Literal["json", "stream"]
    connections: int = 1
    requests: int = 0
    seconds: float = 0
    rate: float = 0
    messages: int = 2
    model: str = "load"
    api: LoadApi = "chat"

    def __post_init__(self) -> None:
        if not self.requests and not self.seconds:
            raise ValueError("a load ends after some requests or some seconds")

    @property
    def arguments(self) -> list[str]:
        """For the command line."""
        arguments = ["client", "--port", str(self.port), "--mode", self.mode]
        arguments += ["--connections", str(self.connections), "--rate", str(self.rate)]
        arguments += ["--requests", str(self.requests)] if self.requests else []
        arguments += ["--seconds", str(self.seconds), "--messages", str(self.messages)]
        return [*arguments, "--model", self.model, "--api", self.api]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientResult:
    """What came of a load: ``requests == answered + cut + unanswered``.

    Attributes:
        answered: whose answer came whole; a stream of status 200 up to its last event.
        statuses: of those.
        cut: whose answer began and did not come whole.
        cut_numbers: which, the first 10,000; the user of number n was ``MODEL-n``.
        unanswered: refused, reset or silent before the head of an answer.
        refused: of those, because nobody took the connection.
        silent: whether it gave up on what was open.
        chunk_delay: from the stamp in a chunk (of a whole answer: in its content) to its arrival.
        ttfb: from a request to the first byte of its answer's body, where that has status 200.
        latency: from a request to the last byte of its answer, likewise.
    """

    requests: int
    answered: int
    statuses: dict[int, int]
    cut: int
    cut_numbers: tuple[int, ...]
    unanswered: int
    unanswered_numbers: tuple[int, ...]
    refused: int
    silent: bool
    body_bytes: int
    seconds: float
    answers_per_second: float
    cpu_seconds: float
    chunk_delay: Percentiles
    ttfb: Percentiles
    latency: Percentiles


@functools.cache
def _build() -> Path:
    """Compile the program, where this text of it was not compiled before.

    ``LOAD_CFLAGS`` in the environment adds flags, such as ``-fsanitize=address,undefined``.
    """
    if LOAD_TOOL_OBSTACLE:
        raise LoadToolError(LOAD_TOOL_OBSTACLE)
    flags = [*_FLAGS, *shlex.split(os.environ.get("LOAD_CFLAGS", ""))]
    digest = hashlib.sha256(" ".join(flags).encode())
    for path in sorted(_FOLDER.glob("*.[ch]")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    program = _FOLDER / ".cache" / digest.hexdigest()[:16] / "load"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=program.parent) as folder:
            built = Path(folder, "load")
            sources = sorted(str(path) for path in _FOLDER.glob("*.c"))
            command = ["cc", *flags, "-o", str(built), *sources]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise LoadToolError(done.stderr)
            built.replace(program)
    return program


class _Process:
    """One run of the program, which ends with its ``with`` block (rule 1)."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = arguments

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [_build(), *self._arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        return self

    def __exit__(self, *exc_info: object) -> None:
        with self._process:  # closes the pipes, and waits
            self._process.kill()

    @property
    def pid(self) -> int:
        """For who pins it to cores, or kills it."""
        return self._process.pid

    def _read_end(self, timeout_seconds: float) -> dict[str, Any]:
        try:
            output, errors = self._process.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            raise LoadToolError(f"it did not end in {timeout_seconds} s") from None
        if self._process.returncode:
            status = self._process.returncode
            raise LoadToolError(f"status {status}: {errors.decode(errors='replace')}")
        return decode_json_object(output)


class LoadUpstream(_Process):
    """An OpenAI-shaped upstream in a process of its own, as a context manager.

    `rate` is in chunks/s of each stream; 0: as fast as the reader takes them. `chunk_bytes` and
    `json_bytes` are the text of a chunk, and of an answer that is no stream, at least 20.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        chunks: int = 200,
        rate: float = 0,
        chunk_bytes: int = 32,
        json_bytes: int = 256,
        api: LoadApi = "chat",
    ) -> None:
        arguments = ["upstream", "--port", str(port), "--chunks", str(chunks), "--rate", str(rate)]
        arguments += ["--chunk-bytes", str(chunk_bytes), "--json-bytes", str(json_bytes)]
        arguments += ["--api", api]
        super().__init__(arguments)
        self.port = port
        self._counts: UpstreamCounts | None = None

    def __enter__(self) -> Self:
        super().__enter__()
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        line = self._process.stdout.readline()
        if not line:
            with self._process:
                raise LoadToolError(self._process.stderr.read().decode(errors="replace"))
        self.port = decode_json_object(line)["port"]
        return self

    def __exit__(self, *exc_info: object) -> None:
        try:
            if self._process.poll() != -signal.SIGKILL:  # somebody wanted that
                self.stop()
        finally:
            super().__exit__(*exc_info)

    @property
    def url(self) -> str:
        """What ``SPANTAP_UPSTREAM`` takes."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def counts(self) -> UpstreamCounts:
        """What it did, once it has ended.

        Raises:
            LoadToolError: it has not ended, or was killed.
        """
        if self._counts is None:
            raise LoadToolError("the upstream has not been stopped, or was killed")
        return self._counts

    def stop(self) -> UpstreamCounts:
        """End it, which cuts what is open, and have its counts.

        Raises:
            LoadToolError: it failed, or was killed.
        """
        if self._counts is None:
            self._process.send_signal(signal.SIGTERM)
            self._counts = UpstreamCounts(**self._read_end(_END_SECONDS))
        return self._counts


class LoadClient(_Process):
    """A client in a process of its own that works while the ``with`` block does something else."""

    def __init__(self, load: ClientLoad) -> None:
        super().__init__(load.arguments)

    def wait(self, timeout_seconds: float = 600) -> ClientResult:
        """Wait for its end; to be called once.

        Raises:
            LoadToolError: it was called wrongly, failed or was killed, or the time is over.
        """
        members = self._read_end(timeout_seconds)
        for name in ("chunk_delay", "ttfb", "latency"):
            members[name] = Percentiles(**members[name])
        for name in ("cut_numbers", "unanswered_numbers"):
            members[name] = tuple(members[name])
        statuses = {int(status): count for status, count in members.pop("statuses").items()}
        return ClientResult(**members, statuses=statuses)


def run_client(load: ClientLoad, timeout_seconds: float = 600) -> ClientResult:
    """Send a load and wait for what came of it.

    Raises:
        LoadToolError: as :meth:`LoadClient.wait`.
    """
    with LoadClient(load) as client:
        return client.wait(timeout_seconds)
