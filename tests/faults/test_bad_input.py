"""Rows of bad input to every API: relayed as ever, one span each, which tells it clearly."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.table import POSTED
from telemetry.reading.stored_calls import open_calls
from telemetry.spans.otlp.decoding import decode_spans
from tests.corpus.built.wire import Built
from tests.corpus.oracle import parse_json
from tests.faults.raw import Call, Seen, ask_all, make_call, seen_alike, wait_for_spans
from tests.faults.row import report_calls
from tests.faults.scripted import Stage, UpstreamThread, running_stage
from tests.proxy.api_endings import BUILT, head_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from telemetry.spans.otlp.decoding import DecodedSpan
    from tests.proxy.harness import Connection

ANSWERS = {
    "audio.speech": "Mistral's sound",
    "audio.transcriptions": "words",
    "audio.translations": "words",
    **dict.fromkeys(("count_tokens", "gemini.count", "code_assist.count"), "a count"),
    "code_assist.generate": "an answer cut by its limit",
    "code_assist.stream": "a thought, words and a call in pieces",
    "gemini.embed": "a content",
    "gemini.generate": "an answer cut by its limit",
    "gemini.stream": "a thought, words and a call in pieces",
    "images": "an address",
    "messages": "a plain refusal",
    "moderations": "Mistral's",
    "ollama.chat": "a plain chat",
    "ollama.embed": "several texts",
    "ollama.generate": "a context",
    "rerank": "Jina's",
    "responses": "a refusal in one piece",
}
"""A right answer of each newer API."""

_COUNTS = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
_AHOY = {"role": "assistant", "content": "Ahoy"}
OLDER: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "chat.completions": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "Where to?"}]},
        {"choices": [{"index": 0, "message": _AHOY, "finish_reason": "stop"}]},
    ),
    "completions": (
        "/v1/completions",
        {"prompt": "Where to?"},
        {"choices": [{"index": 0, "text": "Ahoy", "finish_reason": "stop"}]},
    ),
    "embeddings": (
        "/v1/embeddings",
        {"input": "Where to?"},
        {"data": [{"index": 0, "embedding": [0.5]}]},
    ),
}
"""The path, the request and the answer of a call of each of the others, without model and usage."""

CALLS = {api: BUILT[api, name] for api, name in ANSWERS.items()} | {
    api: Built({"model": "m-1", "usage": _COUNTS, **said}).record(
        api, path, {"model": "m", **asked}
    )
    for api, (path, asked, said) in OLDER.items()
}
"""A right call of every API."""

WRONG = (
    *(b"", b"[]", b"{}", b'"text"', b"null", b"5", b"not json", b'\xff\xfe{"model":"m"}'),
    b'{"model":5,"messages":"x","contents":7,"input":5,"query":[],"documents":"x","prompt":[]}',
    b'{"messages":{"a":1},"contents":null,"input":7,"prompt":5,"content":[],"requests":{}}',
)
"""Bodies of no API's shape."""

RIGHT_FOR_SOME = {
    *((api, b"{}") for api in ("responses", *OLDER)),
    *(("embeddings", body) for body in WRONG if body.startswith(b"{")),
}
"""A stored prompt may hold all of a request. Of the older APIs a member of a wrong type is a fault,
an absent one is none (``docs/contract/sources.md#s4-10``); what is embedded may be of any type."""

KEY = "AIzaSyC4n4ryC4n4ryC4n4ryC4n4ryC4n4ryC4n4"
CHARACTER = "🌊".encode()


async def answer(_: UpstreamThread, connection: Connection) -> None:
    """The right answer of the API in the path."""
    recording = CALLS[connection.request_line.split(b"/")[2].decode()]
    await connection.send(head_of(recording))
    await connection.send_chunks(recording.body)


async def break_off(_: UpstreamThread, connection: Connection) -> None:
    """An array that ends behind so many bytes of a character."""
    size = int(connection.request_line.split(b"/")[2])
    recording = BUILT["gemini.stream", "an array of one"]
    body = json.dumps(parse_json(recording.body), ensure_ascii=False).encode()
    await connection.send(head_of(recording))
    await connection.send_chunks(body[: body.index(CHARACTER) + size], end=False)
    connection.writer.close()


async def break_line(_: UpstreamThread, connection: Connection) -> None:
    """Lines of which the second is none."""
    recording = BUILT["ollama.chat", "thinking and a call"]
    first, second, *rest = recording.body.splitlines(keepends=True)
    await connection.send(head_of(recording))
    await connection.send_chunks(first, second[:-9] + b"\n", *rest)


