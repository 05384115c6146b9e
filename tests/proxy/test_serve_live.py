"""Gemini Live through ``spantap serve``: Google's SDK, over TLS, and a stub of Google."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import ssl
import sys
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from google import genai
from google.genai import errors, types
from websockets.asyncio.client import connect as connect_websocket
from websockets.asyncio.server import serve as serve_websockets
from websockets.exceptions import ConnectionClosed

from codec.text.jsontext import decode_json_object, encode_json
from telemetry.observing.source import UNACKNOWLEDGED_BYTES
from telemetry.reading.stored_calls import open_calls
from telemetry.spans.otlp.decoding import decode_spans
from tests.proxy.outside import outside
from tests.proxy.running_runs import Runs
from tests.proxy.test_run_command import serve, wait_for
from tests.proxy.test_serve_websockets import outcomes, wait_for_calls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from websockets.asyncio.server import ServerConnection

    from telemetry.spans.otlp.decoding import DecodedSpan

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
]

KEY = "AIzaSyC4n4ryC4n4ryC4n4ryC4n4ryC4n4ryC4n4"
HANDLE = "handle-c4n4ry-of-a-session"
SOUND = b"\1\0" * 2_400
MODEL = "gemini-live-demo"
UNKNOWN = "gemini-of-nobody"
USAGE = {
    "promptTokenCount": 20,
    "responseTokenCount": 9,
    "totalTokenCount": 29,
    "promptTokensDetails": [
        {"modality": "TEXT", "tokenCount": 12},
        {"modality": "AUDIO", "tokenCount": 8},
    ],
    "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 9}],
}
PATH = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
TOOL = types.Tool(function_declarations=[types.FunctionDeclaration(name="get_weather")])
BLOB = types.Blob(data=SOUND, mime_type="audio/pcm;rate=16000")


class Google:
    """Says what Google's API says, in binary messages of several lines.

    Attributes:
        targets: of the handshakes.
    """

    def __init__(self) -> None:
        self.targets: list[str] = []

    async def talk(self, connection: ServerConnection) -> None:
        """Answer a session."""
        assert connection.request is not None
        self.targets.append(connection.request.path)
        with contextlib.suppress(ConnectionClosed):
            async for text in connection:
                await self._answer(connection, decode_json_object(_bytes(text)))

    async def _answer(self, connection: ServerConnection, message: dict[str, Any]) -> None:
        send = connection.send
        if message.get("setup", {}).get("model") == f"models/{UNKNOWN}":
            await connection.close(1008, f"models/{UNKNOWN} is not found; your key is {KEY}")
        elif "setup" in message:
            await send(_lines(setupComplete={}))
            await send(_lines(sessionResumptionUpdate={"newHandle": HANDLE, "resumable": True}))
        elif "client_content" in message:
            call = {"id": "c-1", "name": "get_weather", "args": {"city": "Lisbon"}}
            await send(_lines(toolCall={"functionCalls": [call]}))
        elif "tool_response" in message:
            await self._say(connection, "It is sunny in Lisbon.")
        elif message.get("realtime_input", {}).get("audioStreamEnd"):
            await send(_lines(serverContent={"inputTranscription": {"text": " Tell me a story"}}))
            await send(_lines(serverContent={"outputTranscription": {"text": "Once upon"}}))
            await send(_lines(serverContent={"interrupted": True}))
            await send(_lines(serverContent={"turnComplete": True}, usageMetadata=USAGE))

    async def _say(self, connection: ServerConnection, text: str) -> None:
        sound = {"mimeType": "audio/pcm;rate=24000", "data": encode_base64(SOUND)}
        for said in (
            {"outputTranscription": {"text": text}},
            {"modelTurn": {"parts": [{"inlineData": sound}]}},
            {"generationComplete": True},
        ):
            await connection.send(_lines(serverContent=said))
        await connection.send(_lines(serverContent={"turnComplete": True}, usageMetadata=USAGE))


def _bytes(message: str | bytes) -> bytes:
    return message.encode() if isinstance(message, str) else message


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _lines(**message: Any) -> bytes:
    return json.dumps(message, indent=2).encode()


@contextlib.asynccontextmanager
async def running(folder: Path, **variables: str) -> AsyncIterator[tuple[Google, Runs]]:
    """Serve with a certificate, in front of the stub."""
    authority, google = trustme.CA(), Google()
    certificate = authority.issue_cert("localhost")
    certificate.private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    async with serve_websockets(google.talk, "127.0.0.1", 0) as upstream:
        port = upstream.sockets[0].getsockname()[1]
        runs = Runs(
            folder=folder,
            variables={
                "SPANTAP_UPSTREAM": f"http://127.0.0.1:{port}",
                "SPANTAP_WEBSOCKETS": "relay",
                "SPANTAP_TLS_CERT": str(folder / "both.pem"),
                "SPANTAP_TLS_KEY": str(folder / "both.pem"),
                **variables,
            },
        )
        with serve(runs) as server:
            await asyncio.to_thread(wait_for, server, runs)
            yield google, runs
            await asyncio.to_thread(server.end)


def trust(runs: Runs) -> ssl.SSLContext:
    """Trust the certificate of :func:`running`."""
    return ssl.create_default_context(cafile=str(runs.folder / "ca.pem"))


def connect(runs: Runs, model: str = MODEL, **config: Any) -> Any:
    """Open a session with Google's SDK."""
    options = types.HttpOptions(
        base_url=f"http://localhost:{runs.variables['SPANTAP_PORT']}",
        async_client_args={"ssl": trust(runs)},
    )
    client = genai.Client(api_key=KEY, http_options=options)
    return client.aio.live.connect(
        model=model,
        config=types.LiveConnectConfig(
            response_modalities=[types.Modality.AUDIO],
            input_audio_transcription=types.AudioTranscriptionConfig(),
            output_audio_transcription=types.AudioTranscriptionConfig(),
            **config,
        ),
    )


