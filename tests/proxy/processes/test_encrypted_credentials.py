"""What workers encrypt, the telemetry process of the same ``spantap serve`` decrypts (R7)."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tests.e2e.processes import wait_until
from tests.faults.stage import running_spantap

if TYPE_CHECKING:
    from pathlib import Path

KEY = "sk-SECRET/abc+def-canary"


class _Quoting(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        # With an escape, so that no worker sees it; what it masks is not encrypted.
        quoted = self.headers["Authorization"].replace("/", r"\/")
        body = b'{"error": {"message": "no such key: %b"}}' % quoted.encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


def test_a_key_that_a_provider_quotes_is_in_no_file(tmp_path: Path) -> None:
    """Neither in the store nor in the log; the rest of the provider's words is told."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Quoting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with running_spantap(
            tmp_path, upstream=f"http://127.0.0.1:{server.server_port}"
        ) as spantap:
            request = urllib.request.Request(
                f"http://127.0.0.1:{spantap.port}/v1/chat/completions",
                json.dumps({"model": "m", "messages": []}).encode(),
                {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
            )
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(request, timeout=20)
            with caught.value as answer:
                assert b"SECRET" in answer.read()
            wait_until(lambda: spantap.metrics()["spantap_spans_recorded_total"] == 1, 20, "stored")
            assert spantap.terminate() == 0
        server.shutdown()
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert b"no such key: __REDACTED__" in files
    assert b"SECRET" not in files
