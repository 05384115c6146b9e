"""What property tests are given."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st


def test_a_property_has_the_same_examples_in_every_run() -> None:
    """Who changed nothing sees nothing fail."""
    seen: list[bytes] = []

    @given(st.binary())
    def look(data: bytes) -> None:
        seen.append(data)

    look()
    first = seen.copy()
    seen.clear()
    look()
    assert len(seen) > 30
    assert seen == first
