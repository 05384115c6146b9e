"""The files of the page: where they are, how long they are kept, and that they are whole."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING

import pytest

from proxy.page.assets import MAX_PACKED_BYTES, read_assets
from telemetry.fact import Form
from tests.proxy.page.pages import open_page

if TYPE_CHECKING:
    from pathlib import Path

    import aiohttp

_PLAIN = {"Accept-Encoding": "identity"}
_NAMED = re.compile(r'"(/static/[^"]+)"')


async def _read(
    session: aiohttp.ClientSession, url: str, headers: dict[str, str]
) -> tuple[aiohttp.ClientResponse, bytes]:
    async with session.get(url, headers=headers) as response:
        return response, await response.read()


async def test_all_files_that_the_first_one_names_may_be_kept(tmp_path: Path) -> None:
    """The first file is asked for each time; what it names never changes."""
    async with open_page(tmp_path / "traces.db") as page:
        first, text = await _read(page.session, page.url, _PLAIN)
        assert first.headers["Cache-Control"] == "no-cache"
        named = _NAMED.findall(text.decode())
        assert len(named) == 3
        for path in named:
            response, body = await _read(page.session, page.url + path, _PLAIN)
            assert response.status == 200, path
            assert response.headers["Cache-Control"].endswith("immutable")
            assert body


async def test_file_of_another_edition_is_asked_for_each_time(tmp_path: Path) -> None:
    """Who shows an old first file gets today's script by it, and may not keep it."""
    async with open_page(tmp_path / "traces.db") as page:
        response, _ = await _read(page.session, f"{page.url}/static/0/page.js", _PLAIN)
        assert response.headers["Cache-Control"] == "no-cache"
        known = {"If-None-Match": response.headers["ETag"]}
        again, body = await _read(page.session, f"{page.url}/static/0/page.js", known)
        assert (again.status, body) == (304, b"")


@pytest.mark.parametrize(
    ("accepted", "is_packed"),
    [
        ("gzip, deflate, br, zstd", True),
        ("br;q=1.0, GZIP;q=0.5", True),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000, br", False),
        ("x-gzipped", False),
    ],
)
async def test_files_are_packed_for_who_takes_that(
    tmp_path: Path, accepted: str, is_packed: bool
) -> None:
    """By what the request says, and the same bytes either way."""
    assets = read_assets()
    async with open_page(tmp_path / "traces.db") as page:
        url = f"{page.url}/static/{assets.edition}/page.js"
        async with page.session.get(
            url, headers={"Accept-Encoding": accepted}, auto_decompress=False
        ) as response:
            body = await response.read()
            assert response.headers.get("Content-Encoding") == ("gzip" if is_packed else None)
            assert response.headers["Vary"] == "Accept-Encoding"
    body = gzip.decompress(body) if is_packed else body
    assert body == assets.files["page.js"].body


def test_edition_is_the_same_as_long_as_the_files_are() -> None:
    """Every process gives the same addresses."""
    first, again = read_assets(), read_assets()
    assert first == again
    assert re.fullmatch(r"[0-9a-f]{32}", first.edition)


def test_whole_page_is_light() -> None:
    """All files of the page, packed one by one, take no more than is allowed."""
    assert sum(len(file.packed) for file in read_assets().files.values()) <= MAX_PACKED_BYTES


def test_page_writes_each_form_of_values() -> None:
    """Whatever fact gets a column, the page writes it as the terminal does; texts stay as is."""
    script = read_assets().files["page.js"].body.decode()
    found = re.search(r"^const FORMATS = \{(.*?)^\};", script, re.MULTILINE | re.DOTALL)
    assert found is not None
    others = {form.value for form in Form} - {"text", "id"}
    assert [name for name in others if not re.search(rf"\b{name}[:,]", found[1])] == []
