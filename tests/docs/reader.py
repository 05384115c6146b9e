"""A page of quick start, and somebody who follows it: its programs run, its server, its spans."""

from __future__ import annotations

import asyncio
import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from yarl import URL

from codec.text.jsontext import decode_json_object
from proxy.commands.traces import latest_calls
from proxy.upstream.catalogue import read_catalogue
from proxy.upstream.owners import BASE_URLS, Owner, find_owner
from telemetry.reading.stored_calls import open_calls
from tests.agents.quiet import CODEX_SETTINGS, GEMINI_SETTINGS
from tests.docs.blocks import DOCS, Page
from tests.e2e.processes import ServerProcess, clean_environment, find_free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from proxy.reading.call import RecordedCall
    from tests.docs.provider import Provider

__all__ = ("FOLDER", "PROXY", "Quickstart", "Reader", "read_calls", "read_spans", "run")

FOLDER = DOCS / "quickstarts"

PROXY = "http://localhost:4000"
"""Where the pages have spantap."""

_AGENTS = (
    *("aider ", "claude ", "cline ", "codex ", "copilot ", "gemini ", "opencode ", "pi "),
    "qwen ",
)
"""How their commands begin."""

_SET_UP = "cline auth "
_STAYS = ("cline ", "trap 'cline hub stop > /dev/null' EXIT\n")
"""A program that leaves a process behind, and what ends it when the shell does."""

_JSON_FILE = re.compile(r"`~/([^`]+\.json)`")

_SPAN_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Quickstart:
    """A page, and what of it the provider sees.

    Attributes:
        name: of its file.
        provider: the URL in the page that the demo upstream takes the place of, if there is one.
        dialect: the provider's.
        targets: path and query of each request.
        sent_again: how many of them spantap sent once more.
        warmings: how many calls only warm the model up, over a WebSocket.
        key: how the key arrives, in the header of its provider.
        lane: the target of the Makefile that installs its programs, if there is one.
        is_node: they are packages for Node.
        client: the name of the program in lists, where a test is to see it.
    """

    name: str
    provider: str | None = None
    dialect: str = "openai"
    targets: tuple[str, ...] = ("/v1/chat/completions",)
    key: str = "Bearer YOUR-KEY"
    lane: str | None = None
    is_node: bool = False
    client: str | None = None
    sent_again: int = 0
    warmings: int = 0

    @property
    def count(self) -> int:
        """The number of calls."""
        return len(self.targets) - self.sent_again + self.warmings

    @property
    def page(self) -> Page:
        """The page itself."""
        return Page(FOLDER / f"{self.name}.md")

    @property
    def upstream_host(self) -> str | None:
        """The host that its calls would go to: of its upstream, its prefix, or their owner."""
        if named := re.search(r"--upstream (\S+)", self.page.text):
            return URL(named[1]).host
        for row in read_catalogue():
            if f"{PROXY}/{row.name}" in self.page.text:
                return URL(row.url).host
        return URL(BASE_URLS[find_owner(self.targets[0], Owner.OPENAI)]).host


