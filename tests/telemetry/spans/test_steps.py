"""``telemetry.spans.steps`` and ``purposes``: what is new in a call in which nobody spoke."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.table import APIS, get_api
from codec.chat.answer import ChatMessage
from codec.parts import ToolCall
from codec.text.jsontext import encode_json
from telemetry.facts import MAX_PREVIEW_CHARS, PURPOSES, CallColumns
from telemetry.observing.agent_ids import PROGRAMS, AgentIds
from telemetry.observing.purposes import SIGNS
from telemetry.privacy.credentials import Credentials
from telemetry.privacy.json_strings import REDACTED
from telemetry.privacy.redaction import Redaction
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.rules import SpanRules
from tests.telemetry.columns import RULES, ask, columns_of, user
from tests.telemetry.exchanges import make_exchange, make_response

REMINDER = "<system-reminder>Today is Monday.</system-reminder>"


def calls(*names: str) -> dict[str, Any]:
    """A message of the model's that calls these tools, with ids from 0."""
    made = [
        {"id": str(at), "type": "function", "function": {"name": name, "arguments": "{}"}}
        for at, name in enumerate(names)
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(at: int, content: str = "r") -> dict[str, Any]:
    """The result of the call of that number."""
    return {"role": "tool", "tool_call_id": str(at), "content": content}


def says(text: str | None = None, *made: ToolCall) -> dict[str, Any]:
    """The members of a call with this answer."""
    message = ChatMessage(role="assistant", content=text, tool_calls=made)
    return {"response": make_response(message), "response_status": 200}


def use(name: str, arguments: object) -> ToolCall:
    """A call of a tool with these arguments."""
    text = arguments if isinstance(arguments, str) else encode_json(arguments)
    return ToolCall(id="x", name=name, arguments=text)


def work(answer: dict[str, Any], rules: SpanRules = RULES, **members: Any) -> CallColumns:
    """The columns of an agent's second call, which brings what ``Read`` found."""
    asked = user("Fix it"), calls("Read"), result(0)
    return ask(*asked, rules=rules, **answer, **members)


def read(*results: tuple[str, bool]) -> str | None:
    """The step of a call of Messages that brings results: the tools, and whether they failed."""
    uses = [
        {"type": "tool_use", "id": f"t{at}", "name": name, "input": {}}
        for at, (name, _) in enumerate(results)
    ]
    brought: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": f"t{at}", "content": "r", "is_error": failed}
        for at, (_, failed) in enumerate(results)
    ]
    messages = [
        user("Fix it"),
        {"role": "assistant", "content": uses},
        user([*brought, {"type": "text", "text": REMINDER}]),
    ]
    body = {"model": "m", "messages": messages}
    return columns_of(make_exchange(body, endpoint="messages")).step


MODELS_SPEAK = {
    *("chat.completions", "completions", "responses", "messages", "realtime"),
    *("gemini.generate", "gemini.live", "gemini.stream", "ollama.chat", "ollama.generate"),
    *("code_assist.generate", "code_assist.stream"),
}
"""The APIs in which a model speaks: their calls are what the user asked."""

WORKS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "embeddings": ({"input": ["Why?", "b"]}, {"data": []}, 'embedding "Why?"'),
    "gemini.embed": ({"content": {"parts": [{"text": "Why?"}]}}, {}, 'embedding "Why?"'),
    "ollama.embed": ({"input": [[1, 2]]}, {"embeddings": []}, "embedding"),
    "rerank": ({"query": "Why?", "documents": ["d"]}, {"results": []}, 'ranking "Why?"'),
    "moderations": (
        {"input": "Why?"},
        {"results": [{"flagged": True, "categories": {"violence": True, "hate": False}}]},
        "moderation → flagged: violence",
    ),
    "count_tokens": ({"messages": []}, {"input_tokens": 1234}, "token count → 1,234 tokens"),
    **dict.fromkeys(
        ("gemini.count", "code_assist.count"),
        ({"contents": []}, {"totalTokens": 1234}, "token count → 1,234 tokens"),
    ),
    "images": ({"prompt": "A boat"}, {"data": [{"url": "https://x.test/a"}]}, 'image "A boat"'),
    "audio.speech": ({"input": "Ahoy!"}, {}, 'speech "Ahoy!"'),
    "audio.transcriptions": ({"file": {}}, {"text": "Ahoy!"}, 'transcription → "Ahoy!"'),
    "audio.translations": ({"file": {}}, {"text": "Ahoy!"}, 'translation → "Ahoy!"'),
}
"""Of every other API what is asked, what is answered, and what its call is."""


