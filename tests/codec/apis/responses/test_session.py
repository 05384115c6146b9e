"""``codec.apis.responses.session``: messages of a WebSocket to calls.

One session is recorded, with three responses one after the other. Nobody has recorded lanes,
steering, injected input or an error: these are built from OpenAI's guide and from what its SDK says
of the events.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.responses.lanes import MAX_LANES, MAX_WAITING
from codec.apis.responses.session import ResponseSession
from codec.apis.responses.stream import ResponseStream
from codec.apis.session import MAX_SESSION_BYTES, CallEnd
from codec.apis.table import SESSIONS
from codec.said import Ending
from codec.text.jsontext import decode_json, encode_json
from tests.codec.apis.responses.talk import Talk, call_item, say, text_item, user
from tests.codec.test_error_objects import json_values
from tests.corpus.recordings import FOLDER, NEEDS_RECORDINGS, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

OUTPUT: dict[str, Any] = {"type": "function_call_output", "call_id": "look", "output": "Sun"}
NOT_FOUND: dict[str, Any] = {
    "status": 400,
    "error": {
        "type": "invalid_request_error",
        "code": "previous_response_not_found",
        "message": "Previous response with id 'r0' not found.",
        "param": "previous_response_id",
    },
}


@pytest.fixture(autouse=True, scope="module", params=[False, True], ids=["whole", "continued"])
def _sessions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each session goes through, or is continued by another one wherever that is possible."""
    Talk.continues = request.param
    yield
    Talk.continues = False


def inputs(call: Any) -> Any:
    """What a call is asked."""
    return call.body.get("input")


