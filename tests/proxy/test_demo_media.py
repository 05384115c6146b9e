"""The demo upstream draws, speaks and listens: forms and JSON, bytes, texts and events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from codec.text.jsontext import decode_json
from proxy.demo.script import ERROR_MODEL, MODEL
from tests.proxy.demo_client import demo_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.proxy.demo_client import Client


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with demo_client() as client:
        yield client


def form(**fields: str) -> aiohttp.FormData:
    """A form with a file."""
    data = aiohttp.FormData(fields)
    data.add_field("file", b"\x00" * 9_000, filename="a.wav", content_type="audio/wav")
    return data


async def post(client: Client, path: str, status: int = 200, **body: Any) -> tuple[str, bytes]:
    """Type and bytes of the answer."""
    async with client.post(f"/v1/{path}", **body) as response:
        assert response.status == status
        return response.headers["Content-Type"], await response.read()


async def test_forms_reach_the_player(client: Client) -> None:
    """Their fields and the size of their files."""
    kind, data = await post(client, "audio/transcriptions", data=form(model=MODEL))
    answer = decode_json(data)
    assert kind == "application/json"
    assert answer["text"].startswith("Hello!")
    assert answer["usage"]["input_token_details"]["audio_tokens"] == 9_000 // 3_200 + 1
    kind, data = await post(
        client, "audio/transcriptions", data=form(model=MODEL, response_format="vtt")
    )
    assert (kind, data[:7]) == ("text/plain; charset=utf-8", b"WEBVTT\n")
    streamed = form(model=MODEL, stream="true")
    kind, data = await post(client, "audio/transcriptions", data=streamed)
    assert kind.startswith("text/event-stream")
    assert data.endswith(b"data: [DONE]\n\n")


async def test_json_is_taken_as_well(client: Client) -> None:
    """OpenRouter's form of a transcription; images."""
    sound = {"data": "AAAA", "format": "wav"}
    _, data = await post(
        client, "audio/transcriptions", json={"model": MODEL, "input_audio": sound}
    )
    assert decode_json(data)["text"]
    _, data = await post(client, "images/generations", json={"prompt": "a cat", "n": 3})
    assert len(decode_json(data)["data"]) == 3


async def test_speech_has_the_type_of_its_bytes(client: Client) -> None:
    """Or is events."""
    asked = {"model": MODEL, "input": "Hi", "voice": "alloy"}
    kind, data = await post(client, "audio/speech", json=asked)
    assert (kind, data[:2]) == ("audio/mpeg", b"\xff\xf3")
    kind, data = await post(client, "audio/speech", json={**asked, "stream_format": "sse"})
    assert kind.startswith("text/event-stream")
    assert data.startswith(b"event: speech.audio.delta\n")


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"data": form(model=ERROR_MODEL)}, 429, "Rate limit"),
        ({"data": form()}, 400, "model"),
        ({"data": b"x", "headers": {"Content-Type": "multipart/form-data"}}, 400, "parse"),
        ({"data": b"--x--", "headers": {"Content-Type": "multipart/x; boundary=y"}}, 400, "parse"),
        ({"json": {"model": MODEL}}, 400, "file"),
    ],
)
async def test_what_is_wrong_is_refused(client: Client, body: Any, status: int, word: str) -> None:
    """In OpenAI's form."""
    _, data = await post(client, "audio/transcriptions", status, **body)
    assert word in decode_json(data)["error"]["message"]
