"""Each quick start is run as its reader would: spantap, the program, and the span that is promised.

The blocks of the page are the program. Addresses in them are replaced, for the provider is the demo
upstream in that provider's dialect; nothing leaves this machine.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from yarl import URL

from proxy.commands.traces import latest_calls
from telemetry.provider import infer_provider
from telemetry.store.reader import StoreReader
from tests.clients.test_openai_node import _packages  # noqa: F401 - a fixture, by its own name
from tests.docs.blocks import DOCS, ROOT, Page
from tests.docs.provider import running_provider
from tests.e2e.processes import ServerProcess, clean_environment, find_free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.docs.provider import Provider

FOLDER = DOCS / "quickstarts"

PROXY = "http://localhost:4000"
"""Where the pages have spantap."""

LITELLM_PORT = "4002"
LITELLM_KEY = "YOUR-LITELLM-KEY"

_BIN = Path(sys.executable).parent

_NO_NETWORK = "export LITELLM_LOCAL_MODEL_COST_MAP=True\n"
"""LiteLLM's prices from its package."""

_NO_PLUGINS = "[features]\nplugins = false\n"
"""Codex would look for some on GitHub."""

_SAID = re.compile(r"llm\.output_messages\.\d+\.message\.content(s\.\d+\.message_content\.text)?")

_START_SECONDS = 30.0
_SPAN_SECONDS = 10.0
_LITELLM_SECONDS = 90.0


@dataclass(frozen=True, kw_only=True)
class Quickstart:
    """A page, and what of it the provider sees.

    Attributes:
        name: of its file.
        provider: the URL in the page that the demo upstream takes the place of.
        dialect: the provider's.
        targets: path and query of each program's call.
        key: how the key arrives, in the header of its provider.
    """

    name: str
    provider: str = "https://api.openai.com"
    dialect: str = "openai"
    targets: tuple[str, ...] = ("/v1/chat/completions",)
    key: str = "Bearer YOUR-KEY"

    @property
    def page(self) -> Page:
        """The page itself."""
        return Page(FOLDER / f"{self.name}.md")

    @property
    def upstream_host(self) -> str | None:
        """The host of the upstream in the page."""
        found = re.search(r"--upstream (\S+)", self.page.text)
        assert found is not None
        return URL(found[1]).host


OPENAI_PYTHON = Quickstart(name="openai-python")
OPENAI_NODE = Quickstart(name="openai-node")

WITH_THE_SDK = (
    OPENAI_PYTHON,
    Quickstart(
        name="anthropic-python", provider="https://api.anthropic.com", targets=("/v1/messages",)
    ),
    Quickstart(
        name="azure-openai",
        provider="https://YOUR-RESOURCE.openai.azure.com",
        dialect="azure",
        targets=(
            "/openai/deployments/YOUR-DEPLOYMENT/chat/completions?api-version=2024-10-21",
            "/openai/v1/chat/completions",
        ),
    ),
    Quickstart(
        name="openrouter",
        provider="https://openrouter.ai",
        dialect="openrouter",
        targets=("/api/v1/chat/completions",),
        key="Bearer YOUR-OPENROUTER-KEY",
    ),
    Quickstart(name="vllm", provider="http://localhost:8000", dialect="vllm", key="Bearer none"),
    Quickstart(
        name="ollama", provider="http://localhost:11434", dialect="ollama", key="Bearer ollama"
    ),
)

WITH_NODE = (
    Quickstart(name="vercel-ai-sdk", targets=("/v1/responses",)),
    Quickstart(name="codex", targets=("/v1/responses",)),
)

WITH_LIBRARIES = (Quickstart(name="langchain"), Quickstart(name="llamaindex"))

LITELLM = Quickstart(name="litellm")


def libraries(lane: str = "quickstarts") -> Path:
    """The folder of programs that ``make quickstarts``, or another lane, installs."""
    folder = ROOT / f".{lane}"
    if not (folder / ".stamp").exists():
        reason = f"make {lane} installs its libraries"
        if os.environ.get(f"SPANTAP_{lane.upper()}") == "1":
            pytest.fail(f"absent: {reason}")
        pytest.skip(reason)
    return folder / "bin"


def named(quickstart: Quickstart) -> str:
    return quickstart.name


