"""A copied command or program: printable ASCII, and the recorded bytes when it runs."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codec.text.jsontext import decode_json
from proxy.escape import UNSAFE
from proxy.page.api.copies import MAX_ARGUMENT_BYTES, write_curl, write_plain, write_sdk
from proxy.page.api.targets import Target
from tests.proxy.page.serving import serve_api
from tests.proxy.recorded_calls import make_exchange, make_store, span_id_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PRINTABLE = re.compile(r"[\x20-\x7e\n]*\Z")
NASTY = "\x1b[201~\x03\r\x9b0m\x7f\u202e\u2066 '\"$(id >&2) `id` !! %s \\ \x00\t\u2028é\n;#"
DEEP = '{"a":' * 200 + "1" + "}" * 200
KEY = {"OPENAI_API_KEY": "my-key", "ANTHROPIC_API_KEY": "my-key"}

bodies = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.text("'\"\\!`$%-\n\r\t\x1b é", max_size=40).map(str.encode),
)
words = st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=60)


class Asked(NamedTuple):
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: bytes


@contextmanager
def listening() -> Iterator[tuple[str, list[Asked]]]:
    """Run a server on loopback; gives its URL and what it is asked."""
    came: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            path = self.requestline.split(" ")[1]  # as it came, unlike `self.path`
            came.append(Asked(path, {k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", came
        finally:
            server.shutdown()


def target_at(url: str) -> Target:
    """A target as OpenAI's are."""
    return Target(url, url, "OPENAI_API_KEY", "Authorization", "Bearer ", {})


