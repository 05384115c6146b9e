"""``codec.apis.gemini.live.session``: messages of a WebSocket to calls.

Seven sessions are recorded, three with a call of a tool. No turn in them was interrupted, resumed a
session, named why it ended or came in several turns of speech. These are made by hand from Google's
reference of the messages. The recorded sound of the model was shortened by its source. What the
recorded sessions say is compared in :mod:`tests.telemetry.observing.test_live_turns`.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.gemini.live.asked import LiveRequest
from codec.apis.gemini.live.session import MAX_WAITING, LiveSession
from codec.apis.gemini.live.stream import LiveAnswer, LiveStream
from codec.apis.session import MAX_SESSION_BYTES, CallEnd, write_event
from codec.parts import Media, Reasoning, Text, ToolCall, ToolResult
from codec.said import Ending, Stop
from codec.text.jsontext import compact_text, decode_json, encode_json
from tests.codec.test_error_objects import json_values
from tests.corpus.live_recordings import load_sessions
from tests.corpus.recordings import FOLDER, NEEDS_RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.apis.session import SessionCall
    from codec.parts import Message

SOUND = base64.b64encode(b"\0" * 4_800).decode()
SETUP: dict[str, Any] = {
    "model": "models/m-1", "generationConfig": {"responseModalities": ["AUDIO"]},
    "systemInstruction": {"parts": [{"text": "Be short."}]},
}  # fmt: skip
USAGE: dict[str, Any] = {
    "promptTokenCount": 10, "responseTokenCount": 5, "totalTokenCount": 15,
    "promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 4}],
    "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 5}],
}  # fmt: skip
COUNT = 7
"""How many connections were recorded."""


def words(message: Message) -> str:
    """Join what a message says, in writing, as the transcript of sound, to a tool and by one."""
    said = []
    for part in message.parts:
        if isinstance(part, str):
            said.append(part)
        elif isinstance(part, Text | Reasoning):
            said.append(part.text or "")
        elif isinstance(part, Media):
            said.append(part.transcript or "")
        elif isinstance(part, ToolCall):
            said.append(f"{part.name}{part.arguments}")
        elif isinstance(part, ToolResult):
            said.append(compact_text(part.value))
    return "".join(said)


def asked(call: SessionCall) -> list[tuple[str | None, str]]:
    """The messages of a request without the instruction: roles and words."""
    request = LiveRequest(dict(call.body))
    messages = [(message.role, words(message)) for message in request.read_messages()]
    return messages[request.instruction_count :]


def said_of(call: SessionCall) -> LiveAnswer:
    """The answer of a call that ended."""
    assert isinstance(call.said, LiveAnswer)
    return call.said


def say(call: SessionCall) -> str:
    """What the answer of a call says."""
    return "".join(words(answer.message) for answer in said_of(call).answers)


@pytest.fixture(autouse=True, scope="module", params=[False, True], ids=["whole", "continued"])
def _sessions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each session goes through, or is continued by another one wherever that is possible."""
    Talk.continues = request.param
    yield
    Talk.continues = False


