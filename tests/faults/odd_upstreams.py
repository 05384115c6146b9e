"""Upstreams that answer oddly or not at all, in front of which ``spantap`` soon loses patience."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.e2e.processes import find_free_port
from tests.faults.scripted import running_stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.faults.scripted import Script, Stage, UpstreamThread
    from tests.proxy.harness import Connection

__all__ = ("EVENTS", "TIMEOUT_SECONDS", "impatient_stage", "in_chunks", "sends")

TIMEOUT_SECONDS = 1.0
"""To the first byte and between two: as short as a busy machine allows."""

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
"""How the head of a stream begins."""


@contextmanager
def impatient_stage(folder: Path, scripts: Mapping[str, Script]) -> Iterator[Stage]:
    """A stage with short timeouts, and an upstream ``refuses`` where nobody listens.

    Args:
        folder: an empty one.
        scripts: what the other upstream does, by the first segment of the path.
    """
    refuses = {
        "name": "refuses",
        "prefix": "/refuses",
        "url": f"http://127.0.0.1:{find_free_port()}",
    }
    environment = {
        "SPANTAP_FIRST_BYTE_TIMEOUT_SECONDS": str(TIMEOUT_SECONDS),
        "SPANTAP_IDLE_TIMEOUT_SECONDS": str(TIMEOUT_SECONDS),
        "SPANTAP_UPSTREAMS": json.dumps([refuses]),
    }
    with running_stage(folder, scripts, environment) as running:
        yield running


def in_chunks(*pieces: bytes) -> bytes:
    """The pieces, each as a chunk."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def sends(*pieces: bytes) -> Script:
    """A script of constant bytes, and the end of the connection."""

    async def script(_: UpstreamThread, connection: Connection) -> None:
        await connection.send(*pieces)
        connection.writer.close()

    return script
