"""Requests that name the response before them: the provider adds what was said until then."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from codec.apis.table import get_api
from telemetry.conversation_position import KeptCall
from telemetry.conversations.continuation import Rule
from telemetry.conversations.continuation_finder import ContinuationFinder
from telemetry.conversations.memory import Memory, Origin
from telemetry.conversations.run import derive_span_id
from telemetry.conversations.saved_calls import refill, save_call
from tests.telemetry.conversations.talks import SECOND_NS, user

if TYPE_CHECKING:
    from telemetry.conversations.continuation import Continuation
    from tests.telemetry.conversations.agents import Agents

FIRST, SECOND = "resp_9aX2pQr7Lm4Tz8Wb", "resp_5nB1vCx3Kj6Hg0Fd"
STRONG = "call_1qA2zW3sX4eD5cR6"
ANN, BOB, UPSTREAM, OTHER = b"caller-1", b"caller-2", b"upstream", b"another."
RESPONSES = get_api("responses")
LOOK = {"type": "function_call", "call_id": STRONG, "name": "look", "arguments": "{}"}
SEEN = {"type": "function_call_output", "call_id": STRONG, "output": "sun"}
TELLING = (
    "The test fails because its clock stands still while the server waits for another second."
    " Turn it by hand, as all of its neighbours do"
)


def says(text: str) -> dict[str, Any]:
    """An item with a text of the assistant's."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "status": "completed", "content": content}


class Talk:
    """A linker, and calls of the Responses API in their order."""

    def __init__(self) -> None:
        self.finder = ContinuationFinder(b"k" * 32, Memory(1_000))
        self.kept: list[KeptCall] = []
        self._count = 0

    def ask(
        self,
        *items: dict[str, Any],
        said: dict[str, Any] | None,
        name: str = "",
        scope: bytes | None = ANN,
        strangers: bytes | None = UPSTREAM,
        previous: str | None = None,
        is_whole: bool = False,
    ) -> Continuation:
        """Link a call, and keep it; without an answer it failed.

        A session gives the whole conversation, also of a request that names a response.
        """
        self._count += 1
        body = {"input": items} | ({} if previous is None else {"previous_response_id": previous})
        asked = RESPONSES.decode_asked(json.dumps(body).encode())
        told = {"id": name or f"r-{self._count}", "object": "response", "output": [said]}
        found = self.finder.find(
            self._count,
            asked,
            None if said is None else RESPONSES.read_said(json.dumps(told).encode()),
            origin=Origin("ab" * 16, f"{self._count:016x}"),
            scope=scope,
            strangers=strangers,
            request=self.finder.read_request(asked, scope, strangers, is_whole=is_whole),
            start_ns=self._count * SECOND_NS,
            end_ns=self._count * SECOND_NS + 1,
            failed=said is None,
        )
        call = self.finder.remembered
        if call is not None and strangers is not None:
            data = save_call(call, found.predecessor, strangers)
            if data is not None:
                self.kept.append(KeptCall(f"{self._count:016x}", "ab" * 16, None, data))
        return found

    def restart(self) -> None:
        """Begin anew with what is kept."""
        self.finder = ContinuationFinder(b"k" * 32, Memory(1_000))
        refill(self.finder.memory, self.kept)


def test_the_id_of_a_response_may_cross_scopes() -> None:
    """Where it is nobody else's; a short one is each caller's own."""
    talk = Talk()
    talk.ask(user("hi"), said=says("Hello"), name=FIRST)
    talk.ask(user("hi"), said=says("Hello"), name="r-1")
    found = talk.ask(user("a"), said=says("b"), scope=BOB, previous=FIRST)
    assert (found.rule, found.predecessor) == (Rule.RESPONSE_ID, 1)
    assert talk.ask(user("a"), said=says("b"), scope=BOB, previous="r-1").rule is Rule.NEW


def test_a_result_alone_goes_on_from_the_call_of_its_id() -> None:
    """Of its own caller, though the response that is named is not known."""
    talk = Talk()
    talk.ask(user("Look"), said=LOOK)
    assert talk.ask(SEEN, said=says("Sun"), scope=BOB, previous=SECOND).rule is Rule.NEW
    found = talk.ask(SEEN, said=says("Sun"), previous=FIRST)
    assert (found.rule, found.predecessor) == (Rule.TOOL_ID, 1)


def test_equal_words_behind_other_responses_are_others() -> None:
    """``continue`` is said in every conversation."""
    talk = Talk()
    talk.ask(user("hi"), said=says("Hello"), name=FIRST)
    talk.ask(user("Go on"), said=says("OK"), previous=FIRST)
    talk.ask(user("Go on"), said=says("OK"))
    found = talk.ask(user("Go on"), says("OK"), user("x"), said=says("y"))
    assert (found.rule, found.predecessor, found.is_ambiguous) == (
        Rule.STATE,
        3,
        False,
    )


