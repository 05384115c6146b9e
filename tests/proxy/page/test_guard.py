"""The guard: who is let in, and what every answer bears."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.page.guard import HEADERS
from tests.proxy.page.pages import TOKEN, open_page

if TYPE_CHECKING:
    from pathlib import Path

    import aiohttp

_PATHS = ("/", "/static/0/index.html", "/static/0/none", "/none", "/api/live", "/api/none")


async def _code(response: aiohttp.ClientResponse) -> str:
    body = await response.json()
    return str(body["error"]["code"])


@pytest.mark.parametrize("host", ["evil.example", "evil.example:4002", "127.0.0.1.evil.example"])
async def test_a_strangers_host_is_refused(tmp_path: Path, host: str) -> None:
    """A name that leads here, and is not ours, gets nothing (DNS rebinding)."""
    async with open_page(tmp_path / "traces.db") as page:
        for path in _PATHS:
            async with page.session.get(page.url + path, headers={"Host": host}) as response:
                assert response.status == 421
                assert await _code(response) == "host"


@pytest.mark.parametrize("host", ["localhost:9", "127.0.0.1", "[::1]:4002", "Page.Example:443"])
async def test_this_machine_and_the_settings_hosts_are_let_in(tmp_path: Path, host: str) -> None:
    """Loopback by any name, and what SPANTAP_PAGE_HOSTS names, in either case."""
    async with (
        open_page(tmp_path / "traces.db", page_hosts=("page.example",)) as page,
        page.session.get(f"{page.url}/", headers={"Host": host}) as response,
    ):
        assert response.status == 200


async def test_a_request_in_absolute_form_for_a_stranger_is_refused(tmp_path: Path) -> None:
    """The host of a request's target counts as well."""
    async with open_page(tmp_path / "traces.db") as page:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(page.url.rpartition(":")[2])
        )
        writer.write(b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 421 " in await reader.readline()
        writer.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_what_another_page_asks_for_is_refused(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    """Also with the token, and also from another port of the same host."""
    async with open_page(tmp_path / "traces.db") as page:
        for method, path in (("POST", "/api/token"), ("GET", "/api/none")):
            async with page.session.request(
                method, page.url + path, json={"token": TOKEN}, headers=headers
            ) as response:
                assert response.status == 403
                assert await _code(response) == "origin"
                assert "Set-Cookie" not in response.headers


async def test_our_own_page_may_ask(tmp_path: Path) -> None:
    """Its origin is the host that was asked for, whatever a proxy before us speaks."""
    async with open_page(tmp_path / "traces.db") as page:
        host = page.url.removeprefix("http://")
        for origin in (f"http://{host}", f"https://{host}"):
            headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
            async with page.session.post(
                f"{page.url}/api/token", json={"token": TOKEN}, headers=headers
            ) as response:
                assert response.status == 204


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer another"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": f"spantap-page-4002={TOKEN}"},
        {"Cookie": "spantap-page-4002="},
    ],
)
async def test_without_the_token_there_are_no_data(tmp_path: Path, headers: dict[str, str]) -> None:
    """Neither no token, nor another, nor the token in the cookie's place."""
    async with open_page(tmp_path / "traces.db") as page:
        page.session.headers.clear()
        for path in ("/api/live", "/api/none", "/api/token/"):
            async with page.session.get(page.url + path, headers=headers) as response:
                assert response.status == 401
                assert await _code(response) == "token"


async def test_the_token_is_exchanged_for_a_cookie(tmp_path: Path) -> None:
    """Of this site alone, out of reach of scripts, and not the token itself."""
    async with open_page(tmp_path / "traces.db") as page:
        page.session.headers.clear()
        async with page.session.post(f"{page.url}/api/token", json={"token": TOKEN}) as response:
            assert response.status == 204
            cookie = response.headers["Set-Cookie"]
        assert cookie.startswith("spantap-page-4002=")
        assert {"HttpOnly", "SameSite=Strict", "Path=/api/"} <= set(cookie.split("; "))
        assert TOKEN not in cookie
        shown = {"Cookie": cookie.partition(";")[0]}
        async with page.session.get(f"{page.url}/api/none", headers=shown) as response:
            assert response.status == 404


async def test_another_token_gets_no_cookie(tmp_path: Path) -> None:
    """And what is no token at all is told apart, whatever its form."""
    async with open_page(tmp_path / "traces.db") as page:
        page.session.headers.clear()
        for body, status, code in (
            (b'{"token": "another"}', 401, "token"),
            (b'{"token": "\xff"}', 400, "parameter"),
            (b"[]", 400, "parameter"),
            (b"x" * 20_000, 413, "too_large"),
        ):
            async with page.session.post(f"{page.url}/api/token", data=body) as response:
                assert (response.status, await _code(response)) == (status, code)
                assert "Set-Cookie" not in response.headers


async def test_every_answer_bears_the_headers_of_safety(tmp_path: Path) -> None:
    """Also an error, and no answer a CORS header; only files may be kept."""
    async with open_page(tmp_path / "traces.db") as page:
        for method in ("GET", "POST", "OPTIONS", "PUT"):
            for path in _PATHS:
                if (method, path) == ("GET", "/api/live"):
                    continue  # news have no end
                async with page.session.request(method, page.url + path) as response:
                    assert {name: response.headers.get(name) for name in HEADERS} == HEADERS
                    assert not [one for one in response.headers if one.startswith("Access-")]
                    is_file = response.status == 200
                    kept = "no-cache" if is_file else "no-store"
                    assert response.headers["Cache-Control"] == kept


async def test_news_bear_the_headers_of_safety_too(tmp_path: Path) -> None:
    """Of an answer that has no end."""
    async with (
        open_page(tmp_path / "traces.db") as page,
        page.session.get(f"{page.url}/api/live") as response,
    ):
        assert response.status == 200
        assert {name: response.headers.get(name) for name in HEADERS} == HEADERS
        assert response.headers["Cache-Control"] == "no-store"
        response.close()


async def test_a_file_that_has_not_changed_is_not_sent_again(tmp_path: Path) -> None:
    """A browser knows its copy by the tag, which is the file's digest."""
    async with open_page(tmp_path / "traces.db") as page:
        async with page.session.get(f"{page.url}/") as response:
            tag = response.headers["ETag"]
            assert "<title>" in await response.text()
        headers = {"If-None-Match": tag}
        async with page.session.get(f"{page.url}/", headers=headers) as response:
            assert response.status == 304
            assert await response.read() == b""
