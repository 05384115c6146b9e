"""``codec.observations``: tools that smolagents tells of in texts, and nothing that a user says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec import observations
from codec.apis.table import get_api
from codec.observations import (
    PROMPT_FOR_ANSWER,
    PROMPT_FOR_PLAN,
    find_delegated_task,
    find_own_prompt,
    find_task,
    read_observations,
)
from codec.parts import Other, Text, ToolCall, ToolResult
from codec.text.jsontext import decode_json, encode_json
from tests.smolagents import (
    GO_ON,
    call,
    calling,
    error,
    failed,
    managed,
    message,
    observation,
    task,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.parts import Message

ASKED = message("user", task("Where is it?"))
READ = call("c1", "read", {"path": "a.py", "lines": [1, None, True]})
LIST = call("c2", "list", {"path": 'it\'s "here"\\\n'})

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ['it\'s "here"', "True", "\\n\n\\", "[None]", "\x00\x7f\u2028\U0001f600"]
)

BLOCKS = st.lists(
    st.sampled_from(
        [
            *(task("x"), calling(READ), observation("x"), error("x"), error("x", "c1"), GO_ON),
            *(failed("read", {}), PROMPT_FOR_PLAN, "Error:\n", "Calling tools:\n[{'id': "),
        ]
    )
).map("\n".join)


def read(*messages: dict[str, Any]) -> Sequence[Message]:
    """The messages of a chat, with what they tell of tools."""
    return read_observations(parse(*messages))


def parse(*messages: dict[str, Any]) -> Sequence[Message]:
    """The messages of a chat as they came."""
    body = encode_json({"messages": messages}).encode()
    return [*get_api("chat.completions").decode_asked(body).read_messages()]


def test_calls_and_their_results_are_read() -> None:
    """Arguments become JSON again; the result of one call is its own."""
    asked, answered, told = read(
        ASKED, message("assistant", "Let me see.", calling(READ)), message("user", observation("x"))
    )
    assert asked.parts == (Text("Where is it?"),)
    said, made = answered.parts
    assert said == Text("Let me see.")
    assert made == ToolCall(id="c1", name="read", arguments='{"path":"a.py","lines":[1,null,true]}')
    assert told.parts == (ToolResult(id="c1", content="x", value="x", name="read"),)


def test_results_of_calls_made_together_are_one_text_which_each_has() -> None:
    """Nothing says how to divide it."""
    _, answered, told = read(
        ASKED, message("assistant", calling(READ, LIST)), message("user", observation("x\ny"))
    )
    assert [one.arguments for one in answered.tool_calls][1] == '{"path":"it\'s \\"here\\"\\\\\\n"}'
    assert [(one.id, one.content) for one in told.parts if isinstance(one, ToolResult)] == [
        ("c1", "x\ny"),
        ("c2", "x\ny"),
    ]


def test_a_text_that_many_calls_share_takes_no_more_room_than_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R5: each has a part of it, then."""
    monkeypatch.setattr(observations, "MAX_SHARED_CHARS", 10)
    _, _, told = read(
        ASKED, message("assistant", calling(READ, LIST)), message("user", observation("x" * 100))
    )
    assert [one.content for one in told.parts if isinstance(one, ToolResult)] == ["xxxxx"] * 2


def test_the_first_part_that_has_the_results_of_calls_has_all_of_them() -> None:
    """R5: each part behind it is a text, or many parts and many calls would be millions."""
    asked, answered = ASKED, message("assistant", calling(READ, LIST))
    texts = (f"{observation('x')}\n{PROMPT_FOR_PLAN}", observation("y"))
    parts = [{"type": "text", "text": text} for text in texts]
    *_, last = read(asked, answered, message("user") | {"content": parts})
    first, second, _, third = last.parts
    assert isinstance(first, ToolResult)
    assert isinstance(second, ToolResult)
    assert (first.content, second.content) == ("x", "x")
    assert third == Text(observation("y"))