class TestOneLane:
    """A connection without lanes."""

    def test_a_response_is_a_call_with_its_times(self) -> None:
        """The request is the body of an HTTP request, the answer what its stream would say."""
        talk = Talk()
        asked = talk.create("Hi", tools=[{"type": "function", "name": "f"}], stream=True)
        begun = talk.created("r1")
        talk.delta("Hel")
        talk.delta("lo")
        ended = talk.end("r1", [text_item("Hello")])
        [call] = talk.ended
        assert call.body == {
            "model": "m-1",
            "input": "Hi",
            "tools": [{"type": "function", "name": "f"}],
            "stream": True,
        }
        assert (call.start_ns, call.first_ns, call.end_ns) == (asked, begun, ended)
        assert (call.answer_id, call.lane, call.previous_id) == ("r1", None, None)
        assert (call.end, call.is_partial) == (CallEnd.ANSWERED, False)
        assert say(call) == "Hello"
        assert call.said is not None
        assert call.said.ending(streamed=True) is Ending.COMPLETE
        assert call.stream.chunk_count == 4

    def test_calls_that_change_are_returned(self) -> None:
        """Whoever follows a call sees it under way."""
        session = ResponseSession()
        create = b'{"type": "response.create", "input": "Hi"}'
        assert not session.feed(create, from_client=True, at_ns=1)
        [call] = session.feed(
            b'{"type": "response.created", "response": {"id": "r1"}}', from_client=False, at_ns=2
        )
        delta = b'{"type":"response.output_text.delta","output_index":0,\r\n"delta":"Hi"}'
        assert [*session.feed(delta, from_client=False, at_ns=3)] == [call]
        assert call.end is None
        assert call.stream.has_content
        assert ["".join(text.pieces) for text in call.stream.look()] == ["Hi"]

    def test_requests_of_a_lane_wait_for_each_other(self) -> None:
        """The second one was asked for before the first one ended."""
        talk = Talk()
        talk.create("one")
        second = talk.create("two")
        talk.answer("r1", "1")
        call = talk.answer("r2", "2")
        assert [inputs(each) for each in talk.ended] == ["one", "two"]
        assert call.start_ns == second

    def test_a_response_continues_another(self) -> None:
        """The input is the parent's, its output, and what is new; the rest is as it was sent."""
        talk = Talk()
        talk.create("Weather?", instructions="Be short.")
        talk.created("r1")
        talk.done(0, call_item("look"))
        talk.end("r1", [call_item("look")])
        talk.create([OUTPUT], previous_response_id="r1")
        call = talk.answer("r2", "Sunny.", "r1")
        assert inputs(call) == [
            {"role": "user", "content": "Weather?"}, call_item("look"), OUTPUT,
        ]  # fmt: skip
        assert (call.previous_id, call.is_partial) == ("r1", False)
        assert "instructions" not in call.body
        talk.create("Thanks", previous_response_id="r2")
        third = talk.answer("r3", "Welcome.", "r2")
        assert inputs(third)[3:] == [
            text_item("Sunny."), {"role": "user", "content": "Thanks"},
        ]  # fmt: skip

    def test_an_unknown_parent_makes_a_partial_call(self) -> None:
        """It was answered on another connection: only what is new is there."""
        talk = Talk()
        talk.create("And now?", previous_response_id="r0")
        call = talk.answer("r1", "Now.", "r0")
        assert (inputs(call), call.is_partial) == ("And now?", True)
        talk.create("And then?", previous_response_id="r1")
        call = talk.answer("r2", "Then.", "r1")
        assert (len(inputs(call)), call.is_partial) == (3, True)

    def test_a_warm_up_is_a_call_without_output(self) -> None:
        """``generate: false``: it has input tokens, and the next request continues it."""
        talk = Talk()
        talk.create([user("context")], generate=False)
        talk.created("r1")
        talk.end("r1")
        talk.create([user("go")], previous_response_id="r1")
        call = talk.answer("r2", "Gone.", "r1")
        warm = talk.ended[0]
        assert warm.body["generate"] is False
        assert warm.said is not None
        assert (warm.said.has_output, warm.said.usage is not None) == (False, True)
        assert inputs(call) == [user("context"), user("go")]
        assert "generate" not in call.body

    def test_a_compaction_begins_the_conversation_anew(self) -> None:
        """What came before it is not input any more, even if it was never seen."""
        talk = Talk()
        talk.create([user("long")], previous_response_id="r0")
        compaction = {"type": "compaction", "id": "c1", "encrypted_content": "…"}
        talk.created("r1", "r0")
        talk.event("response.compaction.compacting")
        talk.end("r1", [text_item("before"), compaction, text_item("after")])
        talk.create([user("next")], previous_response_id="r1")
        call = talk.answer("r2", "ok", "r1")
        assert inputs(call) == [compaction, text_item("after"), user("next")]
        assert not call.is_partial

    def test_a_compaction_in_the_input_ends_nothing(self) -> None:
        """A client sends what it keeps around one, as Codex does with its instructions."""
        talk = Talk()
        given = [user("rules"), {"type": "compaction", "encrypted_content": "…"}, user("go on")]
        talk.create(given)
        talk.answer("r1", "Well.")
        talk.create([user("next")], previous_response_id="r1")
        call = talk.answer("r2", "ok", "r1")
        assert inputs(call) == [*given, text_item("Well."), user("next")]
        assert not call.is_partial

    def test_codex_older_name_continues_the_last_response(self) -> None:
        """``response.append`` has the new input alone."""
        talk = Talk()
        talk.create("one", instructions="Be short.")
        talk.answer("r1", "1")
        talk.ask("append", input=[user("two")])
        call = talk.answer("r2", "2")
        assert inputs(call) == [{"role": "user", "content": "one"}, text_item("1"), user("two")]
        assert (call.body["instructions"], call.body["model"]) == ("Be short.", "m-1")

    def test_other_messages_are_about_no_response(self) -> None:
        """Limits, times and whatever comes as a number do not disturb."""
        talk = Talk()
        talk.event("codex.rate_limits", plan_type="plus")
        talk.create("Hi")
        talk.event("codex.rate_limits", plan_type="plus")
        talk.event("responsesapi.websocket_timing", timing={})
        talk.ask("processed", response_id="r0")
        talk.delta("of nothing")
        talk.feed(b"17", from_client=False)
        talk.feed(b"no JSON", from_client=True)
        call = talk.answer("r1", "Hello")
        assert len(talk.ended) == 1
        assert call.stream.chunk_count == 3

    def test_an_answer_without_a_request_is_partial(self) -> None:
        """The request came before the observer did."""
        talk = Talk()
        begun = talk.created("r1", "r0")
        talk.delta("Hi")
        talk.end("r1", [text_item("Hi")])
        [call] = talk.ended
        assert (call.has_request, call.is_partial, call.start_ns) == (False, True, begun)
        assert call.body == {"previous_response_id": "r0"}

    def test_a_response_may_end_without_a_beginning(self) -> None:
        """A failure before ``response.created``; the last event twice is one end."""
        talk = Talk()
        talk.create("Hi")
        talk.end("r1", status="failed")
        talk.end("r1", status="failed")
        [call] = talk.ended
        assert (call.end, call.answer_id) == (CallEnd.ANSWERED, "r1")
        assert call.said is not None
        assert call.said.failed_choice == (0, "failed")

    def test_a_cancelled_response_says_so(self) -> None:
        """Somebody cancelled it by HTTP: its object at the end has the status."""
        talk = Talk()
        talk.create("Hi")
        talk.created("r1")
        talk.event("response.incomplete", response={"id": "r1", "status": "cancelled"})
        [call] = talk.ended
        assert call.said is not None
        assert call.said.ending(streamed=True) is Ending.CANCELLED

    def test_members_of_a_wrong_type_are_absent(self) -> None:
        """A lane that is a number, a parent that is a list."""
        talk = Talk()
        talk.create("Hi", stream_id=7, previous_response_id=[])
        response = {"id": "r1", "previous_response_id": [], "status": "in_progress"}
        begun = talk.event("response.created", response=response, stream_id=7)
        talk.end("r1", [text_item("ok")])
        [call] = talk.ended
        assert (call.answer_id, call.lane, call.previous_id) == ("r1", None, None)
        assert call.first_ns == begun

    def test_the_next_response_ends_one_that_has_no_end(self) -> None:
        """The answers are not mixed."""
        talk = Talk()
        talk.create("one")
        talk.create("two")
        talk.created("r1")
        talk.delta("1")
        talk.answer("r2", "2")
        assert [(each.end, say(each)) for each in talk.ended] == [
            (CallEnd.REPLACED, "1"), (CallEnd.ANSWERED, "2"),
        ]  # fmt: skip

    def test_the_late_end_of_the_former_response_is_not_that_of_the_next(self) -> None:
        """Nor is it one more call; its tokens are not the next one's."""
        talk = Talk()
        for text in ("one", "two"):
            talk.create(text)
        talk.created("r1")
        talk.created("r2")
        talk.end("r1", [text_item("1")])
        talk.end("r2", [text_item("2")])
        talk.end("r2", [text_item("2")], stream_id="other")
        assert [(each.end, each.answer_id, say(each)) for each in talk.ended] == [
            (CallEnd.REPLACED, "r1", ""),
            (CallEnd.ANSWERED, "r2", "2"),
        ]


