"""``spantap page``, ``spantap run --page``, and the page of ``spantap serve``."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests

from proxy.page_access.address import PageAddress, announcing_page, find_page
from proxy.page_access.digests import digest_token
from proxy.page_access.token_file import token_path
from tests.e2e.processes import ServerProcess, clean_environment, wait_until
from tests.proxy.recorded_calls import make_exchange, make_store

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = (sys.executable, "-m", "proxy")

_SECONDS = 30.0


@pytest.fixture
def store(tmp_path: Path) -> Path:
    make_store(tmp_path / "traces.db", make_exchange())
    return tmp_path / "traces.db"


@pytest.fixture
def browser(tmp_path: Path) -> Path:
    """A browser that writes down what it is to open; the file that it writes."""
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/opened\n')
    program.chmod(0o700)
    return tmp_path / "opened"


def spantap(*words: object, **variables: str) -> tuple[int, str]:
    """``spantap`` with these arguments, to its end: its status, and what it told."""
    ended = subprocess.run(
        [*PROGRAM, *map(str, words)],
        env=clean_environment() | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return ended.returncode, ended.stderr


@contextlib.contextmanager
def serving(*words: object, log: Path, **variables: str) -> Iterator[ServerProcess]:
    """``spantap`` with these arguments, ended at the end."""
    command = [*PROGRAM, *map(str, words)]
    with ServerProcess(command, environment=variables, log=log) as process:
        yield process


def wait_for_page(store: Path) -> PageAddress:
    wait_until(lambda: find_page(store) is not None, _SECONDS, "the page is there")
    found = find_page(store)
    assert found is not None
    return found


def ask(page: PageAddress, path: str, token: str = "") -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return requests.get(page.url + path, headers=headers, timeout=_SECONDS).status_code


def exchange(page: PageAddress, token: str) -> int:
    answer = requests.post(f"{page.url}/api/token", json={"token": token}, timeout=_SECONDS)
    return answer.status_code


def test_the_page_of_a_store_without_a_proxy(store: Path, tmp_path: Path) -> None:
    """It is served until a signal says to end, and leaves the token's file alone."""
    with serving(
        *("page", "--store", store, "--port", "0", "--no-browser"), log=tmp_path / "log"
    ) as process:
        page = wait_for_page(store)
        assert ask(page, "/") == 200
        assert ask(page, "/api/none") == 401
        assert ask(page, "/api/none", token_path(store).read_text().strip()) == 404
        assert process.end() == 0
    told = (tmp_path / "log").read_text()
    assert f"the page is at {page.url} (its token is in {token_path(store)})" in told
    assert token_path(store).read_text().strip() not in told
    assert find_page(store) is None
    assert not (tmp_path / "traces.db.page").exists()


def test_a_store_that_is_not_there_has_no_page(tmp_path: Path) -> None:
    """A slip of the path makes no files, and serves no empty page for ever."""
    status, told = spantap("page", "--store", tmp_path / "none.db", "--no-browser")
    assert (status, told.count("\n")) == (1, 1)
    assert "there is no store at" in told
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_is_served_already_is_opened(
    store: Path, browser: Path, tmp_path: Path
) -> None:
    """By a ticket, which holds once, and never by the token."""
    with serving(
        "serve", "--port", "0", "--admin-port", "0", "--store", store, log=tmp_path / "log"
    ):
        page = wait_for_page(store)
        status, told = spantap("page", "--store", store, BROWSER=str(tmp_path / "browser"))
        assert status == 0
        assert f"the page is at {page.url} " in told
        url, _, ticket = browser.read_text().strip().partition("/#token=")
        assert url == page.url
        assert token_path(store).read_text().strip() not in ticket
        assert [exchange(page, ticket), exchange(page, ticket)] == [204, 401]


def test_a_page_whose_token_is_not_known_is_opened_without(
    store: Path, browser: Path, tmp_path: Path
) -> None:
    """A ticket of another token would be no use, and the page asks for its own."""
    words = ("serve", "--port", "0", "--admin-port", "0", "--store", store)
    token = "a-token-of-the-settings"
    with serving(*words, log=tmp_path / "log", SPANTAP_PAGE_TOKEN=token):
        page = wait_for_page(store)
        assert ask(page, "/api/none", token) == 404
        status, told = spantap("page", "--store", store, BROWSER=str(tmp_path / "browser"))
        assert (status, browser.read_text().strip()) == (0, f"{page.url}/")
        assert "is not known here" in told
        spantap(
            *("page", "--store", store),
            BROWSER=str(tmp_path / "browser"),
            SPANTAP_PAGE_TOKEN=token,
        )
        ticket = browser.read_text().split("#token=")[1].strip()
        assert exchange(page, ticket) == 204
    assert token not in (tmp_path / "log").read_text()