@pytest.mark.parametrize("name", sorted({api.name for api in APIS} - MODELS_SPEAK))
def test_a_call_in_which_no_model_speaks_says_what_it_is(name: str) -> None:
    """What it is about, and what it found; it still says what it is where all of that is hidden."""
    asked, said, step = WORKS[name]
    api = get_api(name)
    exchange = make_exchange(
        {"model": "m", **asked},
        endpoint=name,
        response=api.read_said(encode_json(said).encode()),
        response_status=200,
    )
    assert columns_of(exchange).step == step
    hidden = columns_of(exchange, SpanRules(privacy=PrivacySwitches.everything()))
    assert hidden.step == api.noun
    assert hidden.step in step


def test_where_the_user_spoke_their_words_say_what_is_new() -> None:
    """Whatever the model did then; the newest words stand in every later call, too."""
    answer = says(None, use("Edit", {"file_path": "/w/notes.txt"}))
    first = ask(user("Fix it"), **answer)
    assert (first.preview, first.step) == ("Fix it", None)
    again = ask(user("Fix it"), calls("Read"), result(0), user("Stop"), **answer)
    assert (again.preview, again.step) == ("Stop", None)
    picture = {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}
    assert ask(user("Look"), calls("Read"), result(0), user([picture]), **answer).step is None


def test_else_it_is_what_was_answered_and_what_the_model_did() -> None:
    """The tools whose results are new, and the calls of the answer, or its words."""
    edited = work(says("Now I edit.", use("Edit", {"file_path": "/w/notes.txt", "old": "a"})))
    assert (edited.preview, edited.step) == ("Fix it", "Read ✓ → Edit notes.txt")
    assert work(says("I could not\n do it.")).step == 'Read ✓ → "I could not do it."'
    assert work({"response_status": 500, "error_type": "500"}).step == "Read ✓"
    long = work(says("word " * 50)).step
    assert long is not None
    assert long.startswith('Read ✓ → "word word')
    assert long.endswith('…"')


def test_results_are_named_with_whether_they_failed() -> None:
    """Only those behind the last answer; a reminder beside them is not the user."""
    assert read(("Bash", True)) == "Bash ✗"
    assert read(("Read", False), ("Bash", True)) == "Read ✓, Bash ✗"
    assert read(("Read", False), ("Read", False), ("Read", True)) == "Read ✓ (2), Read ✗"
    assert read(*[(f"t{at}", False) for at in range(6)]) == "t0 ✓, t1 ✓, t2 ✓, t3 ✓ +2"
    earlier = user("Fix it"), calls("Read"), result(0), calls("Bash"), result(0)
    assert ask(*earlier).step == "Bash ✓"
    assert ask(user("Fix it"), calls("Read"), result(7)).step == "tool ✓"


def test_results_of_other_apis() -> None:
    """Items of Responses, and Gemini's, which have no ids; results may also come alone."""
    called = {"type": "function_call", "call_id": "c", "name": "grep", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "r"}
    asked = {"type": "message", "role": "user", "content": "Fix it"}
    body = {"model": "m", "input": [asked, called, output]}
    assert columns_of(make_exchange(body, endpoint="responses")).step == "grep ✓"
    alone = {"model": "m", "input": [output], "previous_response_id": "r"}
    assert columns_of(make_exchange(alone, endpoint="responses")).step == "tool ✓"
    contents = [
        {"role": "user", "parts": [{"text": "Fix it"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "grep", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "grep", "response": {}}}]},
    ]
    exchange = make_exchange({"contents": contents}, endpoint="gemini.generate")
    assert columns_of(exchange).step == "grep ✓"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"file_path": "/w/src/notes.txt", "content": "x"}, "notes.txt"),
        ({"path": "src/"}, "src"),
        ({"path": "C:\\w\\notes.txt"}, "notes.txt"),
        ({"command": "npm test", "description": "Run the tests"}, "npm test"),
        ({"description": "Run the tests", "command": "npm\n  test"}, "npm test"),
        ({"command": ["bash", "-lc", "npm test"], "workdir": "/w"}, "npm test"),
        ({"pattern": "TODO", "path": "src"}, "TODO"),
        ({"description": "Find it", "prompt": "Look everywhere"}, "Find it"),
        ({"location": "Paris", "units": "c"}, "Paris"),
        ({"a": 1, "b": 2}, ""),
        ({}, ""),
        ("", ""),
        ({"q": 'say "hi" \U0001f600'}, 'say "hi" \U0001f600'),
        ({"content": '"path": "no"', "file": "yes.txt"}, "yes.txt"),
        ("*** Begin Patch\n*** Update File: src/notes.txt\n@@", "notes.txt"),
        ({"input": "*** Begin Patch\n*** Update File: src/notes.txt\n@@"}, "notes.txt"),
        ({"queries": ["TODO"]}, "TODO"),
        ({"commands": ["cd src", "npm test"]}, "npm test"),
        ("print(15)\nprint(16)", "print(15)"),
        ('{"command": "' + "x" * 9_000, "x" * 59 + "…"),
        ('{"command": "cut \\u12', "cut \\u12"),
    ],
)
def test_a_call_has_its_telling_argument(arguments: object, shown: str) -> None:
    """A file's name, a command, a pattern; else the first text."""
    step = work(says(None, use("T", arguments))).step
    assert step == f"Read ✓ → T {shown}".rstrip()


