"""A server that answers every ``GET`` and ``POST`` with a status, whatever is asked."""

from __future__ import annotations

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ("answering",)


@contextlib.contextmanager
def answering(
    status: int,
    *,
    of_chats: int | None = None,
    kind: str = "application/json",
    pages: Mapping[str, bytes] | None = None,
) -> Iterator[str]:
    """Run one; gives its URL.

    Args:
        status: of the answers.
        of_chats: the status where chats go, if it is another one.
        kind: the content type.
        pages: paths that are answered with 200 and a body.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            page = (pages or {}).get(self.path)
            is_chat = self.path.endswith("/chat/completions")
            chosen = of_chats if is_chat and of_chats else status
            self.send_response(chosen if page is None else 200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(page or b"")))
            self.end_headers()
            self.wfile.write(page or b"")

        do_POST = do_GET  # noqa: N815 - the library's name

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