class TestLanes:
    """Requests with a ``stream_id``. None was recorded."""

    def test_lanes_do_not_wait_for_each_other(self) -> None:
        """Their events mix, and name the lane; deltas name no response."""
        talk = Talk()
        talk.create("a", stream_id="A")
        talk.create("b", stream_id="B")
        talk.create("none")
        talk.created("rb", stream_id="B")
        talk.created("ra", stream_id="A")
        talk.created("rn")
        for word in ("x", "y"):
            talk.delta(f"a{word}", stream_id="A")
            talk.delta(f"b{word}", stream_id="B")
            talk.delta(f"n{word}")
        talk.end("ra", [text_item("axay")], stream_id="A")
        talk.end("rn", [text_item("nxny")])
        talk.end("rb", [text_item("bxby")], stream_id="B")
        assert [(each.lane, inputs(each), say(each)) for each in talk.ended] == [
            ("A", "a", "axay"), (None, "none", "nxny"), ("B", "b", "bxby"),
        ]  # fmt: skip
        assert "stream_id" not in talk.ended[0].body

    def test_a_fork_continues_another_lanes_response(self) -> None:
        """A lane is a route; what a response continues is another matter."""
        talk = Talk()
        talk.create("root", stream_id="A")
        talk.answer("r1", "1", stream_id="A")
        for lane in ("A", "B"):
            talk.create(f"to {lane}", stream_id=lane, previous_response_id="r1")
        for lane in ("B", "A"):
            call = talk.answer(f"r{lane}", "2", "r1", stream_id=lane)
            assert [item["content"] for item in (inputs(call)[0], inputs(call)[-1])] == [
                "root", f"to {lane}",
            ]  # fmt: skip

    def test_an_error_is_about_its_lane(self) -> None:
        """The other lane's response goes on."""
        talk = Talk()
        talk.create("a", stream_id="A")
        talk.create("b", stream_id="B")
        talk.created("ra", stream_id="A")
        talk.created("rb", stream_id="B")
        talk.event("error", error={"code": "server_error", "message": "no"}, stream_id="A")
        talk.end("rb", [text_item("b")], stream_id="B")
        assert [(each.lane, each.end) for each in talk.ended] == [
            ("A", CallEnd.BROKEN), ("B", CallEnd.ANSWERED),
        ]  # fmt: skip

    def test_too_many_lanes_are_passed_over(self) -> None:
        """Idle ones make room, those in use do not."""
        talk = Talk()
        for number in range(100):
            talk.create("Hi", stream_id=f"idle-{number}")
            talk.answer(f"r{number}", "ok", stream_id=f"idle-{number}")
        assert len(talk.ended) == 100
        lanes = talk.session._lanes
        assert talk.session._memory._held_bytes == sum(lane.held_bytes for lane in lanes)
        for number in range(100):
            talk.create("Hi", stream_id=f"open-{number}")
        assert len(talk.session._lanes) == MAX_LANES
        assert len(talk.session.close(0)) == MAX_LANES

    def test_a_name_that_is_too_long_is_no_lane(self) -> None:
        """OpenAI allows 256 characters."""
        talk = Talk()
        talk.create("Hi", stream_id="x" * 257)
        assert not talk.session.close(0)


