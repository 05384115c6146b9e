"""``tests.bench.conversation_store``: what is measured is a conversation, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bench.conversation_store import make_conversation, measure, measure_plain

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("is_agent", [False, True])
def test_a_conversation_is_stored_whole_and_in_parts(tmp_path: Path, *, is_agent: bool) -> None:
    """Its calls go on from one another, and the last is as large as was asked for."""
    rows = make_conversation(12, 60_000, is_agent=is_agent)
    assert [row.columns.link_rule for row in rows] == [None, *["state"] * 11]
    assert 40_000 < len(rows[-1].span) < 300_000
    told = []
    for in_parts in (False, True):
        (folder := tmp_path / str(in_parts)).mkdir()
        told.append(measure(rows, folder, in_parts=in_parts))
        assert measure_plain(folder, in_parts=in_parts)
    assert told[0]["bytes"] > 2 * told[1]["bytes"]
