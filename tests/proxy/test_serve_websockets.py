"""WebSockets through ``spantap serve``: the real SDK, and processes that are killed meanwhile."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
from openai import AsyncOpenAI
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from codec.text.jsontext import decode_json_object, encode_json
from telemetry.errors import StoreError
from telemetry.reading.stored_calls import open_calls
from tests.e2e.processes import get, wait_until
from tests.e2e.spantap import running_upstream
from tests.proxy.page.live_events import watching
from tests.proxy.page.pages import open_page
from tests.proxy.running_runs import Runs
from tests.proxy.test_run_command import serve, wait_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from websockets.asyncio.client import ClientConnection

    from tests.proxy.page.pages import Page

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(name="upstream", scope="module")
def _upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of the demo upstream."""
    with running_upstream(tmp_path_factory.mktemp("upstream")) as port:
        yield port


@pytest.fixture(name="runs")
def _runs(upstream: int, tmp_path: Path) -> Iterator[Runs]:
    """A proxy that relays WebSockets to it."""
    variables = {
        "SPANTAP_UPSTREAM": f"http://127.0.0.1:{upstream}",
        "SPANTAP_WEBSOCKETS": "relay",
        "SPANTAP_DRAIN_SECONDS": "1",
    }
    runs = Runs(folder=tmp_path, variables=variables)
    with serve(runs) as server:
        wait_for(server, runs)
        yield runs
        server.end()
    runs.see_none_left()


def host(runs: Runs) -> str:
    return f"127.0.0.1:{runs.variables['SPANTAP_PORT']}"


@contextlib.asynccontextmanager
async def connected(
    runs: Runs, compression: str | None = "deflate"
) -> AsyncIterator[ClientConnection]:
    """A client of the package ``websockets``, which usually compresses."""
    url, headers = f"ws://{host(runs)}/v1/responses", {"Authorization": "Bearer sk-none"}
    async with connect(url, additional_headers=headers, compression=compression) as client:
        yield client


def _bytes(message: str | bytes) -> bytes:
    return message.encode() if isinstance(message, str) else message


async def receive(client: ClientConnection) -> dict[str, Any]:
    """The next event."""
    return decode_json_object(_bytes(await client.recv()))


async def ask(client: ClientConnection, text: str, **members: Any) -> dict[str, Any]:
    """A response to its last event."""
    create = {"type": "response.create", "model": "gpt-demo", "input": text, **members}
    await client.send(encode_json(create))
    async with asyncio.timeout(30):
        while True:
            event = await receive(client)
            if event["type"] in {"response.completed", "error"}:
                return event


def outcomes(runs: Runs) -> list[tuple[str, str]]:
    """The outcome of each recorded call, and what it asked, oldest first."""
    with contextlib.suppress(StoreError), open_calls(runs.store) as reader:
        summaries = [stored.summary for stored in reader.newest(1000)]
        return [(str(it.outcome), it.columns.preview or "") for it in summaries]
    return []


def read_gauge(runs: Runs, name: str) -> float:
    """A gauge, as an operator reads it."""
    url = f"http://127.0.0.1:{runs.variables['SPANTAP_ADMIN_PORT']}/metrics"
    lines = get(url).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


async def wait_for_calls(runs: Runs, count: int) -> list[tuple[str, str]]:
    """All recorded calls, once there are so many."""
    await asyncio.to_thread(
        wait_until, lambda: len(outcomes(runs)) >= count, 20, f"{count} calls: {outcomes(runs)}"
    )
    return outcomes(runs)


async def test_the_sdk_s_responses_are_recorded_while_it_is_connected(runs: Runs) -> None:
    """Each is a call of one conversation."""
    client = AsyncOpenAI(api_key="sk-none", base_url=f"http://{host(runs)}/v1")
    async with client.responses.connect() as connection:
        parent: dict[str, str] = {}
        for text in ("Hello there", "and again"):
            await connection.response.create(model="gpt-demo", input=text, **parent)  # type: ignore[arg-type]
            async for event in connection:
                if event.type == "response.completed":
                    assert event.response.output_text
                    parent = {"previous_response_id": event.response.id}
                    break
        calls = await wait_for_calls(runs, 2)
    assert calls == [("completed", "Hello there"), ("completed", "and again")]
    with open_calls(runs.store) as reader:
        conversations = {stored.summary.columns.conversation for stored in reader.newest(10)}
    assert len(conversations) == 1


async def test_an_open_connection_is_seen_while_nothing_passes(runs: Runs) -> None:
    """The page hears how many there are, and the list on a terminal says it."""
    async with open_page(runs.store) as page, watching(page) as events:
        assert await read_count(page) == 0
        async with connected(runs), connected(runs):
            await events.until("websockets", lambda told: told["count"] == 2)
            assert await read_count(page) == 2
            _, _, err = await asyncio.to_thread(runs.run, "traces")
            assert "2 WebSockets are open." in err
        await events.until("websockets", lambda told: told["count"] == 0)


