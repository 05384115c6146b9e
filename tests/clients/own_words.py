"""Runs a program with agents of another's library; what it says it did, and what spans tell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from codec.text.jsontext import decode_json
from tests.docs.reader import run
from tests.e2e.processes import clean_environment
from tests.e2e.spantap import running_proxy, running_upstream
from tests.run_trees import Node, SeenSpan, read_printed, read_trees, tell_id

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("QUIET", "run_agents", "run_program", "write_command")

_ROOT = Path(__file__).parents[2]

QUIET = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # DSPy brings LiteLLM, which would fetch prices
}
"""Libraries report nothing of their own to their makers."""


async def run_agents(
    command: str, folder: Path, *, tell_call: Callable[[SeenSpan], tuple[Any, ...]] = tell_id
) -> tuple[list[Node], list[Node]]:
    """Run agents against the demo upstream through a proxy.

    Args:
        command: the program in ``tests/clients/runs``, as :func:`write_command` writes it.
        folder: an empty folder.
        tell_call: what a call's span is to tell.

    Returns:
        The trees that the program printed, and those of the store.
    """
    printed, store = await run_program(command, folder)
    did = [read_printed(one) for one in printed]
    return did, read_trees(store, sum([one.size for one in did]), tell_call)


def write_command(python: Path, agents: str, way: str) -> str:
    """Write the command for a program of Python in ``tests/clients/runs``.

    Args:
        python: of the environment that has the library.
        agents: the program's name.
        way: its argument, ``plain`` or ``streamed``.
    """
    return f"'{python}' -m tests.clients.runs.{agents} {way}"


async def run_program(command: str, folder: Path) -> tuple[Any, Path]:
    """Run a program against the demo upstream through a proxy, likewise.

    Returns:
        What it printed, from JSON, and the store of the proxy, which has ended.
    """
    with (
        running_upstream(folder) as port,
        running_proxy(
            folder,
            upstream_port=port,
            project="",
            endpoint="",
            protocol="http/protobuf",
            environment={"SPANTAP_CONVERSATIONS_AS": "runs", "SPANTAP_WEBSOCKETS": "relay"},
        ) as proxy,
    ):
        environment = clean_environment() | QUIET
        environment |= {
            "HOME": str(folder),
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": proxy.base_url,
            "PYTHONPATH": str(_ROOT),
        }
        return decode_json(await run(f"exec {command}", folder, environment)), proxy.store
