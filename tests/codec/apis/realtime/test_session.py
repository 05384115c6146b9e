"""``codec.apis.realtime.session``: messages of a WebSocket to calls, made by hand.

Recorded sessions are in ``test_recorded``. In none of them did an answer fail, end early or get
interrupted, and none has an error, a response outside of the conversation, an item that was moved,
removed or truncated, or G.711. These are built from OpenAI's reference of the events.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.realtime.conversation import Conversation
from codec.apis.realtime.creates import MAX_WAITING
from codec.apis.realtime.route import REALTIME
from codec.apis.realtime.session import MAX_OPEN, RealtimeSession
from codec.apis.realtime.transcripts import WAIT_NS, AwaitedTranscripts
from codec.apis.session import MAX_SESSION_BYTES, CallEnd
from codec.parts import ToolCall
from codec.said import Ending, Stop
from codec.text.jsontext import decode_json, encode_json
from tests.codec.apis.realtime.talk import USAGE, Talk, say, spoken, user, words
from tests.codec.test_error_objects import json_values

if TYPE_CHECKING:
    from collections.abc import Iterator

SOUND = base64.b64encode(b"\0" * 4_800).decode()
TRANSCRIBED = "conversation.item.input_audio_transcription.completed"


@pytest.fixture(autouse=True, scope="module", params=[False, True], ids=["whole", "continued"])
def _sessions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each session goes through, or is continued by another one wherever that is possible."""
    Talk.continues = request.param
    yield
    Talk.continues = False


def asked(call: Any) -> list[tuple[str | None, str]]:
    """The messages of a request: roles and words."""
    messages = REALTIME.ask(call.body, "").read_messages()
    return [(message.role, words(message)) for message in messages]