@pytest.mark.parametrize(
    "messages",
    [
        [message("user", "Observation:\nit rains"), message("assistant", calling(READ))],
        [ASKED | {"role": "assistant"}, message("user", observation("x"))],
        [message("system", "New task:\nx"), message("user", "x")],
        [],
    ],
)
def test_other_requests_stay_as_they_are(messages: list[dict[str, Any]]) -> None:
    """The same object: nothing is read where no user's task comes first."""
    parsed = parse(*messages)
    assert read_observations(parsed) is parsed


@pytest.mark.parametrize(
    "text",
    [
        observation("x"),
        error("Error executing tool 'read' with arguments {}: no").partition("Now let's")[0],
        "Calling tools:\n[]",
        GO_ON + " Please.",
    ],
)
def test_a_user_who_writes_such_words_behind_an_answer_says_them(text: str) -> None:
    """No calls are before it, or the sentence that smolagents adds is absent."""
    *_, last = read(ASKED, message("assistant", "In main."), message("user", text))
    assert last.parts == (Text(text),)


@pytest.mark.parametrize(
    "listed",
    [
        "[{'id': 'c1'}]",
        "[{'id': 'c1', 'type': 'function', 'function': {'name': 1, 'arguments': {}}}]",
        "[{'id': 'c1', 'type': 'function', 'function': {'name': 'a', 'arguments': 1j}}]",
        "[{'id': 'c1', 'type': 'function', 'function': {'name': 'a', 'arguments': '\\d'}}]",
        "[{'id': open('x')}]",
        "[{'id': " + "'\\" * 30_000,
        "[{'id': " + "[" * 50_000,
        "[{'id': " + "-" * 50_000 + "1}]",
        "[{'id': " + "f'{" * 10_000,
        "[{'id': '\0'}]",
        "[{'id': 'c1', 'function': {'name': 'a', 'arguments': '\\U80000000'}}]",
        "[{'id': 'c1', 'function': {'name': 'a', 'arguments': '\\U00110000'}}]",
        "[{'id': '\\ud800', 'type': 'function', 'function': {'name': 'a', 'arguments': 1}}] x",
    ],
)
def test_what_is_no_list_of_calls_is_a_text(listed: str) -> None:
    """A model may write anything."""
    text = f"Calling tools:\n{listed}"
    _, answered = read(ASKED, message("assistant", text))
    assert answered.parts == (Text(text),)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(-1e9, 1e9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=3), TEXTS)
def test_arguments_in_pythons_notation_are_those_of_the_call(
    arguments: dict[str, Any], name: str
) -> None:
    """Whatever JSON they were."""
    _, answered = read(ASKED, message("assistant", calling(call("c1", name, arguments))))
    [made] = answered.tool_calls
    assert made.name == name
    assert decode_json(made.arguments) == arguments


def test_lists_are_parsed_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """R5: the first ones count, so that a request that grows is read alike."""
    first = calling(READ)
    monkeypatch.setattr(observations, "MAX_CALLS_CHARS", 2 * len(first) - 1)
    _, one, _, other = read(
        ASKED,
        *(message("assistant", first), message("user", observation("x"))),
        message("assistant", first),
    )
    assert len(one.tool_calls) == 1
    assert not other.tool_calls


def test_the_next_task_stands_behind_the_final_answer() -> None:
    """Else it is a part of what the tool told."""
    final = call("c3", "final_answer", {"answer": "There"})
    told = message("user", observation("There"), task("And then?"))
    *_, last = read(ASKED, message("assistant", calling(final)), told)
    assert last.parts[1:] == (Text("And then?"),)
    *_, last = read(ASKED, message("assistant", calling(READ)), told)
    [result] = last.parts
    assert isinstance(result, ToolResult)
    assert result.content == "There\nNew task:\nAnd then?"


def test_an_error_names_the_tool_whose_call_is_not_repeated() -> None:
    """Several stand in one message, if the answers had no text."""
    lost = failed("read", {"path": "b"}, "OSError:\nError:\ntwice")
    team = error("Error executing request to team member 'pilot' with arguments {}: no")
    bad = error("Argument path is required")
    [asked] = read(message("user", task("Error:\nWhere is it?"), lost, team, bad))
    words, *errors = asked.parts
    assert words == Text("Error:\nWhere is it?")
    assert [(one.name, one.id, one.is_error) for one in errors if isinstance(one, ToolResult)] == [
        ("read", None, True),
        ("pilot", None, True),
        (None, None, True),
    ]
    assert isinstance(errors[0], ToolResult)
    assert str(errors[0].content).startswith("Error executing tool 'read' with arguments ")