class TestErrors:
    """Errors of a connection. None was recorded."""

    def test_an_error_before_the_beginning_refuses_the_oldest_request(self) -> None:
        """The request after it is answered."""
        talk = Talk()
        talk.create("one", previous_response_id="r0")
        talk.create("two")
        talk.event("error", **NOT_FOUND)
        talk.answer("r2", "2")
        first, second = talk.ended
        assert (first.end, inputs(first), first.first_ns) == (CallEnd.REFUSED, "one", None)
        assert first.said is not None
        assert first.said.error is not None
        assert first.said.error.code == "previous_response_not_found"
        assert (second.end, inputs(second)) == (CallEnd.ANSWERED, "two")

    def test_a_request_whose_conversation_is_not_found_has_only_what_is_new(self) -> None:
        """The server had nothing else; a later one that it answers has all."""
        talk = Talk()
        talk.create([user("one")])
        talk.answer("r0", "1")
        talk.create([user("two")], previous_response_id="r0")
        talk.event("error", status=500, error={"code": "server_error", "message": "Sorry."})
        talk.create([user("two")], previous_response_id="r0")
        talk.event("error", **NOT_FOUND)
        talk.create([user("two")], previous_response_id="r0")
        talk.answer("r1", "2", previous="r0")
        _, failed, lost, answered = talk.ended
        history = [user("one"), text_item("1"), user("two")]
        assert (failed.end, inputs(failed)) == (CallEnd.REFUSED, history)
        assert (lost.end, inputs(lost), lost.is_partial) == (CallEnd.REFUSED, [user("two")], True)
        assert (answered.end, inputs(answered)) == (CallEnd.ANSWERED, history)

    def test_an_error_ends_the_response_under_way(self) -> None:
        """What was said stays; a terminal event behind it begins nothing."""
        talk = Talk()
        talk.create("one")
        talk.create("two")
        talk.created("r1")
        talk.delta("1")
        talk.event("error", error={"code": "server_error", "message": "Sorry."})
        talk.end("r1", status="failed")
        talk.answer("r2", "2")
        first, second = talk.ended
        assert (first.end, say(first)) == (CallEnd.BROKEN, "1")
        assert first.said is not None
        assert first.said.error is not None
        assert first.said.error.message == "Sorry."
        assert (inputs(second), say(second)) == ("two", "2")

    def test_the_end_of_a_connection_ends_all_responses(self) -> None:
        """After an hour; the error names no lane."""
        talk = Talk()
        talk.create("a", stream_id="A")
        talk.create("b", stream_id="B")
        talk.created("ra", stream_id="A")
        talk.created("rb", stream_id="B")
        talk.event("error", error={"code": "websocket_connection_limit_reached", "message": "60"})
        assert {each.lane: each.end for each in talk.ended} == {
            "A": CallEnd.BROKEN, "B": CallEnd.BROKEN,
        }  # fmt: skip

    def test_an_error_about_a_name_is_about_its_request(self) -> None:
        """``invalid_stream_id`` may come without the name."""
        talk = Talk()
        talk.create("a", stream_id="not a name!")
        talk.event("error", error={"code": "invalid_stream_id", "message": "no"})
        assert [(each.lane, each.end) for each in talk.ended] == [("not a name!", CallEnd.REFUSED)]

    def test_an_error_without_a_name_spares_lanes_that_are_answered(self) -> None:
        """The request that waits behind a response is not the one."""
        talk = Talk()
        for lane in ("A", "A", "B"):
            talk.create("Hi", stream_id=lane)
        talk.created("ra", stream_id="A")
        talk.event("error", error={"code": "websocket_stream_limit_reached", "message": "no"})
        assert [(each.lane, each.end) for each in talk.ended] == [("B", CallEnd.REFUSED)]

    def test_an_error_about_nothing_is_no_call(self) -> None:
        """What the client sent was no request."""
        talk = Talk()
        talk.event("error", error={"code": "invalid_json", "message": "no"})
        assert talk.ended == []

    def test_a_close_cuts_off_what_is_open(self) -> None:
        """Also requests that nobody answered."""
        talk = Talk()
        talk.create("one")
        talk.create("two")
        talk.created("r1")
        talk.delta("1")
        first, second = talk.session.close(99)
        assert (first.end, say(first), first.end_ns) == (CallEnd.CLOSED, "1", 99)
        assert first.said is not None
        assert first.said.ending(streamed=True) is Ending.OPEN
        assert (second.end, inputs(second), second.first_ns) == (CallEnd.CLOSED, "two", None)


