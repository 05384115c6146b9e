"""Recorded exchanges, sent one after another through a proxy, and what both of its sides get."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import socketserver
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("Exchange", "Upstream", "call", "load_exchanges", "read_json")

read_json = json.loads  # noqa: TID251 - nothing here imports the product
"""Reads what a version says."""

_ROOT = Path(__file__).resolve().parents[2]
_FILES = ("recordings", "recordings-apis", "recordings-apis-2")
_NUMBER = re.compile(rb"(?im)^x-exchange: (\d+)\r$")
_LENGTH = re.compile(rb"(?im)^content-length: (\d+)\r$")
_FRAMING = {"connection", "content-encoding", "content-length", "keep-alive", "transfer-encoding"}
_WEB_SOCKET = 101
_WAIT_SECONDS = 30.0

_PROGRAMS = (
    "OpenAI/Python 3.52.0",
    "claude-cli/2.1.331 (external, cli)",
    "codex_cli_rs/0.60.1 (Ubuntu 24.04; x86_64)",
    "google-genai-sdk/1.9.0 gl-python/3.11",
    "curl/8.5.0",
)
_MARKS: tuple[dict[str, str], ...] = (
    {},
    {"x-spantap-session-id": "s-1", "x-spantap-user-id": "u-7", "x-spantap-tags": "a,b"},
    {"x-session-id": "s-2", "x-spantap-metadata": '{"team":"red"}'},
    {"x-spantap-content": "off"},
    {},
    {"x-claude-code-session-id": "c-3", "Helicone-Property-env": "test"},
    {},
)


_ANY_REQUEST: dict[str, Any] = {
    "model": "m-1",
    "messages": [{"role": "user", "content": "hi"}],
    "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    "max_tokens": 100,
    **dict.fromkeys(("input", "prompt", "query", "message"), "hi"),
}
"""For what was recorded without its request: each API finds its members in it."""


class Exchange(NamedTuple):
    """What a client sends, and what its provider answers.

    Attributes:
        request: head and body.
        answer: likewise; its end is that of the body, whatever the connection does.
    """

    request: bytes
    answer: bytes


def load_exchanges() -> list[Exchange]:
    """Load all that came over plain HTTP.

    Raises:
        SystemExit: there are no recordings.
    """
    folder = Path(os.environ.get("SPANTAP_RECORDINGS", _ROOT.parent / "shared"))
    files = [folder / name / "exchanges.jsonl" for name in _FILES]
    if missing := [str(file) for file in files if not file.is_file()]:
        raise SystemExit(f"no recordings: {', '.join(missing)}")
    lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
    recorded = [read_json(line) for line in lines]
    asked = Counter[str]()
    exchanges = list[Exchange]()
    for number, one in enumerate(recorded):
        if one["response"]["status"] != _WEB_SOCKET:
            asked[body := str(one["request"]["body"])] += 1
            exchanges.append(_make_exchange(number, asked[body], one))
    return exchanges


def _make_exchange(number: int, caller: int, recorded: dict[str, Any]) -> Exchange:
    """Make an exchange. Nobody asks the same twice: whether that is a retry is a matter of time."""
    asked, answered = recorded["request"], recorded["response"]
    body, said = _read_body(asked["body"]), _read_body(answered["body"])
    if asked["method"] == "POST" and not body:
        body = json.dumps(_ANY_REQUEST | {"stream": recorded["streaming"]}).encode()
    fields = {
        "Host": "provider.example",
        "User-Agent": _PROGRAMS[number % len(_PROGRAMS)],
        "Content-Type": "application/json",
        "Authorization": f"Bearer sk-recorded-{caller}-0123456789abcdef",
        **_MARKS[number % len(_MARKS)],
        **asked.get("headers", {}),
        "X-Exchange": str(number),
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    head = [f"{asked['method']} {asked['path'] or '/'} HTTP/1.1"]
    head += [f"{name}: {value}" for name, value in fields.items()]
    told = [f"HTTP/1.1 {answered['status']} OK"]
    told += [
        f"{name}: {value}"
        for name, value in answered["headers"].items()
        if name.lower() not in _FRAMING
    ]
    if recorded["streaming"]:
        told.append("Transfer-Encoding: chunked")
        said = b"%x\r\n%b\r\n0\r\n\r\n" % (len(said), said) if said else b"0\r\n\r\n"
    else:
        told.append(f"Content-Length: {len(said)}")
    return Exchange(_join(head) + body, _join(told) + said)


def _read_body(told: str | dict[str, str] | None) -> bytes:
    return base64.b64decode(told["base64"]) if isinstance(told, dict) else (told or "").encode()


def _join(lines: list[str]) -> bytes:
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("utf-8", "surrogateescape")


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    exchanges: list[Exchange]
    numbered: dict[bytes, Exchange]
    received: list[bytes]


class _Answering(socketserver.StreamRequestHandler):
    """Answers each request of a connection by what was recorded for it."""

    server: _Server

    def handle(self) -> None:
        """Until the proxy ends the connection."""
        while head := b"".join(iter(self.rfile.readline, b"\r\n")):
            length = _LENGTH.search(head)
            body = self.rfile.read(int(length[1])) if length else b""
            self.server.received.append(head + b"\r\n" + body)
            number = _NUMBER.search(head)
            self.wfile.write(self.server.numbered[number[1] if number else b""].answer)


class Upstream:
    """The provider of all exchanges.

    Attributes:
        received: requests, in the order in which they came.
    """

    def __init__(self, exchanges: list[Exchange]) -> None:
        self._server = _Server(("127.0.0.1", 0), _Answering)
        self._server.numbered = {
            found[1]: one for one in exchanges if (found := _NUMBER.search(one.request))
        }
        self.received = self._server.received = []

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator[Upstream]:
        """Answer until the end."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()


def call(port: int, request: bytes) -> bytes:
    """Send a request to a port of this machine, and return all that comes until the end."""
    with socket.create_connection(("127.0.0.1", port), _WAIT_SECONDS) as sock:
        sock.sendall(request)
        return b"".join(iter(lambda: sock.recv(1 << 20), b""))
