"""An upstream that breaks down in the middle of its answers, written byte by byte."""

from __future__ import annotations

import json
import threading
import time
import uuid
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("STREAM_ERROR", "running_failing_upstream")

STREAM_ERROR = {
    "message": "The server had an error while processing your request. Sorry about that!",
    "type": "server_error",
    "param": None,
    "code": None,
}
"""What the client of :data:`_EVENTS` is told."""

_CHUNK = (
    b'data: {"id":"chatcmpl-broken","object":"chat.completion.chunk","created":1700000000,'
    b'"model":"gpt-demo","choices":[{"index":0,"delta":%s,"finish_reason":null}]}\n\n'
)
_EVENTS = (
    _CHUNK % b'{"role":"assistant","content":""}',
    _CHUNK % b'{"content":"The answer"}',
    _CHUNK % b'{"content":" to that is"}',
    b'data: {"error":%s}\n\n' % json.dumps(STREAM_ERROR).encode(),
)
"""Some words, and then an error in the place of a chunk; neither ``[DONE]`` nor usage follows."""

_FIRST_SECONDS = 0.12
_CHUNK_SECONDS = 0.015
"""The pace of the demo upstream."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer any request with the stream."""
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(_FIRST_SECONDS)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("x-request-id", f"req_{uuid.uuid4().hex}")
        self.end_headers()
        for event in _EVENTS:
            self._write(event)
            time.sleep(_CHUNK_SECONDS)
        self._write(b"")

    def _write(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def running_failing_upstream() -> Iterator[int]:
    """Such an upstream in a thread; gives its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
