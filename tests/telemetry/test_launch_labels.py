"""``telemetry.launch_labels``: names of launches as they travel in a path and lie in the store."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote, urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.launch_labels import (
    MAX_NAME_CHARS,
    build_label,
    clean_label,
    find_range,
    read_name,
)

NAMES = (
    "app",
    "app.py",
    "..",
    ".",
    "a/b",
    "a~~b",
    "~",
    "día 1",
    "\x00\x1b[2J",
    "%2F",
    "\U0001f600" * 64,
)

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=MAX_NAME_CHARS)
numbers = st.text("0123456789abcdef", min_size=1, max_size=16)


@pytest.mark.parametrize("name", NAMES)
def test_a_label_is_a_segment_that_nobody_changes(name: str) -> None:
    """Neither who joins URLs nor who encodes or decodes them."""
    label = build_label(name, "4f2a")
    assert re.fullmatch(r"[A-Za-z0-9._~-]+", label)
    assert quote(label, safe="") == unquote(label) == label
    assert urljoin("http://h/~run/x", f"/~run/{label}/v1") == f"http://h/~run/{label}/v1"


@given(names, st.just("") | numbers)
def test_a_name_comes_back(name: str, number: str) -> None:
    """Whatever is in it; and cleaning a label changes nothing."""
    label = build_label(name, number)
    assert read_name(label) == name
    assert not label.startswith(".")
    assert clean_label(label) == (label if name else "")


@given(st.text(max_size=200))
def test_whatever_stands_in_a_path_gives_a_clean_label(segment: str) -> None:
    """Or none; it says the same of the name, and is bounded."""
    label = clean_label(segment)
    assert re.fullmatch(r"[A-Za-z0-9._~-]*", label)
    assert len(label) <= 3 * 4 * MAX_NAME_CHARS + len("~~") + 16
    assert clean_label(label) == label
    if label:
        assert read_name(label) == read_name(segment)


def test_a_name_of_a_megabyte_is_cut() -> None:
    """From whichever side it comes."""
    assert build_label("x" * 1_000_000) == clean_label("x" * 1_000_000) == "x" * MAX_NAME_CHARS


@pytest.mark.parametrize("number", ["", "~~", "~~x y", "~~%2F", f"~~{'1' * 17}", "~~1~~2"])
def test_what_is_no_number_is_dropped(number: str) -> None:
    """The name stays."""
    assert clean_label(f"app{number}") == "app"


@given(names, names, numbers)
def test_a_range_has_the_launches_of_one_name(name: str, other: str, number: str) -> None:
    """And no others, though their names begin alike."""
    first, end = find_range(name)
    assert first <= build_label(name, number) < end
    if other != name:
        for label in (build_label(other), build_label(other, number)):
            assert not first <= label < end
            assert not first <= build_label(f"{name}{other}"[:MAX_NAME_CHARS] or "x") < end
