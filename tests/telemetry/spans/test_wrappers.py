"""``telemetry.spans.wrappers``: what agents put around the user's words is never their question.

One test for each agent, with the form of its first request that was seen on the wire. Claude Code's
recorded requests are in ``tests/corpus/test_agent_titles.py``; of the other agents there is no
recording, so their forms are written out here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from telemetry.spans.rules import SpanRules
from telemetry.spans.value_texts import ValueForm
from telemetry.spans.wrappers import (
    MAX_SEARCHED_CHARS,
    WRAPPERS,
    Room,
    Treatment,
    find_own_words,
    split_added,
)
from tests.telemetry.columns import ask, columns_of, user
from tests.telemetry.exchanges import build_exchange_attributes, make_exchange

if TYPE_CHECKING:
    from telemetry.facts import CallColumns

WORDS = "Why does <main> fail?\n\n  See @notes.txt"
TITLE = "Why does <main> fail? See @notes.txt"

REMINDER = "<system-reminder>\nToday is Monday.\n</system-reminder>"
ENVIRONMENT = "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>"
RULES = "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>"
FILES = (
    "\n--- Content from referenced files ---",
    "\nContent from @notes.txt:\n",
    "Buy milk.",
    "\n--- End of content ---",
)


def texts(*words: str) -> list[dict[str, str]]:
    """The parts of a message of a chat or of Messages."""
    return [{"type": "text", "text": one} for one in words]


def respond(*messages: tuple[str, ...]) -> CallColumns:
    """The columns of a request of the Responses API with these messages of the user's."""
    items = [
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": text} for text in parts],
        }
        for parts in messages
    ]
    return columns_of(make_exchange({"model": "m", "input": items}, endpoint="responses"))


def generate(*messages: tuple[str, ...]) -> CallColumns:
    """The columns of a request of Gemini's API with these messages of the user's."""
    contents = [{"role": "user", "parts": [{"text": text} for text in one]} for one in messages]
    return columns_of(make_exchange({"contents": contents}, endpoint="gemini.generate"))


def test_claude_code() -> None:
    """Reminders before the words, in parts of the same message."""
    assert ask(user(texts(*[REMINDER] * 8, WORDS))).preview == TITLE


def test_claude_codes_commands() -> None:
    """What a local command printed, and its name, are not the user's question."""
    command = "<command-name>/model</command-name>\n<command-message>model</command-message>"
    output = "<local-command-stdout>Set model to m</local-command-stdout>"
    caveat = "<local-command-caveat>Do not respond to these.</local-command-caveat>"
    assert ask(user(caveat), user(command), user(output), user(WORDS)).preview == TITLE
    assert ask(user(WORDS), user(command), user(output)).preview == TITLE


@pytest.mark.parametrize(
    "text",
    [
        "This session is being continued from a previous conversation. Summary: all was well.",
        "[Subagent hand-back] The agent is done.",
        "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools. Summarise.",
        "<task-notification>\n<task-id>a1</task-id>\n<status>completed</status>\n</task-notification>",
    ],
)
def test_claude_codes_own_messages(text: str) -> None:
    """A compaction, what follows it, and a notice."""
    assert ask(user(text)).preview is None
    assert ask(user(WORDS), {"role": "assistant", "content": "Hm"}, user(text)).preview == TITLE


def test_codex() -> None:
    """The rules and the surroundings are messages, or parts of one, before the question."""
    assert respond((RULES, ENVIRONMENT), (WORDS,)).preview == TITLE
    assert respond((RULES,), (ENVIRONMENT,), (WORDS,)).preview == TITLE
    old = "<user_instructions>\n\nBe brief.\n\n</user_instructions>"
    assert respond((old,), (ENVIRONMENT,), (WORDS,)).preview == TITLE
    assert respond((f"{RULES}\n{ENVIRONMENT}",)).preview is None


def test_gemini_cli() -> None:
    """The context of the session first; the files that the words name behind them."""
    context = "<session_context>\nThis is the Gemini CLI.\n</session_context>"
    assert generate((context,), (WORDS,)).preview == TITLE
    assert generate((context, WORDS, *FILES)).preview == TITLE
    assert generate((context,), (WORDS + "".join(FILES),)).preview == TITLE
    assert generate((WORDS, *FILES[:3])).preview == TITLE