async def hold_session(session: Any) -> None:
    """Ask in writing, give the result of a tool, and then speak."""
    turn = types.Content(role="user", parts=[types.Part(text="Is it sunny in Lisbon?")])
    await session.send_client_content(turns=turn, turn_complete=True)
    message = await anext(message async for message in session.receive() if message.tool_call)
    [call] = message.tool_call.function_calls
    result = types.FunctionResponse(id=call.id, name=call.name, response={"output": "sunny"})
    await session.send_tool_response(function_responses=[result])
    async for message in session.receive():
        assert message.tool_call is None
    await session.send_realtime_input(audio=BLOB)
    await session.send_realtime_input(audio_stream_end=True)
    async for message in session.receive():
        assert message.tool_call is None


def decode(runs: Runs) -> list[DecodedSpan]:
    """The span of each call, oldest first."""
    with open_calls(runs.store) as reader:
        return [span for one in reader.newest(100) for span in decode_spans(one.span)]


def read_spans(runs: Runs) -> list[dict[str, Any]]:
    """The attributes of each of them."""
    return [dict(span.attributes) for span in decode(runs)]


def assert_unseen(runs: Runs, *secrets: str) -> None:
    """None of them is in a file of the store, the spool or the log."""
    files = [path for path in runs.folder.rglob("*") if path.is_file() and path.suffix != ".pem"]
    assert {runs.store, runs.folder / "serve.log"} <= {*files}
    for path in files:
        with contextlib.suppress(FileNotFoundError):  # a segment of the spool that was just read
            data = path.read_bytes()
            assert [word for word in secrets if word.encode() in data] == [], path.name


