"""Whether large chats delay the streams of others.

A client sends a chat of 20 MB each second, by turns with an image, of short messages, and of small
values, while paced streams run; their delays are told beside
those without it, in turn, through the same process. The upstream is quick about such bodies and
reads them in small pieces, and a bare relay is measured too: what it delays is the machine's.
"""

from __future__ import annotations

import http.client
import math
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

from tests.faults.beside import beside
from tests.load.tool import ClientLoad

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from tests.bench.scene import Scene

__all__ = ("BigBodies", "Stall", "measure_stall")

_PERIOD_SECONDS = 1.0

_SPARE = 1.04
"""Connections for a stream, which takes a little longer than its chunks."""

_HEAD = (
    b'{"model":"load","messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},'
    b'{"type":"image_url","image_url":{"url":"data:image/png;base64,'
)
_TAIL = b'"}}]}]}'
_MESSAGES_HEAD, _MESSAGES_TAIL = b'{"model":"load","messages":[', b"{}]}"
_MESSAGE = b'{"role":"user","content":"What was said between: a sentence or two."},'
_SMALL_VALUE = b"{},"
_BASE64 = b"iVBORw0KGgoAAAANSUhEUgAABAAAAAMACAIAAAA12IJaAAEAAElEQVR42uz9"


@dataclass(frozen=True, slots=True, kw_only=True)
class BigBodies:
    """What is measured.

    Attributes:
        streams: of others, open at a time, whose calls are spread over `seconds`.
        rate: chunks/s of each.
        body_bytes: of what is large in the chat, once a second.
    """

    streams: int = 200
    seconds: float = 12
    chunks: int = 200
    rate: float = 50
    body_bytes: int = 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """Chunk delay of the streams without and beside large chats, and the slowest of those."""

    alone_p99_ms: float
    beside_p99_ms: float
    bodies: int
    body_seconds: float

    @property
    def more_ms(self) -> float:
        """What the large chats add."""
        return self.beside_p99_ms - self.alone_p99_ms


def measure_stall(scene: Scene, work: BigBodies) -> Stall:
    """Streams without large chats beside them, then with.

    Raises:
        AssertionError: as :meth:`Scene.settle`; or a large chat was not answered.
    """
    starts_per_second = work.streams * work.rate / work.chunks
    load = ClientLoad(
        port=scene.contestant.port,
        mode="stream",
        connections=math.ceil(work.streams * _SPARE),
        requests=math.ceil(work.seconds * starts_per_second),
        rate=starts_per_second,
    )
    alone = scene.run(load)
    scene.settle()
    with _sending_bodies(scene.contestant.port, work.body_bytes) as taken:
        beside = scene.run(load)
    scene.exchanges += len(taken)
    scene.settle()
    return Stall(
        alone_p99_ms=alone.chunk_delay.p99_ns / 1e6,
        beside_p99_ms=beside.chunk_delay.p99_ns / 1e6,
        bodies=len(taken),
        body_seconds=max(taken),
    )


def _make_bodies(body_bytes: int) -> list[bytes]:
    """Chats that are large for an image, for their messages, and for small values."""
    image = (_BASE64 * (body_bytes // len(_BASE64) + 1))[:body_bytes]
    lists = (unit * (body_bytes // len(unit)) for unit in (_MESSAGE, _SMALL_VALUE))
    return [_HEAD + image + _TAIL, *(_MESSAGES_HEAD + many + _MESSAGES_TAIL for many in lists)]


@contextmanager
def _sending_bodies(port: int, body_bytes: int) -> Iterator[list[float]]:
    """One chat each second; how long each took."""
    bodies = cycle(_make_bodies(body_bytes))
    taken: list[float] = []
    failures: list[Exception] = []

    def send(over: threading.Event) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            while True:
                begun = time.monotonic()
                connection.request(
                    "POST",
                    "/v1/chat/completions",
                    next(bodies),
                    {"Content-Type": "application/json"},
                )
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200, f"{answer.status} to a large chat"
                taken.append(time.monotonic() - begun)
                if over.wait(max(0.0, begun + _PERIOD_SECONDS - time.monotonic())):
                    return
        except (OSError, http.client.HTTPException, AssertionError) as error:
            failures.append(error)
        finally:
            connection.close()

    with beside(send):
        yield taken
    assert not failures, failures
