"""What pages say of the facts of a call is what the table says."""

from __future__ import annotations

from tests.docs.facts import find_differences


def test_pages_have_every_fact() -> None:
    """Its key, its column and its member; ``python -m tests.docs.facts`` writes them."""
    assert find_differences() == []
