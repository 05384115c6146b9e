"""``telemetry.spans.flattening``: how much of a conversation becomes attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from telemetry.spans import flattening as module
from telemetry.spans.flattening import MAX_FLATTENED_ATTRIBUTES, Flattening
from telemetry.spans.recorder import MAX_SPAN_ATTRIBUTES

if TYPE_CHECKING:
    from telemetry.attribute_values import AttributePairs


def two_each(position: int, entry: str) -> AttributePairs:
    """Two attributes of every entry, and an absent one."""
    yield f"{position}.a", entry
    yield f"{position}.b", None
    yield f"{position}.c", entry


def test_a_span_has_room_for_the_rest() -> None:
    """What the lists leave is more than the essentials, of which there are about 30."""
    assert MAX_SPAN_ATTRIBUTES - MAX_FLATTENED_ATTRIBUTES >= 50


def test_all_lists_share_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second list gets what the first left, whole entries only."""
    monkeypatch.setattr(module, "MAX_FLATTENED_ATTRIBUTES", 9)
    limits = Flattening()
    assert len(list(limits.flatten("first", "xyz", two_each, limit=9))) == 6
    assert list(limits.flatten("second", "uv", two_each, limit=9)) == [("0.a", "u"), ("0.c", "u")]
    assert list(limits.flatten("third", "w", two_each, limit=9)) == []
    assert limits.cut == {"second": 2, "third": 1}


@pytest.mark.parametrize(
    ("newest", "positions"), [(True, ["2", "2", "3", "3"]), (False, ["0", "0", "1", "1"])]
)
def test_positions_are_kept(*, newest: bool, positions: list[str]) -> None:
    """The newest or the first stay, in the list's own order."""
    flattening = Flattening()
    pairs = list(flattening.flatten("list", "abcd", two_each, limit=2, newest=newest))
    assert [key.partition(".")[0] for key, _ in pairs] == positions
    assert [value for _, value in pairs] == ["abcd"[int(position)] for position in positions]
    assert flattening.cut == {"list": 4}


def test_no_entry_is_looked_at_after_one_without_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor is one past the limit."""
    monkeypatch.setattr(module, "MAX_FLATTENED_ATTRIBUTES", 1)
    looked: list[int] = []

    def look(position: int, entry: str) -> AttributePairs:
        looked.append(position)
        return two_each(position, entry)

    list(Flattening().flatten("list", "abc", look, limit=9, newest=True))
    list(Flattening().flatten("list", "abc", look, limit=0))
    assert looked == [2]


def test_what_fits_is_not_noted() -> None:
    """Exactly the limit is no cut, also where entries have no attributes."""
    flattening = Flattening()
    assert len(list(flattening.flatten("list", "ab", two_each, limit=2))) == 4
    assert list(flattening.flatten("list", "ab", lambda *_: iter(()), limit=2)) == []
    assert list(flattening.first("inner", "ab", 2)) == [(0, "a"), (1, "b")]
    assert flattening.cut == {}


def test_of_lists_of_one_name_the_longest_is_noted() -> None:
    """Every message has its parts."""
    flattening = Flattening()
    assert list(flattening.first("parts", "abc", 1)) == [(0, "a")]
    assert list(flattening.first("parts", "abcde", 1)) == [(0, "a")]
    assert list(flattening.first("parts", "ab", 1)) == [(0, "a")]
    assert flattening.cut == {"parts": 5}
