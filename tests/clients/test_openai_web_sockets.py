"""The ``openai`` SDK over WebSockets hears through ``spantap serve`` what it hears directly."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest
from openai import AsyncOpenAI
from openai.lib.responses_websocket import (
    AsyncResponsesWebSocketSession,
    ResponsesWebSocketAccumulator,
    ResponsesWebSocketLimits,
)

from proxy.demo.script import FAILING_MODEL, REASONING_MODEL
from tests.clients.web_sockets import (
    HELLO,
    TOOL,
    Stage,
    check_spans,
    check_spoken,
    even_out,
    read_roles,
    serving,
)
from tests.docs.blocks import DOCS, Page
from tests.docs.reader import read_spans, run
from tests.e2e.processes import clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from openai.lib.responses_websocket import AsyncResponsesWebSocketLane

pytestmark = pytest.mark.timeout(120)

LIMITS = ResponsesWebSocketLimits(
    max_lanes=4,
    max_events_per_lane=1_000,
    max_events=4_000,
    max_bytes_per_lane=1 << 22,
    max_bytes=1 << 24,
)
ENDS = {"response.completed", "response.failed", "response.incomplete"}


@pytest.fixture(name="stage")
def _stage(tmp_path: Path) -> Iterator[Stage]:
    with serving(tmp_path) as stage:
        yield stage


def open_client(base_url: str) -> AsyncOpenAI:
    return AsyncOpenAI(api_key="k", base_url=base_url, max_retries=0)


class Talk:
    """A session of Responses: the events of each response, and the response at its end."""

    def __init__(self) -> None:
        self.events: list[list[dict[str, Any]]] = []
        self.responses: list[dict[str, Any]] = []

    async def hear(self, lane: AsyncResponsesWebSocketLane, **create: Any) -> dict[str, Any]:
        """Ask for a response, and hear it to its end, which has what the SDK has put together."""
        asked: Any = {"type": "response.create", **create}
        await lane.send(asked)
        accumulator = ResponsesWebSocketAccumulator()
        events: list[Any] = []
        self.events.append(events)
        while True:
            event = await lane.recv()
            events.append(event.to_dict())
            if event.type in ENDS:
                break
            accumulator.add_event(event)
        response: dict[str, Any] = events[-1]["response"]
        made = [
            (row.item_id, row.arguments, "".join(text for _, text in row.text))
            for row in accumulator.snapshot().output
        ]
        assert made == [
            (item["id"], item.get("arguments", ""), "".join(map(_text_of, item.get("content", ()))))
            for item in response["output"]
        ]
        self.responses.append(response)
        return response


def _text_of(part: dict[str, Any]) -> str:
    return str(part.get("text", ""))


async def respond(base_url: str) -> Talk:
    """Text, tools and their results, reasoning, warming up, a failure, and two lanes at once."""
    talk, lanes = Talk(), Talk()
    async with (
        open_client(base_url) as client,
        client.responses.connect() as connection,
        AsyncResponsesWebSocketSession(connection, limits=LIMITS) as session,
    ):
        lane = session.default
        await talk.hear(lane, **HELLO)
        called = await talk.hear(lane, **HELLO | {"tools": [TOOL]})
        results = [
            {"type": "function_call_output", "call_id": call["call_id"], "output": "sun"}
            for call in called["output"]
        ]
        parent = {"previous_response_id": called["id"]}
        await talk.hear(lane, **HELLO | {"tools": [TOOL], "input": results} | parent)
        await talk.hear(lane, **HELLO | {"model": REASONING_MODEL})
        await talk.hear(lane, **HELLO | {"max_output_tokens": 3})
        await talk.hear(lane, **HELLO, generate=False)
        await talk.hear(lane, **HELLO | {"model": FAILING_MODEL})
        named = [session.lane(name) for name in ("a", "b")]
        await asyncio.gather(*(lanes.hear(one, **HELLO) for one in named))
    talk.events += lanes.events
    talk.responses += lanes.responses
    return talk


async def test_responses_are_heard_as_directly_and_are_spans(stage: Stage) -> None:
    """Event by event; the spans say what the SDK has put together."""
    direct, proxied = await respond(stage.direct_url), await respond(stage.proxied_url)
    assert even_out(proxied.events) == even_out(direct.events)
    spans = await asyncio.to_thread(check_spans, stage.store, proxied.responses)
    asked = ["system", "user"]
    told = [*asked, *["assistant"] * 2, *["tool"] * 2]
    assert [read_roles(span) for span in spans] == [asked, asked, told, *[asked] * 6]


async def test_the_page_on_websockets_has_a_program_that_works(
    stage: Stage, tmp_path: Path
) -> None:
    """It prints what the model says, and its response is a span."""
    [program] = [
        block.text for block in Page(DOCS / "websockets.md").blocks if "import OpenAI" in block.text
    ]
    program = program.replace("http://localhost:4000/v1", stage.proxied_url)
    (tmp_path / "client.py").write_text(program, encoding="utf-8")
    environment = clean_environment() | {"OPENAI_API_KEY": "k"}
    printed = await run(f"exec '{sys.executable}' client.py", tmp_path, environment)
    [span] = await asyncio.to_thread(read_spans, stage.store, 1)
    key = "llm.output_messages.0.message.contents.0.message_content.audio.audio.transcript"
    assert span[key] == printed.strip()


async def converse(base_url: str) -> list[list[dict[str, Any]]]:
    """Text, a tool and its result, what the user says, a response outside, and errors."""
    events: list[list[dict[str, Any]]] = []
    async with (
        open_client(base_url) as client,
        client.realtime.connect(model="gpt-demo") as connection,
    ):

        async def hear(kind: str) -> dict[str, Any]:
            heard: list[dict[str, Any]] = []
            events.append(heard)
            while not heard or heard[-1]["type"] != kind:
                heard.append((await connection.recv()).to_dict())
            return heard[-1]

        async def say(**item: Any) -> None:
            await connection.conversation.item.create(item=item)  # type: ignore[arg-type]
            await hear("conversation.item.done")

        async def answer(**asked: Any) -> Any:
            await connection.response.create(response=asked)  # type: ignore[arg-type]
            await hear("rate_limits.updated")  # comes behind the response
            return events[-1][-2]["response"]

        await hear("session.created")
        settings: Any = {
            "type": "realtime",
            "instructions": "Be brief.",
            "tools": [{name: it for name, it in TOOL.items() if name != "strict"}],
            "audio": {"input": {"transcription": {"model": "gpt-demo-transcribe"}}},
        }
        await connection.session.update(session=settings)
        await hear("session.updated")
        await say(
            type="message", role="user", content=[{"type": "input_text", "text": "How is it?"}]
        )
        for call in (await answer(output_modalities=["text"]))["output"]:
            await say(type="function_call_output", call_id=call["call_id"], output="sun")
        await answer()
        await connection.input_audio_buffer.append(audio="AAAA" * 16_000)
        await connection.input_audio_buffer.commit()
        await hear("conversation.item.input_audio_transcription.completed")
        await answer(tools=[], metadata={"topic": "greeting"})
        await answer(tools=[], input=[], conversation="none", output_modalities=["text"])
        await connection.response.cancel()
        await hear("error")
        await connection.conversation.item.retrieve(item_id="item_none")
        await hear("error")
    return events


async def test_realtime_is_heard_as_directly_and_is_spans(stage: Stage) -> None:
    """Event by event, with sound; the spans say what each response has at its end."""
    direct, proxied = await converse(stage.direct_url), await converse(stage.proxied_url)
    assert even_out(proxied) == even_out(direct)
    assert any(event["type"] == "response.output_audio.delta" for event in proxied[-4])
    heard = [event for events in proxied for event in events]
    await asyncio.to_thread(check_spoken, stage.store, heard)