async def read_count(page: Page) -> int | None:
    """How many WebSockets the page's status has, once telemetry sends it news."""
    async with asyncio.timeout(30):
        while True:
            async with page.session.get(f"{page.url}/api/status") as response:
                status = decode_json_object(await response.read())
            if status["live"]:
                count: int | None = status["websockets"]
                return count
            await asyncio.sleep(0.05)


async def test_keys_are_recorded_nowhere(runs: Runs) -> None:
    """Neither those of the handshake nor those that a request has for a tool of others."""
    keys = [f"canary-{number}-0123456789abcdef" for number in range(6)]
    tool = {"type": "mcp", "server_label": "s", "server_url": "https://mcp.example"}
    secrets = {"authorization": keys[0], "headers": {"X-Own": keys[1]}}
    async with connect(
        f"ws://{host(runs)}/v1/responses?key={keys[2]}&access_token={keys[3]}",
        additional_headers={"Authorization": f"Bearer {keys[4]}"},
        subprotocols=[Subprotocol("realtime"), Subprotocol(f"openai-insecure-api-key.{keys[5]}")],
    ) as client:
        said = f"Is it one of {' '.join(keys)}?"  # whoever says a key elsewhere does not show it
        first = await ask(client, said, tools=[tool | secrets])
        parent = first["response"]["id"]
        await ask(client, "and again", previous_response_id=parent, tools=[tool | secrets])
        await wait_for_calls(runs, 2)
    _, listed, _ = await asyncio.to_thread(runs.run, "traces", "--json", "--full")
    assert listed.count("Is it one of ") >= 2  # the second call has the whole conversation
    assert "mcp.example" in listed
    files = b"".join(path.read_bytes() for path in runs.folder.rglob("*") if path.is_file())
    seen = listed.encode() + files
    assert [key for key in keys if key.encode() in seen] == []


async def test_lanes_and_errors_have_their_own_calls(runs: Runs) -> None:
    """Of one connection at the same time."""
    async with connected(runs) as client:
        for lane in ("a", "b"):
            create = {"type": "response.create", "model": "gpt-demo", "stream_id": lane}
            await client.send(encode_json(create | {"input": f"lane {lane}"}))
        assert (await ask(client, "x", model=1))["type"] == "error"
        ended = 0
        async with asyncio.timeout(30):
            while ended < 2:
                ended += (await receive(client))["type"] == "response.completed"
        calls = await wait_for_calls(runs, 3)
    assert sorted(calls)[:2] == [("completed", "lane a"), ("completed", "lane b")]
    assert calls[0][0] == "upstream_error"


async def test_a_request_with_a_picture_is_recorded_whole(runs: Runs) -> None:
    """Of five megabytes; compressed, as the client wants it."""
    url = "data:image/png;base64," + base64.b64encode(os.urandom(5_000_000)).decode()
    picture = {"type": "input_image", "image_url": url}
    content = [{"type": "input_text", "text": "What is it?"}, picture]
    async with connected(runs) as client:
        await ask(client, "", input=[{"role": "user", "content": content}])
        assert await wait_for_calls(runs, 1) == [("completed", "What is it?")]
    with open_calls(runs.store) as reader:
        [call] = reader.newest(10)
        assert call.summary.columns.anomalies is None


async def test_a_telemetry_that_is_killed_loses_no_response_and_doubles_none(runs: Runs) -> None:
    """In the middle of compressed traffic, with a response under way."""
    async with connected(runs) as client:
        await ask(client, "first")
        await wait_for_calls(runs, 1)
        asking = asyncio.ensure_future(ask(client, "second"))
        await asyncio.sleep(0.2)
        [pid] = runs.pids("proxy.processes.telemetry")
        os.kill(pid, signal.SIGKILL)
        await asking
        await ask(client, "third")
        calls = await wait_for_calls(runs, 3)
        await asyncio.sleep(0.5)
    assert outcomes(runs) == calls
    assert sorted(calls) == [("completed", text) for text in ("first", "second", "third")]