def test_an_error_of_the_agent_itself_is_no_result() -> None:
    """The next task may stand behind it."""
    _, _, last = read(
        *(ASKED, message("assistant", "I do not know.")),
        message("user", error("Reached max steps."), task("And then?")),
    )
    assert last.parts == (Other("Reached max steps."), Text("And then?"))


def test_code_is_a_call_and_its_output_a_result() -> None:
    """Also if it failed: then the output before is there, too."""
    ran = call("call_1", "python_interpreter", "print(1)\nfail()")
    _, answered, told = read(
        ASKED,
        message("assistant", "Thought: x.\n<code>\nprint(1)\nfail()\n</code>", calling(ran)),
        message(
            "user",
            observation("Execution logs:\n1\n"),
            error("Code execution failed at line 'fail()' due to: no", "call_1"),
        ),
    )
    assert answered.parts == (
        Text("Thought: x.\n<code>\nprint(1)\nfail()\n"),
        ToolCall(
            id="call_1", name="python_interpreter", arguments="print(1)\nfail()", type="custom"
        ),
    )
    [result] = told.parts
    assert isinstance(result, ToolResult)
    assert (result.id, result.is_error) == ("call_1", True)
    assert "1\n" in str(result.content)
    assert "due to: no" in str(result.content)


@pytest.mark.parametrize("prompt", [PROMPT_FOR_ANSWER, PROMPT_FOR_PLAN])
def test_what_an_agent_asks_itself_is_not_the_users(prompt: str) -> None:
    """It may stand behind an observation, or behind a task."""
    for before in (observation("x"), ""):
        told = message("user", *filter(None, (before, f"{prompt}Where is it?")))
        messages = read(ASKED, message("assistant", calling(READ)), told)
        assert find_own_prompt(messages) == prompt
        assert not any(isinstance(part, Text) for part in messages[-1].parts)
    assert find_own_prompt(read(ASKED)) is None
    [asked] = read(message("user", task("Where?"), f"{prompt}x"))
    assert asked.parts[0] == Text("Where?")


def test_an_agent_that_planned_goes_on_by_itself() -> None:
    """Nobody said so."""
    *_, last = read(ASKED, message("assistant", "1. Look."), message("user", GO_ON))
    assert last.parts == (Other(GO_ON),)


def test_pictures_stay_where_they_are() -> None:
    """Those of the task come with each observation."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    told = message("user", observation("x"))
    told["content"].insert(0, picture)
    *_, last = read(ASKED, message("assistant", calling(READ)), told)
    kinds = [type(part).__name__ for part in last.parts]
    assert kinds == ["Media", "ToolResult"]


def test_words_of_a_masked_text_are_found() -> None:
    """As far as its blocks are still there."""
    assert find_task("New task:\nMy number is [REDACTED]") == "My number is [REDACTED]"
    assert find_task(f"{observation('[REDACTED]')}\n{task('And then?')}") == "And then?"
    assert find_task(managed("pilot", "How deep?")) == "How deep?"


def test_a_task_from_above_has_the_agents_name() -> None:
    """A user's own words are none."""
    [one] = read(message("user", managed("pilot", "How deep?\n---\nQuick.")))
    [text] = one.parts
    assert isinstance(text, Text)
    assert find_delegated_task(text.text) == ("How deep?\n---\nQuick.", "pilot")
    assert find_delegated_task("You're a helpful agent named 'pilot'.") is None


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.text() | BLOCKS)))
def test_nothing_raises_and_no_message_is_lost(said: list[tuple[str, str]]) -> None:
    """Whatever stands in the texts."""
    messages = [ASKED, *(message(role, text) for role, text in said)]
    assert len(read(*messages)) == len(messages)
