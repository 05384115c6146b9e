"""The demo upstream embeds texts, in each API's form and the same in every run."""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json
from proxy.demo.script import ERROR_MODEL, MODEL
from tests.proxy.demo_client import demo_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.proxy.demo_client import Client

GEMINI = f"/v1beta/models/{MODEL}"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with demo_client() as client:
        yield client


async def post(client: Client, path: str, body: Any, status: int = 200) -> Any:
    """The answer's JSON."""
    async with client.post(path, json=body) as response:
        assert response.status == status
        return decode_json(await response.read())


async def test_each_api_has_the_same_vector_of_a_text(client: Client) -> None:
    """Whatever the form, packed or in numbers; another text has another one."""
    asked = {"model": MODEL, "input": ["a b", "c"]}
    answer = await post(client, "/v1/embeddings", asked)
    first, second = (item["embedding"] for item in answer["data"])
    assert (len(first), len(second)) == (8, 8)
    assert first != second
    assert answer["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    packed = await post(client, "/v1/embeddings", {**asked, "encoding_format": "base64"})
    unpacked = struct.unpack("<8f", base64.b64decode(packed["data"][0]["embedding"]))
    assert unpacked == pytest.approx(first)
    assert (await post(client, "/api/embed", asked))["embeddings"] == [first, second]
    elder = await post(client, "/api/embeddings", {"model": MODEL, "prompt": "a b"})
    assert elder == {"embedding": first}
    content = {"parts": [{"text": "a b"}]}
    one = await post(client, f"{GEMINI}:embedContent", {"content": content})
    assert one["embedding"] == {"values": first}
    several = await post(
        client, f"{GEMINI}:batchEmbedContents", {"requests": [{"content": content}]}
    )
    assert several["embeddings"] == [{"values": first}]


@pytest.mark.parametrize("wanted", [1, 40, 100_000])
async def test_a_vector_is_as_long_as_asked(client: Client, wanted: int) -> None:
    """But no longer than models have them."""
    asked = {"content": {"parts": [{"text": "a"}]}, "outputDimensionality": wanted}
    answer = await post(client, f"{GEMINI}:embedContent", asked)
    assert len(answer["embedding"]["values"]) == (wanted if wanted < 100_000 else 8)


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/embeddings", {"input": "a"}),
        ("/v1/embeddings", {"model": MODEL, "input": 7}),
        ("/api/embed", {"input": "a"}),
        (f"{GEMINI}:embedContent", {}),
        (f"{GEMINI}:batchEmbedContents", {"requests": []}),
    ],
)
async def test_what_cannot_be_embedded_is_refused(client: Client, path: str, asked: Any) -> None:
    """As the provider whose API it is would."""
    assert "error" in await post(client, path, asked, 400)


async def test_a_model_over_its_limit_says_so(client: Client) -> None:
    """As with every API."""
    asked = {"model": ERROR_MODEL, "input": "a"}
    assert (await post(client, "/v1/embeddings", asked, 429))["error"]["type"] == "requests"
