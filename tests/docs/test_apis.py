"""``docs/apis.md`` has every API of the table: a row that says what it is, and what is on its span.

What the tables of the sections say is proved by the tests of each API's spans.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from codec.apis.table import APIS
from tests.docs.blocks import DOCS, Page

if TYPE_CHECKING:
    from codec.apis.api import Api

PAGE = Page(DOCS / "apis.md")

_TABLE = "\n| On the wire | On the span |\n|---|---|\n| "
_SECTION = re.compile(r"^## (?P<title>.+)\n(?:(?!## ).*\n?)*", re.MULTILINE)
_ROW = re.compile(r"^\| \[[^]]+\]\(#(?P<anchor>[a-z-]+)\) \| (?P<cells>.+) \|$", re.MULTILINE)

with_apis = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


def read_sections(text: str) -> dict[str, str]:
    """The sections, whole, by their anchors."""
    return {
        section["title"].lower().replace(" ", "-"): section[0]
        for section in _SECTION.finditer(text)
    }


def find_row(api: Api) -> tuple[str, list[str]]:
    """The row of an API by its first path: the section that it links to, and its other cells."""
    first = api.path_ends[0]
    found = []
    for row in _ROW.finditer(PAGE.text):
        cells = [cell.strip() for cell in row["cells"].split("|")]
        paths = re.findall(r"`([^`]+)`", cells[0])
        if any(path == first or path.endswith(f"/M{first}") for path in paths):
            found.append((row["anchor"], cells))
    assert len(found) == 1, found
    return found[0]


def list_missing(text: str) -> set[str]:
    """The names of the APIs without a section that has a table of their spans."""
    told = {anchor for anchor, section in read_sections(text).items() if _TABLE in section}
    return {api.name for api in APIS if find_row(api)[0] not in told}


def test_every_api_has_a_table_of_its_span() -> None:
    """In the section that its row links to."""
    assert list_missing(PAGE.text) == set()


@with_apis
def test_a_section_that_is_taken_out_is_noticed(api: Api) -> None:
    """Whichever API it is of; a section without its table, too."""
    section = read_sections(PAGE.text)[find_row(api)[0]]
    assert api.name in list_missing(PAGE.text.replace(section, ""))
    assert api.name in list_missing(PAGE.text.replace(section, section.replace(_TABLE, "\n")))


@with_apis
def test_the_row_says_what_the_code_says(api: Api) -> None:
    """The ends of its paths, the name and the kind of its spans, its system, its operation."""
    paths, name, kind, system, operation = find_row(api)[1]
    assert all(f"{end}`" in paths for end in api.path_ends)
    assert (name, kind) == (f"`{api.span_name}`", api.span_kind.value)
    assert system == (f"`{api.system}`" if api.system else "")
    assert operation == (f"`{api.operation}`" if api.operation else "")
