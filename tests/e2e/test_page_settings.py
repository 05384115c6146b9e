"""The settings, in a real browser.

The test leaves its pictures under ``.e2e`` to be looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.page_stage import open_stage

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

KEY = "c4n4ry-0123456789"


async def test_settings_are_shown_with_their_source(upstream_port: int, tmp_path: Path) -> None:
    """Those that somebody set come first; keys lead there; no secret is shown."""
    environment = {"SPANTAP_DRAIN_SECONDS": "4", "SPANTAP_REDACT_PATTERNS": f'{{"mine": "{KEY}"}}'}
    async with open_stage(tmp_path, upstream_port=upstream_port, environment=environment) as stage:
        page = stage.page
        await page.wait_for("calls in the store")
        await page.press("g", "s")
        await page.wait_for("drain_seconds", "SPANTAP_DRAIN_SECONDS", "Defaults")
        row = "[...document.querySelectorAll('.settings tbody tr')].find("
        row += "(one) => one.cells[0].innerText === 'drain_seconds')"
        assert await page.ask(f"[...({row}).cells].map((cell) => cell.innerText)") == [
            "drain_seconds",
            "4",
            "variable",
            "SPANTAP_DRAIN_SECONDS",
        ]
        text = await page.ask("document.body.innerText")
        assert KEY not in text
        assert stage.token not in text
        assert not await stage.find_barriers()
        await stage.take_pictures("settings")
        assert await stage.find_wide() == 0