class Talk:
    """Feeds a session, and collects the calls that ended.

    Attributes:
        continues: after each message after which it can be, the session is replaced by one that
            continues from its state.
    """

    continues: ClassVar[bool] = False

    def __init__(self, setup: dict[str, Any] | None = SETUP) -> None:
        self.session = LiveSession()
        self.now_ns = 0
        self.calls: list[SessionCall] = []
        self.ended: list[SessionCall] = []
        if setup is not None:
            self.ask(setup=setup)

    def feed(self, text: bytes, *, from_client: bool, is_whole: bool = True) -> int:
        """Feed a message, and return its time."""
        self.now_ns += 1
        for call in self.session.feed(
            text, from_client=from_client, at_ns=self.now_ns, is_whole=is_whole
        ):
            self.calls.append(call)
            if call.end is not None:
                self.ended.append(call)
        if self.continues and (state := self.session.state) is not None:
            self.session = LiveSession(state=state)
        return self.now_ns

    def ask(self, **message: Any) -> int:
        """Send a message of the client."""
        return self.feed(encode_json(message).encode(), from_client=True)

    def write(self, *texts: str, complete: bool = True) -> int:
        """Send contents of the user."""
        turns = [{"role": "user", "parts": [{"text": text}]} for text in texts]
        return self.ask(clientContent={"turns": turns, "turnComplete": complete})

    def event(self, usage: Any = None, **said: Any) -> int:
        """Send what the server says."""
        counts = {} if usage is None else {"usageMetadata": usage}
        text = encode_json({"serverContent": said, **counts}).encode()
        return self.feed(text, from_client=False)

    def serve(self, **message: Any) -> int:
        """Send a message of the server."""
        return self.feed(encode_json(message).encode(), from_client=False)

    def speak(self, text: str) -> int:
        """Say a word of an answer."""
        return self.event(outputTranscription={"text": text})

    def hear(self, text: str, **members: Any) -> int:
        """Write down a word of the user."""
        return self.event(inputTranscription={"text": text, **members})

    def end(self, **said: Any) -> SessionCall:
        """End a turn, and return the call."""
        self.event(USAGE, turnComplete=True, **said)
        return self.ended[-1]


