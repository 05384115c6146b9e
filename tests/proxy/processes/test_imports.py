"""What a started process has imported: its time until it serves, and its memory when idle."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.faults.stage import running_spantap

if TYPE_CHECKING:
    from pathlib import Path

_TELL_MODULES = """\
import atexit, pathlib, sys

def tell():
    role = sys.orig_argv[sys.orig_argv.index("-m") + 1].rpartition(".")[2]
    pathlib.Path(__file__).with_name(role + ".modules").write_text("\\n".join(sys.modules))

if "-m" in sys.orig_argv:
    atexit.register(tell)
"""
"""A ``sitecustomize``: each process of Python imports it as it starts."""

_NOBODY = {
    "genai_prices",
    "google",
    "grpc",
    "opentelemetry.exporter",
    "opentelemetry.sdk.metrics",
    "platformdirs",
    "pydantic",
    "re2",
    "requests",
}

_ABSENT = {
    "supervisor": _NOBODY | {"aiohttp", "codec", "opentelemetry.sdk", "sqlite3"},
    "telemetry": _NOBODY | {"aiohttp", "asyncio", "certifi", "http.client"},
    "worker": _NOBODY | {"aiohttp.web", "http.server", "sqlite3", "telemetry.observing.observer"},
}
"""By the role of a process, what it has no use for before the first call, and without a backend."""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The modules of each process of a ``spantap serve`` that was started, left idle and ended."""
    folder = tmp_path_factory.mktemp("idle")
    (folder / "sitecustomize.py").write_text(_TELL_MODULES)
    environment = {"PYTHONPATH": str(folder)}
    with pytest.MonkeyPatch.context() as patched:
        for name in [name for name in os.environ if name.startswith("COVERAGE_")]:
            patched.delenv(name)  # who is watched imports what watches
        with running_spantap(
            folder, upstream="https://127.0.0.1:1", environment=environment
        ) as spantap:
            assert spantap.terminate() == 0
    return {role: set((folder / f"{role}.modules").read_text().split("\n")) for role in _ABSENT}


@pytest.mark.parametrize("role", _ABSENT)
def test_a_started_process_has_imported_nothing_that_it_does_not_need(
    role: str, loaded: dict[str, set[str]]
) -> None:
    """A name stands for all that is in the package, too."""
    assert f"proxy.processes.{role}" in loaded[role] or "__main__" in loaded[role]
    assert _ABSENT[role] & loaded[role] == set()


def test_settings_are_read_without_plugins_of_pydantic(tmp_path: Path) -> None:
    """Looking for them takes as long as all packages that are installed want."""
    metadata = tmp_path / "plugged-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[pydantic]\nplugged = plugged:plugin\n")
    (tmp_path / "plugged.py").write_text("import sys; sys.exit('a plugin is asked')")
    program = "import sys; from proxy.__main__ import main; sys.exit(main(['traces']))"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={
            "PYTHONPATH": str(tmp_path),
            "SPANTAP_STORE": str(tmp_path / "none.db"),
            "SPANTAP_PORT": "4000",  # else there is nothing to check
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "a plugin is asked" not in ended.stderr
    assert "there is no store" in ended.stderr, ended


def test_who_reads_settings_imports_neither_relay_nor_sdk() -> None:
    """All of ``spantap serve`` waits for it."""
    program = "import sys, proxy.settings.settings; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    imported = set(ended.stdout.decode().split())
    assert "pydantic" in imported
    assert imported.isdisjoint({"aiohttp", "asyncio", "opentelemetry", "pydantic_settings"})
