"""Rows of malformed traffic: no valid HTTP, no valid chats, no valid streams, 10,000 of each.

All of it goes through the real ``spantap serve``. What is not valid HTTP is refused, counted and
told in one line, and nobody's exchange (R3); the rest is relayed byte for byte (R1), whatever the
observing half makes of it (R2), and has one span each. The processes live, and say no traceback.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from codec.apis.table import POSTED
from tests.e2e.processes import wait_until
from tests.faults.invalid_requests import SECRET, make_invalid_request
from tests.faults.malformed_bodies import make_body
from tests.faults.malformed_calls import SAMPLES, make_api_call
from tests.faults.malformed_streams import make_stream
from tests.faults.raw import (
    ASK_SECONDS,
    Call,
    Seen,
    added_latency,
    ask,
    ask_all,
    connected,
    make_call,
    parse_answer,
    seen_alike,
    wait_for_spans,
)
from tests.faults.row import report, report_calls
from tests.faults.scripted import Stage, UpstreamThread, asks_usage, running_stage
from tests.faults.stage import scaled
from tests.proxy.harness import (
    ASKING_CHAT,
    DONE,
    STREAMED_CHAT,
    USAGE_EVENT,
    Connection,
    chunk_event,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNT = 10_000
"""Of each kind, in the long form."""

LONG = pytest.mark.timeout(300)
"""The long form takes a minute or so."""

CONTENT_TYPE = (b"content-type", b"application/json")

MORE_FIELDS = {
    405: [(b"allow", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")],
    426: [(b"upgrade", b"HTTP/1.1")],
}
"""What a refusal says beside its content type."""

METRIC_SECONDS = 30.0
"""How long a worker's numbers may take to the admin port, on a busy machine."""

LINE_SECONDS = 10.0
"""At most one line about refused requests in this time."""

_ASK = re.compile(rb'"include_usage"\s*:[^,}]*,?')
_OPTIONS = re.compile(rb',?"stream_options"\s*:\s*(?:null|\{\s*\})')
"""What spantap may put into a request or change in it: with both taken out both ways are alike."""


def without_ask(body: bytes) -> bytes:
    """What is left of a request without what spantap may put into it."""
    return _OPTIONS.sub(b"", _ASK.sub(b"", body))


async def echo(_: UpstreamThread, connection: Connection) -> None:
    """An answer that depends on every byte of the request, but for what spantap may add."""
    digest = hashlib.sha256(without_ask(connection.body)).hexdigest()
    told = json.dumps({"error": {"message": digest, "type": "invalid_request_error"}}).encode()
    kind = int(digest, 16) % 3
    if kind == 0:
        await connection.answer(told, status=b"400 Bad Request")
    elif kind == 1:
        await connection.answer(told.replace(b"error", b"echo"))
    else:
        usage = [USAGE_EVENT] if asks_usage(connection) else []
        said = chunk_event(f'"content":"{digest}"')
        await connection.stream(said, chunk_event(finish="stop"), *usage, DONE)


async def stream(_: UpstreamThread, connection: Connection) -> None:
    """The malformed stream whose number is in the path."""
    made = make_stream(int(connection.request_line.split(b"/")[2]))
    for piece in made.asked if asks_usage(connection) else made.unasked:
        await connection.send(piece)
        await asyncio.sleep(0)
    if made.closes:
        connection.writer.close()


async def answer_call(_: UpstreamThread, connection: Connection) -> None:
    """The malformed answer of an API, whose name is in the path, and its number."""
    name, number = connection.request_line.split(b"/")[2:4]
    made = make_api_call(name.decode(), int(number))
    if without_ask(connection.body) != without_ask(made.request):
        await connection.answer(b"another request", status=b"418 Changed")
        return
    for piece in made.asked_answer if asks_usage(connection) else made.answer:
        await connection.send(piece)
    if made.closes:
        connection.writer.close()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """One for each row: its log and its metrics are looked at."""
    with running_stage(
        tmp_path, {"bodies": echo, "streams": stream, "calls": answer_call}
    ) as running:
        yield running
        assert SECRET.decode() not in running.spantap.log


def wait_refused(stage: Stage, count: int) -> None:
    """Wait until so many refused requests are counted; more must not be."""
    name = "spantap_requests_refused_total"
    wait_until(lambda: stage.spantap.metrics()[name] >= count, METRIC_SECONDS, "all are counted")
    assert stage.spantap.metrics()[name] == count


def report_unseen(
    stage: Stage,
    before: int,
    name: str,
    *,
    sent: int,
    client_saw: str,
    added_latency: str = "none",
    figures: dict[str, str | int | float] | None = None,
) -> None:
    """Assert that the upstream has seen no more than `before` connections, and report the row."""
    assert stage.upstream.connection_count == before
    report(
        name=name,
        sent=sent,
        lost=0,
        client_saw=client_saw,
        added_latency=added_latency,
        figures={"connections at the upstream": 0, **(figures or {})},
    )


# --- no valid HTTP