class TestTurns:
    """What a call is made of."""

    def test_a_turn_is_a_call_with_its_times(self) -> None:
        """Its body has the setup and the conversation, as a request for content has them."""
        talk = Talk()
        at = talk.write("Hi")
        begun = talk.speak("Hel")
        talk.speak("lo")
        call = talk.end()
        contents = [{"role": "user", "parts": [{"text": "Hi"}]}]
        assert call.body == {**SETUP, "contents": contents}
        assert (call.start_ns, call.first_ns, call.end_ns) == (at, begun, talk.now_ns)
        assert (call.end, call.has_request, call.is_partial) == (CallEnd.ANSWERED, True, False)
        assert say(call) == "Hello"
        assert said_of(call).choices_of_answers[0].stop is Stop.STOP

    def test_the_request_is_read_as_others_are(self) -> None:
        """The model has its whole path in Vertex AI."""
        request = LiveRequest(SETUP | {"model": "projects/p/publishers/google/models/m-2"})
        assert (request.model, request.stream) == ("m-2", True)
        assert request.options["modalities"] == ["audio"]
        assert words(request.read_messages()[0]) == "Be short."

    def test_a_turn_that_the_user_began_by_speaking_has_no_request(self) -> None:
        """It begins with the first thing that the model says."""
        talk = Talk()
        talk.ask(realtimeInput={"audio": {"data": SOUND, "mimeType": "audio/pcm;rate=16000"}})
        talk.hear(" Hi")
        talk.hear(" there", finished=True)
        begun = talk.speak("Hello")
        call = talk.end()
        assert (call.has_request, call.start_ns) == (False, begun)
        assert asked(call) == [("user", " Hi there")]
        assert call.body["input_audio"] == {"bytes": 4_800, "seconds": 0.15}

    def test_words_that_come_late_are_in_the_body_until_the_turn_is_interrupted(self) -> None:
        """Later ones belong to the next turn; a body that was given out does not change."""
        talk = Talk()
        talk.hear("Hi")
        talk.event(modelTurn={"parts": []})
        [opened] = talk.calls
        before = opened.body
        talk.hear(" there")
        talk.speak("Hello")
        talk.hear(", you")
        talk.event(interrupted=True)
        talk.hear("Stop")
        first = talk.end()
        talk.speak("Fine")
        second = talk.end()
        assert asked(first) == [("user", "Hi there, you")]
        assert asked(second) == [("user", "Hi there, you"), ("model", "Hello"), ("user", "Stop")]
        assert before["contents"] == [
            {"role": "user", "parts": [{"text": "Hi", "transcript": True}]},
        ]

    def test_words_that_all_come_late_stand_before_the_answer(self) -> None:
        """The model may answer before anything is written down of what the user said."""
        talk = Talk()
        talk.write("One")
        talk.speak("1")
        talk.end()
        talk.speak("2")
        talk.write("Three", complete=False)
        talk.hear("Two")
        second = talk.end()
        assert asked(second) == [("user", "One"), ("model", "1"), ("user", "Two")]
        talk.write("Now")
        assert asked(talk.end()) == [
            *(("user", "One"), ("model", "1"), ("user", "Two"), ("model", "2")),
            *(("user", "Three"), ("user", "Now")),
        ]

    def test_contents_that_are_not_complete_ask_for_nothing(self) -> None:
        """They are the history that a client begins with."""
        talk = Talk()
        talk.write("One", complete=False)
        talk.write("Two", "Three")
        assert [text for _, text in asked(talk.end())] == ["One", "Two", "Three"]

    def test_a_call_of_a_tool_ends_a_turn(self) -> None:
        """Its output begins the next one."""
        talk = Talk()
        talk.write("Weather?")
        call = {"id": "c1", "name": "look", "args": {"city": "Rome"}}
        text = encode_json({"toolCall": {"functionCalls": [call]}}).encode()
        talk.feed(text, from_client=False)
        [first] = talk.ended
        assert said_of(first).finish_reasons == [(0, "toolCall")]
        assert said_of(first).choices_of_answers[0].stop is Stop.TOOL_CALL
        assert said_of(first).anomalies == ()
        result = {"id": "c1", "name": "look", "response": {"output": "Sun"}}
        at = talk.ask(tool_response={"function_responses": [result]})
        talk.speak("Sunny.")
        second = talk.end()
        assert second.start_ns == at
        assert asked(second) == [
            ("user", "Weather?"), ("model", 'look{"city":"Rome"}'), ("user", '{"output":"Sun"}'),
        ]  # fmt: skip

    def test_counts_are_split_by_kind(self) -> None:
        """Thoughts are beside the answer's tokens; a total without them is none."""
        talk = Talk()
        talk.write("Hi")
        usage = said_of(talk.end()).usage
        assert usage is not None
        assert (usage.prompt, usage.completion, usage.total) == (10, 5, 15)
        assert (usage.prompt_audio, usage.completion_audio) == (4, 5)
        talk.write("Hi")
        talk.event(USAGE | {"thoughtsTokenCount": 3}, turnComplete=True)
        said = said_of(talk.ended[-1])
        assert said.usage is not None
        assert (said.usage.completion, said.usage.reasoning, said.usage.total) == (8, 3, None)
        assert said.anomalies == ()

    @pytest.mark.parametrize(
        ("kind", "rate"), [("audio/pcm", 24_000), ("audio/pcm;rate=8000", 8_000)]
    )
    def test_what_the_model_says_is_counted(self, kind: str, rate: int) -> None:
        """Of another form than plain samples, the seconds are not known."""
        talk = Talk()
        talk.event(modelTurn={"parts": [{"inlineData": {"mimeType": kind, "data": SOUND}}]})
        said = said_of(talk.end())
        assert talk.ended[-1].stream.has_content
        assert (said.output_bytes, said.audio_seconds) == (4_800, 2_400 / rate)
        assert SOUND not in encode_json(dict(said.body))
        talk.event(modelTurn={"parts": [{"inlineData": {"mimeType": "audio/ogg", "data": SOUND}}]})
        assert said_of(talk.end()).audio_seconds is None

    def test_pictures_that_the_model_makes_are_kept(self) -> None:
        """Only sound is left out."""
        talk = Talk()
        blob = {"mimeType": "image/png", "data": "iVBORw0KGgo="}
        talk.event(modelTurn={"parts": [{"inlineData": blob}]})
        [answer] = said_of(talk.end()).answers
        assert [getattr(part, "kind", None) for part in answer.message.parts] == ["image"]

    def test_the_session_has_its_id(self) -> None:
        """Vertex AI gives one."""
        talk = Talk()
        talk.feed(b'{\n  "setupComplete": {"sessionId": "s1"}\n}', from_client=False)
        assert not talk.ended
        talk.write("Hi")
        assert LiveRequest(talk.end().body).session_id == "s1"

    def test_notices_are_in_the_turn_under_way_or_else_in_the_next_one(self) -> None:
        """That the session ends soon, and that results of tools are not wanted any more."""
        talk = Talk()
        away, cancelled = {"timeLeft": "50s"}, {"ids": ["c1"]}
        talk.serve(toolCallCancellation=cancelled)
        talk.write("Hi")
        talk.speak("Hello")
        talk.serve(goAway=away)
        first = talk.end()
        talk.speak("Well")
        second = talk.end()
        assert first.body["toolCallCancellation"] == cancelled
        assert said_of(first).body["goAway"] == away
        assert LiveRequest(first.body).parameters.keys() == {"model", "generationConfig"}
        assert second.body.keys() == {*SETUP, "contents"}

    def test_the_handle_of_a_session_is_in_no_call(self) -> None:
        """It is as good as a password; the message is about no turn."""
        talk = Talk()
        talk.write("Hi")
        talk.speak("Hello")
        before = len(talk.calls)
        talk.serve(sessionResumptionUpdate={"newHandle": "secret", "resumable": True})
        assert len(talk.calls) == before
        assert "secret" not in encode_json([dict(said_of(talk.end()).body)])

    def test_a_session_that_is_resumed_is_partial(self) -> None:
        """What was said before is not known, and the handle is not kept."""
        talk = Talk(SETUP | {"sessionResumption": {"handle": "secret"}})
        talk.write("Hi")
        call = talk.end()
        assert (call.is_partial, call.body.keys() & {"sessionResumption"}) == (True, set())


