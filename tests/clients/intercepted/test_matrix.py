"""Which clients interception opens, which distrust it, and which bypass it.

A new version of a client that changes sides fails here. ``make intercepted`` installs and builds
the clients that no other test needs; without it, only sides are tested, which takes seconds.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from proxy.interception.interception import InterceptReport, Refusal, TunnelReason
from proxy.interception.tally import MAX_FAILURES
from proxy.launches.trust import Gives, build_trust, read_trust
from tests.clients.intercepted.client import LANE, Client, Side, java
from tests.clients.intercepted.other_clients import OTHER_CLIENTS
from tests.clients.intercepted.python_clients import PYTHON_CLIENTS
from tests.lanes import find_node_packages
from tests.proxy.harness import ANSWER, Connection
from tests.proxy.interception.intercepting import HOST, intercepting, upstream_authority
from tests.proxy.raw_client import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from pathlib import Path

    from tests.clients.intercepted.client import Program
    from tests.proxy.interception.intercepting import Intercepted

RUN_SECONDS = 60

CERTIFICATES = {row.name for row in read_trust() if row.gives in {Gives.ADDED, Gives.BUNDLE}}
"""The variables that name files of certificates."""

UNRESOLVED = (
    "ENOTFOUND",
    "Name or service not known",
    "Temporary failure in name resolution",
    "UnresolvedAddressException",
    "nodename nor servname provided",
)
"""What a client says that looks for the host by itself: only spantap knows where it is."""

ANSWERS = {  # by the ends of paths
    "/chat/completions": ANSWER,
    "/messages": (
        b'{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":'
        b'[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","stop_sequence":null,'
        b'"usage":{"input_tokens":3,"output_tokens":1}}'
    ),
    ":generateContent": (
        b'{"candidates":[{"content":{"role":"model","parts":[{"text":"Hello"}]},"finishReason":'
        b'"STOP","index":0}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":1,'
        b'"totalTokenCount":4},"modelVersion":"m-1","responseId":"r-1"}'
    ),
    "/api/chat": (
        b'{"model":"m-1","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant",'
        b'"content":"Hello"},"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":1}'
    ),
    "/converse": (
        b'{"output":{"message":{"role":"assistant","content":[{"text":"Hello"}]}},"stopReason":'
        b'"end_turn","usage":{"inputTokens":3,"outputTokens":1,"totalTokens":4},"metrics":'
        b'{"latencyMs":1}}'
    ),
}

CLIENTS = {f"{each.language}: {each.name}": each for each in (*PYTHON_CLIENTS, *OTHER_CLIENTS)}

with_clients = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)


async def answer(connection: Connection) -> None:
    """Answer as the API of the path does; WebSockets have none."""
    path, _, _ = connection.request_line.split()[1].decode().partition("?")
    for end, body in ANSWERS.items():
        if path.endswith(end):
            await connection.answer(body)
            return
    await connection.answer(b"", status=b"426 Upgrade Required")


@dataclass(frozen=True)
class Launch:
    """What a command of ``spantap run --intercept`` is given.

    Attributes:
        before: what the user has set: certificates of the world outside.
        variables: what the run sets.
    """

    it: Intercepted
    before: dict[str, str]
    variables: dict[str, str]
    home: Path

    async def run(self, program: Program, variables: Mapping[str, str] | None = None) -> str:
        """Run a program; what it printed, and what it said of its failure."""
        variables = self.variables if variables is None else variables
        ended = await asyncio.to_thread(
            subprocess.run,
            program.command,
            cwd=program.folder or self.home,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=RUN_SECONDS,
        )
        return ended.stdout

    async def see(self, client: Client, said: str) -> None:
        """The client has its answer, and a call its span."""
        assert client.says in said
        if client.is_observed:
            await self.it.running.sink.wait_for()
        else:
            assert self.it.running.sink.frames == []
        report = self.it.port.report()
        assert (list(report.opened), report.tunnelled, report.distrusted) == ([HOST], (), {})

    async def fail_until_tunnelled(
        self, client: Client, program: Program, variables: Mapping[str, str]
    ) -> str:
        """Run a client that distrusts the run as often as that fails, and once more."""
        failures = 0
        while failures < MAX_FAILURES:
            assert client.says not in await self.run(program, variables)
            await until(lambda: self.count_failures() > failures)  # noqa: B023 - called at once
            failures = self.count_failures()
        said = await self.run(program, variables)
        [row] = self.it.port.report().tunnelled
        assert (row.host, row.reason) == (HOST, TunnelReason.DISTRUST)
        assert self.it.running.sink.frames == []
        return said

    def count_failures(self) -> int:
        """Count the connections that ended because they were not trusted."""
        return self.it.port.report().distrusted.get(HOST, 0)


@pytest_asyncio.fixture(name="launch")
async def _launch(tmp_path: Path) -> AsyncIterator[Launch]:
    outside = tmp_path / "outside.pem"
    outside.write_bytes(upstream_authority()[0])
    before = dict.fromkeys(CERTIFICATES, str(outside))
    async with intercepting(answer) as it:
        certificate = it.interception.ca_certificate
        yield Launch(it, before, build_trust(before, it.proxy_url, certificate, tmp_path), tmp_path)


@with_clients
async def test_a_client_is_on_its_side(client: Client, launch: Launch) -> None:
    """With all variables of a run."""
    program = client.find()
    match client.side:
        case Side.OPENED:
            await launch.see(client, await launch.run(program))
        case Side.DISTRUSTS:
            await launch.fail_until_tunnelled(client, program, launch.variables)
        case Side.BYPASSES:
            said = await launch.run(program)
            assert any(words in said for words in UNRESOLVED), said
            untouched = InterceptReport(opened={}, tunnelled=(), distrusted={}, refused={})
            assert launch.it.port.report() == untouched


@pytest.mark.parametrize(
    ("client", "variable"),
    [
        pytest.param(client, variable, id=f"{name}, {variable}")
        for name, client in CLIENTS.items()
        for variable in client.trusts_by
    ],
)
async def test_one_variable_suffices_for_trust(
    client: Client, variable: str, launch: Launch
) -> None:
    """It trusts by each variable that names certificates."""
    find_node_packages(LANE)
    program = client.find()
    given = without(launch.variables, CERTIFICATES - {variable})
    await launch.see(client, await launch.run(program, given))


@pytest.mark.parametrize(
    "client",
    [pytest.param(each, id=name) for name, each in CLIENTS.items() if each.trusts_by],
)
async def test_without_its_variables_a_client_fails_twice_and_then_passes(
    client: Client, launch: Launch
) -> None:
    """Connections fail, that is; no other variable makes it trust the run."""
    find_node_packages(LANE)
    program = client.find()
    given = launch.variables | {name: launch.before[name] for name in client.trusts_by}
    assert client.says in await launch.fail_until_tunnelled(client, program, given)


async def test_java_cannot_be_given_the_secret(launch: Launch) -> None:
    """It takes the address of a proxy from its properties, and asks without a password."""
    program = java()
    host, port = launch.it.address
    properties = {
        "https.proxyHost": host,
        "https.proxyPort": port,
        "https.proxyUser": "spantap",
        "https.proxyPassword": launch.it.interception.secret,
        "jdk.http.auth.tunneling.disabledSchemes": "",
    }
    options = " ".join(f"-D{name}={value}" for name, value in properties.items())
    assert "Hello" not in await launch.run(program, {"JAVA_TOOL_OPTIONS": options})
    report = launch.it.port.report()
    assert (report.opened, report.refused) == ({}, {Refusal.NO_SECRET: 1})


def without(variables: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Leave out some variables."""
    return {name: text for name, text in variables.items() if name not in set(names)}
