"""Certificates of our own, and no forward proxy but those that a test sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trustme

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_forward_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine has set."""
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path
