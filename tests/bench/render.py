"""``python -m tests.bench.render RESULTS DOCUMENT``: the tables of a document, from results.

A table stands between ``<!-- bench: NAME -->`` and ``<!-- end -->``; one whose part was not run
stays as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.results import Results
from tests.bench.tables import render_sections

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("fill_in",)


def fill_in(document: str, sections: Mapping[str, str]) -> str:
    """`document` with each section in its place.

    Raises:
        ValueError: the document has no place for one.
    """
    for name, text in sections.items():
        begin, end = f"<!-- bench: {name} -->\n", "<!-- end -->"
        before, found, after = document.partition(begin)
        if not found or end not in after:
            raise ValueError(f"the document has no place for {name}")
        document = before + begin + text + end + after.partition(end)[2]
    return document


def main(results: str, document: str) -> None:
    """Fill in one document."""
    path = Path(document)
    path.write_text(fill_in(path.read_text(), render_sections(Results.read(Path(results)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
