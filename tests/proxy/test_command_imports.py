"""What commands that read the store import: most of the time that they take."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from telemetry.store.store import Store
from tests.telemetry.span_rows import make_row

if TYPE_CHECKING:
    from pathlib import Path

_NOBODY = {
    *("aiohttp", "asyncio", "google.protobuf", "opentelemetry", "pydantic", "requests"),
    *("codec", "genai_prices", "proxy.reading.call", "proxy.commands.render", "rich.progress"),
    "telemetry.pricing",
}

_PROGRAM = """\
import sys
from proxy.__main__ import main

status = main(sys.argv[1:])
print("\\n".join(sys.modules), file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.parametrize(
    "command",
    [
        ("traces",),
        ("traces", "--json"),
        ("traces", "status:ok"),
        ("traces", '"a text"'),
        ("traces", "--runs"),
        ("stats", "--by", "model"),
        ("stats", "--by", "tool"),
    ],
)
def test_a_list_imports_nothing_that_it_does_not_need(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """A name stands for all that is in the package, too."""
    path = tmp_path / "traces.db"
    with Store.open(path) as store:
        store.add([make_row(1)])
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *command, "--store", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = set(ended.stderr.split("\n"))
    assert "telemetry.reading.sqlite.engine" in imported
    assert _NOBODY & imported == set()


_RELAYING = """\
import sys
import proxy.app, proxy.__main__, proxy.processes.supervisor, proxy.processes.worker

print("\\n".join(sys.modules))
"""


def test_a_proxy_that_intercepts_nothing_imports_nothing_for_it() -> None:
    """Certificates and the port wait until a run asks for them."""
    ended = subprocess.run(
        [sys.executable, "-c", _RELAYING], capture_output=True, text=True, check=True
    )
    imported = set(ended.stdout.split("\n"))
    assert "proxy.app" in imported
    unwanted = {"cryptography", *(f"proxy.interception.{name}" for name in _INTERCEPTING)}
    assert unwanted & imported == set()


_INTERCEPTING = ("authority", "connection", "leaf_contexts", "opened", "port", "state", "tunnel")