class TestOneResponse:
    """What a call is made of."""

    def test_a_response_is_a_call_with_its_times(self) -> None:
        """Its body has the settings of the session, those of the request, and the conversation."""
        talk = Talk()
        tools = [{"type": "function", "name": "f"}]
        talk.begin(
            instructions="Be short.", tools=tools, client_secret={"value": "secret"},
            object="realtime.session", voice="alloy", prompt=None,
        )  # fmt: skip
        talk.add(user("u1", "Hi"))
        at = talk.create(output_modalities=["audio"], metadata={"topic": "a"}, voice="ash")
        begun = talk.created("r1", metadata={"topic": "a"})
        talk.delta("r1", "Hel")
        talk.delta("r1", "lo")
        call = talk.end("r1", [spoken("a1", "Hello")])
        assert call.body == {
            "model": "m-1", "instructions": "Be short.", "tools": tools, "voice": "ash",
            "output_modalities": ["audio"], "metadata": {"topic": "a"},
            "input": [user("u1", "Hi")], "session_id": "sess-1",
        }  # fmt: skip
        assert (call.start_ns, call.first_ns, call.end_ns) == (at, begun, talk.now_ns)
        assert (call.answer_id, call.end, call.has_request) == ("r1", CallEnd.ANSWERED, True)
        assert not call.is_partial
        assert say(call) == "Hello"

    def test_the_request_is_read_as_others_are(self) -> None:
        """The model, the instructions, options by their common names, and the session's id."""
        talk = Talk()
        talk.begin(instructions="Be short.", max_output_tokens=9, modalities=["text"])
        talk.create()
        request = REALTIME.ask(talk.answer("r1", "Hi").body, "/v1/realtime")
        assert (request.model, request.stream, request.fault) == ("m-1", True, None)
        assert (request.session_id, request.conversation_id) == ("sess-1", None)
        assert request.options["max_tokens"] == 9
        assert request.options["modalities"] == ["text"]
        assert words(request.read_messages()[0]) == "Be short."
        assert "max_tokens" not in REALTIME.ask({"max_output_tokens": "inf"}, "").options

    def test_what_the_client_says_of_mcp_servers_is_known_though_it_is_not_reported(self) -> None:
        """Credentials are masked wherever they are quoted. A function is read in either form."""
        talk = Talk()
        server = {"type": "mcp", "server_label": "files", "server_url": "https://a.example"}
        function = {"name": "f", "parameters": {}}
        secret = {"authorization": "sk-1", "headers": {"X-Key": "sk-2"}}
        talk.begin()
        talk.ask("session.update", session={"tools": [server | secret]})
        talk.ask("session.update", session={"voice": "ash"})
        tools = [server, {"type": "function", "function": function}, "odd"]
        talk.event("session.updated", session={"tools": tools})
        talk.create()
        assert talk.answer("r1", "Hi").body["tools"] == [
            server | secret, {"type": "function", **function}, "odd",
        ]  # fmt: skip
        talk.ask("session.update", session={"tools": []})
        talk.event("session.updated", session={"tools": [server]})
        talk.create()
        assert talk.answer("r2", "Hi").body["tools"] == [server]

    def test_counts_are_split_by_kind(self) -> None:
        """Sound and cached tokens are parts of the counts; the rest is in the raw object."""
        talk = Talk()
        talk.create()
        said = talk.answer("r1", "Hi").said
        assert said is not None
        assert said.usage is not None
        counts = said.usage
        assert (counts.prompt, counts.completion, counts.total) == (6, 3, 9)
        assert (counts.prompt_audio, counts.completion_audio, counts.cache_read) == (4, 2, 1)
        assert counts.raw == USAGE

    def test_a_call_of_a_function_is_answered(self) -> None:
        """The call ends one response; its output is in the input of the next one."""
        talk = Talk()
        talk.add(user("u1", "Weather?"))
        talk.create()
        talk.created("r1")
        call = {
            "id": "c1", "type": "function_call", "call_id": "look", "name": "look",
            "arguments": "{}",
        }  # fmt: skip
        first = talk.end("r1", [call])
        assert first.said is not None
        [part] = first.said.answers[0].message.parts
        assert isinstance(part, ToolCall)
        assert (part.id, part.name, part.arguments) == ("look", "look", "{}")
        assert first.said.choices_of_answers[0].stop is Stop.TOOL_CALL
        output = {"id": "o1", "type": "function_call_output", "call_id": "look", "output": "Sun"}
        talk.add(output)
        talk.create()
        second = talk.answer("r2", "Sunny.")
        assert second.body["input"] == [user("u1", "Weather?"), call, output]

    def test_a_response_that_the_server_began_has_no_request(self) -> None:
        """The user stopped speaking."""
        talk = Talk()
        talk.event("input_audio_buffer.committed", item_id="u1")
        talk.add(user("u1", "Hi"))
        begun = talk.created("r1")
        call = talk.end("r1", [spoken("a1", "Hello")])
        assert (call.has_request, call.start_ns, call.first_ns) == (False, begun, begun)

    def test_what_is_about_the_request_is_no_piece_of_the_answer(self) -> None:
        """A transcript that came, or that will not come."""
        stream = REALTIME.open_stream(choice_count=1, hides_usage=False, lend=lambda _: True)
        failed = "conversation.item.input_audio_transcription.failed"
        for kind in (TRANSCRIBED, failed, "response.created"):
            stream.feed(b"data: " + encode_json({"type": kind, "response": {}}).encode() + b"\n\n")
        assert stream.chunk_count == 1

    def test_calls_that_change_are_returned(self) -> None:
        """Whoever follows a call sees it under way."""
        session = RealtimeSession()
        assert not session.feed(b'{"type": "response.create"}', from_client=True, at_ns=1)
        begin = b'{"type": "response.created", "response": {"id": "r1"}}'
        [call] = session.feed(begin, from_client=False, at_ns=2)
        delta = b'{"type": "response.text.delta", "response_id": "r1", "output_index": 0, '
        assert [*session.feed(delta + b'"delta": "Hi"}', from_client=False, at_ns=3)] == [call]
        assert call.end is None
        assert ["".join(text.pieces) for text in call.stream.look()] == ["Hi"]