async def test_a_conversation_continues_over_http_and_on_other_connections(runs: Runs) -> None:
    """By all that was said, and by the id of the last answer."""
    said: list[Any] = []

    def add(text: str, response: Any) -> None:
        said.extend([{"role": "user", "content": text}, *response["output"]])

    async with connected(runs) as client:
        first = (await ask(client, "first"))["response"]
        add("first", first)
        second = (await ask(client, "second", previous_response_id=first["id"]))["response"]
        add("second", second)
        await wait_for_calls(runs, 2)
    async with AsyncOpenAI(api_key="sk-none", base_url=f"http://{host(runs)}/v1") as http:
        whole = [*said, {"role": "user", "content": "third"}]
        third = await http.responses.create(model="gpt-demo", input=whole)
        add("third", third.model_dump(mode="json", exclude_none=True))
        await wait_for_calls(runs, 3)
    async with connected(runs) as client:
        create = {"type": "response.create", "model": "gpt-demo"}
        whole = [*said, {"role": "user", "content": "fourth"}]
        await client.send(encode_json({**create, "input": whole}))
        while (event := await receive(client))["type"] != "response.completed":
            pass
        await wait_for_calls(runs, 4)
    async with AsyncOpenAI(api_key="sk-none", base_url=f"http://{host(runs)}/v1") as http:
        await http.responses.create(
            model="gpt-demo", input="fifth", previous_response_id=event["response"]["id"]
        )
    await wait_for_calls(runs, 5)
    with open_calls(runs.store) as reader:
        conversations = [stored.summary.columns.conversation for stored in reader.newest(20)]
    assert conversations == [conversations[0]] * 5


@pytest.mark.parametrize("compression", ["deflate", None])
async def test_a_connection_that_lasts_keeps_what_is_not_acknowledged(
    runs: Runs, compression: str | None
) -> None:
    """A telemetry that is killed then knows the conversation, of which it had no frame again."""
    parent: dict[str, Any] = {}
    instructions = "Be terse. " * 6_000
    async with connected(runs, compression) as client:
        for number in range(12):
            event = await ask(client, f"number {number}", instructions=instructions, **parent)
            parent = {"previous_response_id": event["response"]["id"]}
        calls = await wait_for_calls(runs, 12)
        await asyncio.sleep(1.5)  # what was not due with the last commit is acknowledged later
        kept_bytes = await asyncio.to_thread(read_gauge, runs, "spantap_tap_queue_bytes")
        assert 0 < kept_bytes < 400_000
        [pid] = runs.pids("proxy.processes.telemetry")
        os.kill(pid, signal.SIGKILL)
        await ask(client, "the last one", **parent)
        assert await wait_for_calls(runs, 13) == [*calls, ("completed", "the last one")]
        await asyncio.sleep(0.5)
        assert len(outcomes(runs)) == 13
    with open_calls(runs.store) as reader:
        stored = [*reader.newest(20)]
    assert len({each.summary.columns.conversation for each in stored}) == 1
    assert len({each.summary.span_id for each in stored}) == 13


async def test_a_worker_that_is_killed_leaves_its_open_response_as_lost(runs: Runs) -> None:
    """What it had answered before stays."""
    async with connected(runs) as client:
        await ask(client, "first")
        with contextlib.suppress(Exception):
            asking = asyncio.ensure_future(ask(client, "second"))
            await asyncio.sleep(0.25)
            [pid] = runs.pids("proxy.processes.worker")
            os.kill(pid, signal.SIGKILL)
            await asking
    calls = await wait_for_calls(runs, 2)
    assert calls == [("completed", "first"), ("worker_lost", "second")]


async def test_two_signals_in_a_row_lose_no_response(runs: Runs) -> None:
    """The one that is open is recorded as cut, although nothing waits for its end."""
    client = await connect(f"ws://{host(runs)}/v1/responses")
    await ask(client, "first")
    create = {"type": "response.create", "model": "gpt-demo", "input": "long [words=2000]"}
    await client.send(encode_json(create))
    await client.recv()
    [pid] = runs.pids("proxy.processes.supervisor")
    for _ in range(2):
        os.kill(pid, signal.SIGTERM)
        await asyncio.sleep(0.1)
    with contextlib.suppress(Exception):
        while True:
            await client.recv()
    await asyncio.to_thread(runs.see_none_left)
    assert outcomes(runs) == [("completed", "first"), ("drain_deadline", "long [words=2000]")]
    assert "Traceback" not in (runs.folder / "serve.log").read_text()


async def test_a_shutdown_ends_the_open_response_and_says_so(runs: Runs) -> None:
    """With a close 1001 for the client."""
    client = await connect(f"ws://{host(runs)}/v1/responses")
    await ask(client, "first")
    create = {"type": "response.create", "model": "gpt-demo", "input": "long [words=2000]"}
    await client.send(encode_json(create))
    await client.recv()
    [pid] = runs.pids("proxy.processes.supervisor")
    os.kill(pid, signal.SIGTERM)
    with contextlib.suppress(Exception):
        while True:
            await client.recv()
    assert client.close_code in {1001, 1006}
    await asyncio.to_thread(runs.see_none_left)
    assert outcomes(runs)[0] == ("completed", "first")
