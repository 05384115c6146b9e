"""The real ``openai`` SDK draws, speaks and listens through the proxy; each call is one record."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import openai
import pytest
import pytest_asyncio

from codec.text.jsontext import decode_json
from proxy.demo.script import ERROR_MODEL, FAILING_MODEL, MODEL
from telemetry.observing.exchange import Outcome
from tests.clients.stage import Stage, open_stage
from tests.clients.test_openai_python import async_client, call_both
from tests.telemetry.exchanges import build_exchange_attributes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from openai import OpenAI

    from telemetry.observing.exchange import Exchange

SOUND = ("speech.mp3", b"\xff\xf3canary-of-the-file\r\n--" * 2_000, "audio/mpeg")
PICTURE = ("cat.png", b"\x89PNGcanary-of-the-file\r\n--" * 2_000, "image/png")
of_old = pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
"""The SDK has these calls still, and warns of them."""

IMAGE_KEY = "llm.output_messages.0.message.contents.0.message_content.image.image.url"
TEXT_KEY = "llm.output_messages.0.message.content"


@pytest_asyncio.fixture(name="stage")
async def _stage() -> AsyncIterator[Stage]:
    async with open_stage() as stage:
        yield stage


def shown(exchange: Exchange) -> dict[str, Any]:
    """The span of a call that went well, nothing of a file in it."""
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    told = {**build_exchange_attributes(exchange)}
    assert "canary" not in str(told)
    return told


def describe(file: tuple[str, bytes, str]) -> dict[str, Any]:
    name, content, kind = file
    return {"filename": name, "content_type": kind, "bytes": len(content)}


async def test_images_are_made(stage: Stage) -> None:
    """As many as were asked for, with the counts that the SDK reads."""
    async with async_client(stage.proxied_url) as client:
        answer = await client.images.generate(model=MODEL, prompt="a cat", n=2)
    told = shown(await stage.sink.wait_for())
    assert answer.data is not None
    assert answer.usage is not None
    assert told["llm.input_messages.0.message.content"] == "a cat"
    assert told[IMAGE_KEY] == f"data:image/png;base64,{answer.data[0].b64_json}"
    assert told["llm.token_count.total"] == answer.usage.total_tokens
    assert told["gen_ai.request.choice.count"] == len(answer.data) == 2


async def test_an_image_is_edited(stage: Stage) -> None:
    """A form with files, of which the names, types and sizes are told."""
    async with async_client(stage.proxied_url) as client:
        answer = await client.images.edit(
            model=MODEL, prompt="a hat", image=[PICTURE, PICTURE], mask=PICTURE, n=1
        )
    told = shown(await stage.sink.wait_for())
    assert answer.data is not None
    assert decode_json(told["input.value"]) == {
        "prompt": "a hat",
        "model": MODEL,
        "n": "1",
        "image[]": [describe(PICTURE)] * 2,
        "mask": describe(PICTURE),
    }
    assert told["llm.input_messages.0.message.content"] == "a hat"
    assert told[IMAGE_KEY] == f"data:image/png;base64,{answer.data[0].b64_json}"


@of_old
async def test_an_image_is_varied(stage: Stage) -> None:
    """Without a prompt; at a URL whose signature is not told."""
    async with async_client(stage.proxied_url) as client:
        answer = await client.images.create_variation(
            model=MODEL, image=PICTURE, response_format="url"
        )
    told = shown(await stage.sink.wait_for())
    assert answer.data is not None
    url = answer.data[0].url or ""
    key = IMAGE_KEY.replace("contents.0", "contents.1")
    assert told[key] == url.replace("?sig=demo", "?REDACTED")
    assert "llm.input_messages.0.message.role" not in told


@pytest.mark.parametrize("edits", [False, True])
async def test_images_are_streamed(stage: Stage, *, edits: bool) -> None:
    """The SDK's events, the unfinished ones counted."""
    asked: dict[str, Any] = {"model": MODEL, "prompt": "a cat", "partial_images": 2}
    async with async_client(stage.proxied_url) as client:
        stream: Any = (
            await client.images.edit(**asked, image=PICTURE, stream=True)
            if edits
            else await client.images.generate(**asked, stream=True)
        )
        events = [event async for event in stream]
    told = shown(await stage.sink.wait_for())
    kind = "image_edit" if edits else "image_generation"
    assert [event.type for event in events] == [
        f"{kind}.partial_image",
        f"{kind}.partial_image",
        f"{kind}.completed",
    ]
    metadata = decode_json(told["metadata"])
    assert (metadata["partial_images"], metadata["chunk_count"]) == (2, 3)
    assert told[IMAGE_KEY] == f"data:image/png;base64,{events[-1].b64_json}"
    assert told["llm.token_count.total"] == events[-1].usage.total_tokens
    assert told["gen_ai.request.stream"] is True


@pytest.mark.parametrize("form", ["mp3", "wav", "pcm"])
async def test_a_text_is_spoken(stage: Stage, form: Any) -> None:
    """Each byte of it reaches the client, and only their number the span."""
    async with async_client(stage.proxied_url) as client:
        answer = await client.audio.speech.create(
            model=MODEL, voice="alloy", input="Good day", response_format=form
        )
    told = shown(await stage.sink.wait_for())
    assert decode_json(told["metadata"])["output_bytes"] == len(answer.content)
    assert told["output.mime_type"] == answer.response.headers["content-type"]
    assert told["llm.input_messages.0.message.content"] == "Good day"
    assert "output.value" not in told