def test_the_page_of_a_run_outlasts_its_command(
    browser: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there before the command starts, and while its calls are looked at."""
    store = tmp_path / "traces.db"
    status, told = spantap(
        *("run", "--page", "--store", store, "--", "sh", "-c", f"test -s {browser}"),
        BROWSER=str(tmp_path / "browser"),
    )
    page = wait_for_page(store)
    try:
        assert status == 0, told
        assert f"the page is at {page.url} " in told
        assert ask(page, "/") == 200
        assert exchange(page, browser.read_text().strip().partition("#token=")[2]) == 204
        assert "OPENAI_API_KEY" not in os.fsdecode(_read_environ(page.pid))
    finally:
        os.kill(page.pid, signal.SIGTERM)
    wait_until(lambda: find_page(store) is None, _SECONDS, "it has ended")


def _read_environ(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def test_serve_tells_the_token_to_a_person_alone(store: Path, tmp_path: Path) -> None:
    """On a terminal the address has it; in a log the file is named that holds it."""
    command = [*PROGRAM, "serve", "--port", "0", "--admin-port", "0", "--store", str(store)]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command, env=clean_environment(), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    said = b""
    try:
        while b"#token=" not in said:
            said += os.read(ours, 4096)
    finally:
        process.terminate()
        with contextlib.suppress(OSError):
            while os.read(ours, 4096):
                pass
        process.wait(_SECONDS)
        os.close(ours)
    assert f"/#token={token_path(store).read_text().strip()}".encode() in said
    with serving(*command[len(PROGRAM) :], log=tmp_path / "log"):
        wait_until(
            lambda: "the page is at" in (tmp_path / "log").read_text(), _SECONDS, "it is told"
        )
    log = (tmp_path / "log").read_text()
    assert token_path(store).read_text().strip() not in log
    assert str(token_path(store)) in log


def test_a_taken_port_costs_the_page_and_nothing_else(store: Path, tmp_path: Path) -> None:
    """The proxy starts, and says why there is no page."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ("serve", "--port", "0", "--admin-port", "0", "--page-port", port)
        with serving(*words, "--store", store, log=tmp_path / "log") as process:
            wait_until(lambda: "has no page" in process.output, _SECONDS, "that is told")
            assert "listening on" in process.output
            assert process.end() == 0
    assert "another program listens there: name another port with --page-port" in process.output


def test_the_page_outlasts_telemetry_and_ends_with_the_proxy(store: Path, tmp_path: Path) -> None:
    """A death beside it costs it nothing; the proxy's end is its own, also while it is watched."""
    words = ("serve", "--port", "0", "--admin-port", "0", "--store", store)
    with serving(*words, log=tmp_path / "log") as process:
        page = wait_for_page(store)
        token = token_path(store).read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        with requests.get(
            f"{page.url}/api/live", headers=headers, stream=True, timeout=_SECONDS
        ) as watched:
            children = _children_of(page.pid)
            os.kill(children["telemetry"], signal.SIGKILL)
            assert ask(page, "/") == 200
            assert _children_of(page.pid)["page"] == children["page"]
            began = time.monotonic()
            assert process.end() == 0
            assert time.monotonic() - began < 10
            with contextlib.suppress(requests.RequestException):
                watched.content  # noqa: B018 - it is read to its end
        assert not Path(f"/proc/{children['page']}").exists()
    assert "page process" not in process.output


def _children_of(pid: int) -> dict[str, int]:
    """The processes that a supervisor has started, by the last word of their module."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    found = {}
    for child in map(int, text.split()):
        command = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        if len(command) < 4:  # it has just ended
            continue
        module = command[3].decode()
        found["page" if ".page." in module else module.rpartition(".")[2]] = child
    return found


def test_a_page_that_is_switched_off_leaves_nothing(store: Path, tmp_path: Path) -> None:
    """``--no-page``: no port, no token."""
    words = ("serve", "--port", "0", "--admin-port", "0", "--no-page", "--store", store)
    with serving(*words, log=tmp_path / "log") as process:
        wait_until(lambda: "spans are recorded" in process.output, _SECONDS, "it serves")
        assert find_page(store) is None
        assert process.end() == 0
    assert "the page" not in process.output
    assert not token_path(store).exists()


def test_no_token_is_refused_where_other_machines_come(store: Path, tmp_path: Path) -> None:
    """``none`` on loopback is said aloud; elsewhere nothing starts."""
    words = ("serve", "--port", "0", "--admin-port", "0", "--store", store)
    status, told = spantap(*words, SPANTAP_PAGE_TOKEN="none", SPANTAP_PAGE_HOST="0.0.0.0")
    assert (status, told.count("\n")) == (2, 1)
    assert "page_token must not be none" in told
    with serving(*words, log=tmp_path / "log", SPANTAP_PAGE_TOKEN="none"):
        page = wait_for_page(store)
        assert ask(page, "/api/none") == 404
        wait_until(lambda: "asks for no token" in (tmp_path / "log").read_text(), 20, "it is told")
    assert "WARNING" in (tmp_path / "log").read_text()


def test_an_address_is_believed_while_its_process_lives(tmp_path: Path) -> None:
    """Neither after its end, nor somebody else's."""
    store = tmp_path / "traces.db"
    address = PageAddress.of("http://127.0.0.1:1", digest_token("of-this-store"))
    other = PageAddress.of("http://127.0.0.1:2", None)
    with announcing_page(store, address):
        assert find_page(store) == address
        with announcing_page(store, other):
            assert find_page(store) == address
        assert find_page(store) == address
    assert find_page(store) is None
    (tmp_path / "traces.db.page").write_text('{"url": "http://127.0.0.1:3", "pid": 1}')
    assert find_page(store) is None
    with announcing_page(store, other):
        assert find_page(store) == other
    assert list(tmp_path.iterdir()) == []