@LONG
async def test_what_is_no_valid_http_is_refused(stage: Stage) -> None:
    """OpenAI-shaped, closed, counted, told in one line for all; the upstream sees nothing."""
    count, before = scaled(COUNT), stage.upstream.connection_count
    begun = time.monotonic()
    calls = [Call(trace_id="", data=make_invalid_request(number)) for number in range(count)]
    seen = await ask_all(stage.spantap.port, calls)
    seconds = time.monotonic() - begun
    for number, answer in enumerate(seen):
        assert answer.whole, number
        assert answer.code in {400, 405, 426, 431, 501}, number
        assert answer.fields == (CONTENT_TYPE, *MORE_FIELDS.get(answer.code, ()))
        error = json.loads(answer.body)["error"]  # noqa: TID251 - as a client would
        assert list(error) == ["message", "type", "param", "code"]
        assert error["type"] == "invalid_request_error"
        assert SECRET not in answer.body
    wait_refused(stage, count)
    lines = stage.spantap.log.count("refused a request")
    assert 1 <= lines <= 1 + seconds / LINE_SECONDS
    statuses = Counter(answer.code for answer in seen)
    report_unseen(
        stage,
        before,
        "requests that are not valid HTTP",
        sent=count,
        client_saw=", ".join(f"{code} {n:,} times" for code, n in sorted(statuses.items()))
        + ", OpenAI-shaped, and the end of the connection",
        added_latency=f"{count / seconds:,.0f} refused a second",
        figures={"counted by the metric": count, "log lines": f"{lines} in {seconds:.0f} s"},
    )


@LONG
async def test_what_breaks_off_before_it_can_be_judged_is_closed(stage: Stage) -> None:
    """Half a request and the client's end: nothing can be answered, and nothing is recorded."""
    count, before = scaled(COUNT // 10), stage.upstream.connection_count
    whole = make_call("bodies").data
    head_bytes = whole.index(b"\r\n\r\n") + 3
    dice = random.Random(0)

    async def break_off() -> bytes:
        async with connected(stage.spantap.port) as (reader, writer):
            writer.write(whole[: dice.randrange(head_bytes)])
            writer.write_eof()
            return await reader.read(-1)

    for _ in range(count):
        assert await break_off() == b""
    await ask(stage.spantap.port, make_invalid_request(0))
    wait_refused(stage, 1)  # which is the last one alone
    report_unseen(
        stage,
        before,
        "requests that break off within their head",
        sent=count,
        client_saw="the end of the connection",
    )


@LONG
async def test_an_upload_whose_chunks_break_anywhere_is_refused(stage: Stage) -> None:
    """Wherever the reads are cut, the answer comes at once; the upstream sees nothing."""
    before = stage.upstream.connection_count
    head = make_call("bodies").data.replace(b"Content-Length: 73", b"Transfer-Encoding: chunked")
    head = head[: head.index(b"\r\n\r\n") + 4]
    cases = [
        (broken[:cut], broken[cut:])
        for broken in (b"3\r\nabc\r\nzz\r\n\r\n", b"3\r\nabc\r\n2;a\x01\r\n{}\r\n0\r\n\r\n")
        for cut in range(len(broken))
    ]

    async def upload(first: bytes, second: bytes) -> Seen:
        async with connected(stage.spantap.port) as (reader, writer):
            writer.write(head + first)
            await asyncio.sleep(0.05)
            writer.write(second)
            async with asyncio.timeout(ASK_SECONDS):
                return parse_answer(await reader.read(-1))

    seen = await asyncio.gather(*(upload(*case) for case in cases))
    assert {(answer.code, answer.whole) for answer in seen} == {(400, True)}
    wait_refused(stage, len(cases))
    report_unseen(
        stage,
        before,
        "uploads whose chunks break",
        sent=len(cases),
        client_saw="400, OpenAI-shaped, and the end of the connection",
    )


# --- malformed bodies and streams


@LONG
async def test_malformed_bodies_are_relayed_as_they_are(stage: Stage) -> None:
    """The upstream gets and the client gets what they get without spantap; one span each."""
    calls = []
    for number in range(scaled(COUNT)):
        coding = b"Content-Encoding: gzip\r\n" if number % 20 == 0 else b""
        calls.append(make_call("bodies", make_body(number), head=coding))
    await compare(stage, calls, "requests with malformed bodies")


@LONG
async def test_malformed_streams_are_relayed_as_they_are(stage: Stage) -> None:
    """Bytes and end as without spantap, the usage that it asked for taken out; one span each."""
    calls = [
        make_call(f"streams/{number}", ASKING_CHAT if number % 3 == 0 else STREAMED_CHAT)
        for number in range(scaled(COUNT))
    ]
    await compare(stage, calls, "answers that are malformed streams")


@LONG
@pytest.mark.parametrize("name", SAMPLES)
async def test_malformed_calls_of_every_api_are_relayed_as_they_are(
    stage: Stage, name: str
) -> None:
    """All but chats: requests come as they were sent, answers as directly; one span each."""
    calls = []
    for number in range(scaled(COUNT)):
        made = make_api_call(name, number)
        script = f"calls/{name}/{number}"
        kind = made.content_type
        calls.append(make_call(script, made.request, target=made.target, content_type=kind))
    await compare(stage, calls, f"malformed calls of {name}")


def test_every_api_has_malformed_calls() -> None:
    """A new one wants a sample of its own; chats have their own rows above."""
    assert SAMPLES.keys() | {"chat.completions"} == {api.name for api in POSTED}


async def compare(stage: Stage, calls: list[Call], name: str) -> None:
    """Make the calls directly and through the proxy, compare, count spans, and report."""
    direct = await ask_all(stage.upstream.port, calls)
    begun = time.monotonic()
    proxied = await ask_all(stage.spantap.port, calls)
    seconds = time.monotonic() - begun
    alike = seen_alike(direct, proxied)
    spans = wait_for_spans(stage.spantap.store, calls)
    outcomes = Counter(span.outcome for span in spans.values())
    report_calls(
        name,
        calls,
        spans,
        client_saw=f"the same as directly, {alike:,} of {len(calls):,}: status, fields, bytes, "
        f"end ({sum(not answer.whole for answer in direct):,} cut off)",
        added_latency=f"{added_latency(direct, proxied)}, 16 at once",
        figures={
            "spans": ", ".join(f"{word} {n:,}" for word, n in outcomes.most_common()),
            "calls a second": round(len(calls) / seconds),
        },
    )