def node_packages() -> Path:
    """The folder of packages for Node that ``make quickstarts`` installs, too."""
    packages = libraries().parent / "node" / "node_modules"
    if not packages.exists():
        pytest.skip("make quickstarts installs its packages for Node")
    return packages


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


class Reader:
    """Somebody who follows a page, in an empty folder.

    Args:
        quickstart: which one.
        folder: where the page's files are written and its programs run.
        provider: what takes the provider's place.
        programs: where the programs of the page are looked for first.
        replaced: further words of the page, with what the test has instead.
    """

    def __init__(
        self,
        quickstart: Quickstart,
        folder: Path,
        provider: Provider,
        programs: Sequence[Path],
        replaced: Mapping[str, str] | None = None,
    ) -> None:
        self.admin_port = find_free_port()
        self.store = folder / "traces.db"
        self._folder = folder
        port = find_free_port()
        self._replaced = {
            quickstart.provider: provider.url,
            PROXY: f"http://127.0.0.1:{port}",
            **(replaced or {}),
        }
        path = os.pathsep.join([*map(str, programs), os.environ["PATH"]])
        self._environment = clean_environment() | {"PATH": path, "HOME": str(folder)}
        self._settings = {
            "SPANTAP_PORT": str(port),
            "SPANTAP_ADMIN_PORT": str(self.admin_port),
            "SPANTAP_STORE": str(self.store),
            "SPANTAP_LINGER_SECONDS": "0",
        }
        self.serve = self.exports = self.look = self.litellm = ""
        self.programs: list[str] = []
        for block in quickstart.page.blocks:
            if block.reason is None:
                self._sort(block.language, block.text)

    def _sort(self, language: str, text: str) -> None:
        match language:
            case "sh" if "spantap serve" in text:
                self.serve += text.replace("spantap serve", "exec spantap serve")
            case "sh" if "spantap traces" in text:
                self.look += text
            case "sh" if "litellm " in text:
                self.litellm += text.replace("litellm --config", "exec litellm --config")
            case "sh" if "codex " in text:
                self.programs.append(text)
            case "sh":
                self.exports += text
            case "python":
                self.programs.append(self._write(f"client{len(self.programs)}.py", text, "python"))
            case "js":
                self.programs.append(self._write("client.mjs", text, "node"))
            case "yaml":
                self._write("litellm.yaml", text)
            case "toml":
                self._write(".codex/config.toml", text + _NO_PLUGINS)
            case _:
                pytest.fail(f"who runs this? {language}: {text}")

    def _write(self, name: str, text: str, runner: str = "") -> str:
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
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


def read_spans(store: Path, count: int) -> list[dict[str, Any]]:
    """The attributes of a store's spans, oldest first, once there are that many."""

    def spans() -> list[dict[str, Any]]:
        with StoreReader(store) as reader:
            return [dict(call.span.attributes) for call in latest_calls(reader)]

    wait_until(lambda: len(spans()) == count, _SPAN_SECONDS, f"{count} spans")
    return spans()


async def follow(reader: Reader, quickstart: Quickstart) -> None:
    """Do what the page says, and see what it says."""
    assert reader.programs
    with reader.server(reader.serve) as proxy:
        ready = f"http://127.0.0.1:{reader.admin_port}/readyz"
        await asyncio.to_thread(proxy.wait_for, ready, _START_SECONDS)
        answers = [await reader.run(program) for program in reader.programs]
        spans = await asyncio.to_thread(read_spans, reader.store, len(answers))
        table = await reader.run(reader.look)
        assert await asyncio.to_thread(proxy.end) == 0, proxy.output
    promises = list(quickstart.page.rows("On the span"))
    assert len(promises) >= 5
    for answer, span in zip(answers, spans, strict=True):
        assert span["llm.model_name"] in table
        *_, said = (text for key, text in span.items() if _SAID.fullmatch(key))
        assert said == answer.rstrip("\n")
        for name, promise in promises:
            check_promise(name.strip("`"), promise, span, quickstart)


def check_promise(name: str, promise: str, span: dict[str, Any], quickstart: Quickstart) -> None:
    """A row of the table: a value, or that there is one, or that it is absent."""
    value = re.match(r"`([^`]+)`", promise)
    if name == "llm.provider":  # told by the upstream's host, which is another one here
        assert infer_provider(quickstart.upstream_host) == (value and value[1])
    elif promise.startswith("absent"):
        assert name not in span
    elif value is not None:
        assert str(span[name]) == value[1]
    else:
        assert span[name]


