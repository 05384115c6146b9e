"""Results of tools: each is that of its own call, and of no other (1.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from telemetry.conversations.run import derive_span_id
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.rules import SpanRules
from tests.telemetry.conversations.agents import TWO, Agents
from tests.telemetry.conversations.talks import answer, calls, result, user

if TYPE_CHECKING:
    from pathlib import Path


def test_a_result_that_says_so_is_an_error(tmp_path: Path) -> None:
    """Anthropic's ``is_error``; the text alone never."""
    with Agents(tmp_path / "spans.db") as agents:
        agents.call(user("Look"), said=TWO)
        agents.call(
            user("Look"),
            TWO,
            *(result(i, "Error!") for i in ("call_a", "call_b")),
            said=answer("x"),
        )
        assert [one.span.status for one in agents.see_kind("TOOL")] == ["OK", "OK"]


def test_renamed_ids_are_matched_by_position(agents: Agents) -> None:
    """1.4: the TOOL span has the id of the answer."""
    first = agents.call(user("Look"), said=TWO)
    renamed = calls("x1", "x2")
    agents.call(
        user("Look"), renamed, result("x1", "one"), result("x2", "two"), said=answer("Both")
    )
    tools = agents.see_kind("TOOL")
    assert [one.span.attributes["output.value"] for one in tools] == ["one", "two"]
    assert [one.span.attributes["tool_call.id"] for one in tools] == ["call_a", "call_b"]
    assert tools[0].span.span_id == derive_span_id(first, "tool 0")


def test_renamed_ids_of_an_answer_in_several_messages_are_matched_by_position(
    agents: Agents,
) -> None:
    """Each call has its own result, also where a client puts that behind each of them."""
    more = calls("call_a", "call_b", "call_c")
    agents.call(user("Before"), calls("0"), result("0", "zero"), user("Look"), said=more)
    agents.call(
        user("Before"),
        *(calls("0"), result("0", "zero"), user("Look")),
        *(part for n, one in enumerate(more["tool_calls"]) for part in apart(one, n)),
        said=answer("All"),
    )
    told = [one.span.attributes for one in agents.see_kind("TOOL")]
    assert [(one["tool_call.id"], one["output.value"]) for one in told] == [
        ("call_a", "result 0"),
        ("call_b", "result 1"),
        ("call_c", "result 2"),
    ]


READ, WRITE, DELETE = "read", "write", "delete"


def make(*told: tuple[str, str]) -> dict[str, Any]:
    """An answer that calls tools, each by its id and name."""
    return calls() | {
        "tool_calls": [
            {"id": one, "type": "function", "function": {"name": name, "arguments": "{}"}}
            for one, name in told
        ]
    }


BOTH = make(("call_a", READ), ("call_b", WRITE))
RENAMED = make(("z1", READ), ("z2", WRITE))


@pytest.mark.parametrize(
    ("history", "told"),
    [
        ((RENAMED, result("z2", "2"), result("z1", "1")), {READ: "1", WRITE: "2"}),
        ((RENAMED, result("z2", "2")), {WRITE: "2"}),
        ((make(("z1", WRITE)), result("z1", "2")), {WRITE: "2"}),
        (
            (make(("z1", WRITE), ("z2", READ)), result("z1", "2"), result("z2", "1")),
            {READ: "1", WRITE: "2"},
        ),
        (
            (make(("z1", READ)), result("z1", "1"), make(("q1", DELETE)), result("q1", "gone")),
            {READ: "1"},
        ),
        ((BOTH, result("call_b", "2"), result("call_a", "1")), {READ: "1", WRITE: "2"}),
        ((BOTH, result("call_a", "old"), result("call_a", "1")), {READ: "1"}),
    ],
)
def test_the_calls_of_the_request_tell_whose_a_result_is(
    agents: Agents, history: tuple[dict[str, Any], ...], told: dict[str, str]
) -> None:
    """Out of order, some missing, calls left out or in another order."""
    agents.call(user("Look"), said=BOTH)
    agents.call(user("Look"), *history, said=answer("Done"))
    tools = [one.span.attributes for one in agents.see_kind("TOOL")]
    assert {one["tool.name"]: one["output.value"] for one in tools} == told


