"""What is signed stays as the client wrote it, on the traffic port too."""

from __future__ import annotations

import pytest

from tests.proxy.harness import DONE, STREAM, STREAMED_CHAT, Connection, relaying, request_bytes
from tests.proxy.raw_client import ask

CREDENTIAL = "AKIDEXAMPLE/20261130/us-east-1/bedrock/aws4_request"
PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def signed(*fields: str) -> bytes:
    """The head of a request whose signature covers these fields."""
    text = f"Credential={CREDENTIAL}, SignedHeaders={';'.join(fields)}, Signature=abc"
    return f"Authorization: AWS4-HMAC-SHA256 {text}\r\n".encode()


async def stream(connection: Connection) -> None:
    await connection.stream(*STREAM, DONE)


@pytest.mark.parametrize(
    ("head", "query"),
    [
        (signed("host", "x-amz-date"), b""),
        (signed("host", "x-amz-date").replace(b"AWS4-HMAC", b"AWS4-ECDSA-P256"), b""),
        (b"x-amz-content-sha256: 00\r\n", b""),
        (b"", b"?X-Amz-Credential=" + CREDENTIAL.replace("/", "%2F").encode()),
    ],
)
async def test_a_signed_body_is_not_asked_for_its_usage(head: bytes, query: bytes) -> None:
    """A gateway that checks the signature would refuse the changed body."""
    async with relaying(stream) as (upstream, running):
        target = b"/v1/chat/completions" + query
        answer = await ask(running.address, request_bytes(STREAMED_CHAT, head=head, target=target))
        assert (answer.status, answer.body) == (200, b"".join([*STREAM, DONE]))
        assert upstream.last.body == STREAMED_CHAT
        await running.sink.wait_for()


@pytest.mark.parametrize(
    ("fields", "is_kept"), [(("host", "traceparent"), True), (("host", "x-amz-date"), False)]
)
async def test_a_signed_trace_context_is_passed_on(fields: tuple[str, ...], is_kept: bool) -> None:
    """One that no signature covers gets our span as its parent, as in every other call."""
    async with relaying() as (upstream, running):
        head = signed(*fields) + b"traceparent: %b\r\n" % PARENT
        assert (await ask(running.address, request_bytes(head=head))).status == 200
        assert (upstream.last.field(b"traceparent") == PARENT) is is_kept
        await running.sink.wait_for()
