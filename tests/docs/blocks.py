"""What a page of the documentation is made of: fenced blocks, tables, links, code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("DOCS", "ROOT", "Block", "Page", "find_pages")

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_ANCHOR = re.compile(r'<a id="([a-z0-9-]+)"></a>')
_LINK = re.compile(r"(?<!\\)\]\(([^()\s]+)\)")
_NO_SLUG = re.compile(r"[^\w\- ]")
_CODE = re.compile(r"`([^`\n]+)`")


class Block(NamedTuple):
    """A fenced block; the comment before it has the reason why it is not run."""

    language: str
    text: str
    reason: str | None


@dataclass(frozen=True)
class Page:
    """A page of Markdown."""

    path: Path

    @cached_property
    def text(self) -> str:
        """All of it."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def prose(self) -> str:
        """All but the fenced blocks."""
        return _FENCE.sub("", self.text)

    @cached_property
    def blocks(self) -> list[Block]:
        """The fenced blocks, in order."""
        return [
            Block(found["language"], found["text"], found["reason"])
            for found in _FENCE.finditer(self.text)
        ]

    @cached_property
    def anchors(self) -> set[str]:
        """What may stand behind a ``#``: as GitHub makes it of headings, and ids."""
        slugs: dict[str, int] = {}
        for heading in _HEADING.findall(self.prose):
            words = re.sub(r"\]\([^)]*\)", "", heading).strip().lower()
            slug = _NO_SLUG.sub("", words).replace(" ", "-")
            slugs[slug] = slugs.get(slug, 0) + 1
        return {
            *_ANCHOR.findall(self.prose),
            *(
                f"{slug}-{number}" if number else slug
                for slug, count in slugs.items()
                for number in range(count)
            ),
        }

    @cached_property
    def links(self) -> list[str]:
        """The targets of its links and images."""
        return _LINK.findall(self.prose)

    @cached_property
    def code(self) -> list[str]:
        """What stands in backquotes."""
        return _CODE.findall(self.prose)

    def rows(self, title: str) -> Iterator[tuple[str, str]]:
        """The first two cells of each row of the table whose first column has that title."""
        _, _, table = self.text.partition(f"\n| {title} |")
        for line in table.partition("\n\n")[0].splitlines()[2:]:
            cells = line.split(" | ")
            yield cells[0].removeprefix("| ").strip(), cells[1].rstrip(" |").strip()


def find_pages() -> list[Page]:
    """The README and all under ``docs/``."""
    return [Page(path) for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))]
