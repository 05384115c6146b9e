"""Load: chats over kept-alive connections from a process of its own, each with a mark.

The mark of an exchange is its ``x-spantap-user-id``, and so the ``user.id`` of its span, also where
bodies are shed: ``PREFIX-N`` for N from 0. Each answer is held against the bytes that
:mod:`tests.faults.upstreams` sends.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from tests.e2e.processes import clean_environment
from tests.faults.upstreams import MODEL, answer_body, stream_events

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("Load", "LoadResult", "RunningLoad", "build_marks", "run_load", "running_load")

_EXCHANGE_SECONDS = 60.0
"""How long an exchange may take before it counts as unanswered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What to send.

    Attributes:
        prefix: of the marks.
        connections: how many take turns; each has one exchange under way.
        rate: exchanges begun per second; 0: as fast as they are answered.
        chunks: ask for streams, of so many events with content; 0: for whole answers.
        pad_bytes: added to each request's message; beside a picture it is in no other.
        picture_bytes: the size of the picture in each request, which is in no other; 0: none.
        noise_bytes: in each answer that is no stream, as the upstream has them.
    """

    port: int
    prefix: str
    count: int
    connections: int = 8
    rate: float = 0.0
    chunks: int = 0
    pad_bytes: int = 0
    picture_bytes: int = 0
    noise_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What the clients saw.

    Attributes:
        whole: exchanges answered with status 200 and exactly the upstream's bytes.
        trouble: all others by what became of them, such as ``status 502`` or ``cut``.
        p50_seconds: from the request to the answer's last byte, of all that were answered.
    """

    sent: int
    whole: int
    trouble: dict[str, int] = field(default_factory=dict)
    p50_seconds: float
    p99_seconds: float
    seconds: float

    @property
    def in_words(self) -> str:
        """For the row."""
        if self.whole == self.sent:
            return "every answer, byte for byte"
        troubles = ", ".join(f"{count} {what}" for what, count in sorted(self.trouble.items()))
        return f"{self.whole} of {self.sent} answers; {troubles}"

    def compare(self, calm: LoadResult) -> str:
        """Its latency beside that of `calm`, for the row."""
        p50_ms, p99_ms = (
            (now - then) * 1e3
            for now, then in (
                (self.p50_seconds, calm.p50_seconds),
                (self.p99_seconds, calm.p99_seconds),
            )
        )
        return f"p50 {p50_ms:+.1f} ms, p99 {p99_ms:+.1f} ms beside a healthy backend"


def build_marks(load: Load) -> set[str]:
    """The marks of its exchanges."""
    return {f"{load.prefix}-{number}" for number in range(load.count)}


class RunningLoad:
    """A load under way."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def is_running(self) -> bool:
        """Whether exchanges are under way."""
        return self._process.poll() is None

    def wait(self) -> LoadResult:
        """Its result, once all is answered or given up."""
        output, _ = self._process.communicate()
        assert self._process.returncode == 0, "the load generator failed"
        return msgspec.json.decode(output, type=LoadResult)


@contextmanager
def running_load(load: Load) -> Iterator[RunningLoad]:
    """`load` as a process, ended at the end."""
    line = [sys.executable, "-m", __name__, msgspec.json.encode(load).decode()]
    with subprocess.Popen(line, env=clean_environment(), stdout=subprocess.PIPE) as process:
        try:
            yield RunningLoad(process)
        finally:
            process.kill()


def run_load(load: Load) -> LoadResult:
    """Send all of `load`; what the clients saw."""
    with running_load(load) as running:
        return running.wait()


class _Clients:
    """The connections that share one load."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._numbers = iter(range(load.count))
        self._expected = (
            b"".join(stream_events(load.chunks, usage=False))
            if load.chunks
            else answer_body(load.noise_bytes)
        )
        self._pad = "x" * load.pad_bytes
        self._latencies: list[float] = []
        self._trouble: dict[str, int] = {}
        self._whole = 0

    async def run(self) -> LoadResult:
        self._start = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._load.connections, self._load.count)):
                group.create_task(self._take_turns())
        latencies = sorted(self._latencies) or [0.0]
        return LoadResult(
            sent=self._load.count,
            whole=self._whole,
            trouble=self._trouble,
            p50_seconds=latencies[len(latencies) // 2],
            p99_seconds=latencies[len(latencies) * 99 // 100],
            seconds=time.monotonic() - self._start,
        )

    async def _take_turns(self) -> None:
        """Have exchanges one after the other, on a new connection where one was cut."""
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        for number in self._numbers:
            if self._load.rate:
                due = self._start + number / self._load.rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            begun = time.monotonic()
            try:
                async with asyncio.timeout(_EXCHANGE_SECONDS):
                    if connection is None:
                        connection = await asyncio.open_connection("127.0.0.1", self._load.port)
                    connection[1].write(self._encode(number))
                    status, body = await _read_answer(connection[0])
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                self._note(f"unanswered ({type(error).__name__})")
                if connection is not None:
                    connection[1].close()
                connection = None
                continue
            self._latencies.append(time.monotonic() - begun)
            if status != 200:
                self._note(f"with status {status}")
            elif body != self._expected:
                self._note("changed")
            else:
                self._whole += 1
        if connection is not None:
            connection[1].close()

    def _note(self, what: str) -> None:
        self._trouble[what] = self._trouble.get(what, 0) + 1

    def _encode(self, number: int) -> bytes:
        stream = "true" if self._load.chunks else "false"
        content = f'"Is all well? {self._pad}"'
        if self._load.picture_bytes:
            content = _draw(self._load.picture_bytes, self._load.pad_bytes)
        body = (
            f'{{"model":"{MODEL}","stream":{stream},'
            f'"messages":[{{"role":"user","content":{content}}}]}}'
        ).encode()
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nHost: load\r\nContent-Type: application/json\r\n"
            f"x-spantap-user-id: {self._load.prefix}-{number}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def _draw(size_bytes: int, text_bytes: int) -> str:
    """Write the content of a message: a picture and a text that nobody sent before."""
    text = os.urandom(text_bytes // 2).hex()
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + os.urandom(size_bytes)).decode()
    image = f'{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{picture}"}}}}'
    return f'[{{"type":"text","text":"{text}"}},{image}]'


async def _read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body, of either framing."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(head.split(b" ", 2)[1])
    _, counted, rest = head.partition(b"\r\ncontent-length:")
    if counted:
        return status, await reader.readexactly(int(rest.split(b"\r\n", 1)[0]))
    body = b""
    # A cut answer has an empty line where a size is due.
    while size := int(await reader.readline() or _cut(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return status, body


def _cut() -> bytes:
    raise asyncio.IncompleteReadError(b"", None)


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("load", help="a Load in JSON")
    load = msgspec.json.decode(parser.parse_args().load, type=Load)
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(_Clients(load).run())))


if __name__ == "__main__":
    _main()
