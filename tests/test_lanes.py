"""``tests.lanes``: what a lane needs and where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import lanes

if TYPE_CHECKING:
    from pathlib import Path


def test_a_lane_whose_lock_has_nothing_for_this_python_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reason, also where the lane must be there; one that is installed is found."""
    monkeypatch.setattr(lanes, "_ROOT", tmp_path)
    monkeypatch.setenv("SPANTAP_FRAMEWORKS", "1")
    folder = tmp_path / ".frameworks" / "crewai"
    packages = folder / "lib" / "python3.14" / "site-packages"
    (packages / "pip-25.3.dist-info").mkdir(parents=True)
    (folder / ".stamp").touch()
    with pytest.raises(pytest.skip.Exception, match="has nothing for this Python"):
        lanes.find_programs("frameworks/crewai")
    (packages / "crewai-1.0.dist-info").mkdir()
    assert lanes.find_programs("frameworks/crewai") == folder / "bin"