class TestEndings:
    """How a response ends."""

    @pytest.mark.parametrize("reason", ["turn_detected", "client_cancelled"])
    def test_an_interrupted_answer_is_cancelled(self, reason: str) -> None:
        """What was said stands there; it is not an error."""
        talk = Talk()
        talk.create()
        talk.created("r1")
        talk.delta("r1", "Once upon")
        details = {"type": "cancelled", "reason": reason}
        said = talk.end("r1", [spoken("a1", "Once upon")], "cancelled", status_details=details).said
        assert said is not None
        assert said.finish_reasons == [(0, reason)]
        assert said.ending(streamed=True) is Ending.CANCELLED
        assert said.error is None
        assert getattr(said, "is_interrupted", None) is (reason == "turn_detected")

    def test_an_incomplete_answer_says_why(self) -> None:
        """The limit of tokens is a length."""
        talk = Talk()
        talk.create()
        talk.created("r1")
        details = {"type": "incomplete", "reason": "max_output_tokens"}
        said = talk.end("r1", [spoken("a1", "One")], "incomplete", status_details=details).said
        assert said is not None
        assert said.choices_of_answers[0].stop is Stop.LENGTH
        assert said.ending(streamed=True) is Ending.COMPLETE

    def test_a_failed_answer_has_its_error(self) -> None:
        """It stands in the details of the status."""
        talk = Talk()
        talk.create()
        talk.created("r1")
        error = {"type": "server_error", "code": "overloaded", "message": "Too much."}
        said = talk.end("r1", (), "failed", status_details={"error": error}).said
        assert said is not None
        assert said.error is not None
        assert (said.error.code, said.error.message) == ("overloaded", "Too much.")
        assert said.failed_choice == (0, "failed")

    def test_the_end_of_the_connection_cuts_what_is_open(self) -> None:
        """The response under way, and the request that was not answered."""
        talk = Talk()
        talk.create()
        talk.created("r1")
        talk.delta("r1", "Hel")
        talk.create(metadata={"n": "2"})
        first, second = talk.session.close(99)
        assert (first.end, first.end_ns, say(first)) == (CallEnd.CLOSED, 99, "Hel")
        assert (second.end, second.first_ns, second.answer_id) == (CallEnd.CLOSED, None, None)
        assert not talk.session.feed(b"{}", from_client=False, at_ns=100)

    def test_an_error_refuses_the_request_that_it_names(self) -> None:
        """The others wait on."""
        talk = Talk()
        talk.create("e1")
        talk.create("e2", metadata={"n": "2"})
        error = {"type": "invalid_request_error", "message": "No.", "event_id": "e2"}
        talk.event("error", error=error)
        [call] = talk.ended
        assert (call.end, call.body["metadata"]) == (CallEnd.REFUSED, {"n": "2"})
        assert call.said is not None
        assert call.said.error is not None
        assert talk.answer("r1", "Hi").has_request

    def test_a_busy_conversation_refuses_the_oldest_request(self) -> None:
        """The error names no event, because the client gave its event no id."""
        talk = Talk()
        talk.created("r1")
        talk.create()
        talk.event("error", error={"code": "conversation_already_has_active_response"})
        [call] = talk.ended
        assert call.end is CallEnd.REFUSED
        assert talk.end("r1").answer_id == "r1"

    def test_an_error_about_a_member_of_a_request_refuses_the_oldest_one(self) -> None:
        """Clients need not give their events an id."""
        talk = Talk()
        talk.create()
        talk.create(metadata={"n": "2"})
        talk.event("error", error={"code": "invalid_value", "param": "session.voice"})
        talk.event("error", error={"code": "invalid_value", "param": "response.voice"})
        [call] = talk.ended
        assert (call.end, "metadata" in call.body) == (CallEnd.REFUSED, False)

    @pytest.mark.parametrize("error", [{"code": "invalid_value"}, {"event_id": "e9"}, None, "no"])
    def test_other_errors_end_nothing(self, error: Any) -> None:
        """They are about an item, or about the settings."""
        talk = Talk()
        talk.create("e1")
        talk.event("error", error=error)
        assert not talk.ended
        assert talk.answer("r1", "Hi").has_request

    def test_the_end_of_a_session_breaks_all_responses(self) -> None:
        """After an hour."""
        talk = Talk()
        talk.created("r1")
        talk.event("error", error={"code": "session_expired", "message": "Over."})
        [call] = talk.ended
        assert call.end is CallEnd.BROKEN
        assert call.said is not None
        assert call.said.error is not None
        assert call.said.error.code == "session_expired"

    def test_an_end_that_comes_again_begins_nothing(self) -> None:
        """The response has ended."""
        talk = Talk()
        talk.created("r1")
        talk.end("r1")
        talk.end("r1")
        assert len(talk.ended) == 1

    def test_a_response_whose_beginning_was_missed_is_a_call(self) -> None:
        """Its end says all of it."""
        call = Talk().end("r1", [spoken("a1", "Hello")])
        assert (say(call), call.end) == ("Hello", CallEnd.ANSWERED)


