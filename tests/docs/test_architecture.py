"""``docs/architecture.md`` and ``docs/codec.md`` name every room, and only what is there."""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import DOCS, ROOT, Page

ARCHITECTURE = Page(DOCS / "architecture.md")
CODEC = Page(DOCS / "codec.md")

MAX_LINES = 65
"""One screen."""

_PATH = re.compile(r"(?<![\w/.])((?:codec|telemetry|proxy)/[\w/]*(?:\.py)?)(?![\w*])")


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


@pytest.mark.parametrize("page", [ARCHITECTURE, CODEC], ids=["architecture", "codec"])
def test_what_is_named_is_there(page: Page) -> None:
    """Files and folders, where they have their path from the checkout's."""
    named = set(_PATH.findall(page.text))
    assert len(named) > 5
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_the_architecture_fits_one_screen() -> None:
    """Its lines, those of tables among them."""
    assert len(ARCHITECTURE.text.splitlines()) <= MAX_LINES
