"""The ``openai`` npm package cannot tell the proxy from the server behind it either (R1)."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codec.text.jsontext import decode_json_object
from telemetry.observing.exchange import Outcome
from tests.clients.stage import open_stage

PACKAGE = "openai@7.55.0"
INSTALL_SECONDS = 45

_SCRIPT = Path(__file__).with_name("openai_node.mjs")
_CACHE = Path(__file__).parents[1] / ".cache" / "node"


@pytest.fixture(name="packages")
def _packages() -> Path:
    """A folder with the package, installed the first time; kept out of git by its own rule."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    stamp = _CACHE / PACKAGE
    if not stamp.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        (_CACHE.parent / ".gitignore").write_text("*\n", encoding="utf-8")
        options = ("--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        command = [npm, "install", "--prefix", str(_CACHE), *options, PACKAGE]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_SECONDS)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            if os.environ.get("CI"):
                raise  # where the network is a part of the set-up
            reason = (error.stderr or b"").decode() or str(error)
            pytest.skip(f"{PACKAGE} cannot be installed: {reason}")
        stamp.touch()
    return _CACHE


async def run_script(base_url: str, packages: Path) -> dict[str, Any]:
    """What the script tells of its chats with a server."""
    process = await asyncio.create_subprocess_exec(
        "node", _SCRIPT, base_url, packages, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    return decode_json_object(output)


async def test_the_npm_package_gets_what_it_gets_directly(packages: Path) -> None:
    """Plain, streamed, with tools, with usage asked for, by its helper, refused, abandoned."""
    async with open_stage() as stage:
        direct = await run_script(stage.direct_url, packages)
        proxied = await run_script(stage.proxied_url, packages)
        await stage.sink.wait_for(8)
    for chunk in (*proxied["streamed"], *proxied["tools"], proxied["final"]):
        assert chunk.pop("usage") is None  # comes along where spantap asks
    assert proxied == direct
    assert proxied["asked"][-1]["usage"]["total_tokens"] > 0
    outcomes = [exchange.outcome for exchange in stage.sink.exchanges]
    assert outcomes == [
        *[Outcome.COMPLETED] * 5,
        *[Outcome.UPSTREAM_ERROR] * 2,
        Outcome.CLIENT_DISCONNECTED,
    ]