class TestSteering:
    """``response.steer``. None was recorded."""

    def steer(self, talk: Talk, text: str, answer: str = "accepted", **members: Any) -> None:
        """Steer the response ``r1``, and have the server answer."""
        talk.ask("steer", previous_response_id="r1", input=text)
        steer = {"id": f"s-{text}", "previous_response_id": "r1"}
        talk.event(f"response.steer.{answer}", steer=steer, **members)

    def test_a_steered_response_has_a_successor(self) -> None:
        """It has the settings of the former and no request; its input is what was steered."""
        talk = Talk()
        talk.create("Count.", instructions="Be short.")
        talk.created("r1")
        talk.delta("1")
        self.steer(talk, "Faster!")
        self.steer(talk, "To 9.")
        talk.end("r1", [text_item("1")], "incomplete", "steered")
        begun = talk.created("r2", "r1")
        talk.end("r2", [text_item("2 3")])
        former, successor = talk.ended
        assert former.said is not None
        assert former.said.finish_reasons == [(0, "steered")]
        assert (former.end, inputs(former)) == (CallEnd.ANSWERED, "Count.")
        assert inputs(successor) == [
            {"role": "user", "content": text} if text != "1" else text_item("1")
            for text in ("Count.", "1", "Faster!", "To 9.")
        ]
        assert (successor.has_request, successor.start_ns) == (False, begun)
        assert successor.previous_id == "r1"
        assert successor.body["instructions"] == "Be short."
        assert not successor.is_partial

    def test_a_successor_goes_before_waiting_requests(self) -> None:
        """Also if the server does not name the former; a response that ended normally has one."""
        for status, reason, named in (
            ("incomplete", "steered", None), ("completed", None, "r1"),
        ):  # fmt: skip
            talk = Talk()
            talk.create("one")
            talk.created("r1")
            talk.create("two")
            self.steer(talk, "Stop.")
            talk.end("r1", [text_item("1")], status, reason)
            talk.answer("r2", "stopped", named)
            talk.answer("r3", "2")
            _, successor, second = talk.ended
            assert inputs(successor)[-1] == {"role": "user", "content": "Stop."}
            assert (inputs(second), second.has_request) == ("two", True)

    def test_a_response_that_said_nothing_may_be_steered(self) -> None:
        """Its successor has the input alone."""
        talk = Talk()
        talk.create()
        talk.created("r1")
        self.steer(talk, "Speak.")
        talk.end("r1", [], "incomplete", "steered")
        call = talk.answer("r2", "Yes.", "r1")
        assert inputs(call) == [{"role": "user", "content": "Speak."}]

    def test_queued_input_stands_before_the_next_request(self) -> None:
        """The response waits for the result of a tool: there is no successor."""
        talk = Talk()
        talk.create("Weather?")
        talk.created("r1")
        self.steer(talk, "In Rome.")
        talk.end("r1", [call_item("look")])
        steer = {"id": "s-In Rome.", "previous_response_id": "r1"}
        talk.event(
            "response.steer.pending", steer=steer, reason="waiting_for_required_input",
            required_input=[],
        )  # fmt: skip
        talk.create([OUTPUT], previous_response_id="r1")
        call = talk.answer("r2", "Sunny.", "r1")
        assert call.has_request
        assert inputs(call) == [
            {"role": "user", "content": "Weather?"}, call_item("look"),
            {"role": "user", "content": "In Rome."}, OUTPUT,
        ]  # fmt: skip

    def test_input_that_failed_is_not_used(self) -> None:
        """Before the server accepted it, or after."""
        talk = Talk()
        talk.create("one")
        talk.created("r1")
        talk.ask("steer", previous_response_id="r1", input="bad")
        steer: dict[str, Any] = {"previous_response_id": "r1", "input": "bad"}
        error = {"code": "invalid_input", "message": "no", "type": "invalid_request_error"}
        talk.event("response.steer.failed", steer=steer, error=error)
        self.steer(talk, "late")
        steer = {"previous_response_id": "r1", "input": "late", "id": "s-late"}
        talk.event("response.steer.failed", steer=steer, error=error)
        talk.end("r1", [text_item("1")])
        talk.create("two", previous_response_id="r1")
        call = talk.answer("r2", "2", "r1")
        assert call.has_request
        assert [item.get("content") for item in inputs(call)][::2] == ["one", "two"]

    def test_a_fork_does_not_take_the_input(self) -> None:
        """Steering belongs to the lane of the response."""
        talk = Talk()
        talk.create("one", stream_id="A")
        talk.created("r1", stream_id="A")
        self.steer(talk, "Stop.", stream_id="A")
        talk.create("fork", stream_id="B", previous_response_id="r1")
        talk.end("r1", [text_item("1")], "incomplete", "steered", stream_id="A")
        fork = talk.answer("rb", "b", "r1", stream_id="B")
        successor = talk.answer("r2", "2", "r1", stream_id="A")
        assert inputs(fork)[-1] == {"role": "user", "content": "fork"}
        assert inputs(successor)[-1] == {"role": "user", "content": "Stop."}
        assert (fork.has_request, successor.has_request) == (True, False)


