"""The page of ``/``: for a browser on this machine without a key, if nobody takes all paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.page_access.address import PageAddress, announcing_page
from proxy.relay.landing import KNOWN_SECONDS, Landing
from tests.proxy.canary_keys import KEY
from tests.proxy.harness import ANSWER, relaying
from tests.proxy.own_providers import providers
from tests.proxy.raw_client import ask

if TYPE_CHECKING:
    from pathlib import Path

BROWSER = b"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n"
URL = "http://127.0.0.1:4002"
WORDS = b"This is spantap"


def get(
    head: bytes = BROWSER,
    *,
    target: bytes = b"/",
    method: bytes = b"GET",
    host: bytes = b"127.0.0.1",
) -> bytes:
    """A request without a body."""
    return b"%b %b HTTP/1.1\r\nHost: %b\r\n%bConnection: close\r\n\r\n" % (
        method,
        target,
        host,
        head,
    )


async def test_a_browser_sees_what_this_is_and_where_the_page_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is relayed or recorded, and the browser may load nothing for it; cookies are none."""
    store = tmp_path / "traces.db"
    page = PageAddress(url=URL, pid=1)
    async with providers(monkeypatch, store=store) as (running, heard):
        with announcing_page(store, page):
            answer = await ask(running.address, get(BROWSER + b"Cookie: of=another\r\n"))
        assert answer.status == 200
        fields = {name.lower(): value for name, value in answer.fields}
        assert fields[b"content-type"] == b"text/html; charset=utf-8"
        assert fields[b"content-security-policy"].startswith(b"default-src 'none'")
        assert fields[b"x-content-type-options"] == b"nosniff"
        assert WORDS in answer.body
        assert f'<a href="{URL}">'.encode() in answer.body
        assert b"OPENAI_BASE_URL=http://127.0.0.1/v1" in answer.body
        assert (heard, running.sink.frames) == ([], [])


@pytest.mark.parametrize(
    "request_",
    [
        get(b""),
        get(b"Accept: */*\r\n"),
        get(b"Accept: application/json\r\n"),
        get(target=b"/?key=k"),
        get(target=b"/?a=b"),
        get(target=b"/v1/models"),
        get(method=b"HEAD"),
        get(method=b"POST"),
        get(host=b"example.org"),
        get(BROWSER + b"Content-Length: 2\r\n").replace(b"\r\n\r\n", b"\r\n\r\nhi"),
        *(
            get(BROWSER + b"%b: k\r\n" % name)
            for name in (
                *(b"Authorization", b"api-key", b"X-Api-Key", b"x-goog-api-key", b"x-spantap-key"),
                *(b"Proxy-Authorization", b"Ocp-Apim-Subscription-Key", b"X-Amz-Security-Token"),
            )
        ),
    ],
)
async def test_any_other_request_is_the_providers(
    request_: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program, a client with a key, another path, or a site whose name leads here (R1)."""
    async with providers(monkeypatch, store=tmp_path / "traces.db") as (running, heard):
        assert WORDS not in (await ask(running.address, request_)).body
        assert len(heard) == 1


async def test_an_upstream_that_takes_all_paths_has_the_first_one_too() -> None:
    """A browser gets what the upstream answers."""
    async with relaying() as (upstream, running):
        answer = await ask(running.address, get())
        assert (answer.body, len(upstream.requests)) == (ANSWER, 1)


async def test_a_port_that_asks_for_a_key_says_nothing_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is there a page of ours with a key: that request is the provider's."""
    settings = {"store": tmp_path / "traces.db", "inbound_keys": (KEY,)}
    async with providers(monkeypatch, **settings) as (running, heard):
        assert (await ask(running.address, get())).status == 401
        key = f"x-spantap-key: {KEY}\r\n".encode()
        assert WORDS not in (await ask(running.address, get(BROWSER + key))).body
        assert len(heard) == 1


async def test_a_port_that_others_reach_has_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It belongs to the providers alone."""
    settings = {"store": tmp_path / "traces.db", "host": "0.0.0.0"}
    async with providers(monkeypatch, **settings) as (running, heard):
        _, port = running.address
        assert WORDS not in (await ask(("127.0.0.1", port), get())).body
        assert len(heard) == 1


def test_the_address_is_looked_up_once_for_a_while(tmp_path: Path) -> None:
    """A flood of requests does not read a file each; a page that opens later is found."""
    now = 0.0
    store = tmp_path / "traces.db"
    landing = Landing(store, "http", clock=lambda: now)
    assert "spantap page" in landing._describe_page()
    with announcing_page(store, PageAddress(url=URL, pid=1)):
        assert URL not in landing._describe_page()
        now = KNOWN_SECONDS
        assert URL in landing._describe_page()
    assert URL in landing._describe_page()
