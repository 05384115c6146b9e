"""``docs/settings.md``: the headers in its tables are those that are read."""

from __future__ import annotations

import re
import tomllib

from telemetry.observing.client_context import HeaderMap
from telemetry.observing.client_headers import HEADERS_OF_AGENTS
from tests.docs.blocks import DOCS, Page

PAGE = Page(DOCS / "settings.md")


def test_the_table_of_agents_headers_is_theirs() -> None:
    """In the order in which they win, and with what they become."""
    rows = [line.split(" | ") for line in PAGE.text.splitlines() if line.startswith("| `")]
    listed = {
        header: target
        for cells in rows
        if len(cells) == 3
        for headers, targets in [(_words(cells[0]), _words(cells[2]))]
        if headers[0] in HEADERS_OF_AGENTS
        for header, target in zip(headers, targets * (len(headers) // len(targets)), strict=True)
    }
    assert [*listed.items()] == [*HEADERS_OF_AGENTS.items()]


def test_the_headers_that_are_ignored_as_the_page_says_are_not_read() -> None:
    """Each of its tables is one that a start takes."""
    tables = [
        tomllib.loads(block.text)["headers"]
        for block in PAGE.blocks
        if block.language == "toml" and block.text.startswith("[headers]")
    ]
    assert len(tables) == 2
    read = HeaderMap.build(tables[0])
    assert tables[0] == dict.fromkeys(("session-id", "session_id"), "ignore")
    assert not read.exact.keys() & tables[0].keys()
    HeaderMap.build(tables[1])


def _words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)