class TestEndings:
    """How a turn ends."""

    def test_an_interrupted_turn_is_cancelled(self) -> None:
        """What was said stands there, and its end is its own."""
        talk = Talk()
        talk.write("Hi")
        talk.speak("Once upon")
        talk.event(interrupted=True)
        assert not talk.ended
        call = talk.end()
        said = said_of(call)
        assert (say(call), said.finish_reasons) == ("Once upon", [(0, "interrupted")])
        assert said.ending(streamed=True) is Ending.CANCELLED
        assert said.is_interrupted

    def test_the_next_turn_ends_one_that_was_interrupted(self) -> None:
        """Its end did not come."""
        talk = Talk()
        talk.speak("Once upon")
        talk.event(interrupted=True)
        talk.speak("Yes?")
        [first] = talk.ended
        assert (first.end, say(first)) == (CallEnd.ANSWERED, "Once upon")
        assert say(talk.end()) == "Yes?"

    def test_a_turn_may_say_why_it_ended(self) -> None:
        """In its own words."""
        talk = Talk()
        talk.write("Hi")
        said = said_of(talk.end(turnCompleteReason="RESPONSE_REJECTED"))
        assert said.finish_reasons == [(0, "RESPONSE_REJECTED")]

    def test_the_end_of_the_connection_cuts_what_is_open(self) -> None:
        """The turn under way, and the request that was not answered."""
        talk = Talk()
        talk.write("One")
        talk.speak("Hel")
        talk.write("Two")
        first, second = talk.session.close(99)
        assert (first.end, say(first), first.end_ns) == (CallEnd.CLOSED, "Hel", 99)
        assert said_of(first).ending(streamed=True) is Ending.OPEN
        assert (second.end, second.first_ns) == (CallEnd.CLOSED, None)

    def test_an_error_ends_the_turn_under_way(self) -> None:
        """With what was said before it."""
        talk = Talk()
        talk.write("Hi")
        talk.speak("Hel")
        talk.serve(error={"code": 1011, "message": "internal"})
        [call] = talk.ended
        assert (call.end, say(call)) == (CallEnd.BROKEN, "Hel")
        assert (error := said_of(call).error) is not None
        assert (error.code, error.message) == ("1011", "internal")
        assert not talk.session.close(99)

    def test_an_error_refuses_what_waits(self) -> None:
        """Each request is a call."""
        talk = Talk()
        talk.write("One")
        talk.write("Two")
        talk.serve(error={"code": 1008, "message": "no quota"})
        assert [call.end for call in talk.ended] == [CallEnd.REFUSED] * 2
        assert [text for _, text in asked(talk.ended[1])] == ["One", "Two"]

    def test_a_setup_that_is_refused_is_a_call(self) -> None:
        """A model that does not exist, a key that is wrong; later nothing is refused."""
        talk = Talk()
        talk.serve(error={"code": 1007, "message": "no such model"})
        [call] = talk.ended
        assert (call.end, call.body) == (CallEnd.REFUSED, SETUP | {"contents": []})
        taken = Talk()
        taken.serve(setupComplete={})
        taken.serve(error={"code": 1011, "message": "internal"})
        assert not taken.ended

    @pytest.mark.parametrize(
        "message",
        [
            {"goAway": {"timeLeft": "50s"}}, {"serverContent": {}}, {"usageMetadata": USAGE},
            {"serverContent": {"turnComplete": True}}, {"serverContent": {"interrupted": True}},
            {"toolCallCancellation": {"ids": ["c1"]}}, {"sessionResumptionUpdate": {}},
            {"serverContent": {"inputTranscription": {"text": "Hi"}}},
        ],
    )  # fmt: skip
    def test_what_is_about_no_turn_begins_none(self, message: dict[str, Any]) -> None:
        """Nothing was asked, and the model says nothing."""
        talk = Talk()
        talk.feed(encode_json(message).encode(), from_client=False)
        assert not talk.session.close(9)