async def test_each_turn_of_the_sdk_s_session_is_recorded_while_it_is_connected(
    tmp_path: Path,
) -> None:
    """A call of a tool, a spoken answer, and one that the user interrupts: one conversation."""
    async with running(tmp_path) as (google, runs):
        resumption = types.SessionResumptionConfig(handle=HANDLE)
        async with connect(runs, session_resumption=resumption, tools=[TOOL]) as session:
            await hold_session(session)
            calls = await wait_for_calls(runs, 3)
        assert len(google.targets) == 1
        spans = read_spans(runs)
    assert [outcome for outcome, _ in calls] == ["completed", "completed", "cancelled"]
    assert [span["llm.finish_reason"] for span in spans] == [
        *("toolCall", "turnComplete", "interrupted"),
    ]
    assert len({span["session.id"] for span in spans}) == 1
    called, told, cut = spans
    tool = "llm.output_messages.0.message.tool_calls.0.tool_call.function.name"
    assert (called[tool], called["llm.tools.0.tool.name"]) == ("get_weather", "get_weather")
    assert told["llm.input_messages.2.message.content"] == '{"output":"sunny"}'
    assert told["output.value"] == "It is sunny in Lisbon."
    assert decode_json_object(told["metadata"].encode())["output_bytes"] == len(SOUND)
    names = ("prompt", "completion", "total", "prompt_details.audio", "completion_details.audio")
    assert [told[f"llm.token_count.{name}"] for name in names] == [20, 9, 29, 8, 9]
    assert (cut["input.value"], cut["output.value"]) == ("Tell me a story", "Once upon")
    body = decode_json_object(cut["spantap.request.body"].encode())
    assert body["input_audio"] == {"bytes": len(SOUND), "seconds": 0.15}
    assert body["contents"][-1]["parts"][0]["text"] == " Tell me a story"
    for span in spans:  # what was said before the connection is not known
        assert decode_json_object(span["metadata"].encode())["anomalies"] == ["input_partial"]
    assert_unseen(runs, KEY, HANDLE, encode_base64(SOUND))


async def test_sound_is_kept_if_the_operator_asks_for_it(tmp_path: Path) -> None:
    """Beside the words of the turn that it is about."""
    async with running(tmp_path, SPANTAP_WEBSOCKET_AUDIO="true") as (_, runs):
        async with connect(runs, tools=[TOOL]) as session:
            await hold_session(session)
            await wait_for_calls(runs, 3)
        _, told, cut = read_spans(runs)
    sound = "message.contents.0.message_content.audio.audio"
    data = encode_base64(SOUND)
    assert told[f"llm.output_messages.0.{sound}.url"] == f"data:audio/pcm;rate=24000;base64,{data}"
    assert told[f"llm.output_messages.0.{sound}.transcript"] == "It is sunny in Lisbon."
    [(place, url)] = [(name, cut[name]) for name in cut if name.endswith(f"{sound}.url")]
    assert url == f"data:audio/pcm;rate=16000;base64,{data}"
    assert cut[place.replace("url", "transcript")].strip() == "Tell me a story"


@pytest.mark.parametrize("name", ["key", "access_token"])
async def test_a_key_of_the_query_is_relayed_and_recorded_nowhere(
    tmp_path: Path, name: str
) -> None:
    """As SDKs for browsers send it, which can set no header."""
    async with running(tmp_path) as (google, runs):
        target = f"{PATH}?{name}={KEY}"
        url = f"wss://localhost:{runs.variables['SPANTAP_PORT']}{target}"
        async with connect_websocket(url, ssl=trust(runs)) as client:
            await client.send(encode_json({"setup": {"model": f"models/{MODEL}"}}))
            turns = [{"role": "user", "parts": [{"text": "Ahoy?"}]}]
            await client.send(
                encode_json({"client_content": {"turns": turns, "turnComplete": True}})
            )
            calls = await wait_for_calls(runs, 1)
    assert google.targets == [target]
    assert calls == [("completed", "Ahoy?")]
    assert_unseen(runs, KEY)