def test_gemini_clis_sub_agent() -> None:
    """Its task is inside a tag, behind words of the program's."""
    lead = "Your task is to do a deep investigation of the codebase:\n"
    assert generate((f"{lead}<objective>\n{WORDS}\n</objective>",)).preview == TITLE


def test_qwen_code() -> None:
    """Four reminders, and files as gemini-cli attaches them."""
    assert ask(user(texts(*[REMINDER] * 4, WORDS, *FILES))).preview == TITLE
    memory = "Managed memory has TWO directories: one for you."
    assert ask(user(texts(memory, WORDS))).preview == TITLE


def test_copilot() -> None:
    """The time stands at the head of the same text."""
    time = "<current_datetime>2026-11-28T10:00:00Z</current_datetime>"
    assert ask(user(f"{time}\n\n{WORDS}")).preview == TITLE
    notice = "<system_notification>\nAgent a is done.\n</system_notification>"
    assert ask(user(f"{time}\n\n{WORDS}"), user(notice)).preview == TITLE


def test_grok() -> None:
    """The words have a tag; a reminder with the files is behind it in the same part."""
    about = "<user_info>\nOS: linux\n</user_info>\n<rules>\nBe brief.\n</rules>"
    files = "<system-reminder>\n<attached_files>\nBuy milk.\n</attached_files>\n</system-reminder>"
    asked = f"<user_query>\n{WORDS}\n</user_query>\n{files}"
    assert ask(user(about), user(asked)).preview == TITLE
    assert ask(user(texts(about, asked))).preview == TITLE
    assert ask(user(f"{about}\n{asked}")).preview == TITLE


def test_kimi_code() -> None:
    """The words first, and then messages of reminders with the user's role."""
    assert ask(user(WORDS), user(REMINDER), user(REMINDER)).preview == TITLE


def test_opencode() -> None:
    """The words in quotes; to a call for a title a line of the program's comes before them."""
    assert ask(user(f'"{WORDS}"')).preview == TITLE
    asks = "Generate a title for this conversation:\n"
    assert ask(user(asks), user(f'"{WORDS}"\n')).preview == TITLE
    assert ask(user(REMINDER + '"Say \\"hello\\""')).preview == 'Say "hello"'


@pytest.mark.parametrize("said", ['"yes" or "no"', '"', '""', '"a', 'Say "a"', '"a\\"', '"a" b'])
def test_quotes_within_the_words_stay(said: str) -> None:
    """Only those around all of them are a program's; ``input.value`` keeps these, too."""
    assert ask(user(said)).preview == said
    body = {"model": "m", "messages": [user('"Fix it"')]}
    attributes = build_exchange_attributes(make_exchange(body), SpanRules(values=ValueForm.TEXT))
    assert attributes["input.value"] == '"Fix it"'


def test_crewai() -> None:
    """The task is inside a frame, and the context of a task that was left to another behind it."""
    frame = (
        f"\nCurrent Task: {WORDS}\n\nThis is the expected criteria for your final answer: A list.\n"
        "you MUST return the actual complete content as the final answer, not a summary.\n\n"
        "This is the context you're working with:\nMain opens the port."
    )
    assert ask(user(frame)).preview == TITLE
    assert ask(user("Current Task: tidy up")).preview == "Current Task: tidy up"


def test_dspy() -> None:
    """Words about the form of the answer stand behind the question, and behind results of tools."""
    form = (
        "Respond with the corresponding output fields, starting with the field "
        "`[[ ## answer ## ]]`, and then ending with the marker for `[[ ## completed ## ]]`."
    )
    asked = user(f"[[ ## question ## ]]\n{WORDS}\n\n{form}")
    assert ask(asked).preview == f"[[ ## question ## ]] {TITLE}"
    assert find_own_words([form]).text == ""


