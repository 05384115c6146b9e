"""Each quick start is run as its reader would: spantap, the program, and the span that is promised.

The blocks of the page are the program. Addresses in them are replaced, for the provider is the demo
upstream in that provider's dialect; nothing leaves this machine.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from codec.text.jsontext import decode_json
from telemetry.provider import infer_provider
from tests.agents.quiet import keep_quiet
from tests.clients.own_words import QUIET
from tests.clients.test_openai_node import _packages  # noqa: F401 - a fixture, by its own name
from tests.docs.blocks import Page
from tests.docs.provider import running_provider
from tests.docs.reader import FOLDER, Quickstart, Reader, read_calls
from tests.e2e.processes import find_free_port
from tests.lanes import find_agents, find_node_packages, find_programs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.docs.provider import Provider

LITELLM_PORT = "4002"
LITELLM_KEY = "YOUR-LITELLM-KEY"

_BIN = Path(sys.executable).parent

_NO_NETWORK = "export LITELLM_LOCAL_MODEL_COST_MAP=True\n"
"""LiteLLM's prices from its package."""

_SAID = re.compile(r"llm\.output_messages\.\d+\.message\.content(s\.\d+\.message_content\.text)?")

_FINAL_ARGUMENTS = "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments"

_START_SECONDS = 30.0
_LITELLM_SECONDS = 90.0

WITH_THE_SDK = (
    Quickstart(name="openai-python"),
    Quickstart(name="anthropic-python", targets=("/v1/messages",)),
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
        name="google-genai-python",
        targets=("/v1/models/gemini-2.5-flash:streamGenerateContent?alt=sse",),
    ),
    Quickstart(
        name="openrouter",
        dialect="openrouter",
        targets=("/api/v1/chat/completions",),
        key="Bearer YOUR-OPENROUTER-KEY",
    ),
    Quickstart(name="vllm", provider="http://localhost:8000", dialect="vllm", key="Bearer none"),
    Quickstart(name="ollama", targets=("/api/chat",), key=""),
)

OPENAI_NODE = Quickstart(name="openai-node", is_node=True)

WITH_LIBRARIES = (
    Quickstart(name="langchain", lane="quickstarts"),
    Quickstart(name="llamaindex", lane="quickstarts"),
    Quickstart(name="cohere", lane="quickstarts", targets=("/v2/rerank",)),
    Quickstart(
        name="mistral",
        lane="quickstarts",
        dialect="mistral",
        targets=("/v1/chat/completions",) * 2,
        sent_again=1,
        client="mistralai",
    ),
    Quickstart(
        name="groq",
        lane="quickstarts",
        dialect="groq",
        targets=("/openai/v1/chat/completions",),
        client="groq",
    ),
    Quickstart(name="openai-agents", lane="clients", targets=("/v1/responses",)),
    Quickstart(name="pydantic-ai", lane="clients", targets=("/v1/responses",)),
    Quickstart(name="vercel-ai-sdk", lane="quickstarts", is_node=True, targets=("/v1/responses",)),
    Quickstart(name="anthropic-node", lane="quickstarts", is_node=True, targets=("/v1/messages",)),
)

FRAMEWORKS = (
    Quickstart(name="autogen", lane="frameworks/autogen"),
    Quickstart(name="crewai", lane="frameworks/crewai"),
    Quickstart(name="dspy", lane="frameworks/dspy"),
    Quickstart(name="haystack", lane="frameworks/haystack"),
    Quickstart(name="instructor", lane="frameworks/instructor"),
    Quickstart(name="langchain-js", lane="frameworks/langchain-js", is_node=True),
    Quickstart(name="langgraph", lane="frameworks/langgraph"),
    Quickstart(name="llamaindex-agents", lane="frameworks/llamaindex"),
    Quickstart(name="smolagents", lane="frameworks/smolagents"),
)

AGENTS = (
    Quickstart(name="aider", lane="agents"),
    Quickstart(name="claude-code", lane="agents", targets=("/v1/messages?beta=true",)),
    Quickstart(name="cline", lane="agents", client="ai-sdk"),
    Quickstart(name="codex", lane="agents", targets=("/v1/responses",), warmings=1),
    Quickstart(name="copilot-cli", lane="agents", client="openai"),
    Quickstart(
        name="gemini-cli",
        lane="agents",
        targets=("/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",),
    ),
    Quickstart(name="opencode", lane="agents", targets=("/v1/responses", "/v1/responses")),
    Quickstart(name="pi", lane="agents", targets=("/v1/responses",), client="pi"),
    Quickstart(
        name="qwen-code",
        lane="agents",
        targets=("/v1/chat/completions", "/v1/chat/completions"),
        client="qwen-code",
    ),
)

LITELLM = Quickstart(name="litellm", provider="https://api.openai.com", lane="quickstarts")


def named(quickstart: Quickstart) -> str:
    return quickstart.name


