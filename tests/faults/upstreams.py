"""A plain upstream for load, in a process of its own so that it shares no GIL with anybody.

It answers each chat with the same bytes, whole or as a stream at a pace, so that a client can tell
a changed answer from a right one. A usage event is sent where the request asks for one.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import random
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.e2e.processes import clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("MODEL", "answer_body", "running_load_upstream", "stream_events")

MODEL = "load-demo"

_USAGE = '{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}'
_CHUNK = (
    '{"id":"chatcmpl-load","object":"chat.completion.chunk","created":1700000000,'
    f'"model":"{MODEL}","choices":[%s],"usage":%s}}'
)


def answer_body(noise_bytes: int = 0) -> bytes:
    """The whole answer of a chat that is no stream, the same each time.

    It ends with base64 of so many bytes, which hardly shrink.
    """
    noise = base64.b64encode(random.Random(noise_bytes).randbytes(noise_bytes)).decode()
    return (
        '{"id":"chatcmpl-load","object":"chat.completion","created":1700000000,'
        f'"model":"{MODEL}","choices":[{{"index":0,"finish_reason":"stop","message":'
        f'{{"role":"assistant","content":"All is well.{noise}"}}}}],"usage":{_USAGE}}}'
    ).encode()


def stream_events(chunks: int, *, usage: bool) -> list[bytes]:
    """The events of a stream of `chunks` words, each to be written on its own.

    Args:
        chunks: events with content.
        usage: whether the usage event, which the request must ask for, is among them.
    """
    deltas = [
        f'{{"index":0,"delta":{{"content":"word{n} "}},"finish_reason":null}}'
        for n in range(chunks)
    ]
    deltas.append('{"index":0,"delta":{},"finish_reason":"stop"}')
    bodies = [_CHUNK % (delta, "null") for delta in deltas]
    bodies += [_CHUNK % ("", _USAGE)] if usage else []
    return [f"data: {body}\n\n".encode() for body in (*bodies, "[DONE]")]


@contextmanager
def running_load_upstream(
    *, chunks: int = 20, pace_seconds: float = 0.0, noise_bytes: int = 0
) -> Iterator[str]:
    """The upstream as a process; gives its base URL.

    Args:
        chunks: events with content in each stream.
        pace_seconds: between two of them.
        noise_bytes: in each answer that is no stream (:func:`answer_body`).
    """
    line = [sys.executable, "-m", __name__, "--chunks", str(chunks), "--pace", str(pace_seconds)]
    line += ["--noise", str(noise_bytes)]
    with subprocess.Popen(line, env=clean_environment(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


async def _serve(chunks: int, pace_seconds: float, noise_bytes: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                body = await _read_request(reader)
                if b'"stream":true' in body:
                    await _stream(writer, stream_events(chunks, usage=b"include_usage" in body))
                else:
                    _write(writer, "application/json", f"Content-Length: {len(whole)}")
                    writer.write(whole)
                    await writer.drain()
        writer.close()

    async def _stream(writer: asyncio.StreamWriter, events: list[bytes]) -> None:
        _write(writer, "text/event-stream", "Transfer-Encoding: chunked")
        for event in events:
            writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            await writer.drain()
            if pace_seconds:
                await asyncio.sleep(pace_seconds)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    whole = answer_body(noise_bytes)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _write(writer: asyncio.StreamWriter, content_type: str, framing: str) -> None:
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{framing}\r\n\r\n".encode())


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    """The body of the next request, of either framing."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    _, counted, rest = head.partition(b"\r\ncontent-length:")
    if counted:
        return await reader.readexactly(int(rest.split(b"\r\n", 1)[0]))
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--chunks", type=int, required=True)
    parser.add_argument("--pace", type=float, required=True)
    parser.add_argument("--noise", type=int, required=True)
    arguments = parser.parse_args()
    asyncio.run(_serve(arguments.chunks, arguments.pace, arguments.noise))


if __name__ == "__main__":
    _main()