def check_arrivals(provider: Provider, quickstart: Quickstart) -> None:
    """Each call came to the provider's own path, with the key of the page."""
    assert tuple(arrival.target for arrival in provider.arrivals) == quickstart.targets
    for arrival in provider.arrivals:
        names = ("api-key", "x-api-key", "authorization")
        key = next(arrival.headers[name] for name in names if name in arrival.headers)
        assert key in {quickstart.key, quickstart.key.removeprefix("Bearer ")}


@pytest.mark.parametrize("quickstart", WITH_THE_SDK, ids=named)
async def test_a_page_for_the_sdk_does_what_it_says(quickstart: Quickstart, tmp_path: Path) -> None:
    """The program prints the answer, the span has what the table says, the key arrives."""
    async with running_provider(quickstart.dialect) as provider:
        reader = Reader(quickstart, tmp_path, provider, [_BIN])
        await follow(reader, quickstart)
    check_arrivals(provider, quickstart)


async def test_the_page_for_node_does_what_it_says(packages: Path, tmp_path: Path) -> None:
    """The same, with the npm package."""
    (tmp_path / "node_modules").symlink_to(packages / "node_modules")
    async with running_provider(OPENAI_NODE.dialect) as provider:
        reader = Reader(OPENAI_NODE, tmp_path, provider, [_BIN])
        await follow(reader, OPENAI_NODE)
    check_arrivals(provider, OPENAI_NODE)


@pytest.mark.timeout(180)  # some of them take ten seconds to be imported
@pytest.mark.parametrize("quickstart", WITH_LIBRARIES, ids=named)
async def test_a_page_for_a_library_does_what_it_says(
    quickstart: Quickstart, tmp_path: Path
) -> None:
    """The same, with the library that ``make quickstarts`` installs."""
    programs = [libraries(), _BIN]
    async with running_provider(quickstart.dialect) as provider:
        reader = Reader(quickstart, tmp_path, provider, programs)
        await follow(reader, quickstart)
    check_arrivals(provider, quickstart)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("quickstart", WITH_NODE, ids=named)
async def test_a_page_for_a_package_does_what_it_says(
    quickstart: Quickstart, tmp_path: Path
) -> None:
    """The same, with what ``make quickstarts`` installs for Node."""
    packages = node_packages()
    (tmp_path / "node_modules").symlink_to(packages)
    async with running_provider(quickstart.dialect) as provider:
        reader = Reader(quickstart, tmp_path, provider, [packages / ".bin", _BIN])
        await follow(reader, quickstart)
    check_arrivals(provider, quickstart)


@pytest.mark.timeout(180)
async def test_the_page_for_litellm_does_what_it_says(tmp_path: Path) -> None:
    """LiteLLM is the upstream, and the demo upstream is the provider behind it."""
    programs = [libraries(), _BIN]
    async with running_provider(LITELLM.dialect) as provider:
        port = str(find_free_port())
        replaced = {LITELLM_PORT: port, LITELLM_KEY: f"sk-{uuid4().hex}"}
        reader = Reader(LITELLM, tmp_path, provider, programs, replaced)
        with reader.server(f"{_NO_NETWORK}{reader.litellm}") as litellm:
            live = f"http://127.0.0.1:{port}/health/liveliness"
            await asyncio.to_thread(litellm.wait_for, live, _LITELLM_SECONDS)
            await follow(reader, LITELLM)
    check_arrivals(provider, LITELLM)


def test_every_page_is_run() -> None:
    """And none is forgotten that is added."""
    run = {page.name for page in (*WITH_THE_SDK, OPENAI_NODE, *WITH_LIBRARIES, LITELLM, *WITH_NODE)}
    assert run == {path.stem for path in FOLDER.glob("*.md")}


def test_what_is_not_run_is_no_part_of_spantap() -> None:
    """Of the pages' blocks only those that need somebody else's server."""
    blocks = [block for path in FOLDER.glob("*.md") for block in Page(path).blocks]
    left_out = [block for block in blocks if block.reason is not None]
    reasons = {block.reason for block in left_out}
    assert reasons == {"needs vLLM and a model", "needs Ollama and a model"}
    assert not [block for block in left_out if re.search(r"\bspantap ", block.text)]
