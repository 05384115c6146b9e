"""What code, tests and pages cite of the documentation is there: the page, and its anchor."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from tests.docs.blocks import DOCS, ROOT, Page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTRACT = DOCS / "contract"

_FOLDERS = ("codec", "deploy", "docs", "proxy", "telemetry", "tests")
_SUFFIXES = frozenset({"", ".c", ".js", ".md", ".mjs", ".py", ".sh", ".toml", ".yaml"})
_CITATION = re.compile(r"(?<![\w/.-])(docs/[\w/-]+\.md)(?:#([\w-]+))?")

_MOVED = (
    "deploy",
    "design",
    "dialects",
    "house",
    "page-and-conversations",
    "peers",
    "reach",
    "seeds",
    "span-contract",
    "style",
)
"""Documents that lie beside the repository: what holds of them is in the contract."""

_OF_OLD = re.compile(
    rf"(?<![\w/-])(?:(?:{'|'.join(_MOVED)})\.md|apis\.md(?:``)?,?\s+(?:sections?\s+)?\d)"
)
"""How they were cited. Another ``apis.md`` had numbered sections; ``docs/apis.md`` has none."""


def read_files() -> Iterator[tuple[Path, str]]:
    """Every text of the repository that may cite, but for what tests have installed."""
    files = [file for name in _FOLDERS for file in (ROOT / name).rglob("*")]
    files += [ROOT / "Makefile", *ROOT.glob("*.md"), *ROOT.glob("*.py")]
    for file in files:
        if file.suffix in _SUFFIXES and ".cache" not in file.parts and file.is_file():
            yield file.relative_to(ROOT), file.read_text("utf-8", "replace")


@cache
def find_anchors(path: str) -> frozenset[str] | None:
    """The anchors of a page; ``None`` where there is no such page."""
    file = ROOT / path
    return frozenset(Page(file).anchors) if file.is_file() else None


def opens(path: str, anchor: str) -> bool:
    """Whether a citation leads somewhere."""
    anchors = find_anchors(path)
    return anchors is not None and (not anchor or anchor in anchors)


def test_every_citation_opens() -> None:
    """Of a page, and of what stands on it."""
    cited = [(file, *found) for file, text in read_files() for found in _CITATION.findall(text)]
    assert len(cited) > 200
    assert [(file, path, anchor) for file, path, anchor in cited if not opens(path, anchor)] == []


def test_a_citation_that_leads_nowhere_is_noticed() -> None:
    """Headings and ids are anchors, and nothing else is."""
    assert opens("docs/contract/promises.md", "r5")
    assert opens("docs/contract/promises.md", "what-may-differ")
    assert not opens("docs/contract/promises.md", "r9")
    assert not opens("docs/contract", "")


def test_nothing_is_cited_that_is_not_in_the_repository() -> None:
    """The names of documents that were moved are gone."""
    assert _OF_OLD.search(f"(``{_MOVED[0]}.md`` section 4)")
    assert _OF_OLD.search(f"(``{'apis'}.md`` 4.3)")
    assert not _OF_OLD.search("``docs/apis.md`` says more, [apis.md](apis.md#gemini) as well")
    assert [file for file, text in read_files() if _OF_OLD.search(text)] == []


def test_the_index_has_every_page_of_the_contract() -> None:
    """By a link, with what it holds."""
    pages = {path.name for path in CONTRACT.glob("*.md")} - {"README.md"}
    assert pages <= set(Page(CONTRACT / "README.md").links)