class TestConversation:
    """The input of a response."""

    def test_a_transcript_comes_while_the_answer_is_under_way(self) -> None:
        """The body gets it, and the stream the event, with what it cost."""
        talk = Talk()
        talk.add(user("u1"))
        talk.created("r1")
        usage = {"type": "tokens", "total_tokens": 3}
        talk.event(TRANSCRIBED, item_id="u1", content_index=0, transcript="Hi", usage=usage)
        call = talk.end("r1", [spoken("a1", "Hello")])
        assert asked(call) == [("user", "Hi")]
        assert [*getattr(call.said, "transcriptions", ())] == [
            {"item_id": "u1", "content_index": 0, "transcript": "Hi", "usage": usage}
        ]

    def test_a_transcript_that_comes_later_is_in_the_next_input(self) -> None:
        """Also if the item comes again without it."""
        talk = Talk()
        talk.add(user("u1"))
        first = talk.answer("r1", "Hello")
        talk.event(TRANSCRIBED, item_id="u1", content_index=0, transcript="Hi")
        talk.event("conversation.item.done", item=user("u1"))
        assert asked(first) == [("user", "")]
        assert asked(talk.answer("r2", "Hm")) == [("user", "Hi"), ("assistant", "Hello")]

    def test_a_call_that_has_ended_waits_for_its_transcripts(self) -> None:
        """For some seconds, and it gets them with what they cost; an item may fail to get one."""
        talk = Talk()
        talk.begin(audio={"input": {"transcription": {"model": "t-1"}}})
        talk.add(user("u1"))
        talk.add(user("u2"))
        talk.add(user("u3", "third"))
        call = talk.answer("r1", "Hello")
        assert (call.end, call.waits_until_ns) == (CallEnd.ANSWERED, WAIT_NS + talk.now_ns - 4)
        assert talk.session.state is None
        talk.event(TRANSCRIBED, item_id="u1", content_index=0, transcript="first")
        assert asked(call) == [("user", "first"), ("user", ""), ("user", "third")]
        assert call.waits_until_ns
        failed = "conversation.item.input_audio_transcription.failed"
        talk.event(failed, item_id="u2", content_index=0, error={"message": "No."})
        assert talk.ended == [call] * 3
        assert call.waits_until_ns == 0
        assert talk.answer("r2", "Hm").waits_until_ns == 0

    @pytest.mark.parametrize(
        "settings",
        [
            {"audio": {"input": {"transcription": None}}},
            {"input_audio_transcription": None},
            {},
        ],
    )
    def test_a_session_without_transcripts_waits_for_none(self, settings: Any) -> None:
        """Whether it has no such setting, or one that says so."""
        talk = Talk()
        talk.begin(**settings)
        talk.add(user("u1"))
        assert talk.answer("r1", "Hello").waits_until_ns == 0

    def test_the_settings_of_the_beta_ask_for_transcripts_too(self) -> None:
        """Under another name; what came too long ago is waited for no more."""
        talk = Talk()
        talk.begin(input_audio_transcription={"model": "t-1"})
        talk.add(user("u1"))
        talk.created("r1")
        talk.now_ns += WAIT_NS
        assert talk.end("r1").waits_until_ns == 0
        talk.add(user("u2"))
        assert talk.answer("r2", "Hello").waits_until_ns > talk.now_ns

    def test_items_are_in_the_order_of_the_server(self) -> None:
        """Each names the one before it; the first one has a word for that."""
        talk = Talk()
        talk.add(user("u1", "1"))
        talk.add(user("u3", "3"), "u1")
        talk.add(user("u2", "2"), "u1")
        talk.add(user("u0", "0"), "root")
        assert [text for _, text in asked(talk.answer("r1", "Hi"))] == ["0", "1", "2", "3"]

    def test_items_are_removed_and_cut(self) -> None:
        """Of the answer that was not heard, the time is noted until which it was."""
        talk = Talk()
        talk.add(user("u1", "1"))
        talk.answer("r1", "A long story")
        talk.event("conversation.item.deleted", item_id="u1")
        talk.event(
            "conversation.item.truncated", item_id="item-r1", content_index=0, audio_end_ms=700
        )
        [item] = talk.answer("r2", "Hi").body["input"]
        assert item["content"][0] == {
            "type": "output_audio", "transcript": "A long story", "audio_end_ms": 700,
        }  # fmt: skip

    def test_an_unknown_item_before_another_means_that_some_are_missing(self) -> None:
        """A second connection joined the session in the middle."""
        talk = Talk()
        talk.add(user("u5", "5"), "u4")
        assert talk.answer("r1", "Hi").is_partial

    def test_a_response_outside_of_the_conversation_leaves_it_alone(self) -> None:
        """Its own input stands for the conversation; a reference is what it names."""
        talk = Talk()
        talk.add(user("u1", "Hi"))
        own = [{"type": "item_reference", "id": "u1"}, user("x", "Is that polite?")]
        talk.create(conversation="none", input=own, metadata={"purpose": "check"})
        talk.created("r1")
        talk.created("r2", metadata={"purpose": "check"}, conversation_id=None)
        talk.delta("r1", "Hello")
        talk.delta("r2", "Yes.")
        outside = talk.end("r2", [spoken("a2", "Yes.")])
        inside = talk.end("r1", [spoken("a1", "Hello")])
        assert asked(outside) == [("user", "Hi"), ("user", "Is that polite?")]
        assert (outside.has_request, outside.is_partial) == (True, False)
        assert "conversation_id" not in outside.body
        assert (inside.has_request, asked(inside)) == (False, [("user", "Hi")])
        assert [text for _, text in asked(talk.answer("r3", "!"))] == ["Hi", "Hello"]

    def test_an_unknown_reference_is_missing(self) -> None:
        """The request says that something is not there."""
        talk = Talk()
        talk.create(input=[{"type": "item_reference", "id": "u0"}])
        call = talk.answer("r1", "Hi")
        assert (call.is_partial, call.body["input"]) == (True, [])

    def test_the_settings_are_the_last_ones(self) -> None:
        """A null takes a setting back; what is not named stays."""
        talk = Talk()
        talk.begin(instructions="One.", voice="ash")
        talk.event("session.updated", session={"instructions": "Two.", "voice": None})
        body = talk.answer("r1", "Hi").body
        assert (body["instructions"], body["model"], "voice" in body) == ("Two.", "m-1", False)

    def test_limits_of_the_rate_are_in_the_head_of_the_next_call(self) -> None:
        """They come after a response has ended, or between."""
        talk = Talk()
        assert talk.answer("r1", "Hi").head == ()
        limits = [
            {"name": "tokens", "limit": 10, "remaining": 7, "reset_seconds": 1.5},
            {"name": "no\r\nname", "limit": 1}, {"name": "requests", "remaining": True}, 3,
        ]  # fmt: skip
        talk.event("rate_limits.updated", rate_limits=limits)
        assert talk.answer("r2", "Hi").head == (
            ("x-ratelimit-limit-tokens", "10"),
            ("x-ratelimit-remaining-tokens", "7"),
            ("x-ratelimit-reset-tokens", "1.5s"),
        )


