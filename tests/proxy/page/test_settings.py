"""The settings on the page: what its process was given, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from proxy.page.page_settings import PageSettings
from proxy.processes.page_listener import pick_page_settings
from proxy.settings.settings import Settings
from proxy.settings.spans import hand_over
from tests.proxy.page.pages import open_page
from tests.proxy.page.serving import Told, check_answer

if TYPE_CHECKING:
    from pathlib import Path

KEY = "c4n4ry-0123456789"


async def test_each_setting_is_told_without_secrets(tmp_path: Path) -> None:
    """With value, source and how to set it; a parameter is an error."""
    store = tmp_path / "traces.db"
    settings = Settings(store=store, workers=2, inbound_keys=(KEY,), redact_patterns={"mine": KEY})
    environ = {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization={KEY}"}
    given = PageSettings.decode(pick_page_settings(hand_over(settings, environ)))
    async with open_page(store, shown=given.shown) as page:
        async with page.session.get(f"{page.url}/api/settings") as answer:
            told = Told(answer.status, await answer.read(), answer.headers)
        async with page.session.get(f"{page.url}/api/settings?x=1") as answer:
            assert answer.status == 400
    check_answer("settings", told)
    assert KEY.encode() not in told.body
    assert (settings.inbound_keys or ("",))[0].encode() not in told.body
    rows = told.json["settings"]
    assert rows == msgspec.to_builtins(list(given.shown))
    (workers,) = (row for row in rows if row["name"] == "workers")
    assert (workers["value"], workers["variable"]) == ("2", "SPANTAP_WORKERS")
    assert workers["flag"] == "--workers"
