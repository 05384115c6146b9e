"""Commands where providers' hosts are a stub on this machine; what arrives there is noted.

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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from codec.apis.table import find_api
from proxy.demo.upstream import Pace, create_demo_upstream
from tests.agents.quiet import end_left

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

    from codec.text.jsontext import JsonObject

__all__ = ("HOSTS", "Arrived", "Plan", "Started")

HOSTS = (
    *("api.anthropic.com", "api.openai.com", "dashscope.aliyuncs.com", "api.moonshot.ai"),
    *("generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "api.x.ai"),
    *("oauth2.googleapis.com", "www.googleapis.com", "chatgpt.com"),
    *("api.github.com", "api.individual.githubcopilot.com"),
)

LOGIN: dict[str, JsonObject] = {
    "/tokeninfo": {"expires_in": 3600, "email": "a@example.com", "scope": "email"},
    "/oauth2/v2/userinfo": {"email": "a@example.com"},
    "/v1internal:loadCodeAssist": {
        "currentTier": {"id": "standard-tier"},
        "cloudaicompanionProject": "project-1",
    },
    "/v1internal:listExperiments": {},
    "/v1internal:retrieveUserQuota": {},
    "/v1internal:fetchAdminControls": {},
    "/v1internal:recordCodeAssistMetrics": {},
    "/backend-api/wham/accounts/check": {
        "accounts": [
            {
                "id": "account-1",
                "structure": "personal",
                "plan_type": "plus",
                "is_deactivated": False,
                "workspace_backend_origin": "https://chatgpt.com",
                "account_routing_override": "us",
            }
        ]
    },
    "/copilot_internal/user": {
        "login": "somebody",
        "copilot_plan": "individual",
        "chat_enabled": True,
        "endpoints": {"api": "https://api.individual.githubcopilot.com"},
    },
    "/models": {
        "data": [
            {
                "id": "gpt-5.1",
                "name": "gpt-5.1",
                "vendor": "OpenAI",
                "model_picker_enabled": True,
                "supported_endpoints": ["/responses"],
                "capabilities": {
                    "type": "chat",
                    "limits": {"max_prompt_tokens": 100_000, "max_output_tokens": 16_000},
                    "supports": {"tool_calls": True, "streaming": True},
                },
            }
        ]
    },
}
"""Answers, by path, to logins with Google and ChatGPT, and to a subscription of Copilot."""

COMMAND_SECONDS = 90.0


class Started(msgspec.Struct, frozen=True):
    """A command, all of its environment, and files that are written before, by path."""

    command: list[str]
    environment: dict[str, str]
    folder: str
    files: dict[str, str]


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

    host: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes


async def run_plan(plan: Plan) -> None:
    """Run the commands of a plan, and write what arrived."""
    arrived: list[Arrived] = []

    @web.middleware
    async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
        if "Upgrade" in request.headers:  # spantap answers a WebSocket so, and Codex waits else
            raise web.HTTPUpgradeRequired
        if find_api(request.method, request.path) is not None:
            headers = [(name.decode(), value.decode()) for name, value in request.raw_headers]
            arrived.append(Arrived(request.host, request.path_qs, headers, await request.read()))
        return await handler(request)

    app = create_demo_upstream(pace=Pace(first_seconds=0, chunk_seconds=0.001), dialect="openai")
    app.middlewares.append(note)
    for path, told in LOGIN.items():
        app.router.add_route("*", path, partial(_tell, told))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(plan.certificate)
    await web.TCPSite(runner, "127.0.0.1", 443, ssl_context=tls).start()
    noted: list[list[Arrived]] = []
    for one in plan.commands:
        arrived.clear()
        for name, text in one.files.items():
            Path(name).write_text(text, encoding="utf-8")  # noqa: ASYNC240
        process = await asyncio.create_subprocess_exec(
            *one.command, env=one.environment, cwd=one.folder, stdin=subprocess.DEVNULL
        )
        async with asyncio.timeout(COMMAND_SECONDS):
            status = await process.wait()
        await asyncio.to_thread(end_left, Path(one.environment["HOME"]))
        print(f"status {status}", flush=True)
        noted.append([*arrived])
    await runner.cleanup()
    Path(plan.noted).write_bytes(msgspec.json.encode(noted))  # noqa: ASYNC240


async def _tell(told: JsonObject, _: web.Request) -> web.StreamResponse:
    return web.json_response(told)


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
