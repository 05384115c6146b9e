"""The ``websockets`` package cannot tell ``spantap serve`` from the server behind it either."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from websockets.asyncio.client import connect

from codec.text.jsontext import decode_json, encode_json
from tests.clients.web_sockets import HELLO, TOOL, Stage, check_spans, even_out, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)

QUESTIONS: tuple[dict[str, Any], ...] = (
    HELLO,
    HELLO | {"tools": [TOOL]},
    HELLO | {"input": "Ahoy? " * 50_000},  # more than a frame of 64 KiB
)


@pytest.fixture(name="stage")
def _stage(tmp_path: Path) -> Iterator[Stage]:
    with serving(tmp_path) as stage:
        yield stage


async def talk(base_url: str, compression: str | None) -> dict[str, Any]:
    """What a client hears and learns; it sends pings, and its last message in fragments."""
    url = base_url.replace("http", "ws", 1)
    responses = []
    async with connect(f"{url}/responses", compression=compression, max_size=None) as client:
        agreed = [str(extension) for extension in client.protocol.extensions]
        for question in QUESTIONS:
            create = encode_json({"type": "response.create", **question})
            is_last = question is QUESTIONS[-1]
            middle = len(create) // 2
            await client.send([create[:middle], create[middle:]] if is_last else create)
            await (await client.ping())
            events: list[Any] = []
            while not events or events[-1]["type"] != "response.completed":
                events.append(decode_json(await client.recv(decode=True)))
            responses.append(events)
        await client.send("words")
        refused = decode_json(await client.recv(decode=True))
    close = (client.close_code, client.close_reason)
    return {"agreed": agreed, "responses": responses, "refused": refused, "close": close}


@pytest.mark.parametrize("compression", [None, "deflate"])
async def test_all_is_heard_as_directly_and_is_in_spans(
    stage: Stage, compression: str | None
) -> None:
    """Extensions, messages, pongs and the close; compressed messages are recorded as well."""
    direct = await talk(stage.direct_url, compression)
    proxied = await talk(stage.proxied_url, compression)
    assert even_out(proxied) == even_out(direct)
    assert len(proxied["agreed"]) == (compression is not None)
    ends = [events[-1]["response"] for events in proxied["responses"]]
    await asyncio.to_thread(check_spans, stage.store, ends)
