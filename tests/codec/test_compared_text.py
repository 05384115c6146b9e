"""Texts as they are compared: what clients put in, take out and change does not count."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codec.apis.table import get_api
from codec.history_items import RequestItems, read_history_items

BILLING = "x-anthropic-billing-header: cc_version=2.1.331.{0}; cc_entrypoint=cli; cch={0};"
PROMPT = "You are Claude Code, Anthropic's official CLI for Claude."


def read(api: str, **body: Any) -> RequestItems:
    """The items of a request."""
    items = read_history_items(get_api(api).decode_asked(json.dumps(body).encode()).read_messages())
    assert items is not None
    return items


def text_of_answer(content: Any) -> list[str]:
    """What is compared of an assistant's message in a chat."""
    message = {"role": "assistant", "content": content}
    return [item.text for item in read("chat.completions", messages=[message]).history]


def block(text: str) -> dict[str, str]:
    """A block of text."""
    return {"type": "text", "text": text}


def test_the_system_block_that_names_the_bill_is_not_compared() -> None:
    """It differs in every two requests of Claude Code; all other blocks count."""
    systems = [
        read("messages", messages=[], system=[block(BILLING.format(n)), block(PROMPT)]).system
        for n in ("3f2a1", "9bc04")
    ]
    assert systems == [PROMPT, PROMPT]
    behind = read("messages", messages=[], system=[block(PROMPT), block(BILLING.format("1"))])
    assert behind.system == PROMPT
    other = read("messages", messages=[], system=[block(BILLING.format("1")), block("Be brief.")])
    assert other.system == "Be brief."


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_gateways_one_system_text_counts_without_the_line_of_the_bill(role: str) -> None:
    """A gateway that makes a chat of Claude Code's message joins its blocks."""
    text = f"{BILLING.format('3f2a1')}\n{PROMPT}"
    messages = [{"role": role, "content": text}]
    assert read("chat.completions", messages=messages).system == PROMPT


def test_a_users_words_about_the_bill_count() -> None:
    """Only of system texts something is left out by that mark."""
    text = BILLING.format("3f2a1")
    [item] = read("chat.completions", messages=[{"role": "user", "content": text}]).history
    assert item.text == text


@pytest.mark.parametrize(
    "content",
    [
        "<think>\nWhere is it?\n</think>\n\nIt is in main.py",
        "\n<thinking>Where?</thinking>It is in main.py",
        "<thought>Where?</thought> It is in main.py",
        "Where is it?\n</think>\n\nIt is in main.py",
        [block("<think>Where?</think>"), block("It is in main.py")],
    ],
)
def test_thoughts_that_came_as_text_are_not_compared(content: Any) -> None:
    """Clients take them out, as they do with reasoning that has a member of its own."""
    assert text_of_answer(content) == text_of_answer("It is in main.py")


@pytest.mark.parametrize(
    "text",
    [
        "A <think> tag has thoughts.",
        "<think>Where is it? It is in",
        "<b>bold</b> words",
        "It is <reasoning>so</reasoning>.",
    ],
)
def test_other_words_of_an_assistant_count(text: str) -> None:
    """Tags elsewhere, and thoughts that have no end."""
    assert text_of_answer(text) == [text]


def test_a_users_text_with_tags_of_thoughts_counts() -> None:
    """Nobody takes these out."""
    text = "<think>Where?</think>Look"
    [item] = read("chat.completions", messages=[{"role": "user", "content": text}]).history
    assert item.text == text


def text_of_user(content: str) -> list[str]:
    """What is compared of a user's message in a chat."""
    message = {"role": "user", "content": content}
    return [item.text for item in read("chat.completions", messages=[message]).history]


CHAT_FORM = (
    "Respond with the corresponding output fields, starting with the field `[[ ## thought ## ]]` "
    "(must be formatted as a valid Python str), then `[[ ## answer ## ]]`, and then ending with "
    "the marker for `[[ ## completed ## ]]`."
)
JSON_FORM = (
    "Respond with a JSON object in the following order of fields: `thought` (must be formatted as "
    "a valid Python str), then `answer`."
)


@pytest.mark.parametrize("form", [CHAT_FORM, JSON_FORM])
def test_what_dspy_says_of_the_form_of_an_answer_is_not_compared(form: str) -> None:
    """It is a message behind results of tools, and the next request does not have it."""
    assert text_of_user(form) == []
    for text in (f"Why?\n\n{form}", f"{form} Be brief.", form.replace("`", "'")):
        assert text_of_user(text) == [text]