async def test_a_telemetry_that_is_killed_loses_no_turn_and_none_of_the_conversation(
    tmp_path: Path,
) -> None:
    """It continues from the state that the worker keeps instead of what has passed."""
    async with running(tmp_path) as (_, runs), connect(runs, tools=[TOOL]) as session:
        await hold_session(session)
        before = await wait_for_calls(runs, 3)
        silence = types.Blob(data=bytes(UNACKNOWLEDGED_BYTES), mime_type="audio/pcm;rate=16000")
        await session.send_realtime_input(audio=silence)
        await asyncio.sleep(1)
        [pid] = runs.pids("proxy.processes.telemetry")
        os.kill(pid, signal.SIGKILL)
        await hold_session(session)
        calls = await wait_for_calls(runs, 6)
        await asyncio.sleep(0.5)
        assert outcomes(runs) == calls
        spans = read_spans(runs)
    assert [outcome for outcome, _ in calls] == [outcome for outcome, _ in before] * 2
    assert len({span["session.id"] for span in spans}) == 1
    bodies = [decode_json_object(span["spantap.request.body"].encode()) for span in spans]
    assert [len(body["contents"]) for body in bodies] == [1, 3, 5, 7, 9, 11]
    assert bodies[3]["input_audio"]["bytes"] == UNACKNOWLEDGED_BYTES


SCRIPT = f"""
import asyncio
from google import genai

async def main():
    client = genai.Client(api_key="{KEY}")
    config = {{"response_modalities": ["AUDIO"]}}
    async with client.aio.live.connect(model="{MODEL}", config=config) as session:
        turn = {{"role": "user", "parts": [{{"text": "Is it sunny in Lisbon?"}}]}}
        await session.send_client_content(turns=turn)
        async for message in session.receive():
            if message.tool_call:
                print(message.tool_call.function_calls[0].name)
                return

asyncio.run(main())
"""


async def test_a_session_that_knows_nothing_of_spantap_is_recorded_by_interception(
    tmp_path: Path,
) -> None:
    """The SDK takes the proxy and its certificate from the environment."""
    google = Google()
    async with serve_websockets(google.talk, "127.0.0.1", 0) as upstream:
        port = upstream.sockets[0].getsockname()[1]
        with outside(port, tmp_path) as (it, variables):
            runs = Runs(folder=tmp_path, variables=variables)
            words = ("run", "--intercept", "--", sys.executable, "-c", SCRIPT)
            status, out, err = await asyncio.to_thread(runs.run, *words)
            assert (status, out) == (0, "get_weather\n"), err
    assert it.hosts == ["generativelanguage.googleapis.com"]
    assert len(google.targets) == 1
    [span] = read_spans(runs)
    assert (span["llm.finish_reason"], span["gen_ai.provider.name"]) == ("toolCall", "gcp.gemini")


async def test_a_session_that_is_refused_is_an_error_in_the_words_of_google(tmp_path: Path) -> None:
    """The SDK raises them; a key that they quote is masked."""
    async with running(tmp_path) as (_, runs):
        with pytest.raises(errors.APIError, match="is not found"):
            async with connect(runs, UNKNOWN):
                pass
        calls = await wait_for_calls(runs, 1)
        [span] = decode(runs)
    assert [outcome for outcome, _ in calls] == ["upstream_error"]
    assert f"models/{UNKNOWN} is not found; your key is" in span.status_message
    assert_unseen(runs, KEY)


async def test_hidden_content_is_in_no_span_of_a_session(tmp_path: Path) -> None:
    """Neither what is asked, nor what is said."""
    async with running(tmp_path, SPANTAP_CONTENT="false") as (_, runs):
        async with connect(runs, tools=[TOOL]) as session:
            await hold_session(session)
            await wait_for_calls(runs, 3)
        counts = [span.get("llm.token_count.prompt") for span in read_spans(runs)]
    assert counts == [None, 20, 20]
    assert_unseen(runs, "Lisbon", "Tell me a story", "Once upon", "get_weather")