class TestBounds:
    """Nothing grows without an end, and nothing raises."""

    def test_the_oldest_contents_are_forgotten(self) -> None:
        """The calls after that are partial."""
        talk = Talk()
        for number in range(40):
            talk.write(f"{number} " + "x" * (MAX_SESSION_BYTES // 30), complete=number == 39)
        call = talk.end()
        assert 20 < len(asked(call)) < 30
        assert call.is_partial
        assert asked(call)[-1][1].startswith("39 ")

    def test_answers_are_forgotten_with_what_they_answer(self) -> None:
        """What earlier calls brought is counted among the contents that are left."""
        talk = Talk()
        for number in range(30):
            talk.write(f"{number}?" + "x" * (MAX_SESSION_BYTES // 20))
            talk.speak(f"{number}!")
            call = talk.end()
            assert [text[:3].rstrip("?x!") for _, text in asked(call)][-1] == str(number)

    def test_a_large_picture_pushes_nothing_out(self) -> None:
        """It is left out itself, and its words stay; the calls from then on are partial."""
        talk = Talk()
        talk.write("One")
        talk.speak("1")
        assert not talk.end().is_partial
        picture = {"inlineData": {"mimeType": "image/png", "data": "x" * 6_700_000}}
        turn = {"role": "user", "parts": [{"text": "Look \N{EYES}"}, picture]}
        talk.ask(clientContent={"turns": [turn], "turnComplete": True})
        talk.speak("Nice")
        call = talk.end()
        assert [text for _, text in asked(call)] == ["One", "1", "Look \N{EYES}"]
        assert call.body["contents"][-1]["parts"][1] == {"inlineData": {"mimeType": "image/png"}}
        assert call.is_partial
        talk.write("y" * (MAX_SESSION_BYTES // 3))
        assert [text for _, text in asked(talk.end())] == ["One", "1", "Look \N{EYES}", "Nice"]

    def test_a_setup_that_does_not_fit_makes_partial_calls(self) -> None:
        """As one that never came does."""
        for talk in (Talk(SETUP | {"tools": ["x" * MAX_SESSION_BYTES]}), Talk(None)):
            talk.write("Hi")
            call = talk.end()
            assert (call.is_partial, [*call.body]) == (True, ["contents"])

    def test_requests_that_wait_are_few(self) -> None:
        """The last ones count."""
        talk = Talk()
        for _ in range(MAX_WAITING + 3):
            talk.write("Hi")
        assert len(talk.session.close(1)) == MAX_WAITING

    def test_a_transcript_has_an_end(self) -> None:
        """The call is partial."""
        talk = Talk()
        for _ in range(40):
            talk.hear("x" * 4_096)
        talk.speak("Hm")
        call = talk.end()
        assert (call.is_partial, len(asked(call)[0][1])) == (True, 64 * 1024)

    def test_a_large_message_is_noted(self) -> None:
        """One that asks begins a turn; sound is not counted; an answer misses something."""
        talk = Talk()
        for text in (b'{"realtimeInput": {"audio"', b'{ "client_content": {"turns": ['):
            talk.feed(text, from_client=True, is_whole=False)
        talk.speak("Hm")
        talk.feed(b'{"serverContent": {"modelTurn"', from_client=False, is_whole=False)
        call = talk.end()
        assert (call.is_partial, call.has_request, "input_audio" in call.body) == (
            True, True, False,
        )  # fmt: skip
        assert "observer_limit" in said_of(call).anomalies
        assert said_of(call).output_bytes is None

    @given(
        st.lists(
            st.tuples(
                st.dictionaries(
                    st.sampled_from(
                        [
                            *("setup", "clientContent", "realtime_input", "toolResponse"),
                            *("serverContent", "toolCall", "usageMetadata", "setupComplete"),
                            *("error", "goAway", "toolCallCancellation"),
                        ]
                    ),
                    json_values
                    | st.dictionaries(
                        st.sampled_from(
                            [
                                *("turns", "turnComplete", "functionResponses", "modelTurn"),
                                *("outputTranscription", "inputTranscription", "interrupted"),
                                *("functionCalls", "audio", "mediaChunks", "sessionId", "text"),
                            ]
                        ),
                        json_values
                        | st.sampled_from(
                            [
                                True, {"text": "a"},
                                {"parts": [3, {"text": 3, "transcript": True}]},
                                {"parts": [{"inlineData": 3}, {"inline_data": {"data": "!"}}]},
                                [{"parts": None}, 3], [{"name": 3}, None],
                                {"mimeType": "audio/pcm;rate=0", "data": "===="},
                            ]
                        ),
                    ),
                ),
                st.booleans(),
                st.booleans(),
            )
        )
    )  # fmt: skip
    def test_hostile_messages_never_raise(
        self, messages: list[tuple[dict[str, Any], bool, bool]]
    ) -> None:
        """Whatever the members are; every call ends once."""
        session = LiveSession()
        kept: dict[int, SessionCall] = {}
        ended: list[int] = []
        for message, from_client, is_whole in messages:
            text = encode_json(message).encode()
            text = text if is_whole else text[: len(text) // 2]
            for call in session.feed(text, from_client=from_client, at_ns=1, is_whole=is_whole):
                kept[id(call)] = call
                ended += [id(call)] if call.end is not None else []
                for each in LiveRequest(decode_json(encode_json(call.body))).read_messages():
                    words(each)
        for call in session.close(2):
            kept[id(call)] = call
            ended.append(id(call))
        assert sorted(ended) == sorted(kept)
        assert all(call.said is not None for call in kept.values())

    @given(st.binary(max_size=64), st.booleans(), st.booleans())
    def test_bytes_that_are_no_messages_are_passed_over(
        self, data: bytes, from_client: bool, is_whole: bool
    ) -> None:
        """They are about no turn."""
        session = LiveSession()
        assert not session.feed(data, from_client=from_client, at_ns=1, is_whole=is_whole)
        assert not session.close(2)


@NEEDS_RECORDINGS[0]
@NEEDS_RECORDINGS[1]
@pytest.mark.parametrize("number", range(COUNT))
def test_the_messages_of_a_recorded_call_are_its_stream(number: int) -> None:
    """As events over HTTP, they give the same answer as in the session."""
    assert FOLDER is not None
    session = LiveSession()
    about: dict[int, tuple[SessionCall, LiveStream]] = {}
    for at, (from_client, text) in enumerate(load_sessions(FOLDER)[number]):
        for call in session.feed(text, from_client=from_client, at_ns=at):
            _, stream = about.setdefault(id(call), (call, LiveStream()))
            stream.feed(write_event(text))
    assert not session.close(0)
    assert about
    for call, stream in about.values():
        assert stream.finish() == call.said
