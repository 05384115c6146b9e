"""Sound of Live sessions that is kept, because the operator asks for it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.gemini.live.asked import LiveRequest
from codec.apis.gemini.live.session import LiveSession
from codec.apis.gemini.live.stream import LiveStream
from codec.history_items import read_history_items
from codec.kept_sound import MAX_SOUND_BYTES
from codec.parts import Media
from codec.text.jsontext import encode_json

if TYPE_CHECKING:
    from codec.apis.session import SessionCall
    from codec.history_items import HistoryItem

HELLO = bytes(range(64)) * 4
PCM = "audio/pcm;rate=16000"


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Talk:
    """Feeds a session that keeps sound, and collects the calls that ended."""

    def __init__(self, *, keeps_sound: bool = True) -> None:
        self.session = LiveSession(keeps_sound=keeps_sound)
        self.calls: list[SessionCall] = []
        self._at_ns = 0
        self.say(from_client=True, setup={"model": "models/m-1"})

    def say(self, *, from_client: bool, **message: Any) -> None:
        """One side says something."""
        self._at_ns += 1
        text = encode_json(message).encode()
        for call in self.session.feed(text, from_client=from_client, at_ns=self._at_ns):
            if call.end is not None:
                self.calls.append(call)

    def speak(self, *pieces: bytes, kind: str = PCM) -> None:
        """The client sends sound."""
        for piece in pieces:
            blob = {"mimeType": kind, "data": encode(piece)}
            self.say(from_client=True, realtimeInput={"audio": blob})

    def event(self, **said: Any) -> None:
        """The server says something."""
        self.say(from_client=False, serverContent=said)

    def hear(self, words: str) -> None:
        """The server says what it heard."""
        self.event(inputTranscription={"text": words})

    def answer(self, words: str) -> SessionCall:
        """The server answers in words, and ends the turn."""
        self.event(outputTranscription={"text": words})
        self.event(turnComplete=True)
        return self.calls[-1]


def contents(call: SessionCall) -> list[Any]:
    """The contents of a request."""
    return list(call.body["contents"])


def read_items(call: SessionCall) -> list[HistoryItem]:
    """The items of a request's history."""
    read = read_history_items(LiveRequest(dict(call.body)).read_messages())
    assert read is not None
    return read.history


def test_what_the_user_said_stands_beside_its_transcript_in_the_request_that_it_came_with() -> None:
    """Also if words are heard while the model speaks; later requests have only the words."""
    talk = Talk()
    talk.speak(HELLO[:5], HELLO[5:])
    talk.hear("Hello")
    talk.event(outputTranscription={"text": "Hi"})
    talk.hear(" there")
    one = talk.answer("!")
    blob = {"mimeType": PCM, "data": encode(HELLO)}
    said = {"role": "user", "parts": [{"text": "Hello there", "transcript": True}]}
    with_sound = {"role": "user", "parts": [said["parts"][0] | {"inlineData": blob}]}  # type: ignore[operator]
    assert contents(one) == [with_sound]
    assert LiveRequest(dict(one.body)).read_messages()[0].parts == (
        Media(
            kind="audio",
            data=encode(HELLO),
            mime_type=PCM,
            transcript="Hello there",
            is_of_session=True,
        ),
    )
    two = talk.answer("What?")
    assert contents(two)[0] == said
    assert read_items(two)[:1] == read_items(one)


def test_sound_without_a_transcript_is_a_content_of_its_own() -> None:
    """It is no part of the history, because no later request has it."""
    talk = Talk()
    talk.speak(HELLO)
    one = talk.answer("Hi")
    blob = {"mimeType": PCM, "data": encode(HELLO)}
    part = {"text": "", "transcript": True, "inlineData": blob}
    assert contents(one) == [{"role": "user", "parts": [part]}]
    assert contents(talk.answer("What?")) == [
        {"role": "model", "parts": [{"text": "Hi", "transcript": True}]}
    ]
    assert read_items(one) == []