def run(*command: str, text: str = "") -> bytes:
    """Run a program with a key and nothing else of the environment; what it prints."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **KEY}
    ran = subprocess.run(
        command, input=text.encode(), env=environment, capture_output=True, check=True, timeout=60
    )
    assert ran.stderr == b""
    return ran.stdout


ECHO = (
    'curl() { for a in "$@"; do printf "%s\\0" "$a"; done;'
    ' [ "$a" != @- ] || { printf "stdin:"; cat; printf "\\0"; }; }\n'
)
"""A curl that prints its arguments, and what it is given on its input."""


@pytest.mark.parametrize("shell", ["bash", "sh"])
@given(body=bodies, header=words)
@example(body=NASTY.encode(), header=NASTY.replace("\0", ""))
@example(body=b"-n '\\", header="!x\n")
@example(body=b"x" * MAX_ARGUMENT_BYTES + b"'y", header="")
@settings(max_examples=60, deadline=None)
def test_a_shell_gives_curl_the_recorded_bytes(shell: str, body: bytes, header: str) -> None:
    """Any body and header is printable ASCII, is read as these very bytes, and runs nothing."""
    headers = {"X-Told": header}
    command = write_curl(target_at("http://h/v1"), headers, body, is_streamed=False)
    assert PRINTABLE.match(command)
    given = run(shell, text=ECHO + command).split(b"\0")
    if "--data-binary @-" in command:
        stdin = b"\0".join(given).partition(b"stdin:")[2]
        assert stdin == body + b"\0"
    else:
        assert given[given.index(b"--data-raw") + 1] == body
    value = given[given.index(b"-H") + 1]
    # A shell takes line ends from behind what a command prints; no header has any there.
    assert value.rstrip(b"\n") == f"X-Told: {header}".encode().rstrip(b"\n")


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize(
    "body",
    [b"", b"{}", NASTY.encode(), bytes(range(256)), b"@/etc/hostname", b"a\r\n\n", b"x" * 300_000],
)
def test_curl_sends_the_recorded_bytes(body: bytes) -> None:
    """A server on loopback gets them, at the path that was called."""
    path = "/v1/{a,b}/[1-3]/../x;y=$z&'!\"/chat%20x"
    with listening() as (base, came):
        command = write_curl(target_at(base + path), {"X-Told": "a b"}, body, is_streamed=False)
        run("bash", text=command.replace("curl ", "curl --silent --disable ", 1))
    (asked,) = came
    assert (asked.body, asked.path, asked.headers["x-told"]) == (body, path, "a b")
    assert asked.headers["authorization"] == "Bearer my-key"


@pytest.mark.parametrize(
    ("endpoint", "path", "is_its_own"),
    [
        ("responses", "/v1/responses", True),
        ("responses", "/v1/responses/compact", False),
        ("chat.completions", "/v1/chat/completions//", False),
        ("images", "/api/v1/images", False),
    ],
)
def test_a_program_uses_the_sdk_where_that_sends_to_the_path(
    endpoint: str, path: str, *, is_its_own: bool
) -> None:
    """At any other the SDK has no method, or another one."""
    program = write_sdk(target_at(f"https://api.example{path}"), endpoint, {"model": "m"})
    assert (program is not None) is is_its_own


@pytest.mark.parametrize(
    "text",
    [
        '{"model":"m","messages":["é \u202e"]}',
        '{"model": "m", "x": "\\u00e9\\ud83d", "f": [1.0, 1e-7, true, null]}',
        '{ "model" : "m" }\n',
        json.dumps({"text": "x" * 100, "list": [["y" * 90]]}),
        NASTY.replace("\0", ""),
        "",
        DEEP,
    ],
)
def test_a_program_sends_the_recorded_bytes(text: str) -> None:
    """Whether they are JSON that Python writes so, other JSON, or none."""
    try:
        body: Any = decode_json(text)
    except ValueError:
        body = text
    with listening() as (base, came):
        target = target_at(f"{base}/v1/messages")
        program = write_plain(target, {"X-Told": "a"}, text, body, is_streamed=False)
        assert PRINTABLE.match(program)
        assert run(sys.executable, "-", text=program) == b"{}\n"
    assert came[0].body == text.encode()
    assert came[0].headers["authorization"] == "Bearer my-key"


@pytest.mark.parametrize(
    ("endpoint", "asked"),
    [
        ("chat.completions", {"messages": [{"role": "user", "content": NASTY}], "x": {NASTY: 1}}),
        ("chat.completions", {"messages": [{"role": "user", "content": "half \ud83d"}]}),
        ("responses", {"input": NASTY, "stream": False, "own": [NASTY]}),
        ("messages", {"messages": [{"role": "user", "content": NASTY}], "max_tokens": 5}),
    ],
)
async def test_every_copy_of_a_hostile_call_is_plain_and_makes_it_again(
    tmp_path: Path, endpoint: str, asked: dict[str, Any]
) -> None:
    """Through the API, the SDK and curl: the server gets what the client sent."""
    asked = {"model": "m", **asked}
    with listening() as (base, came):
        port = int(base.rpartition(":")[2])
        path = {"chat.completions": "/v1/chat/completions"}.get(endpoint, f"/v1/{endpoint}")
        exchange = make_exchange(
            1, request_json=asked, endpoint=endpoint, path=path, server_port=port, response=None
        )
        async with serve_api(make_store(tmp_path / "t.db", exchange)) as api:
            copies = {
                form: (await api.get(f"calls/{span_id_of(1)}/copy", as_=form))["text"]
                for form in ("curl", "python", "json")
            }
        assert decode_json(copies["json"]) == asked
        assert not UNSAFE.search(copies["json"])
        assert PRINTABLE.match(copies["curl"])
        assert PRINTABLE.match(copies["python"])
        await asyncio.to_thread(run, "bash", text=copies["curl"].replace("curl", "curl -s", 1))
        await asyncio.to_thread(run, sys.executable, "-", text=copies["python"])
    assert [decode_json(one.body) for one in came] == [asked, asked]
    assert {one.path for one in came} == {path}


async def test_a_path_of_any_characters_stays_one_word(tmp_path: Path) -> None:
    """No request has such a path, and a store that somebody else wrote may."""
    exchange = make_exchange(1, path="/v1/\x1b[201~\r#é\u202e'")
    async with serve_api(make_store(tmp_path / "t.db", exchange)) as api:
        for form in ("curl", "python"):
            text = (await api.get(f"calls/{span_id_of(1)}/copy", as_=form))["text"]
            assert PRINTABLE.match(text)
            assert "/v1/%1B[201~%0D%23%C3%A9%E2%80%AE" in text


async def test_a_call_of_an_unknown_upstream_goes_to_the_proxy(tmp_path: Path) -> None:
    """To where it listens, by the page's settings, and with TLS by a name."""
    store = make_store(tmp_path / "t.db", make_exchange(1, server_address=None, server_port=None))
    for its_settings, base in (
        ({"host": "0.0.0.0", "port": 4321}, "http://127.0.0.1:4321"),
        ({"port": 4322, "tls_cert": "c.pem"}, "https://localhost:4322"),
    ):
        async with serve_api(store, **its_settings) as api:
            text = (await api.get(f"calls/{span_id_of(1)}/copy", as_="curl"))["text"]
        assert f"{base}/v1/chat/completions" in text


