"""The quick start of the README is run as its reader would, but for the installation.

The demo upstream takes the provider's place, and a server on loopback that of Phoenix.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from codec.apis.table import APIS
from telemetry.reading.stored_calls import open_calls
from tests.docs.blocks import ROOT, Page
from tests.docs.provider import running_provider
from tests.docs.reader import run
from tests.e2e.processes import ServerProcess, clean_environment, find_free_port, wait_until
from tests.otlp_sink import HttpSink

SECTION = Page(ROOT / "README.md").text.partition("## Quick start with a real key\n")[2]
INSTALL_AND_RUN, SERVE, CALL_AND_LOOK, SERVE_WITH_PHOENIX = re.findall(
    r"^```sh\n(.*?)^```$", SECTION.partition("\n## ")[0], re.MULTILINE | re.DOTALL
)

MAX_LINES = 150
"""What somebody reads before trying it."""

INSTALL = "pipx install .  "
"""Not run: it would fetch packages. The tests run what is installed beside them."""

PROXY, PHOENIX, ID = "http://localhost:4000", "http://localhost:6006", "2dd5cb58"

START_SECONDS, SPAN_SECONDS = 30.0, 10.0

APP = """\
import openai
client = openai.OpenAI(api_key="sk-...")
chat = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}]}
print(client.chat.completions.create(**chat).choices[0].message.content)
"""


def without_install(script: str) -> str:
    """A block without the line that would fetch packages."""
    script = re.sub(rf"^{re.escape(INSTALL)}.*$", "", script, flags=re.MULTILINE)
    assert "install" not in script
    return script


async def test_the_shortest_way_does_what_it_says(tmp_path: Path) -> None:
    """The program prints the answer, its call goes where it went, and it is listed."""
    (tmp_path / "app.py").write_text(APP)
    async with running_provider("openai") as provider:
        environment = clean_environment() | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "OPENAI_BASE_URL": f"{provider.url}/v1",
            "SPANTAP_STORE": str(tmp_path / "traces.db"),
        }
        script = f"{without_install(INSTALL_AND_RUN)}\nspantap traces --run python"
        answer, *listed = (await run(script, tmp_path, environment)).splitlines()
    assert answer.startswith("Hello!")
    assert " gpt-4o-mini " in listed[-1]
    [arrival] = provider.arrivals
    assert (arrival.target, arrival.headers["authorization"]) == (
        "/v1/chat/completions",
        "Bearer sk-...",
    )


@pytest.mark.parametrize("serve", [SERVE, SERVE_WITH_PHOENIX], ids=["bare", "phoenix"])
async def test_the_quick_start_does_what_it_says(serve: str, tmp_path: Path) -> None:
    """The answer is printed, the call is listed and shown, and Phoenix gets its span."""
    port, admin_port = find_free_port(), find_free_port()
    store = tmp_path / "traces.db"
    call, look, show = re.split(r"^(?=spantap)", CALL_AND_LOOK, flags=re.MULTILINE)
    async with running_provider("openai") as provider:
        environment = clean_environment() | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "SPANTAP_UPSTREAM": provider.url,
            "SPANTAP_PORT": str(port),
            "SPANTAP_ADMIN_PORT": str(admin_port),
            "SPANTAP_STORE": str(store),
            "SPANTAP_LINGER_SECONDS": "0",
        }
        with HttpSink() as phoenix:
            script = without_install(serve).replace("spantap serve", "exec spantap serve")
            server = ServerProcess(
                ["sh", "-ec", script.replace(PHOENIX, phoenix.url)],
                environment=environment,
                log=tmp_path / "server.log",
            )
            with server as proxy:
                ready = f"http://127.0.0.1:{admin_port}/readyz"
                await asyncio.to_thread(proxy.wait_for, ready, START_SECONDS)
                here = call.replace(PROXY, f"http://127.0.0.1:{port}")
                answer = await run(here, tmp_path, environment)
                with open_calls(store) as reader:
                    await asyncio.to_thread(
                        wait_until, lambda: bool(reader.page(1).rows), SPAN_SECONDS, "a span"
                    )
                    [span] = reader.page(2).rows
                assert span.span_id[: len(ID)] in await run(look, tmp_path, environment)
                shown = await run(show.replace(ID, span.span_id[: len(ID)]), tmp_path, environment)
                assert answer.strip() in shown
                assert await asyncio.to_thread(proxy.end) == 0, proxy.output
            sent = [span.span_id] if serve is SERVE_WITH_PHOENIX else []
            assert phoenix.accepted == sent
    [arrival] = provider.arrivals
    assert arrival.headers["authorization"] == "Bearer sk-..."


def test_the_readme_is_short() -> None:
    """Its lines, those of tables and blocks among them."""
    assert len(Page(ROOT / "README.md").text.splitlines()) <= MAX_LINES


def test_the_table_of_what_is_observed_has_every_api() -> None:
    """By the end of its paths."""
    cells = " ".join(ends for _, ends in Page(ROOT / "README.md").rows("API"))
    observed = {api.path_ends[0] for api in APIS}
    assert observed <= set(re.findall(r"`([^`]+)`", cells))
