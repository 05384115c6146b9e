"""Clients of others through the port, as a command's environment would send them."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from proxy.interception.interception import TunnelReason
from tests.proxy.harness import ANSWER, DONE, STREAM, USAGE_EVENT, Connection
from tests.proxy.interception.intercepting import HOST, OTHER_HOST, intercepting, upstream_authority

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy.interception.intercepting import Intercepted

curl = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def environment(it: Intercepted, folder: Path) -> dict[str, str]:
    """What a child is given: the proxy, and a bundle."""
    bundle = folder / "bundle.pem"
    bundle.write_bytes(upstream_authority()[0] + it.interception.ca_certificate)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "HTTPS_PROXY": it.proxy_url,
        "https_proxy": it.proxy_url,
        "NO_PROXY": "localhost,127.0.0.1,::1",
        "SSL_CERT_FILE": str(bundle),
        "CURL_CA_BUNDLE": str(bundle),
        "GIT_SSL_CAINFO": str(bundle),
        "OPENAI_API_KEY": "sk-none",
    }


async def run(it: Intercepted, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program with that environment."""
    return await asyncio.to_thread(
        subprocess.run,
        command,
        env=environment(it, folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@curl
@pytest.mark.parametrize("flags", [(), ("--http2",), ("--proxy-anyauth",), ("--tlsv1.3",)])
async def test_curl(flags: tuple[str, ...], tmp_path: Path) -> None:
    """Also if it asks first which authentication the proxy wants."""
    async with intercepting() as it:
        url = f"https://{HOST}/v1/chat/completions"
        data = ("-d", '{"model":"m-1","messages":[]}', "-H", "Content-Type: application/json")
        ended = await run(it, tmp_path, "curl", "-sS", *flags, *data, url)
        assert ended.stdout.encode() == ANSWER, ended.stderr
        await it.running.sink.wait_for()
        ended = await run(it, tmp_path, "curl", "-sS", *flags, f"https://{OTHER_HOST}/x")
        assert ended.stdout.encode() == ANSWER, ended.stderr
        [row] = it.port.report().tunnelled
        assert (row.host, row.reason) == (OTHER_HOST, TunnelReason.NOT_LISTED)


@curl
async def test_curl_without_the_trust_fails_twice_and_then_passes(tmp_path: Path) -> None:
    """As every program that is started again."""
    async with intercepting() as it:
        outside = tmp_path / "outside.pem"
        outside.write_bytes(upstream_authority()[0])
        for status in (60, 60, 0):
            ended = await run(
                it, tmp_path, "curl", "-sS", "--cacert", str(outside), f"https://{HOST}/"
            )
            assert ended.returncode == status, ended.stderr


@git
async def test_git_of_a_child_is_tunnelled(tmp_path: Path) -> None:
    """Git first asks which authentication the proxy wants."""
    async with intercepting() as it:
        ended = await run(it, tmp_path, "git", "ls-remote", f"https://{OTHER_HOST}/a.git")
        assert [row.host for row in it.port.report().tunnelled] == [OTHER_HOST], ended.stderr
        assert it.upstream.requests[0].request_line.startswith(b"GET /a.git/info/refs")


OPENAI = """\
import openai, sys
client = openai.OpenAI(base_url=sys.argv[1], max_retries=0)
for _ in range(2):
    stream = client.chat.completions.create(
        model="m-1", stream=True, messages=[{"role": "user", "content": "hi"}])
    print("".join(chunk.choices[0].delta.content or "" for chunk in stream))
"""


async def test_the_openai_sdk(tmp_path: Path) -> None:
    """By httpx, with its stream and its usage."""

    async def stream(connection: Connection) -> None:
        await connection.stream(*STREAM, USAGE_EVENT, DONE)

    async with intercepting(stream) as it:
        url = f"https://{HOST}/v1"
        ended = await run(it, tmp_path, sys.executable, "-c", OPENAI, url)
        assert ended.stdout == "Hello\nHello\n", ended.stderr
        await it.running.sink.wait_for(2)


AIOHTTP = """\
import asyncio, sys, aiohttp
async def main():
    async with aiohttp.ClientSession(trust_env=True) as session:
        answers = await asyncio.gather(*[session.get(sys.argv[1]) for _ in range(5)])
        print(*[answer.status for answer in answers])
asyncio.run(main())
"""


async def test_aiohttp_with_several_connections_at_once(tmp_path: Path) -> None:
    async with intercepting() as it:
        ended = await run(it, tmp_path, sys.executable, "-c", AIOHTTP, f"https://{HOST}/v1/models")
        assert ended.stdout == "200 200 200 200 200\n", ended.stderr
        opened: Any = it.port.report().opened
        assert opened[HOST] >= 1