class TestSound:
    """Sound is counted, and not kept."""

    @pytest.mark.parametrize(
        ("settings", "seconds"),
        [
            ({"audio": {"input": {"format": {"type": "audio/pcm", "rate": 24_000}}}}, 0.1),
            ({"audio": {"input": {"format": {"type": "audio/pcmu"}}}}, 0.6),
            ({"input_audio_format": "pcm16"}, 0.1),
            ({"input_audio_format": "pcm16", "input_audio_sampling_rate": 16_000}, 0.15),
            ({"input_audio_format": "g711_alaw"}, 0.6),
            ({}, None),
        ],
    )
    def test_what_the_client_sends_is_counted(
        self, settings: dict[str, Any], seconds: float | None
    ) -> None:
        """In bytes, and in seconds as the session says what they mean; once."""
        talk = Talk()
        talk.begin(**settings)
        talk.ask("input_audio_buffer.append", audio=SOUND)
        first, second = talk.answer("r1", "Hi"), talk.answer("r2", "Hi")
        assert first.body["input_audio"] == {"bytes": 4_800, "seconds": seconds}
        assert "input_audio" not in second.body

    def test_sound_in_items_is_taken_out(self) -> None:
        """In those of the client, of the server, and of a request."""
        talk = Talk()
        part = {"type": "input_audio", "audio": SOUND, "transcript": "Hi"}
        item = user("u1") | {"content": [part]}
        talk.ask("conversation.item.create", item=item)
        talk.add(item)
        assert talk.answer("r1", "Hi").body["input_audio"]["bytes"] == 4_800
        talk.create(input=[item])
        call = talk.answer("r2", "Hi")
        assert call.body["input"] == [user("u1", "Hi")]
        assert call.body["input_audio"]["bytes"] == 4_800

    @pytest.mark.parametrize("kind", ["output_audio", "audio"])
    def test_what_the_model_says_is_counted(self, kind: str) -> None:
        """The first sound is the first content; the response says what form it has."""
        talk = Talk()
        talk.created("r1")
        talk.delta("r1", SOUND, kind)
        call = talk.end("r1", [spoken("a1", "Hi")], output_audio_format="pcm16")
        assert call.stream.has_content
        assert call.said is not None
        assert (call.said.output_bytes, getattr(call.said, "audio_seconds", None)) == (4_800, 0.1)
        assert SOUND not in encode_json(dict(call.said.body))

    def test_sound_that_was_cut_is_not_counted(self) -> None:
        """A number that is too small would be wrong."""
        talk = Talk()
        talk.ask("input_audio_buffer.append", audio=SOUND)
        cut = b'{"type": "input_audio_buffer.append", "audio": "AAAA'
        talk.feed(cut, from_client=True, is_whole=False)
        talk.created("r1")
        talk.delta("r1", SOUND, "output_audio")
        cut = b'{"type": "response.output_audio.delta", "response_id": "r1", "delta": "AAAA'
        talk.feed(cut, from_client=False, is_whole=False)
        call = talk.end("r1")
        assert "input_audio" not in call.body
        assert call.said is not None
        assert call.said.output_bytes is None


