"""``docs/architecture.md`` and ``docs/codec.md`` name every room, and only what is there.

So does what ``CONTRIBUTING.md`` says of the code.
"""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import DOCS, ROOT, Page

ARCHITECTURE = Page(DOCS / "architecture.md")
CODEC = Page(DOCS / "codec.md")
CONTRIBUTING = Page(ROOT / "CONTRIBUTING.md")

MAX_LINES = 65
"""One screen."""

_PATH = re.compile(r"(?<![\w/.])((?:codec|telemetry|proxy)/[\w/]*(?:\.(?:py|js))?)(?![\w*])")


def list_rooms(package: str) -> list[str]:
    """The rooms of a package, as pages name them."""
    return sorted(
        f"{package}/{path.parent.name}/" for path in (ROOT / package).glob("*/__init__.py")
    )


@pytest.mark.parametrize("room", [*list_rooms("proxy"), *list_rooms("telemetry")])
def test_the_architecture_names_every_room(room: str) -> None:
    """By its path; of telemetry's also by one relative to the spans."""
    inside = room.partition("/")[2]
    assert room in ARCHITECTURE.text or f"../{inside}" in ARCHITECTURE.text


@pytest.mark.parametrize("room", list_rooms("codec"))
def test_the_codec_names_every_room(room: str) -> None:
    """In the table of its rooms."""
    assert f"| `{room}` |" in CODEC.text


@pytest.mark.parametrize(
    "page", [ARCHITECTURE, CODEC, CONTRIBUTING], ids=lambda page: page.path.stem
)
def test_what_is_named_is_there(page: Page) -> None:
    """Files and folders, where they have their path from the checkout's."""
    named = set(_PATH.findall(page.text))
    assert len(named) > 5
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_every_promise_has_its_place() -> None:
    """R1 to R8, each with where it is kept."""
    rows = re.findall(r"^\| (R\d) \| [^|]+ \| [^|]+ \|$", CONTRIBUTING.text, re.MULTILINE)
    assert rows == [f"R{number}" for number in range(1, 9)]


def test_the_architecture_says_where_to_begin() -> None:
    """By a table of tasks, each with a file or folder that is there."""
    tasks = dict(ARCHITECTURE.rows("Task"))
    assert len(tasks) == 5
    for task, begin in tasks.items():
        assert _PATH.search(begin), task


def test_the_architecture_fits_one_screen() -> None:
    """Its lines, those of tables among them."""
    assert len(ARCHITECTURE.text.splitlines()) <= MAX_LINES
