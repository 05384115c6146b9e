"""Commands where ``api.anthropic.com`` is a stub on this machine; what arrives there is noted.

``python -m tests.agents.direct PLAN`` is started by root in a mount and a network namespace
(``unshare -m -n``), whose hosts file it replaces: nothing leaves the machine, and nobody else sees
the file or the stub's port, 443.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from proxy.demo.upstream import Pace, create_demo_upstream

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

__all__ = ("HOST", "Arrived", "Plan", "Started")

HOST = "api.anthropic.com"

COMMAND_SECONDS = 90.0


class Started(msgspec.Struct, frozen=True):
    """A command, and all of its environment."""

    command: list[str]
    environment: dict[str, str]
    folder: str


class Plan(msgspec.Struct, frozen=True):
    """What is to be run, one after the other.

    Attributes:
        certificate: the stub's, with its key, as PEM.
        hosts: the hosts file; likewise the file that names servers for names.
        noted: where what arrives is written, a list for each command.
    """

    certificate: str
    hosts: str
    resolver: str
    noted: str
    commands: list[Started]


class Arrived(msgspec.Struct, frozen=True):
    """A call as it arrived: its headers in their order, in the letters that they came in."""

    target: str
    headers: list[tuple[str, str]]
    body: bytes


async def run_plan(plan: Plan) -> None:
    """Run the commands of a plan, and write what arrived."""
    arrived: list[Arrived] = []

    @web.middleware
    async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method == "POST" and request.path == "/v1/messages":
            headers = [(name.decode(), value.decode()) for name, value in request.raw_headers]
            arrived.append(Arrived(request.path_qs, headers, await request.read()))
        return await handler(request)

    app = create_demo_upstream(pace=Pace(first_seconds=0, chunk_seconds=0.001), dialect="openai")
    app.middlewares.append(note)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(plan.certificate)
    await web.TCPSite(runner, "127.0.0.1", 443, ssl_context=tls).start()
    noted: list[list[Arrived]] = []
    for one in plan.commands:
        arrived.clear()
        process = await asyncio.create_subprocess_exec(
            *one.command, env=one.environment, cwd=one.folder, stdin=subprocess.DEVNULL
        )
        async with asyncio.timeout(COMMAND_SECONDS):
            status = await process.wait()
        print(f"status {status}", flush=True)
        noted.append([*arrived])
    await runner.cleanup()
    Path(plan.noted).write_bytes(msgspec.json.encode(noted))  # noqa: ASYNC240


def main(path: str) -> None:
    """Make the namespaces what the plan says, and run it."""
    plan = msgspec.json.decode(Path(path).read_bytes(), type=Plan)
    mounts = ((plan.hosts, "/etc/hosts"), (plan.resolver, "/etc/resolv.conf"))
    for ours, place in mounts:
        subprocess.run(["mount", "--bind", ours, place], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.environ.pop("HTTPS_PROXY", None)
    asyncio.run(run_plan(plan))


if __name__ == "__main__":
    main(sys.argv[1])