class TestBounds:
    """Nothing grows without an end, and nothing raises."""

    def test_so_many_transcripts_are_waited_for(self) -> None:
        """The oldest ones are not, if there are more."""
        awaited = AwaitedTranscripts()
        settings = {"input_audio_transcription": {"model": "t-1"}}
        for number in range(100):
            awaited.expect(user(f"u{number}"), settings, number)
        assert len(awaited.until_ns) == 32
        assert awaited.find_wait([{"id": "u0"}], 0) == 0
        assert awaited.find_wait([{"id": "u99"}], 0) == WAIT_NS + 99

    def test_of_servers_so_much_is_kept(self) -> None:
        """A client may say anything of them."""
        talk = Talk()
        server = {"type": "mcp", "server_label": "files"}
        talk.ask("session.update", session={"tools": [server | {"headers": "x" * 100_000}]})
        talk.event("session.updated", session={"tools": [server]})
        talk.create()
        assert talk.answer("r1", "Hi").body["tools"] == [server]

    def test_an_item_that_would_take_most_of_the_room_is_left_out(self) -> None:
        """A picture pushes no words out; nor does it stay as it was, if it grows."""
        talk = Talk()
        talk.add(user("u1", "Hi"))
        talk.add(user("u2", "x" * (MAX_SESSION_BYTES // 4)))
        talk.add(user("u3", "Look"))
        call = talk.answer("r1", "Hm")
        assert asked(call) == [("user", "Hi"), ("user", "Look")]
        assert call.is_partial
        talk.event("conversation.item.done", item=user("u3", "x" * (MAX_SESSION_BYTES // 4)))
        assert [text for _, text in asked(talk.answer("r2", "Hm"))] == ["Hi", "Hm"]

    def test_the_oldest_items_are_forgotten(self) -> None:
        """The calls after that are partial."""
        talk = Talk()
        for number in range(40):
            talk.add(user(f"u{number}", "x" * (MAX_SESSION_BYTES // 30)))
        call = talk.answer("r1", "Hi")
        assert 20 < len(call.body["input"]) < 30
        assert call.is_partial
        assert call.body["input"][-1]["id"] == "u39"

    def test_settings_that_do_not_fit_leave_the_model(self) -> None:
        """The call is partial."""
        talk = Talk()
        talk.begin(instructions="x" * MAX_SESSION_BYTES)
        call = talk.answer("r1", "Hi")
        assert (call.body["model"], call.is_partial) == ("m-1", True)
        assert "instructions" not in call.body

    def test_requests_that_wait_share_the_room(self) -> None:
        """A request that does not fit loses its own words; there are never more than the limit."""
        talk = Talk()
        for _ in range(MAX_WAITING + 5):
            talk.create(instructions="x" * (MAX_SESSION_BYTES // 4))
        calls = talk.session.close(1)
        assert len(calls) == MAX_WAITING
        assert [call.is_partial for call in calls[:5]] == [False, False, False, True, True]

    def test_too_many_responses_end_the_oldest(self) -> None:
        """It is replaced."""
        talk = Talk()
        for number in range(MAX_OPEN + 1):
            talk.created(f"r{number}")
        [call] = talk.ended
        assert (call.answer_id, call.end) == ("r0", CallEnd.REPLACED)

    def test_a_large_message_is_read_by_its_beginning(self) -> None:
        """The answer ends; what it had is missing."""
        talk = Talk()
        talk.feed(b'{"type": "response.create", "resp', from_client=True, is_whole=False)
        talk.created("r1")
        talk.delta("r1", "Hi")
        cut = b'{"type":"response.done","response":{"object":"realtime.response","id":"r1","out'
        talk.feed(cut, from_client=False, is_whole=False)
        [call] = talk.ended
        assert (say(call), call.is_partial, call.has_request) == ("Hi", True, True)
        assert call.said is not None
        assert "observer_limit" in call.said.anomalies
        cut = b'{"type": "conversation.item.added", "item": {'
        talk.feed(cut, from_client=False, is_whole=False)
        assert talk.answer("r2", "Hi").is_partial

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(
                    [
                        *("session.created", "session.updated", "response.create", TRANSCRIBED),
                        *("response.created", "response.done", "response.output_item.done"),
                        *("conversation.item.added", "conversation.item.done", "error"),
                        *("conversation.item.create", "input_audio_buffer.append"),
                        *("conversation.item.deleted", "conversation.item.truncated"),
                        *("rate_limits.updated", "response.audio.delta", "response.text.delta"),
                    ]
                ),
                st.dictionaries(
                    st.sampled_from(
                        [
                            *("session", "response", "item", "item_id", "response_id", "delta"),
                            *("audio", "transcript", "content_index", "rate_limits", "error"),
                            *("previous_item_id", "event_id", "output_index", "usage"),
                        ]
                    ),
                    json_values
                    | st.sampled_from(
                        [
                            "r1",
                            {"id": "r1"},
                            {"id": "r1", "output": [3, None, {"id": 3}]},
                            {"id": "r1", "content": [3, {"audio": "!"}], "input": [3, None]},
                            {"id": "r1", "status_details": "none", "usage": [], "metadata": 3},
                            {"id": "r1", "conversation_id": 3, "input": [{"type": []}]},
                        ]
                    ),
                ),
                st.booleans(),
                st.booleans(),
            )
        )
    )
    def test_hostile_messages_never_raise(
        self, messages: list[tuple[str, dict[str, Any], bool, bool]]
    ) -> None:
        """Whatever the members are; every call ends once."""
        session = RealtimeSession()
        kept: dict[int, Any] = {}
        ended: list[int] = []
        for kind, members, from_client, is_whole in messages:
            text = encode_json({"type": kind, **members}).encode()
            text = text if is_whole else text[: len(text) // 2]
            for call in session.feed(text, from_client=from_client, at_ns=1, is_whole=is_whole):
                kept[id(call)] = call
                ended += [id(call)] if call.end is not None else []
                REALTIME.ask(decode_json(encode_json(call.body)), "").read_messages()
        for call in session.close(2):
            kept[id(call)] = call
            ended.append(id(call))
        assert sorted(ended) == sorted(kept)
        assert all(call.said is not None for call in kept.values())

    @given(st.binary(max_size=64), st.booleans(), st.booleans())
    def test_bytes_that_are_no_messages_are_passed_over(
        self, data: bytes, from_client: bool, is_whole: bool
    ) -> None:
        """They are about no response."""
        session = RealtimeSession()
        assert not session.feed(data, from_client=from_client, at_ns=1, is_whole=is_whole)
        assert not session.close(2)

    def test_a_conversation_keeps_its_limit(self) -> None:
        """Its estimate never passes it, also if one item is larger."""
        conversation = Conversation(10_000)
        for number in range(100):
            conversation.put(user(f"u{number}", "x" * (number * 200)))
            size = sum(len(encode_json(item)) for item in conversation.list())
            assert size <= 10_000
        assert conversation.is_partial
