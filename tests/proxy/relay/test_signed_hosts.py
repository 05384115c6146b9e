"""Signed requests: relayed, but for those that Amazon would refuse for the host that they name."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from tests.proxy.harness import ANSWER, CHAT, ScriptedUpstream, running_proxy
from tests.proxy.raw_client import Answer, ask

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.proxy.harness import Connection, RunningProxy

AMAZON = "bedrock-runtime.us-east-1.amazonaws.com"
MANTLE = "bedrock-mantle.eu-west-1.api.aws"
CONVERSE = b"/model/anthropic.claude-x%3A0/converse"
SCOPE = b"AKIDEXAMPLE/20261128/us-east-1/bedrock/aws4_request"
SIGNED = (
    b"Authorization: AWS4-HMAC-SHA256 Credential=%b, SignedHeaders=content-type;host;x-amz-date, "
    b"Signature=%b\r\n" % (SCOPE, b"0" * 64)
)
SIGNED_WITHOUT_HOST = SIGNED.replace(b"host;", b"")
BEARER = b"Authorization: Bearer ABSKexample\r\n"
PRESIGNED = b"?X-Amz-Credential=%b&X-Amz-SignedHeaders=host&X-Amz-Signature=1" % (
    SCOPE.replace(b"/", b"%2F")
)


async def answer_all(connection: Connection) -> None:
    await connection.answer(ANSWER)


@contextlib.asynccontextmanager
async def proxied(
    host: str, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[tuple[ScriptedUpstream, RunningProxy]]:
    """A proxy whose upstream has this name, and is on loopback."""
    loop = asyncio.get_running_loop()

    async def find(_: str, port: int, **how: Any) -> list[Any]:
        return socket.getaddrinfo("127.0.0.1", port, type=how.get("type", 0))

    async with ScriptedUpstream(answer_all) as upstream:
        monkeypatch.setattr(loop, "getaddrinfo", find)
        async with running_proxy(f"http://{host}:{upstream.address[1]}", **settings) as running:
            yield upstream, running


async def send(
    running: RunningProxy, head: bytes, *, target: bytes = CONVERSE, host: bytes = b"localhost:4000"
) -> Answer:
    """Ask, under a name of the proxy's."""
    request = b"POST %b HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n%bContent-Length: %d\r\n\r\n%b"
    return await ask(running.address, request % (target, host, head, len(CHAT), CHAT))


@pytest.mark.parametrize("host", [AMAZON, MANTLE])
@pytest.mark.parametrize(
    ("target", "head"),
    [
        (CONVERSE, SIGNED),
        (CONVERSE + PRESIGNED, b""),
        (b"/v1/chat/completions", SIGNED),
        (b"/anthropic/v1/messages", SIGNED),
    ],
    ids=["a call", "presigned", "an observed call", "an observed call of Messages"],
)
async def test_a_call_that_is_signed_for_spantap_is_told_why_it_fails(
    host: str, target: bytes, head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the form that Amazon's SDKs read; it goes no further."""
    async with proxied(host, monkeypatch) as (upstream, running):
        answer = await send(running, head, target=target)
        assert not upstream.requests
        assert not running.sink.exchanges
        assert running.server.state.refused_count == 1
    assert answer.status == 403
    assert answer.field(b"x-amzn-errortype") == b"InvalidSignatureException"
    assert answer.field(b"content-type") == b"application/json"
    said = json.loads(answer.body)  # noqa: TID251 - as an SDK would
    assert said.keys() == {"message"}
    assert host in said["message"]
    assert "AWS_BEARER_TOKEN_BEDROCK" in said["message"]
    assert "AKID" not in said["message"]


@pytest.mark.parametrize(
    ("head", "asked"),
    [
        (BEARER, b"localhost:4000"),
        (b"", b"localhost:4000"),
        (SIGNED_WITHOUT_HOST, b"localhost:4000"),
        (SIGNED, AMAZON.upper().encode()),
        (SIGNED, AMAZON.encode() + b":80"),
    ],
    ids=["bearer", "no key", "not of the host", "for Amazon's host", "and its port"],
)
async def test_other_calls_of_amazon_are_relayed(
    head: bytes, asked: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of Bedrock, and what a client signed for Amazon itself: it is not ours to judge."""
    monkeypatch.setattr("proxy.upstream.routes.Upstream.host_header", AMAZON.encode(), raising=True)
    async with proxied(AMAZON, monkeypatch) as (upstream, running):
        assert (await send(running, head, host=asked)).status == 200
        assert upstream.last.field(b"authorization") == (
            head.partition(b": ")[2].removesuffix(b"\r\n") or None
        )


@pytest.mark.parametrize(
    "host",
    [
        *("gateway.example", "amazonaws.com.example", "127.0.0.1"),
        *("gateway-1.eu-west-1.elb.amazonaws.com", "x.execute-api.us-east-1.amazonaws.com"),
        *("ec2-1-2-3-4.compute-1.amazonaws.com", "ec2-1-2-3-4.eu-west-1.compute.amazonaws.com"),
    ],
)
async def test_signed_calls_to_others_are_relayed(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway may sign anew, or check nothing, also on one of Amazon's machines."""
    async with proxied(host, monkeypatch) as (upstream, running):
        assert (await send(running, SIGNED)).status == 200
        assert (await send(running, b"", target=CONVERSE + PRESIGNED)).status == 200
        assert len(upstream.requests) == 2
