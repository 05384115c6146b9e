"""Every recorded exchange of the Responses API: the codec beside a second fold of the same bytes.

However the reads are cut, however lines end, and wherever the stream breaks off.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.responses.asked import ResponseRequest
from codec.apis.responses.said import ResponseAnswer, read_response
from codec.apis.responses.stream import ResponseStream
from codec.base64_text import MAX_KEPT_CHARS
from codec.call import Ending
from codec.errors import MalformedResponse
from codec.parts import Media, Reasoning, Text, ToolCall
from tests.corpus.oracle import is_stream, parse_json
from tests.corpus.recordings import NEEDS_RECORDINGS, load_all, load_responses
from tests.corpus.response_oracle import fold_response, list_messages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.call import Message
    from tests.corpus.recordings import Recording

RECORDINGS = load_all(load_responses)
STREAMS = [one for one in RECORDINGS if is_stream(one.body)]
PLAIN = [one for one in RECORDINGS if not is_stream(one.body)]

FINELY_CUT_BYTES = 12_000
"""Of a stream that is read byte by byte as a whole."""

TRUNCATIONS = 12
"""Places at which each stream breaks off."""

pytestmark = NEEDS_RECORDINGS


def fold(body: bytes, size: int | random.Random | None = None) -> ResponseAnswer:
    """The answer of a stream, in reads of this size."""
    stream = ResponseStream()
    for piece in _cut(body, size):
        stream.feed(piece)
    return stream.finish()


def _cut(body: bytes, size: int | random.Random | None) -> Iterator[bytes]:
    start = 0
    while start < len(body):
        wanted = size.randrange(1, 700) if isinstance(size, random.Random) else size or len(body)
        yield body[start : start + wanted]
        start += wanted


def describe(message: Message) -> dict[str, Any]:
    """A message in the words of the second fold."""
    said: dict[str, Any] = {"role": message.role}
    for part in message.parts:
        if isinstance(part, Text):
            said.setdefault("texts", []).append(part.text)
        elif isinstance(part, Reasoning):
            said["reasoning"] = [part.text, part.encrypted]
        elif isinstance(part, Media):
            said["images"] = 1
        elif isinstance(part, ToolCall):
            said["call"] = [part.id, part.name, part.arguments]
    return said


def check(answer: ResponseAnswer, expected: dict[str, Any]) -> None:
    """The answer is what the second fold says."""
    body = without_images(expected["body"])
    assert answer.body == body
    assert answer.is_cut is expected["cut"]
    assert (answer.error.message if answer.error else None) == expected["error"]
    assert (answer.id, answer.model) == (body.get("id"), body.get("model"))
    ending = Ending.OPEN if expected["cut"] else Ending.COMPLETE
    assert answer.ending(streamed=True) is ending
    check_object(answer, body, is_cut=expected["cut"])


def check_object(answer: ResponseAnswer, body: dict[str, Any], *, is_cut: bool = False) -> None:
    """Counts, finish reason, texts and calls are those of the response object."""
    usage, counts = body.get("usage") or {}, answer.usage
    assert usage.get("input_tokens") == (counts and counts.prompt)
    assert usage.get("output_tokens") == (counts and counts.completion)
    details = usage.get("output_tokens_details") or {}
    assert details.get("reasoning_tokens") == (counts and counts.reasoning)
    details = usage.get("input_tokens_details") or {}
    assert details.get("cached_tokens") == (counts and counts.cache_read)
    assert details.get("cache_write_tokens") == (counts and counts.cache_write)
    word = (body.get("incomplete_details") or {}).get("reason") or body.get("status")
    assert answer.finish_reasons == ([] if is_cut or word is None else [(0, word)])
    described = [describe(one.message) for one in answer.answers]
    for mine, theirs in zip(described, list_messages(body.get("output") or []), strict=True):
        if "call" in mine:  # arguments of tools of the provider's own are its JSON
            mine["call"] = mine["call"][: len(theirs["call"])]
        if not mine.get("texts") and not theirs.get("texts"):
            theirs.pop("texts", None)
        assert mine == theirs


def without_images(body: dict[str, Any]) -> dict[str, Any]:
    """The same without pictures that are too long."""
    for item in body.get("output") or []:
        result = item.get("result")
        if isinstance(result, str) and len(result) > MAX_KEPT_CHARS:
            item["result"] = f"<{len(result)} base64 characters, image/png>"
    return body


def test_all_of_them_are_here() -> None:
    """None is left out by the reader but for one that is no text."""
    assert (len(STREAMS), len(PLAIN)) == (169, 347)


@pytest.mark.parametrize("recording", STREAMS, ids=lambda one: one.id)
def test_a_recorded_stream_is_what_a_second_fold_says(recording: Recording) -> None:
    """Read whole, event by event, in sevens, anyhow, in bytes; with LF and with CRLF."""
    body = recording.body
    expected = fold_response(body)
    chance = random.Random(recording.id)
    check(fold(body), expected)
    stream = ResponseStream()
    for event in body.replace(b"\r\n", b"\n").split(b"\n\n"):
        stream.feed(event + b"\n\n")
    check(stream.finish(), expected)
    for written in (body, body.replace(b"\n", b"\r\n")):
        for size in (7, chance):
            assert fold(written, size) == fold(body)
        if len(body) <= FINELY_CUT_BYTES:
            assert fold(written, 1) == fold(body)


@pytest.mark.parametrize("recording", STREAMS, ids=lambda one: one.id)
def test_a_stream_that_breaks_off_tells_the_truth_so_far(recording: Recording) -> None:
    """What the second fold says of the same bytes, and no more."""
    chance = random.Random(recording.id)
    for _ in range(TRUNCATIONS):
        body = recording.body[: chance.randrange(len(recording.body))]
        answer = fold(body)
        check(answer, fold_response(body))


@pytest.mark.parametrize("recording", STREAMS, ids=lambda one: one.id)
def test_chunks_are_counted_and_content_is_noticed(recording: Recording) -> None:
    """Each event is a chunk but for errors; a stream with words or calls has content."""
    stream = ResponseStream()
    stream.feed(recording.body)
    answer = stream.finish()
    assert stream.chunk_count == fold_response(recording.body)["chunks"]
    said = any(describe(one.message).keys() & {"texts", "call"} for one in answer.answers)
    assert stream.has_content or not said


@pytest.mark.parametrize("recording", PLAIN, ids=lambda one: one.id)
def test_a_recorded_plain_answer_is_its_own_object(recording: Recording) -> None:
    """Counts, finish reason, texts and calls; an error is told as one."""
    body = parse_json(recording.body)
    if not isinstance(body, dict):
        with pytest.raises(MalformedResponse):
            read_response(recording.body)
        return
    answer = read_response(recording.body)
    if recording.status >= 400:
        error = body.get("error")  # FastAPI has a `detail` instead
        told = error.get("message") if isinstance(error, dict) else error
        assert (answer.error and answer.error.message) == told
        return
    body = without_images(body)
    assert answer.body == body
    check_object(answer, body)


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda one: one.id)
def test_a_recorded_request_is_read_item_by_item(recording: Recording) -> None:
    """The instructions, then a message for each item, roles and call ids as sent."""
    asked = parse_json(recording.request)
    if not isinstance(asked, dict):
        return
    request = ResponseRequest(asked)
    assert request.fault is None
    given = asked.get("input") or []
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    messages = list(request.read_messages())
    if asked.get("instructions"):
        first = messages.pop(0)
        assert (first.role, first.content) == ("system", asked["instructions"])
    assert len(messages) == len(items)
    for message, item in zip(messages, items, strict=True):
        kind = item.get("type", "message")
        role = "tool" if kind.endswith("_output") else "assistant"
        assert message.role == (item.get("role") or role)
        if kind == "function_call":
            [call] = message.tool_calls
            assert (call.id, call.name, call.arguments) == (
                item["call_id"],
                item["name"],
                item["arguments"],
            )
    names = [tool.title for tool in request.read_tools()]
    for name, tool in zip(names, asked.get("tools") or [], strict=True):
        assert name == (tool.get("server_label") or tool.get("name") or tool["type"])
