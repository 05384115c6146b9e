"""``spantap healthcheck``: cheap, and it looks where the proxy listens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from proxy.commands.healthcheck import DEFAULT_ADDRESS, find_admin_port
from proxy.settings.settings import Settings
from telemetry.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPANTAP_ADMIN_HOST", "SPANTAP_ADMIN_PORT", "SPANTAP_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_it_imports_the_standard_library_alone() -> None:
    """A container runs it every few seconds; the settings alone would cost a third of a second."""
    script = (
        "import sys; from proxy.__main__ import main; main(['healthcheck', '--admin-port', '1'])\n"
        "theirs = {n for n in sys.modules if n.partition('.')[0] not in sys.stdlib_module_names}\n"
        "print(sorted(n for n in theirs if n.partition('.')[0] != 'proxy'))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout == "['__main__', 'telemetry', 'telemetry.errors']\n"


def test_its_defaults_are_the_settings() -> None:
    """They are written in two places, to be cheap."""
    settings = Settings()
    assert (settings.admin_host, settings.admin_port) == DEFAULT_ADDRESS


def test_flags_win_over_environment_over_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they do for ``serve``."""
    assert find_admin_port({}) == DEFAULT_ADDRESS
    monkeypatch.setenv("SPANTAP_ADMIN_HOST", "::1")
    monkeypatch.setenv("SPANTAP_ADMIN_PORT", "5001")
    assert find_admin_port({}) == ("::1", 5001)
    assert find_admin_port({"admin_port": 6001}) == ("::1", 6001)
    config = tmp_path / "spantap.toml"
    config.write_text('admin_host = "127.0.0.2"\nadmin_port = 7001\n')
    monkeypatch.setenv("SPANTAP_CONFIG", str(config))
    monkeypatch.delenv("SPANTAP_ADMIN_HOST")
    assert find_admin_port({}) == ("127.0.0.2", 5001)
    assert find_admin_port({"admin_host": "h", "admin_port": 1}) == ("h", 1)


def test_an_upstream_s_key_need_not_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be in the environment of ``serve`` alone."""
    config = tmp_path / "spantap.toml"
    config.write_text(
        "admin_port = 7001\n[[upstream]]\nname = 'a'\nurl = 'http://a'\napi_key_env = 'DEMO_KEY'\n"
    )
    monkeypatch.setenv("SPANTAP_CONFIG", str(config))
    monkeypatch.delenv("DEMO_KEY", raising=False)
    assert find_admin_port({}) == ("127.0.0.1", 7001)


@pytest.mark.parametrize("port", ["http", "70000", "-1", "", "9" * 5000])
def test_a_port_that_is_none_is_explained_as_serve_does(
    port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the setting's name."""
    monkeypatch.setenv("SPANTAP_ADMIN_PORT", port)
    with pytest.raises(ConfigurationError, match="'admin_port'"):
        find_admin_port({})
