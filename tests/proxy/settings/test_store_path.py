"""``proxy.settings.store_path``: the store is where all the settings say."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from proxy.__main__ import main
from proxy.settings.settings import load_settings
from proxy.settings.store_path import find_store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith("SPANTAP_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("flags", [{}, {"store": "flag.db"}, {"store": "~/flag.db"}])
@pytest.mark.parametrize("text", [None, "here.db", "~/here.db"])
@pytest.mark.parametrize("more", [{}, {"SPANTAP_PORT": "5"}, {"spantap_store": "small.db"}])
@pytest.mark.parametrize("has_file", [False, True])
def test_the_store_is_where_the_settings_say(
    flags: dict[str, Any],
    text: str | None,
    more: dict[str, str],
    has_file: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the flag, the variable, the file or by default, alone and beside other settings."""
    if text is not None:
        monkeypatch.setenv("SPANTAP_STORE", text)
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    config = tmp_path / "spantap.toml"
    config.write_text("store = 'file.db'\n")
    named = str(config) if has_file else None
    found = find_store(flags, named)
    assert found is None or found == load_settings(flags, named).store
    assert (found is None) is bool(more or has_file)
    if has_file:
        monkeypatch.setenv("SPANTAP_CONFIG", str(config))
        assert find_store(flags) is None


@pytest.mark.parametrize(
    ("name", "text"), [("SPANTAP_STORE", ""), ("SPANTAP_STROE", "a"), ("SPANTAP_PORT", "x")]
)
def test_a_wrong_setting_is_told(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of whatever setting, as by every other command."""
    monkeypatch.setenv(name, text)
    assert find_store({}) is None
    assert main(["traces"]) == 2
    assert capsys.readouterr().err.startswith("spantap: ")


def test_nothing_is_checked_where_there_is_nothing_to_check() -> None:
    """The library that checks settings is not imported."""
    code = (
        "import sys; from proxy.settings.store_path import find_store;"
        "print(find_store({'store': 'a.db'}), 'pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "a.db False\n"