async def follow(reader: Reader, quickstart: Quickstart) -> None:
    """Do what the page says, and see what it says."""
    assert reader.programs
    with reader.server(reader.serve) as proxy:
        ready = f"http://127.0.0.1:{reader.admin_port}/readyz"
        await asyncio.to_thread(proxy.wait_for, ready, _START_SECONDS)
        answers = [await reader.run(program) for program in reader.programs]
        calls = await asyncio.to_thread(read_calls, reader.store, quickstart.count)
        table = await reader.run(reader.look)
        assert await asyncio.to_thread(proxy.end) == 0, proxy.output
    promises = list(quickstart.page.rows("On the span"))
    assert len(promises) >= 5
    # What an agent asks beside, such as for a title, answers nothing that the page's reader asked.
    asked = [call for call in calls if call.summary.columns.purpose is None]
    for answer, call in zip(answers, asked, strict=True):
        span = dict(call.span.attributes)
        assert quickstart.client in {None, call.summary.columns.client}
        name = span.get("llm.model_name") or span["reranker.model_name"]
        assert name in table
        check_answer(answer, span)
        for name, promise in promises:
            check_promise(name.strip("`"), promise, span, quickstart)


def check_answer(answer: str, span: Mapping[str, Any]) -> None:
    """The span has what the program printed; agents print more than that, or a tool's argument."""
    if arguments := span.get(_FINAL_ARGUMENTS):
        assert answer.strip() in decode_json(arguments).values()
        return
    said = [text for key, text in span.items() if _SAID.fullmatch(key)]
    said = said[-1:] or [span["reranker.output_documents.0.document.content"]]
    assert " ".join(said[0].split()) in " ".join(answer.split())


def check_promise(name: str, promise: str, span: Mapping[str, Any], quickstart: Quickstart) -> None:
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
        names = ("api-key", "x-api-key", "x-goog-api-key", "authorization")
        key = next((arrival.headers[name] for name in names if name in arrival.headers), "")
        assert key in {quickstart.key, quickstart.key.removeprefix("Bearer ")}


async def check(
    quickstart: Quickstart,
    folder: Path,
    *programs: Path,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Follow a page with the programs that it needs."""
    async with running_provider(quickstart.dialect) as provider:
        reader = Reader(quickstart, folder, provider, [*programs, _BIN], environment=environment)
        await follow(reader, quickstart)
    check_arrivals(provider, quickstart)


def link_packages(packages: Path, folder: Path) -> Path:
    """Have Node find packages from a folder; where their programs are."""
    (folder / "node_modules").symlink_to(packages)
    return packages / ".bin"


def find_library(quickstart: Quickstart, folder: Path) -> Path:
    """Where the programs of a page's library are, for one who works in this folder."""
    assert quickstart.lane is not None
    if quickstart.is_node:
        return link_packages(find_node_packages(quickstart.lane), folder)
    return find_programs(quickstart.lane)


@pytest.mark.parametrize("quickstart", WITH_THE_SDK, ids=named)
async def test_a_page_for_the_sdk_does_what_it_says(quickstart: Quickstart, tmp_path: Path) -> None:
    """The program prints the answer, the span has what the table says, the key arrives."""
    await check(quickstart, tmp_path)


async def test_the_page_for_node_does_what_it_says(packages: Path, tmp_path: Path) -> None:
    """The same, with the npm package."""
    await check(OPENAI_NODE, tmp_path, link_packages(packages / "node_modules", tmp_path))


@pytest.mark.timeout(180)  # some of them take ten seconds to be imported
@pytest.mark.parametrize("quickstart", WITH_LIBRARIES, ids=named)
async def test_a_page_for_a_library_does_what_it_says(
    quickstart: Quickstart, tmp_path: Path
) -> None:
    """The same, with the library that ``make quickstarts`` installs."""
    await check(quickstart, tmp_path, find_library(quickstart, tmp_path))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("quickstart", FRAMEWORKS, ids=named)
async def test_a_page_for_a_framework_does_what_it_says(
    quickstart: Quickstart, tmp_path: Path
) -> None:
    """The same, with the framework that ``make frameworks`` installs."""
    await check(quickstart, tmp_path, find_library(quickstart, tmp_path), environment=QUIET)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("quickstart", AGENTS, ids=named)
async def test_a_page_for_an_agent_does_what_it_says(
    quickstart: Quickstart, tmp_path: Path
) -> None:
    """The same, with the agent that ``make agents`` installs."""
    programs = find_agents(quickstart.name.partition("-")[0])
    await check(quickstart, tmp_path, *programs, environment=keep_quiet(tmp_path))


@pytest.mark.timeout(180)
async def test_the_page_for_litellm_does_what_it_says(tmp_path: Path) -> None:
    """LiteLLM is the upstream, and the demo upstream is the provider behind it."""
    programs = [find_programs("quickstarts"), _BIN]
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
    pages = (*WITH_THE_SDK, OPENAI_NODE, *WITH_LIBRARIES, *FRAMEWORKS, *AGENTS, LITELLM)
    assert {page.name for page in pages} == {path.stem for path in FOLDER.glob("*.md")}


def test_what_is_not_run_is_no_part_of_spantap() -> None:
    """Of the pages' blocks only those that need somebody else's server."""
    blocks = [block for path in FOLDER.glob("*.md") for block in Page(path).blocks]
    left_out = [block for block in blocks if block.reason is not None]
    reasons = {block.reason for block in left_out}
    assert reasons == {"needs vLLM and a model", "needs Ollama and a model"}
    assert not [block for block in left_out if re.search(r"\bspantap ", block.text)]
