"""Forms: relayed as they are, their fields recorded, their files nowhere but at the upstream."""

from __future__ import annotations

import asyncio
import gzip
import logging
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json
from codec.text.multipart import FormReader
from telemetry.frames.frame import RequestBody
from telemetry.observing.exchange import Outcome
from tests.proxy.harness import Connection, frames_of, relaying, request_bytes
from tests.proxy.raw_client import ask, parse_answer, read_answer, until

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange
    from tests.proxy.harness import RunningProxy

TARGET = b"/v1/audio/transcriptions"
TYPE = b"multipart/form-data; boundary=form-1"
SECRET = b"\x00canary-of-the-file\xff\r\n--form-"
ANSWER = b'{"text": "Hello."}'


def form(size: int = 300, *, last: bool = True) -> bytes:
    """A form of a model and a file, in this order or in the other."""
    model = b'--form-1\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n'
    file = (
        b'--form-1\r\nContent-Disposition: form-data; name="file"; filename="a.mp3"\r\n'
        b"Content-Type: audio/mpeg\r\n\r\n%b\r\n" % (SECRET * size)
    )
    return (file + model if last else model + file) + b"--form-1--\r\n"


def told(size: int = 300) -> dict[str, Any]:
    """What is recorded of it."""
    file = {"filename": "a.mp3", "content_type": "audio/mpeg", "bytes": len(SECRET) * size}
    return {"model": "whisper-1", "file": file}


def asking(body: bytes, content_type: bytes = TYPE, head: bytes = b"") -> bytes:
    return request_bytes(body, target=TARGET, content_type=content_type, head=head)


def read_input(exchange: Exchange) -> Any:
    assert exchange.request_body is not None
    return decode_json(exchange.request_body)


def holds_file(running: RunningProxy) -> bool:
    """Whether anything of the file is in a frame."""
    return any(b"canary" in (f.data or b"") for f in frames_of(running, RequestBody))


async def answer(connection: Connection) -> None:
    await connection.answer(ANSWER)


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("limit", [1_024, 64 * 1024 * 1024])
@pytest.mark.parametrize("chunked", [True, False])
async def test_the_fields_are_recorded_also_over_the_limit_of_bodies(
    limit: int, *, last: bool, chunked: bool
) -> None:
    """First or last in the body, counted or in chunks; the upstream gets every byte."""
    body = form(20_000, last=last)
    data = asking(body)
    if chunked:
        head = asking(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        pieces = [body[at : at + 70_000] for at in range(0, len(body), 70_000)]
        framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
        data = head + framed + b"0\r\n\r\n"
    async with relaying(answer, max_body_bytes=limit) as (upstream, running):
        answered = await ask(running.address, data)
        exchange = await running.sink.wait_for()
        assert upstream.last.body == body
        assert not holds_file(running)
    assert answered.body == ANSWER
    assert read_input(exchange) == told(20_000)
    assert exchange.request_size_bytes == len(body)
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ())
    assert exchange.request is not None
    assert exchange.request.model == "whisper-1"


async def test_reads_may_end_anywhere() -> None:
    """Each place in the delimiter and in the heads of parts, on one connection after the other."""
    body = form(1)
    async with relaying(answer) as (upstream, running):
        for count, place in enumerate(range(1, len(body), 5), 1):
            reader, writer = await asyncio.open_connection(*running.address)
            data = asking(body)
            cut = len(data) - len(body) + place
            writer.write(data[:cut])
            await writer.drain()
            await until(lambda: len(upstream.requests) == count)  # noqa: B023 - awaited here
            writer.write(data[cut:])
            assert parse_answer(await read_answer(reader), reset=False).body == ANSWER
            writer.close()
            exchange = await running.sink.wait_for(count)
            assert read_input(exchange) == told(1)
            assert upstream.last.body == body


