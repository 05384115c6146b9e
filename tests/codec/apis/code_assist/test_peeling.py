"""``codec.apis.code_assist``: Gemini's requests and answers out of their envelopes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.code_assist.peeling import ChunkPeeler, peel_answer, peel_request
from codec.apis.table import get_api
from codec.text.base64_text import TakenPictures
from codec.text.jsontext import encode_json
from tests.codec.apis.gemini.chunks import USAGE, chunk, write_array, write_events

if TYPE_CHECKING:
    from codec.said import Said

CHUNKS = [
    chunk({"text": "Left\n"}),
    chunk({"text": "🌊 here."}),
    chunk(reason="STOP")
    | {"usageMetadata": USAGE, "modelVersion": "gemini-3", "responseId": "r-1"},
]
ENCLOSED = [{"response": one, "traceId": "t-1"} for one in CHUNKS]


def read(name: str, body: bytes, size: int = 4_096, *, lends: bool = True) -> Said:
    """What an API's stream says, read in pieces of a size."""
    stream = get_api(name).open_stream(choice_count=1, hides_usage=False, lend=lambda _: lends)
    for start in range(0, len(body), size):
        stream.feed(body[start : start + size])
    return stream.finish()


@pytest.mark.parametrize("write", [write_events, write_array])
@given(size=st.integers(1, 200))
def test_a_stream_in_envelopes_says_what_it_says_without(write: Any, size: int) -> None:
    """In either framing, however the bytes are cut; its id is that of the trace."""
    bare = read("gemini.stream", write(*CHUNKS))
    said = read("code_assist.stream", write(*ENCLOSED), size)
    assert said.body == {**bare.body, "responseId": "t-1"}
    assert (said.anomalies, said.usage) == (bare.anomalies, bare.usage)
    assert said.ending(streamed=True) == bare.ending(streamed=True)


def test_what_stands_beside_an_answer_is_kept() -> None:
    """Credits are the provider's words; what Gemini says wins over what stands beside it."""
    paid = [{"creditType": "GOOGLE_ONE_AI", "creditAmount": "3"}]
    body = {"response": {"candidates": [], "modelVersion": "g"}, "remainingCredits": paid}
    said = get_api("code_assist.generate").read_said(encode_json(body).encode())
    assert said.body == {"candidates": [], "modelVersion": "g", "remainingCredits": paid}


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"code":429,"message":"Too much","status":"RESOURCE_EXHAUSTED"}}',
        b'{"totalTokens":7}',
        b'{"response":"no object"}',
        b'[{"response":{}}]',
        b'{"response":{}',
        b"",
    ],
)
def test_what_is_in_no_envelope_stays_as_it_is(body: bytes) -> None:
    """Errors and counts come without one."""
    assert peel_answer(body) is body


def test_a_request_has_its_own_members_beside_those_that_it_holds() -> None:
    """The inner ones win; a body without a request is read as it is."""
    body = {"model": "gemini-3", "project": "p", "request": {"contents": [], "model": "inner"}}
    peeled = {"model": "inner", "project": "p", "contents": []}
    assert peel_request(body) == {**peeled, "extra_body": {"model": "gemini-3"}}
    assert peel_request({"contents": []}) == {"contents": []}


def test_a_request_names_its_model_its_session_and_its_prompt() -> None:
    """The path names none of them; counts write the model as a path."""
    api = get_api("code_assist.generate")
    asked = api.ask(
        {
            "model": "gemini-3",
            "user_prompt_id": "prompt-1",
            "request": {"contents": [], "session_id": "session-1"},
        },
        "/v1internal:generateContent",
    )
    assert (asked.model, asked.session_id, asked.fault) == ("gemini-3", "session-1", None)
    assert asked.references["user_prompt_id"] == "prompt-1"
    counted = {"request": {"model": "models/gemini-3", "contents": []}}
    assert get_api("code_assist.count").ask(counted, "/v1internal:countTokens").model == "gemini-3"


def test_an_array_that_stays_open_and_a_cut_event_are_no_whole_answers() -> None:
    """As without an envelope: the end is missing, or the last event is dropped."""
    array = write_array(*ENCLOSED)[:-1]
    assert read("code_assist.stream", array).ending(streamed=True).name == "OPEN"
    events = write_events(*ENCLOSED)
    assert "event_cut_off" in read("code_assist.stream", events[:-9]).anomalies
    assert "event_cut_off" not in read("code_assist.stream", events[:-4]).anomalies


def test_chunks_without_blank_lines_between_them_are_all_read() -> None:
    """Some gateways write none, so that all chunks are data of one event."""
    lines = write_events(*ENCLOSED).replace(b"\r\n\r\n", b"\n")
    assert read("code_assist.stream", lines).body["candidates"][0]["finishReason"] == "STOP"


def test_json_on_several_lines_is_one_event() -> None:
    """A pretty-printed chunk comes in several lines of data."""
    pretty = b'{"response":\n{"candidates": [{"content":\n{"parts": [{"text": "Hi"}]}}]}}'
    lines = b"".join(b"data: " + line + b"\r\n" for line in pretty.split(b"\n")) + b"\r\n"
    said = read("code_assist.stream", lines)
    assert said.read_answers()[0].message.content == "Hi"


@pytest.mark.parametrize("lends", [True, False])
def test_a_chunk_without_an_end_stays_within_the_budget(lends: bool) -> None:
    """Its bytes are reserved beside all others; beyond the limit nothing more is read."""
    begun = write_events(ENCLOSED[0]) + b'data: {"response":{"candidates":["'
    stream = get_api("code_assist.stream").open_stream(
        choice_count=1, hides_usage=False, lend=lambda _: lends
    )
    stream.feed(begun)
    for _ in range(20 if lends else 2):
        stream.feed(b"x" * 1024 * 1024)
    said = stream.finish()
    assert said.anomalies.count("observer_limit") == 1
    assert said.read_answers()[0].message.content == "Left\n"


def test_a_picture_in_an_envelope_is_taken_out() -> None:
    """Also one that is larger than a chunk may be."""
    data = "iVBORw0KGgo" + "A" * 20_000_001
    inline = {"inlineData": {"mimeType": "image/png", "data": data}}
    body = write_events({"response": chunk(inline, reason="STOP"), "traceId": "t-1"})
    api, pictures = get_api("code_assist.stream"), TakenPictures()
    assert api.open_pictured is not None
    stream = api.open_pictured(choice_count=1, lend=lambda _: True, pictures=pictures)
    for start in range(0, len(body), 65_536):
        stream.feed(body[start : start + 65_536])
    said = stream.finish()
    assert "observer_limit" not in said.anomalies
    assert len(said.read_answers()[0].message.parts) == 1


def test_the_size_of_what_is_under_way_is_known() -> None:
    """It counts towards the memory of all open answers."""
    peeler = ChunkPeeler(None)
    assert peeler.feed(b'data: {"response"') == b""
    assert peeler.pending_bytes == 17


@pytest.mark.parametrize("name", ["code_assist.generate", "code_assist.stream"])
def test_the_player_speaks_in_envelopes(name: str) -> None:
    """What the demo upstream plays is read back to what Gemini's player plays."""
    api = get_api(name)
    assert api.open_player is not None
    player = api.open_player()
    assert player.find_fault({"request": {"contents": [{"parts": []}]}}) is None
    fault = player.find_fault({"request": {}})
    assert fault is not None
    assert "contents" in fault["error"]["message"]