async def quote(_: UpstreamThread, connection: Connection) -> None:
    """An error that quotes the request."""
    words = f"no {connection.request_line.decode()}"
    body = json.dumps({"error": {"message": words, "status": "INVALID_ARGUMENT"}}).encode()
    await connection.answer(body, status=b"400 Bad Request")


async def close(_: UpstreamThread, connection: Connection) -> None:
    """No answer."""
    connection.writer.close()


SCRIPTS = {
    "answer": answer,
    "break_off": break_off,
    "break_line": break_line,
    "quote": quote,
    "close": close,
}


@pytest.fixture(scope="module", name="stage")
def _stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One for all rows, which says all that it can in its log."""
    folder = tmp_path_factory.mktemp("stage")
    with running_stage(folder, SCRIPTS, {"SPANTAP_LOG_LEVEL": "debug"}) as running:
        yield running


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a client saw of a call, and its span."""

    seen: Seen
    span: DecodedSpan

    @property
    def metadata(self) -> dict[str, Any]:
        """As JSON."""
        value: dict[str, Any] = parse_json(str(self.span.attributes["metadata"]))
        return value

    @property
    def anomalies(self) -> list[str]:
        """What was odd."""
        return list(self.metadata.get("anomalies", ()))


async def compare(stage: Stage, name: str, calls: Sequence[Call]) -> list[Told]:
    """Make the calls directly and through the proxy, which must be alike; report the row."""
    direct = await ask_all(stage.upstream.port, calls)
    proxied = await ask_all(stage.spantap.port, calls)
    alike = seen_alike(direct, proxied)
    spans = wait_for_spans(stage.spantap.store, calls)
    report_calls(name, calls, spans, client_saw=f"the same as directly, {alike} of {len(calls)}")
    return [
        Told(seen=seen, span=read_span(stage, spans[call.trace_id].span_id))
        for call, seen in zip(calls, proxied, strict=True)
    ]


def read_span(stage: Stage, span_id: str) -> DecodedSpan:
    """A span as the store has it."""
    with open_calls(stage.spantap.store) as reader:
        [stored] = reader.find(span_id)
    [span] = decode_spans(stored.span)
    return span


def call_api(api: str, body: bytes | None = None, **how: Any) -> Call:
    """A call of an API, which gets a right answer."""
    recording = CALLS[api]
    asked = recording.request if body is None else body
    return make_call(f"answer/{api}", asked, target=recording.target.decode(), **how)


def test_every_api_has_a_right_call() -> None:
    """And so has one that will be added."""
    assert CALLS.keys() == {api.name for api in POSTED}


@pytest.mark.parametrize("api", CALLS)
async def test_a_body_of_the_wrong_shape_is_relayed_and_told(stage: Stage, api: str) -> None:
    """On the path of each API; the answer is read as ever."""
    told = await compare(
        stage, f"bodies of the wrong shape, {api}", [call_api(api, b) for b in WRONG]
    )
    for body, one in zip(WRONG, told, strict=True):
        is_wrong = (api, body) not in RIGHT_FOR_SOME
        assert one.metadata["outcome"] == "completed"
        assert ("request_undecodable" in one.anomalies) is is_wrong, (body, one.anomalies)
        assert "response_undecodable" not in one.anomalies
        assert one.span.attributes["output.value"]
        if body:
            assert "input.value" in one.span.attributes


LOOK_ALIKES: dict[str, tuple[Any, ...]] = {
    "ollama.chat": (
        {"prompt": "hi", "session": 1},
        {"message": "hi"},
        {"model": 7, "messages": []},
        {"model": "m", "messages": "hi"},
        [{"role": "user", "content": "hi"}],
    ),
    "ollama.generate": (
        {"prompt": "hi", "session": 1},
        {"topic": "hi"},
        {"model": 7, "prompt": "hi"},
        {"model": "m", "prompt": ["hi"]},
        ["hi"],
    ),
    "ollama.embed": (
        {"input": "hi", "session": 1},
        {"text": "hi"},
        {"model": 7, "input": "hi"},
        {"model": "m", "input": {"a": 1}},
        ["hi"],
    ),
}


@pytest.mark.parametrize("api", LOOK_ALIKES)
async def test_a_path_that_only_looks_like_ollamas_is_relayed_and_told(
    stage: Stage, api: str
) -> None:
    """Programs of all kinds have such paths: bodies are shown, no more is made of them."""
    bodies = LOOK_ALIKES[api]
    calls = [call_api(api, json.dumps(body).encode()) for body in bodies]
    told = await compare(stage, f"a path like Ollama's, {api}", calls)
    for body, one in zip(bodies, told, strict=True):
        assert one.metadata["outcome"] == "completed"
        assert "request_undecodable" in one.anomalies
        said = one.span.attributes
        told = said.get("spantap.request.body", said["input.value"])
        assert parse_json(str(told)) == body


