"""The table of programs in ``docs/run.md``, of :mod:`proxy.launches.programs`.

``python -m tests.docs.programs`` writes it.
"""

from __future__ import annotations

import re

from proxy.launches.programs import Program, read_programs
from tests.docs.blocks import DOCS

__all__ = ("build_page", "write_row")

_PAGE = DOCS / "run.md"
_TABLE = re.compile(r"(?<=\| Tried \|\n\|---\|---\|---\|\n)(?:\|.*\n)*")


def write_row(row: Program) -> str:
    """A program's row."""
    title = f"[{row.title}](quickstarts/{row.page}.md)" if row.page else row.title
    changes = f". {row.changes[0].upper()}{row.changes[1:]}" if row.changes else ""
    tried = row.tried or "as read"
    return f"| `{row.name}`, {title} | {row.sets}{changes} | {tried} |\n"


def build_page() -> str:
    """The page with the table as it should be."""
    rows = "".join(map(write_row, read_programs().values()))
    text, count = _TABLE.subn(lambda _: rows, _PAGE.read_text(encoding="utf-8"))
    assert count == 1
    return text


if __name__ == "__main__":
    _PAGE.write_text(build_page(), encoding="utf-8")