BROKEN: dict[str, tuple[bytes, bytes, bytes]] = {
    "no boundary": (form(), b"multipart/form-data", b""),
    "long boundary": (form(), b"multipart/form-data; boundary=" + b"x" * 71, b""),
    "compressed": (gzip.compress(form()), TYPE, b"Content-Encoding: gzip\r\n"),
    "another boundary": (form(), TYPE + b"1", b""),
    "no end": (form()[:-14], TYPE, b""),
    "no name": (form().replace(b' name="model"', b""), TYPE, b""),
    "random": (bytes(range(256)) * 9, TYPE, b""),
    "empty": (b"", TYPE, b""),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_cannot_be_read_is_relayed_as_ever(name: str) -> None:
    """And the span says so, with what could be read; never with the bytes themselves."""
    body, content_type, head = BROKEN[name]
    async with relaying(answer) as (upstream, running):
        answered = await ask(running.address, asking(body, content_type, head))
        exchange = await running.sink.wait_for()
        assert upstream.last.body == body
        assert not holds_file(running)
    assert answered.body == ANSWER
    assert exchange.outcome is Outcome.COMPLETED
    assert exchange.anomalies == ("request_undecodable",)
    assert exchange.request_size_bytes == len(body)
    if name in {"no end", "no name"}:
        assert read_input(exchange).items() <= told().items()
        assert "file" in read_input(exchange)
    else:
        assert exchange.request_body is None


async def test_what_had_not_come_when_the_upstream_answered_is_left_out() -> None:
    """The field before is there, and of the file no size."""
    body = form(400_000, last=False)
    read_on = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.answer(b'{"error": {"message": "no"}}', status=b"401 Unauthorized")
        await read_on.wait()

    async with relaying(script, reads_body=False, max_body_bytes=1_024) as (_, running):
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(asking(body))
        assert b" 401 " in await reader.readline()
        exchange = await running.sink.wait_for()
        read_on.set()
        writer.close()
    file = {"filename": "a.mp3", "content_type": "audio/mpeg"}
    assert read_input(exchange) == {"model": "whisper-1", "file": file}
    assert exchange.anomalies == ("observer_limit",)


@pytest.mark.parametrize("limit", [1_024, 64 * 1024 * 1024])
@pytest.mark.parametrize("sent", [90, 200_000], ids=["before the file", "within it"])
async def test_a_client_that_leaves_in_the_middle(limit: int, sent: int) -> None:
    """What came is recorded, what is missing is no fault of it, and nothing stays held."""
    body = form(20_000, last=False)
    async with relaying(answer, max_body_bytes=limit) as (_, running):
        _, writer = await asyncio.open_connection(*running.address)
        writer.write(asking(body).removesuffix(body[sent:]))
        await until(lambda: running.bodies.held_bytes)
        writer.close()
        exchange = await running.sink.wait_for()
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED
    assert read_input(exchange)["model"] == "whisper-1"
    assert exchange.anomalies == ("observer_limit",)


async def test_a_text_without_room_is_cut_and_its_call_relayed() -> None:
    """A field counts among the bodies that are held."""
    long = form().replace(b"whisper-1", b"w" * 100_000)
    async with relaying(answer) as (upstream, running):
        running.bodies._max_bytes = 65_536
        answered = await ask(running.address, asking(long))
        exchange = await running.sink.wait_for()
        assert upstream.last.body == long
    assert answered.body == ANSWER
    assert len(read_input(exchange)["model"]) < 65_536
    assert exchange.anomalies == ("observer_limit",)


async def test_a_defect_of_the_reader_costs_the_fields_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """R2: the call is relayed, and has its span."""

    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(FormReader, "feed", fail)
    with caplog.at_level(logging.ERROR):
        async with relaying(answer) as (upstream, running):
            answered = await ask(running.address, asking(form()))
            exchange = await running.sink.wait_for()
            assert upstream.last.body == form()
    assert answered.body == ANSWER
    assert (exchange.outcome, exchange.anomalies) == (Outcome.COMPLETED, ("request_undecodable",))
    assert "is observed without its form" in caplog.text


async def test_a_form_of_a_call_that_is_not_recorded_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is relayed like the others: as it comes."""
    monkeypatch.setattr("proxy.relay.form_tap.FormReader", None)
    head = b"traceparent: 00-%b-%b-00\r\n" % (b"1" * 32, b"2" * 16)
    async with relaying(answer) as (upstream, running):
        _, writer = await asyncio.open_connection(*running.address)
        data = asking(form(), head=head)
        writer.write(data[:-100])
        await until(lambda: upstream.requests)
        writer.write(data[-100:])
        await until(lambda: upstream.last.body == form())
        writer.close()
    assert not frames_of(running, RequestBody)


async def test_a_form_for_an_api_that_takes_none_is_a_body_like_any_other() -> None:
    """It is read as the JSON that it is not."""
    data = request_bytes(form(), content_type=TYPE)
    async with relaying(answer) as (upstream, running):
        await ask(running.address, data)
        exchange = await running.sink.wait_for()
        assert upstream.last.body == form()
    assert exchange.request_body == form()
    assert "request_undecodable" in exchange.anomalies