def test_words_of_the_model_do_not_get_the_user_s_sound() -> None:
    """Nor does what was written, or a tool's output."""
    talk = Talk()
    talk.hear("Hello")
    talk.answer("Hi")
    talk.speak(HELLO)
    has_sound = [
        any("inlineData" in part for part in content["parts"])
        for content in contents(talk.answer("Well?"))
    ]
    assert has_sound == [False, False, True]


def test_of_a_long_sound_the_end_is_kept_and_the_rest_counted() -> None:
    """And so is one of another format, which does not fit to what follows."""
    talk = Talk()
    talk.speak(b"12", kind="audio/opus")
    talk.speak(b"\0" * 1_000, b"\1" * MAX_SOUND_BYTES, kind="audio/pcm")
    [content] = contents(talk.answer("Hi"))
    blob = content["parts"][0]["inlineData"]
    assert blob["mimeType"] == "audio/pcm;rate=16000"
    assert base64.b64decode(blob["data"]) == b"\1" * MAX_SOUND_BYTES
    assert blob["missingBytes"] == 1_002


def test_sound_is_given_up_if_others_need_the_room() -> None:
    """Its request is partial; what comes afterwards is kept again."""
    talk = Talk()
    talk.speak(HELLO)
    talk.hear("Hello")
    talk.event(outputTranscription={"text": "Hi"})
    talk.speak(b"lost")
    assert talk.session.held_bytes == len(encode(HELLO)) + 4
    talk.session.give_up()
    assert talk.session.held_bytes == 0
    one = talk.answer("!")
    assert (one.is_partial, "inlineData" in contents(one)[0]["parts"][0]) == (True, False)
    talk.speak(HELLO)
    blob = contents(talk.answer("Hm"))[-1]["parts"][0]["inlineData"]
    assert blob == {"mimeType": PCM, "data": encode(HELLO), "missingBytes": 4}
    assert talk.session.held_bytes == 0


def test_a_session_that_continues_another_says_what_it_did_not_hear() -> None:
    """The state has no sound, so that it stays small."""
    talk = Talk()
    talk.speak(b"before")
    state = talk.session.state
    assert state is not None
    assert encode(b"before").encode() not in state
    talk.session = LiveSession(state=state, keeps_sound=True)
    talk.speak(HELLO)
    assert contents(talk.answer("Hi"))[0]["parts"][0]["inlineData"]["missingBytes"] == 6


def test_sound_is_not_kept_unasked() -> None:
    """It is counted."""
    talk = Talk(keeps_sound=False)
    talk.speak(HELLO)
    call = talk.answer("Hi")
    assert contents(call) == []
    assert call.body["input_audio"]["bytes"] == len(HELLO)


@pytest.mark.parametrize("alphabet", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("words", [["Hi", " there"], []])
def test_what_the_model_said_is_beside_its_transcript(alphabet: Any, words: list[str]) -> None:
    """Its pieces joined, in the plain alphabet; without a transcript it is a part of its own."""
    stream = LiveStream(keeps_sound=True)
    for piece in (HELLO[:7], b"\xff" * 4, HELLO[7:]):
        blob = {"mimeType": "audio/pcm", "data": alphabet(piece).decode()}
        said = {"modelTurn": {"role": "model", "parts": [{"inlineData": blob}]}}
        stream.feed_message(encode_json({"serverContent": said}).encode())
    for word in words:
        said = {"outputTranscription": {"text": word}}
        stream.feed_message(encode_json({"serverContent": said}).encode())
    stream.feed_message(b'{"serverContent": {"turnComplete": true}}')
    answer = stream.finish()
    [part] = answer.answers[0].message.parts
    assert isinstance(part, Media)
    assert part.data == encode(HELLO[:7] + b"\xff" * 4 + HELLO[7:])
    assert (part.mime_type, part.transcript) == ("audio/pcm;rate=24000", "".join(words))
    assert answer.output_bytes == len(HELLO) + 4