def test_several_calls_are_listed() -> None:
    """Four at most; the others are counted."""
    made = [use("Read", {"path": f"{at}.txt"}) for at in range(6)]
    step = work(says(None, *made)).step
    assert step == "Read ✓ → Read 0.txt, Read 1.txt, Read 2.txt, Read 3.txt +2"


SECRET = "c4n4ry"


@pytest.mark.parametrize(
    ("switch", "step"),
    [
        ("hide_inputs", f"→ Edit {SECRET}.txt"),
        ("hide_input_messages", f"→ Edit {SECRET}.txt"),
        ("hide_input_text", f"Read ✓ → Edit {SECRET}.txt"),
        ("hide_outputs", "Read ✓"),
        ("hide_output_messages", "Read ✓"),
        ("hide_output_text", "Read ✓ → Edit"),
    ],
)
def test_a_step_has_nothing_that_is_hidden(switch: str, step: str) -> None:
    """Results are words of the request, calls are words of the answer."""
    rules = SpanRules(privacy=PrivacySwitches(**{switch: True}))
    answer = says(SECRET, use("Edit", {"file_path": f"{SECRET}.txt"}))
    assert work(answer, rules).step == step


@pytest.mark.parametrize("switch", ["hide_outputs", "hide_output_messages", "hide_output_text"])
def test_the_words_of_an_answer_are_hidden(switch: str) -> None:
    """In the step as on the span."""
    rules = SpanRules(privacy=PrivacySwitches(**{switch: True}))
    assert work(says(SECRET), rules).step == "Read ✓"


def test_a_client_that_wants_no_content_recorded() -> None:
    """Its header hides the whole step, and what the call is for."""
    assert work(says(SECRET, use(SECRET, {"path": SECRET})), hides_content=True).step is None
    title = {"role": "system", "content": "You are a title generator."}
    assert ask(title, user("Hi"), hides_content=True).purpose is None


KEY = "sk-proj-0123456789abcdefghijklmnop"


def test_patterns_and_credentials_are_masked() -> None:
    """In names, arguments and words, also where the mask is longer than what is shown of them."""
    rules = SpanRules(redaction=Redaction({"secret": "c4n4ry[a-z]*"}))
    asked = user("Fix it"), calls(f"x_{SECRET}"), result(0)
    answer = says(None, use(f"y_{SECRET}", {"command": f"cat {SECRET}abc", "path": SECRET}))
    step = ask(*asked, rules=rules, **answer).step
    assert step == f"x_{REDACTED} ✓ → y_{REDACTED} cat {REDACTED}"
    answer = says("x" * 55 + f" {SECRET}abcdefgh")
    assert SECRET[:3] not in str(ask(*asked, rules=rules, **answer).step)
    answer = says(None, use("Bash", {"command": f"curl -H {KEY}"}))
    columns = work(answer, credentials=Credentials([KEY]))
    assert KEY not in repr(columns)
    assert columns.step == f"Read ✓ → Bash curl -H {REDACTED}"
    named = {"role": "user", "parts": [{"functionResponse": {"name": SECRET, "response": {}}}]}
    exchange = make_exchange({"contents": [named]}, endpoint="gemini.generate")
    assert columns_of(exchange, rules).step == "tool ✓"


def system(text: str) -> dict[str, Any]:
    """A message with instructions."""
    return {"role": "system", "content": text}