def test_a_whole_conversation_is_found_by_its_id_after_a_restart() -> None:
    """Short words alone would not be enough; also where the caller is unknown."""
    for scope in (ANN, None):
        talk = Talk()
        talk.ask(user("hi"), said=says("Hello"), name=FIRST, scope=scope)
        talk.restart()
        whole = (user("hi"), says("Hello"), user("and now?"))
        found = talk.ask(*whole, said=says("Yes"), scope=scope, previous=FIRST, is_whole=True)
        assert (found.rule, found.predecessor) == (Rule.RESPONSE_ID, 1)
        assert (found.new_items, found.turn) == (1, 2)


def test_a_whole_conversation_is_compared_though_it_names_a_response() -> None:
    """Only what is new counts as new, and others continue it with what they repeat themselves."""
    talk = Talk()
    before = [user("hi"), says("Hello")]
    talk.ask(user("hi"), said=says("Hello"), name=FIRST, is_whole=True)
    found = talk.ask(*before, user("Go on"), said=LOOK, name=SECOND, previous=FIRST, is_whole=True)
    assert (found.rule, found.predecessor, found.new_items) == (Rule.STATE, 1, 1)
    before += [user("Go on"), LOOK, SEEN]
    found = talk.ask(*before, said=says("Sun"), name="r-3", previous=SECOND, is_whole=True)
    assert (found.predecessor, found.new_items, found.begins_turn) == (2, 1, False)
    found = talk.ask(*before, says("Sun"), user("Thanks"), said=says("!"), is_whole=True)
    assert (found.rule, found.predecessor, found.new_items) == (Rule.STATE, 3, 1)


def test_a_whole_conversation_behind_an_unknown_response_is_found_by_its_words() -> None:
    """Codex first has its model warmed up by a request without a history, and continues that."""
    talk = Talk()
    talk.ask(user("hi"), said=says("Hello"), name=FIRST)
    found = talk.ask(
        user("hi"), says("Hello"), user("Go on"), said=says("OK"), previous=SECOND, is_whole=True
    )
    assert (found.rule, found.predecessor, found.new_items) == (Rule.STATE, 1, 1)


def test_equal_words_behind_an_unknown_response_are_no_retry() -> None:
    """A request that failed is tried again by the next one that names the same response."""
    talk = Talk()
    talk.ask(user("Yes"), said=None, previous=FIRST)
    assert talk.ask(user("Yes"), said=says("a"), previous=SECOND).rule is Rule.NEW
    found = talk.ask(user("Yes"), said=says("a"), previous=FIRST)
    assert (found.rule, found.predecessor) == (Rule.RETRY, 1)


def test_who_wants_no_content_recorded_goes_on_from_no_strangers_response() -> None:
    """A response from before a restart may be another caller's."""
    talk = Talk()
    talk.ask(user("hi"), said=says("Hello"), name=FIRST)
    talk.restart()
    hidden = talk.ask(user("a"), said=says("b"), strangers=None, previous=FIRST)
    assert hidden.rule is Rule.NEW
    assert talk.ask(user("a"), said=says("b"), previous=FIRST).predecessor == 1


def test_another_upstream_takes_no_strangers_call() -> None:
    """A caller goes on as before, though one of another upstream named the same response."""
    talk = Talk()
    talk.ask(user("hi"), said=says(TELLING), name=FIRST)
    talk.restart()
    talk.ask(user("a"), said=says("b"), scope=BOB, strangers=OTHER, previous=FIRST)
    found = talk.ask(user("hi"), says(TELLING), user("b"), said=says("c"))
    assert (found.rule, found.predecessor) == (Rule.STATE, 1)


def test_a_failed_call_ends_no_run(agents: Agents) -> None:
    """The same request again is a retry of it, in the run, and no fork."""
    first = _respond(agents, [user("Look")], [LOOK], name=FIRST)
    for status in (500, 200):
        _respond(agents, [SEEN], [says("Sun")], name=SECOND, previous=FIRST, status=status)
    told = [call.columns.link_rule for call in agents.see_kind("LLM")]
    assert told == [None, "response_id", "retry"]
    [agent] = agents.see_kind("AGENT")
    assert agent.span.span_id == derive_span_id(first, "run")
    assert (agent.metadata["calls"], agent.metadata["ended_by"]) == (3, "answer")
    assert agent.span.attributes["output.value"] == "Sun"


def _respond(
    agents: Agents,
    items: list[dict[str, Any]],
    output: list[dict[str, Any]],
    *,
    name: str,
    previous: str | None = None,
    status: int = 200,
) -> str:
    asked = {"model": "m-1", "input": items}
    told = {"id": name, "object": "response", "status": "completed", "output": output}
    return agents.exchange(
        "responses",
        "/v1/responses",
        asked | ({} if previous is None else {"previous_response_id": previous}),
        told if status == 200 else {"error": {"message": "down"}},
        status=status,
    )