class Terminal:
    """A bash that reads what is typed on a terminal, line editing and bracketed paste included."""

    def __init__(self, folder: Path) -> None:
        pid, self._fd = pty.fork()
        if not pid:  # pragma: no cover - another process
            os.chdir(folder)
            environment = {
                "PATH": os.environ["PATH"],
                "TERM": "xterm",
                "HOME": str(folder),
                "PS1": "# ",
            }
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment | KEY)
        self._pid = pid
        self.shown = b""

    def wait_for(self, words: bytes, seconds: float = 20) -> None:
        """Wait until it has printed something."""
        until = time.monotonic() + seconds
        while words not in self.shown:
            assert time.monotonic() < until, self.shown[-2000:]
            if select.select([self._fd], [], [], 0.1)[0]:
                self.shown += os.read(self._fd, 65_536)

    def type(self, data: bytes) -> None:
        """Type something, reading meanwhile what it prints."""
        while data:
            if select.select([self._fd], [], [], 0)[0]:
                self.shown += os.read(self._fd, 65_536)
            data = data[os.write(self._fd, data[:512]) :]

    def close(self) -> None:
        """Hang up."""
        os.close(self._fd)
        os.waitpid(self._pid, 0)


@pytest.mark.parametrize("is_bracketed", [True, False])
@pytest.mark.parametrize("end", ["", "\0"], ids=["a word", "Base64"])
def test_pasted_into_a_terminal_nothing_else_runs(
    tmp_path: Path, end: str, is_bracketed: bool
) -> None:
    """The body tries to end the paste, to interrupt, to end the quotes, and to recall history."""
    attack = (
        "\x1b[201~\x03\rtouch pwned\r\n'\ntouch pwned\n!touch\n\"; touch pwned; $(touch pwned)\t\t"
    )
    body = (attack + "\x1b[200~" + end).encode()
    command = write_curl(target_at("http://h/v1"), {}, body, is_streamed=False)
    terminal = Terminal(tmp_path)
    try:
        terminal.wait_for(b"# ")
        store = 'curl() { case "$*" in *@-) cat;; *) eval "printf %s \\"\\$$#\\"";; esac >got; }'
        terminal.type(f"{store}; echo rea''dy\n".encode())
        terminal.wait_for(b"ready")
        marks = (b"\x1b[200~", b"\x1b[201~") if is_bracketed else (b"", b"")
        terminal.type(marks[0] + command.encode() + marks[1] + b"\n")
        terminal.type(b"echo do''ne\n")
        terminal.wait_for(b"done")
    finally:
        terminal.close()
    assert not (tmp_path / "pwned").exists()
    assert (tmp_path / "got").read_bytes() == body