@pytest.mark.parametrize(
    ("messages", "body", "purpose"),
    [
        ([system("You are a title generator. You output ONLY a title."), user("Hi")], {}, "title"),
        ([system("Summarize what was done in this conversation."), user("Hi")], {}, "summary"),
        ([system("\nYou are a specialized Task Routing AI. Your"), user("Hi")], {}, "router"),
        ([system("You are now acting as the managed memory extraction subagent for an AI."),
          user("Hi")], {}, "memory"),
        ([system("Be brief."), user("CRITICAL: Respond with TEXT ONLY.")], {}, "compaction"),
        ([user("[SUGGESTION MODE: Suggest what the user may type.]")], {}, "suggestion"),
        ([user("quota")], {"max_tokens": 1}, "quota"),
        ([user("quota")], {"max_tokens": 9}, None),
        ([user("Which quota?")], {"max_tokens": 1}, None),
        ([user("Hi")], {"tool_choice": {"type": "function", "function": {"name": "session_title"}}},
         "title"),
        ([user("Hi")], {"tool_choice": {"type": "function", "name": "session_title"}}, "title"),
        ([user("Hi")], {"tool_choice": "auto"}, None),
        ([system("You are helpful. You are a title generator."), user("Hi")], {}, None),
        ([user("You are a title generator")], {}, None),
    ],
)  # fmt: skip
def test_helper_calls_are_named(
    messages: list[dict[str, Any]], body: dict[str, Any], purpose: str | None
) -> None:
    """By how agents were seen to begin them."""
    exchange = make_exchange({"model": "m", "messages": messages, **body}, **says("So it is"))
    columns = columns_of(exchange)
    assert columns.purpose == purpose
    assert columns.step == (f'{purpose} → "So it is"' if purpose else None)


def test_a_client_names_its_helper() -> None:
    """What it says of a call counts, unless it says no more than that the call is a helper's."""
    for said, asked, purpose in (
        ("compaction", "Hi", "compaction"),
        (None, "Hi", None),
        ("other", "Hi", "other"),
        ("other", "[SUGGESTION MODE: what next?]", "suggestion"),
    ):
        ids = AgentIds(program="claude-code", purpose=said)
        assert ask(user(asked), agent_ids=ids).purpose == purpose


def test_a_client_names_its_helper_that_asks_nothing() -> None:
    """Codex warms its model up with the instructions alone."""
    ids = AgentIds(program="codex", purpose="prewarm")
    columns = ask(agent_ids=ids, **says("So it is"))
    assert (columns.purpose, columns.step) == ("prewarm", 'prewarm → "So it is"')


def test_an_answer_in_json_shows_its_words() -> None:
    """Titles come as ``{"title": …}``."""
    columns = ask(system("You are a title generator."), user("Hi"), **says('{"title": "Greeting"}'))
    assert columns.step == 'title → "Greeting"'


@pytest.mark.parametrize("switch", ["hide_inputs", "hide_input_messages", "hide_input_text"])
def test_no_purpose_is_found_in_what_is_hidden(switch: str) -> None:
    """The sign is a word of the request."""
    rules = SpanRules(privacy=PrivacySwitches(**{switch: True}))
    columns = ask(system("You are a title generator."), user("Hi"), rules=rules)
    assert (columns.purpose, columns.step) == (None, None)


def test_every_purpose_is_a_word_of_the_filter() -> None:
    """And every word is a purpose."""
    said = {
        one for program in PROGRAMS for each in program.purposes.values() for one in each.values()
    }
    assert {sign.purpose for sign in SIGNS} | said == {*PURPOSES}


TEXTS = st.text(max_size=80) | st.sampled_from(["quota", "\ud83d", '{"path": "', REMINDER])
MESSAGES = st.lists(
    st.builds(user, TEXTS)
    | st.builds(system, TEXTS)
    | st.builds(calls, TEXTS)
    | st.builds(result, st.integers(0, 2), TEXTS),
    max_size=5,
)


@given(MESSAGES, TEXTS, st.lists(st.builds(use, TEXTS, TEXTS), max_size=3))
def test_a_step_is_one_short_line(
    messages: list[dict[str, Any]], text: str, made: list[ToolCall]
) -> None:
    """Whatever is said and called."""
    step = ask(*messages, **says(text, *made)).step
    if step is not None:
        assert 0 < len(step) <= MAX_PREVIEW_CHARS
        assert "\n" not in step
        step.encode()
