"""Every recorded answer of Gemini in Code Assist's envelope says what it says without."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from codec.apis.table import get_api
from codec.errors import MalformedResponse
from tests.corpus.built.code_assist import enclose_body
from tests.corpus.oracle import parse_json
from tests.corpus.recordings import NEEDS_RECORDINGS, load_all, load_gemini, load_gemini_streams

if TYPE_CHECKING:
    from codec.said import Said
    from tests.corpus.recordings import Recording

pytestmark = NEEDS_RECORDINGS

STREAMS = [one for one in load_all(load_gemini_streams) if one.status < 400]
PLAIN = [one for one in load_all(load_gemini) if one.status < 400]


def _read(name: str, body: bytes) -> Said:
    stream = get_api(name).open_stream(choice_count=1, hides_usage=False, lend=lambda _: True)
    dice, start = random.Random(len(body)), 0
    while start < len(body):
        size = dice.randrange(1, 2_000)
        stream.feed(body[start : start + size])
        start += size
    return stream.finish()


def _enclose_array(body: bytes) -> bytes | None:
    """A whole array with each element in an envelope, pretty-printed."""
    chunks = parse_json(body) if body.startswith(b"[") else None
    if chunks is None:
        return None
    enclosed = [one if "error" in one else {"response": one, "traceId": "t-1"} for one in chunks]
    return json.dumps(enclosed, indent=2).encode()


def _compare(said: Said, bare: Said, *, streamed: bool) -> None:
    known = {**said.body}
    if (trace := known.pop("responseId", None)) is not None:
        assert trace == "t-1" or "responseId" in bare.body
    assert known == {name: value for name, value in bare.body.items() if name != "responseId"}
    assert (said.usage, said.error, said.anomalies) == (bare.usage, bare.error, bare.anomalies)
    assert said.ending(streamed=streamed) == bare.ending(streamed=streamed)


@pytest.mark.parametrize("recording", STREAMS, ids=lambda one: one.id)
def test_a_recorded_stream_says_the_same_in_envelopes(recording: Recording) -> None:
    """However it is cut; only the answer's id is the envelope's."""
    enclosed = _enclose_array(recording.text) or enclose_body(recording.text)
    assert enclosed != recording.text
    said, bare = _read("code_assist.stream", enclosed), _read("gemini.stream", recording.text)
    _compare(said, bare, streamed=True)


@pytest.mark.parametrize("recording", PLAIN, ids=lambda one: one.id)
def test_a_recorded_answer_says_the_same_in_an_envelope(recording: Recording) -> None:
    """Only the answer's id is the envelope's."""
    body = recording.text.strip()
    enclosed = b'{"response":' + body + b',"traceId":"t-1"}'
    try:
        bare = get_api("gemini.generate").read_said(body)
    except MalformedResponse:
        return
    _compare(get_api("code_assist.generate").read_said(enclosed), bare, streamed=False)
