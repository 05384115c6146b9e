"""Codex over a WebSocket prints through spantap what it prints directly."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from tests.agents.quiet import keep_quiet
from tests.agents.tasks import AFTER, BEFORE, CODEX_BY_SOCKET, NOTES
from tests.agents.test_tasks import BASE_URL, lead
from tests.docs.provider import running_provider
from tests.docs.reader import run
from tests.e2e.processes import clean_environment
from tests.lanes import find_agents

if TYPE_CHECKING:
    from pathlib import Path

    from tests.docs.provider import Provider

_OF_A_RUN = re.compile(r"Chunk ID: \w+|Wall time: [\d.]+|thread_id\":\"[\w-]+")
"""What differs from one run to the next."""

pytestmark = pytest.mark.timeout(180)


async def do_task(provider: Provider, folder: Path, *, is_direct: bool) -> list[str]:
    """Have Codex do its task; what it printed, without what differs each time."""
    task = CODEX_BY_SOCKET
    home, here = folder / "home", folder / "task"
    environment = clean_environment() | keep_quiet(home) | task.variables
    files = {here / NOTES: BEFORE} | {home / name: text for name, text in task.files.items()}
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    programs = os.pathsep.join([*map(str, find_agents(task.agent)), environment["PATH"]])
    environment |= {"PATH": programs, "QUESTION": task.question(here)}
    if is_direct:
        settings = home / ".codex" / "config.toml"
        url = f'openai_base_url = "{provider.url}/v1"\n'
        settings.write_text(url + settings.read_text(encoding="utf-8"), encoding="utf-8")
        printed = await run(f"exec {task.command}", here, environment | {"RUN": ""})
    else:
        with lead(BASE_URL, provider, folder, task.agent) as variables:
            printed = await run(task.command, here, environment | variables)
    assert (here / NOTES).read_text(encoding="utf-8") == AFTER
    return [_OF_A_RUN.sub("…", line) for line in printed.splitlines()]


async def test_codex_prints_what_it_prints_directly(tmp_path: Path) -> None:
    """All comes by one WebSocket, and the counts of tokens are the same."""
    printed = []
    for name, is_direct in (("direct", True), ("through", False)):
        async with running_provider("openai") as provider:
            printed.append(await do_task(provider, tmp_path / name, is_direct=is_direct))
        assert [arrival.is_socket for arrival in provider.arrivals] == [True]
    direct, through = printed
    assert through == direct
    assert '"usage"' in through[-1]