@pytest.mark.parametrize("api", CALLS)
async def test_multipart_without_a_boundary_is_relayed_and_told(stage: Stage, api: str) -> None:
    """Which few APIs take, and which nobody could take apart."""
    body = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--x--\r\n'
    call = call_api(api, body)
    kind = b"Content-Type: application/json"
    call = replace(call, data=call.data.replace(kind, b"Content-Type: multipart/form-data"))
    [one] = await compare(stage, f"multipart without a boundary, {api}", [call])
    assert one.metadata["outcome"] == "completed"
    assert "request_undecodable" in one.anomalies


async def test_an_array_that_is_cut_inside_a_character_is_truncated(stage: Stage) -> None:
    """Whatever came of the character, no half of it is told."""
    asked = BUILT["gemini.stream", "an array of one"]
    target = asked.target.decode()
    sizes = range(1, len(CHARACTER))
    calls = [make_call(f"break_off/{size}", asked.request, target=target) for size in sizes]
    for one in await compare(stage, "an array that is cut inside a character", calls):
        assert not one.seen.whole
        assert one.metadata["outcome"] == "truncated"
        assert one.span.attributes["error.type"] == "stream_truncated"
        assert "\N{REPLACEMENT CHARACTER}" not in str(one.span.attributes)


async def test_a_line_that_is_broken_costs_itself_alone(stage: Stage) -> None:
    """The others are the answer, and the anomaly says that there was one more."""
    asked = BUILT["ollama.chat", "thinking and a call"]
    call = make_call("break_line", asked.request, target="/api/chat")
    [one] = await compare(stage, "lines of which one is broken", [call])
    assert one.metadata["outcome"] == "completed"
    assert "non_json_event" in one.anomalies
    assert one.span.attributes["llm.finish_reason"] == "stop"
    texts = [
        str(value) for key, value in one.span.attributes.items() if key.endswith("_content.text")
    ]
    assert texts == ["Hm"]


@pytest.mark.parametrize("api", CALLS)
async def test_a_model_of_a_megabyte_is_relayed_and_told(stage: Stage, api: str) -> None:
    """What of it has no room is noted; a row of a list has its beginning."""
    model = "m" * 1_000_000
    asked = parse_json(CALLS[api].request) | {"model": model}
    call = call_api(api, json.dumps(asked).encode())
    [one] = await compare(stage, f"a model of a megabyte, {api}", [call])
    assert one.metadata["outcome"] == "completed"
    assert "request_undecodable" not in one.anomalies
    shown = sum(model in str(value) for value in one.span.attributes.values())
    assert shown or "cut" in one.metadata
    [row] = wait_for_spans(stage.spantap.store, [call]).values()
    assert len(row.model or "") <= 256
    assert row.size_bytes < 4 * len(model)


async def test_a_path_of_a_megabyte_is_refused_and_told(stage: Stage) -> None:
    """Gemini's model is in it: the client is told why, and the upstream is not asked."""
    before = stage.upstream.connection_count
    target = f"/v1beta/models/{'m' * 1_000_000}:generateContent"
    [seen] = await ask_all(stage.spantap.port, [make_call("answer/gemini.generate", target=target)])
    assert seen.code == 431
    assert "longer than 65536 bytes" in parse_json(seen.body)["error"]["message"]
    assert stage.upstream.connection_count == before


@pytest.mark.parametrize("api", CALLS)
async def test_a_key_of_the_query_is_relayed_and_nowhere_else(stage: Stage, api: str) -> None:
    """Not in a span, the store, the log or an error of ours: answered, refused or unanswered."""
    recording = CALLS[api]
    path, _, query = recording.target.decode().partition("?")
    assert query == ("alt=sse" if api.endswith(".stream") else "")
    target = f"{path}?{query or 'alt=json'}&key={KEY}&x=1"
    answered, quoted = (
        make_call(script, recording.request, target=target) for script in (f"answer/{api}", "quote")
    )
    told = await compare(stage, f"a key of the query, {api}", [answered, quoted])
    assert KEY.encode() in told[1].seen.body  # the provider's words are the client's own
    unanswered = make_call("close", recording.request, target=target)
    [seen] = await ask_all(stage.spantap.port, [unanswered])
    assert (seen.code, KEY.encode() in seen.body) == (502, False)
    assert len(wait_for_spans(stage.spantap.store, [answered, quoted, unanswered])) == 3
    assert KEY not in stage.spantap.log
    files = [path for path in stage.spantap.store.parent.rglob("*") if path.is_file()]
    assert stage.spantap.store in files
    for file in files:
        with contextlib.suppress(FileNotFoundError):  # a segment of the spool that was just read
            assert KEY.encode() not in file.read_bytes(), file.name