class TestInjection:
    """``response.inject``, a beta of OpenAI's. None was recorded."""

    @pytest.mark.parametrize("answer", ["created", "failed"])
    def test_what_the_server_took_belongs_to_the_conversation(self, answer: str) -> None:
        """It stands where the response was when the server took it."""
        talk = Talk()
        talk.create("Weather?")
        talk.created("r1")
        talk.done(0, call_item("look"))
        talk.ask("inject", response_id="r1", input=[OUTPUT])
        talk.event(f"response.inject.{answer}", response_id="r1")
        talk.done(1, text_item("Sunny."))
        talk.end("r1", [call_item("look"), text_item("Sunny.")])
        talk.create("Thanks", previous_response_id="r1")
        call = talk.answer("r2", "Welcome.", "r1")
        taken = [OUTPUT] if answer == "created" else []
        assert inputs(call)[1:-1] == [call_item("look"), *taken, text_item("Sunny.")]


class TestBounds:
    """What a connection may take (R5)."""

    def test_a_request_that_is_cut_is_known_by_its_beginning(self) -> None:
        """Its lane, model and parent are read there; names within a text are not taken."""
        talk = Talk()
        text = encode_json({"note": '"stream_id": "B", "type": "response.steer"'})
        head = '{"type": "response.create", "model": "m-1", "stream_id": "A", "previous_response_id'
        talk.feed(
            f'{head}": "r0", "input": [{text}, {{"content'.encode(), from_client=True,
            is_whole=False,
        )  # fmt: skip
        call = talk.answer("r1", "ok", "r0", stream_id="A")
        assert call.body == {"model": "m-1", "previous_response_id": "r0"}
        assert (call.lane, call.is_partial, call.has_request) == ("A", True, True)

    def test_what_continues_a_request_that_was_cut_is_partial(self) -> None:
        """Its input is not known."""
        talk = Talk()
        talk.feed(b'{"type":"response.create","input":"xx', from_client=True, is_whole=False)
        talk.answer("r1", "1")
        talk.create([user("two")], previous_response_id="r1")
        call = talk.answer("r2", "2", "r1")
        assert (inputs(call), call.is_partial) == ([text_item("1"), user("two")], True)

    def test_an_end_that_is_cut_ends_the_response(self) -> None:
        """What streamed is the answer, and the anomaly says that something is missing."""
        talk = Talk()
        talk.create("Hi")
        talk.created("r1")
        talk.delta("Hello")
        event = b'{"type":"response.completed","response":{"id":"r1","output":[{"content":"xxx'
        talk.feed(event, from_client=False, is_whole=False)
        [call] = talk.ended
        assert (call.end, say(call)) == (CallEnd.ANSWERED, "Hello")
        assert call.said is not None
        assert "observer_limit" in call.said.anomalies

    def test_a_conversation_that_is_too_long_loses_its_beginning(self) -> None:
        """The rest is joined, and says that it is partial."""
        talk = Talk()
        previous: dict[str, Any] = {}
        for number in range(40):
            talk.create([user("x" * 50_000)], **previous)
            talk.answer(f"r{number}", "ok", previous.get("previous_response_id"))
            previous = {"previous_response_id": f"r{number}"}
        assert not talk.ended[10].is_partial
        last = talk.ended[-1]
        assert last.is_partial
        assert 0.8 * MAX_SESSION_BYTES < len(encode_json(inputs(last))) < MAX_SESSION_BYTES + 60_000
        assert talk.session._memory._kept_bytes <= MAX_SESSION_BYTES

    def test_what_is_too_large_to_be_remembered_pushes_nothing_out(self) -> None:
        """Of an item only its large parts are missing; one that is large without them is."""
        large = "x" * MAX_SESSION_BYTES
        message = {"role": "user", "content": [{"text": "What?"}, {"image_url": large}]}
        many = {"role": "user", "content": [{"text": "x" * 1000}] * 1000}
        talk = Talk()
        talk.create([user("first")])
        talk.answer("r1", "1")
        talk.create([message, many, {"output": large}], previous_response_id="r1")
        talk.answer("r2", "2", "r1")
        talk.create([user("last")], previous_response_id="r2")
        call = talk.answer("r3", "3", "r2")
        short = message | {"content": [{"text": "What?"}]}
        known = [user("first"), text_item("1"), short, text_item("2"), user("last")]
        assert (inputs(call), call.is_partial) == (known, True)

    def test_what_was_used_last_is_kept(self) -> None:
        """A beginning that many conversations share."""
        talk = Talk()
        talk.create([user("shared" * 10_000)])
        talk.answer("root", "ok")
        for number in range(20):
            talk.create([user("x" * 150_000)], previous_response_id="root")
            assert not talk.answer(f"r{number}", "ok", "root").is_partial

    def test_an_id_that_comes_again_is_kept_once(self) -> None:
        """A server that counts its answers from the beginning again."""
        talk = Talk()
        for response_id in ("r1", "r2", "r1", "r2"):
            talk.create("Hi")
            talk.answer(response_id, "ok")
        memory = talk.session._memory
        assert memory._kept_bytes == sum(each.size_bytes for each in memory._kept.values())

    def test_a_response_may_claim_to_continue_itself(self) -> None:
        """Its items come once."""
        talk = Talk()
        talk.create("one", previous_response_id="r1")
        talk.answer("r1", "1", "r1")
        talk.create("two", previous_response_id="r1")
        call = talk.answer("r2", "2", "r1")
        assert (len(inputs(call)), call.is_partial) == (3, True)

    def test_requests_that_wait_have_room_as_a_whole(self) -> None:
        """The next one is kept whole; of the others that do not fit only the parent is known."""
        talk = Talk()
        talk.create("open")
        for number in range(MAX_WAITING + 100):
            talk.create("x" * 100_000, previous_response_id=f"p{number}")
        memory = talk.session._memory
        assert memory._held_bytes <= MAX_SESSION_BYTES
        ended = talk.session.close(1)
        assert len(ended) == MAX_WAITING
        assert [("input" in each.body, each.previous_id) for each in ended[::100]] == [
            (True, None), (False, "p99"), (False, "p199"),
        ]  # fmt: skip
        assert all(each.is_partial for each in ended[1:])

    def test_all_room_is_given_back(self) -> None:
        """After each kind of use."""
        talk = Talk()
        talk.create("one")
        talk.create("two")
        talk.created("r1")
        for answer in ("accepted", "failed", "accepted"):
            TestSteering().steer(talk, "Stop.", answer)
        talk.end("r1", [text_item("1")], "incomplete", "steered")
        talk.answer("r2", "2", "r1")
        talk.answer("r3", "3")
        memory, [lane] = talk.session._memory, talk.session._lanes
        assert memory._held_bytes == lane.held_bytes
        memory.hold("x" * (MAX_SESSION_BYTES - lane.held_bytes - 300))
        assert (memory._kept_bytes, memory._kept) == (0, {})

    def test_a_request_of_too_many_values_is_not_kept(self) -> None:
        """A megabyte of brackets would take a hundred."""
        talk = Talk()
        many = b"[" + b"[]," * 300_000 + b"[]]"
        talk.feed(
            b'{"type":"response.create","model":"m-1","input":' + many + b"}", from_client=True
        )
        call = talk.answer("r1", "ok")
        assert (call.body, call.is_partial) == ({"model": "m-1"}, True)