async def test_speech_is_streamed_as_bytes_and_as_events(stage: Stage) -> None:
    """The SDK hands out either as bytes; those of events are base64 of as many as the others."""
    sizes = []
    async with async_client(stage.proxied_url) as client:
        for form in ("audio", "sse"):
            call = client.audio.speech.with_streaming_response.create(
                model=MODEL,
                voice="alloy",
                input="Good day",
                stream_format=form,
            )
            async with call as response:
                data = b"".join([piece async for piece in response.iter_bytes()])
            if form == "sse":
                lines = [line[6:] for line in data.splitlines() if line.startswith(b"data: ")]
                events = [decode_json(line) for line in lines]
                data = b"".join(base64.b64decode(event.get("audio", "")) for event in events)
            sizes.append(len(data))
    await stage.sink.wait_for(2)
    as_bytes, as_events = map(shown, stage.sink.exchanges)
    told = [decode_json(one["metadata"])["output_bytes"] for one in (as_bytes, as_events)]
    assert told == sizes == [sizes[0]] * 2
    assert as_events["llm.token_count.prompt"] == 2
    assert "llm.token_count.prompt" not in as_bytes


@pytest.mark.parametrize("form", ["json", "verbose_json", "text", "srt", "vtt"])
async def test_a_recording_is_written_down(stage: Stage, form: Any) -> None:
    """In each form the span says what the SDK reads."""
    async with async_client(stage.proxied_url) as client:
        answer: Any = await client.audio.transcriptions.create(
            model=MODEL,
            file=SOUND,
            response_format=form,
            temperature=0.5,
            timestamp_granularities=["word", "segment"],
        )
    told = shown(await stage.sink.wait_for())
    assert told[TEXT_KEY] == (answer if isinstance(answer, str) else answer.text)
    asked = decode_json(told["input.value"])
    assert asked["file"] == describe(SOUND)
    assert asked["timestamp_granularities[]"] == ["word", "segment"]
    assert told["gen_ai.request.temperature"] == 0.5
    part = "llm.input_messages.0.message.contents.0.message_content"
    assert told[f"{part}.audio.audio.mime_type"] == "audio/mpeg"


async def test_a_transcription_is_streamed(stage: Stage) -> None:
    """Word by word; ``whisper-1`` streams nothing, which the SDK takes for a stream of nothing."""
    async with async_client(stage.proxied_url) as client:
        stream = await client.audio.transcriptions.create(model=MODEL, file=SOUND, stream=True)
        events: list[Any] = [event async for event in stream]
        for_whisper = await client.audio.transcriptions.create(
            model="whisper-1", file=SOUND, stream=True
        )
        assert [event async for event in for_whisper] == []
    await stage.sink.wait_for(2)
    told, ignored = map(shown, stage.sink.exchanges)
    assert told[TEXT_KEY] == "".join(event.delta for event in events[:-1]) == events[-1].text
    assert told["llm.token_count.total"] == events[-1].usage.total_tokens
    assert decode_json(told["metadata"])["chunk_count"] == len(events)
    assert ignored[TEXT_KEY] == told[TEXT_KEY]
    assert "chunk_count" not in ignored["metadata"]


@of_old
async def test_a_translation(stage: Stage) -> None:
    """A span of its own name."""
    async with async_client(stage.proxied_url) as client:
        answer = await client.audio.translations.create(model=MODEL, file=SOUND)
    exchange = await stage.sink.wait_for()
    assert exchange.api.span_name == "Translation"
    assert shown(exchange)[TEXT_KEY] == answer.text


async def test_calls_that_fail(stage: Stage) -> None:
    """By their status, and inside a stream; what a form asked is told all the same."""
    async with async_client(stage.proxied_url) as client:
        with pytest.raises(openai.RateLimitError):
            await client.audio.transcriptions.create(model=ERROR_MODEL, file=SOUND)
        with pytest.raises(openai.BadRequestError):
            await client.images.generate(model=MODEL, prompt="")
        stream = await client.images.generate(model=FAILING_MODEL, prompt="a cat", stream=True)
        with pytest.raises(openai.APIError):
            async for _ in stream:
                pass
    failed = await stage.sink.wait_for(3)
    refused, invalid, _ = stage.sink.exchanges
    assert (refused.outcome, refused.error_type) == (Outcome.UPSTREAM_ERROR, "429")
    assert decode_json(refused.request_body or b"")["file"] == describe(SOUND)
    assert (invalid.outcome, invalid.error_type) == (Outcome.UPSTREAM_ERROR, "400")
    assert (failed.outcome, failed.error_type) == (Outcome.STREAM_ERROR, "server_error")


async def test_what_comes_is_what_comes_directly(stage: Stage) -> None:
    """Both ways, a form and a stream."""

    def call(client: OpenAI) -> list[Any]:
        edited = client.images.edit(model=MODEL, prompt="a hat", image=PICTURE)
        heard = client.audio.transcriptions.create(model=MODEL, file=SOUND, stream=True)
        spoken = client.audio.speech.create(model=MODEL, voice="alloy", input="Hi")
        events = [event.model_dump() for event in heard]
        return [edited.model_dump(exclude={"created"}), events, spoken.content]

    direct, proxied = await call_both(stage, call)
    assert direct == proxied