def test_aider() -> None:
    """The rules for its edits stand behind the words, in the same text."""
    rules = "\n\n# *SEARCH/REPLACE block* Rules:\n\nEvery block must use this format."
    example = [user("Change get_factorial()"), {"role": "assistant", "content": "To do this…"}]
    assert ask(*example, user(WORDS + rules)).preview == TITLE


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (["<new_wrapper>\nx\n</new_wrapper>", "Fix it"], "Fix it"),
        (["<new_wrapper>\nx\n</new_wrapper>"], "<new_wrapper>\nx\n</new_wrapper>"),
        (["<plain>\nx\n</plain>", "Fix it"], "<plain>\nx\n</plain>\nFix it"),
        (["<my-tag>x</my-tag> is mine"], "<my-tag>x</my-tag> is mine"),
        (["Fix it", "and <b>that</b>"], "Fix it\nand <b>that</b>"),
        (["<rules>\nx\n</rules>Fix it"], "Fix it"),
        (["Obey <rules>these</rules>"], "Obey <rules>these</rules>"),
        (["I said <session>x</session>"], "I said <session>x</session>"),
        (["<session>without an end"], "<session>without an end"),
        (["", "  "], "\n  "),
    ],
)
def test_people_may_write_tags_too(parts: list[str], words: str) -> None:
    """A tag that no agent is known to send is the user's, unless it is wholly around one part.

    Even then it is the user's if its name is plain, or if nothing else was said.
    """
    assert find_own_words(parts).text == words


def test_the_value_of_a_span_has_the_same_words() -> None:
    """``input.value`` is the whole question; the body with all of it is beside it."""
    body = {"model": "m", "messages": [user(texts(REMINDER, ENVIRONMENT, WORDS))]}
    attributes = build_exchange_attributes(make_exchange(body), SpanRules(values=ValueForm.TEXT))
    assert attributes["input.value"] == WORDS
    assert "Today is Monday" in str(attributes["spantap.request.body"])


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda one: one.start)
def test_a_wrapper_without_an_end_reaches_to_the_end_of_the_text(wrapper: Any) -> None:
    """The words before it stay. Where it has to be closed to count, everything stays."""
    found = find_own_words([f"{wrapper.start} and more"]).text
    assert bool(found) == (wrapper.treatment is Treatment.KEEP_INSIDE)


def test_a_wrapper_is_looked_for_so_far() -> None:
    """The work has a limit, whatever the length of a text."""
    long = "x" * MAX_SEARCHED_CHARS
    assert find_own_words([f"{long}{REMINDER}"]).text == f"{long}{REMINDER}"
    assert find_own_words([f"{REMINDER}{long}"]).text == long


def test_the_parts_of_a_message_share_what_is_searched() -> None:
    """Many long parts take no more work than one. Behind it, a wrapper stays where it is."""
    room = Room()
    hostile = ["<" * MAX_SEARCHED_CHARS] * 10
    question = f"{REMINDER}Fix it"
    assert find_own_words([*hostile, question], room).text.endswith(question)
    assert room.chars == 0
    plain = ["x" * MAX_SEARCHED_CHARS] * 10
    assert find_own_words([*plain, question]).text == "Fix it"


def test_the_messages_of_a_call_share_what_is_searched() -> None:
    """The newest are looked at first, so a message before them is shown as it came."""
    first = user(f"{REMINDER}Fix it")
    half = user("<system-reminder>" + " " * 20 + "</system-reminder>" + " " * 40)
    assert ask(first, *[half] * 100).preview == "Fix it"
    long = user(" " * (MAX_SEARCHED_CHARS // 2) + "<system-reminder>")
    assert (ask(first, long, long).preview or "").startswith("<system-reminder>")


def test_what_is_removed_takes_no_room() -> None:
    """Only what is searched counts, not a long file inside a wrapper."""
    room = Room()
    assert find_own_words([f"<user_info>{'x' * 9_000}</user_info>Fix it"], room).text == "Fix it"
    assert room.chars == MAX_SEARCHED_CHARS - len("<user_info>") - len("Fix it")


@pytest.mark.parametrize(
    ("parts", "added"),
    [
        (["Fix it"], []),
        ([f"{REMINDER}Fix it"], [REMINDER]),
        ([f"  {REMINDER}\nFix it\n{REMINDER}"], [REMINDER, REMINDER]),
        (["<new_wrapper>\nx\n</new_wrapper>", "Fix it"], ["<new_wrapper>\nx\n</new_wrapper>"]),
        (["<new_wrapper>\nx\n</new_wrapper>"], []),
        (["<session>Fix it</session>"], []),
        (
            ["a --- Content from referenced files ---\nx", "y\n--- End of content ---", "Fix it"],
            ["--- Content from referenced files ---\nx", "y\n--- End of content ---"],
        ),
    ],
)
def test_what_agents_added_is_told_from_the_rest(parts: list[str], added: list[str]) -> None:
    """Each piece in its place, and nothing is lost."""
    found = split_added(parts)
    assert ["".join(one.text for one in pieces) for pieces in found] == parts
    assert [one.text for pieces in found for one in pieces if one.is_added] == added
