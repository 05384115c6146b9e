"""Two calls side by side, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.page_stage import open_stage
from tests.e2e.page_talk import Talk, find_place, show_calls

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

FIRST, SECOND = "How deep is the harbour of Lisbon?", "How deep is the harbour of Porto?"


async def test_two_marked_calls_are_compared(upstream_port: int, tmp_path: Path) -> None:
    """Keys mark two calls of the list; what both asked stands side by side, and can be swapped."""
    async with open_stage(tmp_path, upstream_port=upstream_port) as stage:
        talk = Talk(stage)
        await talk.ask(FIRST, temperature=0.5)
        await talk.ask("Hello")
        await talk.ask(SECOND, temperature=0.75)
        stage.wait_for_calls(3)
        page = await show_calls(stage)
        await page.wait_until("document.querySelectorAll('tr[data-id]').length == 3")
        ids = [one["span_id"] for one in stage.read("calls")["calls"]]
        for text in (FIRST, SECOND):
            await page.press("Home", *"j" * find_place(stage, text), "x")
        marks = "[...document.querySelectorAll('[data-mark]')].map((row) => row.dataset.mark)"
        assert await page.ask(marks) == ["B", "A"]
        await page.ask("document.querySelector('.mark-bar a').click()")
        await page.wait_until(f"location.hash == '#/compare/{ids[2]}/{ids[0]}'")
        await page.wait_for("temperature", "0.5", "0.75", "Answers")
        words = "[...document.querySelectorAll('.sides.changed > *')].map((one) => one.innerText)"
        left, right = await page.ask(words)
        assert "Lisbon" in left
        assert "Porto" not in left
        assert "Porto" in right
        assert "Lisbon" not in right
        assert not await stage.find_barriers()
        assert await stage.find_wide() <= 0
        await stage.take_pictures("compare")
        await page.press("w")
        await page.wait_until(f"location.hash == '#/compare/{ids[0]}/{ids[2]}'")
        await page.wait_until(f"{words}[0]?.includes('Porto')")
        await page.press("Escape")
        await page.wait_for("Two calls are marked.")