class Reader:
    """Somebody who follows a page, in an empty folder.

    Args:
        quickstart: which one.
        folder: where the page's files are written and its programs run.
        provider: what takes the provider's place, or that of all providers where none is named.
        programs: where the programs of the page are looked for first.
        replaced: further words of the page, with what the test has instead.
        environment: further variables of its programs.
    """

    def __init__(
        self,
        quickstart: Quickstart,
        folder: Path,
        provider: Provider,
        programs: Sequence[Path],
        replaced: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.admin_port = find_free_port()
        self.store = folder / "traces.db"
        self._folder = folder
        port = find_free_port()
        self._replaced = {PROXY: f"http://127.0.0.1:{port}", **(replaced or {})}
        self._options = ""
        if quickstart.provider is not None:
            self._replaced[quickstart.provider] = provider.url
        else:
            self._options = " --config providers.toml"
            (folder / "providers.toml").write_text(_tables(provider.url), encoding="utf-8")
        path = os.pathsep.join([*map(str, programs), os.environ["PATH"]])
        own = {"PATH": path, "HOME": str(folder), **(environment or {})}
        self._environment = clean_environment() | own
        self._settings = {
            "SPANTAP_PORT": str(port),
            "SPANTAP_ADMIN_PORT": str(self.admin_port),
            "SPANTAP_STORE": str(self.store),
            "SPANTAP_LINGER_SECONDS": "0",
        }
        self.serve = self.exports = self.look = self.litellm = self._set_up = ""
        self.programs: list[str] = []
        found = _JSON_FILE.search(quickstart.page.text)
        self._json_file = "" if found is None else found[1]
        for block in quickstart.page.blocks:
            if block.reason is None:
                self._sort(block.language, block.text)

    def _sort(self, language: str, text: str) -> None:
        match language:
            case "sh" if "spantap serve" in text:
                served = f"exec spantap serve{self._options}"
                self.serve += text.replace("spantap serve", served)
            case "sh" if "spantap traces" in text:
                self.look += text
            case "sh" if "litellm " in text:
                self.litellm += text.replace("litellm --config", "exec litellm --config")
            case "sh" if text.startswith(_SET_UP):
                self._set_up += text
            case "sh" if text.startswith(_AGENTS):
                stays, end = _STAYS
                before = (end if text.startswith(stays) else "") + self._set_up
                self.programs.append(before + text)
            case "sh":
                self.exports += text
            case "python":
                self.programs.append(self._write(f"client{len(self.programs)}.py", text, "python"))
            case "js":
                self.programs.append(self._write("client.mjs", text, "node"))
            case "yaml":
                self._write("litellm.yaml", text)
            case "toml":
                self._write(".codex/config.toml", text + CODEX_SETTINGS)
            case "json":
                settings = decode_json_object(text)
                settings |= GEMINI_SETTINGS if ".gemini" in self._json_file else {}
                self._write(self._json_file, json.dumps(settings))
            case _:
                pytest.fail(f"who runs this? {language}: {text}")

    def _write(self, name: str, text: str, runner: str = "") -> str:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._fill_in(text), encoding="utf-8")
        return f"exec {runner} {name}"

    def _fill_in(self, text: str) -> str:
        words = "|".join(map(re.escape, self._replaced))
        return re.sub(words, lambda found: self._replaced[found[0]], text)

    def server(self, script: str) -> ServerProcess:
        """A server of the page, whose script ends in its program."""
        command = ["sh", "-ec", f"cd '{self._folder}'\n{self._fill_in(script)}"]
        environment = self._environment | self._settings
        return ServerProcess(command, environment=environment, log=self._folder / "server.log")

    async def run(self, script: str) -> str:
        """A program of the page's, with the variables that the page exports."""
        script = self._fill_in(f"{self.exports}\n{script}")
        return await run(script, self._folder, self._environment | self._settings)


def _tables(url: str) -> str:
    """The settings by which one server takes the place of all providers, below each prefix too."""
    tables = [f'[[upstream]]\nname = "default"\nurl = "{url}"\n']
    tables += [
        f'[[upstream]]\nname = "{row.name}"\nprefix = "/{row.name}"\n'
        f'url = "{url}{URL(row.url).path.rstrip("/")}"\n'
        for row in read_catalogue()
    ]
    return "".join(tables)


async def run(script: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a script of the shell to its good end; what it printed."""
    process = await asyncio.create_subprocess_exec(
        "sh",
        "-ec",
        script,
        cwd=folder,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    return output.decode()


def read_calls(store: Path, count: int) -> list[RecordedCall]:
    """A store's calls, oldest first, once there are that many."""

    def calls() -> list[RecordedCall]:
        with open_calls(store) as reader:
            return sorted(latest_calls(reader), key=lambda call: call.summary.start_ns)

    wait_until(lambda: len(calls()) == count, _SPAN_SECONDS, f"{count} calls")
    return calls()


def read_spans(store: Path, count: int) -> list[dict[str, Any]]:
    """The attributes of their spans."""
    return [dict(call.span.attributes) for call in read_calls(store, count)]
