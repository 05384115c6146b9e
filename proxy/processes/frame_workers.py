"""Workers as telemetry knows them, and their connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telemetry.frames.records import RecordReader

if TYPE_CHECKING:
    import socket

    from telemetry.frames.records import Hello
    from telemetry.observing.source import FrameSource


class FrameWorker:
    """One worker process, however often it connects."""

    def __init__(self, hello: Hello, source: FrameSource, connection: FrameConnection) -> None:
        self.hello = hello
        self.source = source
        self.connection: FrameConnection | None = connection


class FrameConnection:
    """A connection of a worker; `worker` is set once the worker has said which one it is."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.reader = RecordReader()
        self.worker: FrameWorker | None = None
        self.unsent_acks = b""
