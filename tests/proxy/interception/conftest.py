"""No forward proxy but those that a test sets, and no error in any log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _no_forward_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine has set."""
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(autouse=True)
def _no_errors(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No test leaves a traceback or an error in the log, asyncio's own included."""
    caplog.set_level(logging.DEBUG)
    yield
    bad = [r for r in caplog.get_records("call") if r.exc_info or r.levelno >= logging.ERROR]
    assert not bad, caplog.text