KINDS = st.sampled_from(
    [
        "response.create", "response.append", "response.steer", "response.inject",
        "response.created", "response.in_progress", "response.output_text.delta",
        "response.output_item.done", "response.completed", "response.incomplete",
        "response.failed", "response.steer.accepted", "response.steer.pending",
        "response.steer.failed", "response.inject.created", "response.inject.failed", "error",
        "codex.rate_limits",
    ]
)  # fmt: skip
IDS = st.sampled_from(["r1", "r2", "r3"])
ODD = st.none() | IDS | json_values
MESSAGES = st.fixed_dictionaries(
    {"type": KINDS},
    optional={
        "stream_id": st.sampled_from(["A", "B"]) | json_values,
        "previous_response_id": ODD,
        "response_id": ODD,
        "input": json_values | st.just([user("Hi")]),
        "response": json_values | st.fixed_dictionaries({"id": ODD, "previous_response_id": ODD}),
        "steer": json_values | st.fixed_dictionaries({"id": ODD, "previous_response_id": ODD}),
        "error": json_values,
        "output_index": st.integers(0, 2),
        "delta": st.text(max_size=3) | json_values,
        "item": json_values | st.just(text_item("Hi")),
    },
)


@given(
    st.lists(st.tuples(MESSAGES | json_values, st.booleans(), st.booleans()), max_size=25),
    st.booleans(),
)
def test_any_messages_are_read(messages: list[tuple[Any, bool, bool]], has_room: bool) -> None:
    """Nothing raises; each call ends once, and each open call at the close."""
    session = ResponseSession(lend=lambda _: has_room)
    ended, seen = [], {}
    for number, (message, from_client, is_whole) in enumerate(messages):
        text = encode_json(message).encode("utf-8", "surrogatepass")
        text = text if is_whole else text[: len(text) * 2 // 3]
        for call in session.feed(text, from_client=from_client, at_ns=number, is_whole=is_whole):
            seen[id(call)] = call
            if call.end is not None:
                ended.append(call)
    ended += session.close(len(messages))
    assert len({id(call) for call in ended}) == len(ended)
    assert seen.keys() <= {id(call) for call in ended}
    for call in ended:
        assert call.said is not None
        assert call.end_ns is not None
        assert 0 <= call.start_ns <= (call.first_ns or call.start_ns) <= call.end_ns
    assert not session.close(len(messages))


@pytest.mark.corpus
@NEEDS_RECORDINGS[1]
class TestRecorded:
    """The one session that was recorded: a warm-up, a call of a tool, and the answer (Codex)."""

    def read(self) -> Talk:
        """Feed the recorded messages in their order."""
        assert FOLDER is not None
        file = Path("recordings-apis-2", "exchanges.jsonl")
        [exchange] = read_lines(FOLDER, "responses.websocket", file)
        talk = Talk(SESSIONS["responses"]())  # type: ignore[arg-type]
        for line in exchange["response"]["body"].splitlines():
            message = decode_json(line)
            talk.feed(message["data"], from_client=message["from"] == "client")
        return talk

    def test_each_response_is_a_call(self) -> None:
        """With the input of all before it."""
        talk = self.read()
        warm, tool, final = talk.ended
        assert [each.answer_id for each in talk.ended] == [
            "resp_prefetch", "resp_tool", "resp_final",
        ]  # fmt: skip
        assert [each.previous_id for each in talk.ended] == [None, "resp_prefetch", "resp_tool"]
        assert not any(each.is_partial for each in talk.ended)
        kinds = [item["type"] for item in inputs(final)]
        assert kinds == [*["message"] * 3, "function_call", "function_call_output"]
        assert inputs(final)[:3] == inputs(tool)
        assert say(final) == "FINAL_OK"
        assert warm.said is not None
        assert warm.said.usage is not None
        assert warm.said.usage.prompt == 10
        assert not talk.session.close(0)

    def test_an_answer_is_what_its_events_say_by_http(self) -> None:
        """The same events as an event stream give the same record."""
        assert FOLDER is not None
        file = Path("recordings-apis-2", "exchanges.jsonl")
        [exchange] = read_lines(FOLDER, "responses.websocket", file)
        streams = [ResponseStream(), ResponseStream(), ResponseStream()]
        number = 0
        for line in exchange["response"]["body"].splitlines():
            message = decode_json(line)
            kind = message["data"]["type"]
            if message["from"] == "server" and kind.startswith("response."):
                data = encode_json(message["data"]).encode()
                streams[number].feed(b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n")
                number += kind == "response.completed"
        talk = self.read()
        assert [stream.finish() for stream in streams] == [call.said for call in talk.ended]
        counts = [stream.chunk_count for stream in streams]
        assert counts == [call.stream.chunk_count for call in talk.ended]
