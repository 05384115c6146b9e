"""``telemetry.spans.columns``: what a call is about, in a line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.table import get_api
from telemetry.facts import MAX_PREVIEW_CHARS
from telemetry.spans.user_text import MAX_LOOKED_BACK
from tests.telemetry.columns import PICTURE, ask, columns_of, user
from tests.telemetry.exchanges import make_exchange


@pytest.mark.parametrize(
    ("messages", "preview"),
    [
        ([user("Hi")], "Hi"),
        ([user("first"), {"role": "assistant", "content": "a"}, user("second")], "second"),
        ([user("  many\n\n lines \t here ")], "many lines here"),
        ([user("x" * 119 + " yz")], "x" * 119 + "…"),
        ([user(" " * 5_000 + "far")], None),
        ([user("\n" * 300 + "near")], "near"),
        ([user([{"type": "text", "text": "look"}, PICTURE, {"type": "text", "text": "well"}])],
         "look well"),
        ([user([PICTURE, {"type": "text", "text": "look"}])], "look"),
        ([user([{"type": "text", "text": "alone"}])], "alone"),
        ([user("words"), user([PICTURE])], "words"),
        ([user("ask"), {"role": "assistant", "tool_calls": [{"id": "c"}]},
          {"role": "tool", "tool_call_id": "c", "content": "result"}], "ask"),
        ([{"role": "system", "content": "rules"}], None),
        ([{"role": "assistant", "content": "prefill"}], None),
        ([], None),
        ([7, None, user(7), user(None), user([7])], None),
        ([user("\ud83d")], "\ufffd"),
    ],
)  # fmt: skip
def test_the_preview_is_what_the_user_said_last(messages: list[Any], preview: str | None) -> None:
    """In one line; neither pictures, results of tools nor what others say."""
    columns = ask(*messages)
    assert columns.preview == preview
    assert columns.new_messages == len(messages)


REMINDER = "<system-reminder>\nToday is Monday.\n</system-reminder>"


@pytest.mark.parametrize(
    ("content", "preview"),
    [
        ([{"type": "text", "text": REMINDER}, {"type": "text", "text": "Fix it"}], "Fix it"),
        (f"{REMINDER}\n\nFix it", "Fix it"),
        (f"Fix it\n{REMINDER}", "Fix it"),
        ("<system-reminder>" + "x" * 90_000 + "</system-reminder>Fix it", "Fix it"),
        (f"{REMINDER} Fix {REMINDER} it", "Fix it"),
        ("<system-reminder>without an end", "before"),
        (REMINDER, "before"),
    ],
)
def test_reminders_are_left_out(content: Any, preview: str) -> None:
    """A message of nothing else is none of the user's."""
    assert ask(user("before"), user(content)).preview == preview


def test_the_users_text_is_looked_for_among_so_many() -> None:
    """The work has a limit, whatever the length of a conversation."""
    results = [{"role": "tool", "tool_call_id": "c", "content": "r"}] * MAX_LOOKED_BACK
    assert ask(user("far"), *results[1:]).preview == "far"
    assert ask(user("too far"), *results).preview is None


@pytest.mark.parametrize(
    ("endpoint", "body", "preview", "new_messages"),
    [
        ("completions", {"model": "m", "prompt": "Once"}, "Once", None),
        ("completions", {"model": "m", "prompt": ["One", "Two"]}, "One", None),
        ("completions", {"model": "m", "prompt": [1, 2]}, None, None),
        ("embeddings", {"model": "m", "input": ["a b", "c"]}, "a b", None),
        ("rerank", {"model": "m", "query": "Q?", "documents": ["d"]}, "Q?", None),
        ("responses", {"model": "m", "instructions": "i", "input": "Hi"}, "Hi", 2),
        ("messages", {"model": "m", "messages": [user("Hi"), {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": "result"}]}]}, "Hi", 2),
        ("messages", {"model": "m", "messages": [{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": "result"},
            {"type": "text", "text": "go on"}]}]}, "go on", 2),
        ("gemini.generate", {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}, {
            "role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]}]},
         "Hi", 2),
        ("gemini.live", {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}, {
            "role": "user", "parts": [{"text": " And", "transcript": True}]}]}, "And", 2),
        ("realtime", {"input": [{"type": "message", "role": "user", "content": [
            {"type": "input_audio", "transcript": "Hi"}]}]}, "Hi", 1),
        ("images", {"model": "m", "prompt": "a cat"}, "a cat", 1),
        ("audio.speech", {"model": "m", "input": "Good day", "voice": "v"}, "Good day", 1),
        ("moderations", {"model": "m", "input": "bad"}, None, None),
    ],
)  # fmt: skip
def test_the_preview_of_other_apis(
    endpoint: str, body: dict[str, Any], preview: str | None, new_messages: int | None
) -> None:
    """What a call without messages is about; its kind and API are in columns of their own."""
    columns = columns_of(make_exchange(body, endpoint=endpoint))
    assert (columns.preview, columns.new_messages) == (preview, new_messages)
    assert (columns.api, columns.kind) == (endpoint, get_api(endpoint).span_kind.value)


TEXTS = st.text(max_size=300) | st.sampled_from(["a " * 200, "\n\n x", "<system-reminder>"])
PARTS = st.lists(TEXTS.map(lambda text: {"type": "text", "text": text}), max_size=3)
MESSAGES = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant", "system", "tool"]),
        TEXTS | PARTS,
    ),
    max_size=5,
)


@given(MESSAGES)
def test_a_preview_is_one_short_line_of_what_users_said(messages: list[dict[str, Any]]) -> None:
    """Whatever they say."""
    preview = ask(*messages).preview
    if preview is not None:
        assert 0 < len(preview) <= MAX_PREVIEW_CHARS
        assert preview == " ".join(preview.split())
        preview.encode()


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("x" * MAX_PREVIEW_CHARS, "xx"),
        ("x" * MAX_PREVIEW_CHARS + " \n", "xx"),
        ("x" * (MAX_PREVIEW_CHARS + 1), "x…"),
        ("x\n" * MAX_PREVIEW_CHARS, "x…"),
        ("x" + " " * 10_000 + "y", "x…"),
    ],
)
def test_a_preview_that_was_cut_says_so(text: str, end: str) -> None:
    """It ends with three dots if words follow it, and else as the text does."""
    preview = ask({"role": "user", "content": text}).preview
    assert preview is not None
    assert preview.endswith(end)
    assert len(preview) <= MAX_PREVIEW_CHARS