def test_a_weak_id_of_another_answer_brings_no_result(agents: Agents) -> None:
    """It is told by the name of the call that stands before the result."""
    mine, others = make(("call_0", READ)), make(("call_0", DELETE))
    agents.call(user("Look"), said=mine)
    asked = (user("Look"), mine, result("call_0", "1"), others, result("call_0", "gone"))
    agents.call(*asked, said=answer("Done"))
    assert [one.span.attributes["output.value"] for one in agents.see_kind("TOOL")] == ["1"]


def apart(call: dict[str, Any], number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A call in a message of its own, with another id, and its result."""
    renamed = call | {"id": f"x{number}"}
    return calls() | {"tool_calls": [renamed]}, result(f"x{number}", f"result {number}")


def test_results_come_in_any_number_of_requests(agents: Agents) -> None:
    """A tool that takes long is answered later; each result is one span."""
    agents.call(user("Look"), said=TWO)
    more = calls("call_c")
    agents.call(user("Look"), TWO, result("call_a", "one"), said=more)
    agents.call(
        user("Look"),
        TWO,
        result("call_a", "one"),
        more,
        result("call_c", "three"),
        result("call_b", "two"),
        said=answer("All"),
    )
    told = {
        one.span.attributes["tool_call.id"]: one.span.attributes["output.value"]
        for one in agents.see_kind("TOOL")
    }
    assert told == {"call_a": "one", "call_c": "three", "call_b": "two"}
    [agent] = agents.see_kind("AGENT")
    assert agent.metadata["tools"] == 3


def tell_results(agents: Agents) -> list[tuple[str, str]]:
    """The arguments of each tool that has its result, and that."""
    told = [one.span.attributes for one in agents.see_kind("TOOL")]
    return [(str(one["input.value"]), str(one["output.value"])) for one in told]


def test_an_older_result_of_the_same_id_is_not_the_newer_calls(agents: Agents) -> None:
    """1.4: ``call_0`` comes again, and somebody left the second one without a result."""
    again = calls("call_0", name="write")
    asked = (user("Look"), calls("call_0"), result("call_0", "one"))
    agents.call(user("Look"), said=calls("call_0"))
    agents.call(*asked, said=again)
    agents.call(*asked, again, user("Stop"), said=answer("Stopped"))
    assert tell_results(agents) == [('{"n":0}', "one")]
    [agent] = [one for one in agents.see_kind("AGENT") if one.metadata["calls"] == 2]
    assert agent.metadata["tool_calls_unanswered"] == 1


def test_calls_of_one_id_in_one_answer_are_matched_by_position(agents: Agents) -> None:
    """Some servers give all parallel calls the same id."""
    told = calls("call_0", "call_0")
    agents.call(user("Look"), said=told)
    results = (result("call_0", "one"), result("call_0", "two"))
    agents.call(user("Look"), told, *results, said=answer("Both"))
    assert tell_results(agents) == [('{"n":0}', "one"), ('{"n":1}', "two")]


WEAK, STRONG = ("call_0", "call_1"), ("call_9aX2pQr7Lm4Tz8Wb", "call_5nB1vCx3Kj6Hg0Fd")


def without_id(text: str) -> dict[str, str]:
    """A result that names no call."""
    return {"role": "tool", "content": text}


@pytest.mark.parametrize("ids", [WEAK, STRONG, ("", ""), ("call_0", "call_0")])
@pytest.mark.parametrize("renamed", [True, False])
@pytest.mark.parametrize(
    "results",
    [
        (without_id("one"), without_id("two")),
        (result("z1", "one"), result("z2", "two")),
        (result("", "one"), result("", "two")),
        ({"role": "function", "content": "one"}, {"role": "function", "content": "two"}),
    ],
    ids=["none", "own", "empty", "function"],
)
def test_results_behind_the_calls_are_theirs(
    agents: Agents, ids: tuple[str, str], renamed: bool, results: tuple[dict[str, Any], ...]
) -> None:
    """Without an id, or with one of the client's; in their order."""
    told = calls(*ids)
    agents.call(user("Look"), said=told)
    again = calls("x1", "x2") if renamed else told
    agents.call(user("Look"), again, *results, said=answer("Both"))
    assert tell_results(agents) == [('{"n":0}', "one"), ('{"n":1}', "two")]


@pytest.mark.parametrize("ids", [WEAK, STRONG])
@pytest.mark.parametrize("named", [0, 1])
def test_a_result_without_an_id_is_that_of_the_call_that_is_left(
    agents: Agents, ids: tuple[str, str], named: int
) -> None:
    """Also beside one that has the id of its call."""
    told = calls(*ids)
    agents.call(user("Look"), said=told)
    results = [without_id("one"), without_id("two")]
    results[named] = result(ids[named], results[named]["content"])
    agents.call(user("Look"), told, *results, said=answer("Both"))
    assert tell_results(agents) == [('{"n":0}', "one"), ('{"n":1}', "two")]


def test_results_of_calls_whose_thoughts_were_taken_out_are_theirs(agents: Agents) -> None:
    """Whatever was said beside the calls, the run goes on."""
    told = calls("call_0", "call_1")
    words = "I think that the harbour lies left of the lighthouse, behind the rocks of the map."
    agents.call(user("Look"), said=told | {"content": words})
    agents.call(
        user("Look"), told, result("call_0", "one"), result("call_1", "two"), said=answer("Both")
    )
    assert tell_results(agents) == [('{"n":0}', "one"), ('{"n":1}', "two")]
    [agent] = agents.see_kind("AGENT")
    assert (agent.metadata["calls"], agent.metadata["ended_by"]) == (2, "answer")


def test_results_that_name_their_tools_are_these_in_any_order(agents: Agents) -> None:
    """Where no id tells whose they are, as with Gemini, Ollama and OpenAI's functions."""
    agents.call(user("Look"), said=make(("", READ), ("", WRITE)))
    results = [without_id("2") | {"name": WRITE}, without_id("1") | {"name": READ}]
    agents.call(user("Look"), make(("", READ), ("", WRITE)), *results, said=answer("Done"))
    parts = [{"functionCall": {"name": name, "args": {}}} for name in (READ, WRITE)]
    answered = [
        {"functionResponse": {"name": name, "response": {"output": text}}}
        for name, text in ((WRITE, "2"), (READ, "1"))
    ]
    question = {"role": "user", "parts": [{"text": "Look"}]}
    said = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    path = "/v1beta/models/gemini-2.5-pro:generateContent"
    agents.exchange("gemini.generate", path, {"contents": [question]}, said)
    history = [question, {"role": "model", "parts": parts}, {"role": "user", "parts": answered}]
    agents.exchange("gemini.generate", path, {"contents": history}, said)
    told = [one.span.attributes for one in agents.see_kind("TOOL")]
    assert [(one["tool.name"], one["output.value"]) for one in told] == [
        *((READ, "1"), (WRITE, "2")),
        *((READ, '{"output":"1"}'), (WRITE, '{"output":"2"}')),
    ]


def test_a_missing_result_is_nobody_elses(agents: Agents) -> None:
    """Where ids hold, a result that nobody waits for is of a call that is not ours."""
    told = calls("call_a", "call_b")
    agents.call(user("Look"), said=told)
    results = (result("call_b", "two"), result("call_x", "three"))
    agents.call(user("Look"), told, *results, said=answer("One"))
    assert tell_results(agents) == [('{"n":1}', "two")]


def test_renamed_results_are_not_those_of_an_older_answers_call(agents: Agents) -> None:
    """A call that stayed without a result is not the one that is meant."""
    agents.call(user("Look"), said=calls("call_a", "call_b"))
    asked = (user("Look"), calls("x1", "x2"), result("x1", "one"))
    more = calls("call_c", name="write")
    agents.call(*asked, said=more)
    agents.call(*asked, calls("x3", name="write"), result("x3", "three"), said=answer("All"))
    assert [one[1] for one in tell_results(agents)] == ["one", "three"]
    names = [one.span.attributes["tool.name"] for one in agents.see_kind("TOOL")]
    assert names == ["read", "write"]


def test_results_that_stand_before_a_newer_call_of_their_id_are_not_its(tmp_path: Path) -> None:
    """Also where nobody may know the tools' names: the older result stays alone."""
    hidden = SpanRules(privacy=PrivacySwitches(hide_output_messages=True, hide_outputs=True))
    with Agents(tmp_path / "spans.db", hidden) as agents:
        read, write = make(("call_0", READ)), make(("call_0", WRITE))
        before = (user("Look"), read, result("call_0", "one"))
        agents.call(user("Look"), said=read)
        agents.call(*before, said=write)
        agents.call(*before, write, user("Stop"), said=answer("Yes"))
        told = [one.span.attributes.get("output.value") for one in agents.see_kind("TOOL")]
    assert told == ["one"]


def test_a_clock_that_steps_back_gives_no_result_to_an_older_call(agents: Agents) -> None:
    """The calls of the last answer are the last ones, whatever its time."""
    two = make(("call_a", READ), ("call_b", READ))
    renamed = make(("x1", READ), ("x2", READ))
    agents.call(user("Look"), said=two)
    history = (user("Look"), renamed, result("x1", "one"))
    agents.step_ns = -3_600_000_000_000
    agents.call(*history, said=make(("call_c", READ)))
    agents.call(*history, make(("x3", READ)), result("x3", "three"), said=answer("Yes"))
    told = {
        one.span.attributes["tool_call.id"]: one.span.attributes["output.value"]
        for one in agents.see_kind("TOOL")
    }
    assert told == {"call_a": "one", "call_c": "three"}


def test_a_result_is_that_of_the_choice_that_was_taken(agents: Agents) -> None:
    """Two choices call one tool, with one id; the arguments tell them apart."""
    choices = [make(("call_0", READ)) for _ in range(2)]
    choices[1]["tool_calls"][0]["function"]["arguments"] = '{"path": "b"}'
    told = [{"index": n, "message": one, "finish_reason": "stop"} for n, one in enumerate(choices)]
    asked = {"model": "m-1", "n": 2, "messages": [user("Look")]}
    agents.exchange("chat.completions", "/v1/chat/completions", asked, {"choices": told})
    agents.call(user("Look"), choices[1], result("call_0", "b's"), said=answer("Yes"))
    [tool] = agents.see_kind("TOOL")
    assert tool.span.attributes["input.value"] == '{"path": "b"}'


def run(call_id: str, command: str) -> dict[str, Any]:
    """An answer that calls the tool that agents call all day."""
    made = make((call_id, "bash"))
    made["tool_calls"][0]["function"]["arguments"] = f'{{"command":"{command}"}}'
    return made


def test_a_result_is_of_the_call_with_its_arguments(agents: Agents) -> None:
    """An answer between was not seen; its call had the same weak id and the same name."""
    agents.call(user("Look"), said=run("call_0", "ls"))
    unseen = (run("call_0", "rm x"), result("call_0", "removed"))
    agents.call(
        *(user("Look"), run("call_0", "ls"), result("call_0", "a b"), *unseen),
        said=answer("Yes"),
    )
    told = [one.span.attributes["output.value"] for one in agents.see_kind("TOOL")]
    assert "removed" not in told


def test_arguments_that_are_written_anew_are_the_same(agents: Agents) -> None:
    """Members in another order, or further ones; and with a strong id whatever they are."""
    strong = "call_9aX2pQr7Lm4Tz8Wb"
    ids = [("call_0", READ), ("call_1", READ), (strong, READ)]
    made, again = make(*ids), make(*ids)
    told = ('{"lines":3,"path":"a"}', '{"path":"a","lines":3,"all":false}', "{}")
    for call, other, words in zip(made["tool_calls"], again["tool_calls"], told, strict=True):
        call["function"]["arguments"] = '{"path": "a", "lines": 3}'
        other["function"]["arguments"] = words
    agents.call(user("Look"), said=made)
    results = [result(one, f"of {one}") for one, _ in ids]
    agents.call(user("Look"), again, *results, said=answer("Yes"))
    seen = [one.span.attributes["output.value"] for one in agents.see_kind("TOOL")]
    assert seen == [f"of {one}" for one, _ in ids]


def test_results_without_ids_are_those_of_the_last_answer(agents: Agents) -> None:
    """Gemini has none; that answer was not seen, and its call has other arguments."""

    def call(command: str) -> dict[str, Any]:
        return {"role": "model", "parts": [{"functionCall": {"name": "bash", "args": [command]}}]}

    def answered(text: str) -> dict[str, Any]:
        told = {"name": "bash", "response": {"output": text}}
        return {"role": "user", "parts": [{"functionResponse": told}]}

    question = {"role": "user", "parts": [{"text": "Look"}]}
    path = "/v1beta/models/gemini-2.5-pro:generateContent"
    said = {"candidates": [{"content": call("ls"), "finishReason": "STOP"}]}
    agents.exchange("gemini.generate", path, {"contents": [question]}, said)
    history = [question, call("ls"), answered("a b"), call("rm x"), answered("removed")]
    said = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Done"}]}}]}
    agents.exchange("gemini.generate", path, {"contents": history}, said)
    told = [str(one.span.attributes["output.value"]) for one in agents.see_kind("TOOL")]
    assert not [one for one in told if "removed" in one]
