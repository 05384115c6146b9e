"""History items: the same conversation is the same items, however it is told (C4)."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.table import get_api
from codec.history_items import (
    MAX_CANONICAL_CHARS,
    MAX_HISTORY_ITEMS,
    HistoryItem,
    ItemKind,
    find_message,
    is_media,
    list_history_items,
    read_history_items,
)

CALL_ID = "call_9aX2pQr7Lm4Tz8Wb"


def read(api: str, body: dict[str, Any]) -> list[HistoryItem]:
    """The items of a request's history."""
    asked = get_api(api).decode_asked(json.dumps(body).encode())
    items = read_history_items(asked.read_messages())
    assert items is not None
    return items.history


def chat(*messages: dict[str, Any]) -> list[HistoryItem]:
    """The items of a chat."""
    return read("chat.completions", {"messages": list(messages)})


def user(content: Any) -> dict[str, Any]:
    """A message of a user."""
    return {"role": "user", "content": content}


def calls(arguments: str, **more: Any) -> dict[str, Any]:
    """An assistant's message that calls a tool."""
    function = {"name": "read", "arguments": arguments}
    call = {"id": CALL_ID, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call], **more}


def test_a_message_is_a_unit_for_its_text_and_one_for_each_call() -> None:
    """Rule 1: in their order."""
    items = chat(user("hi"), calls("{}", content="I look."), {
        "role": "tool", "tool_call_id": CALL_ID, "content": "no such file",
    })  # fmt: skip
    assert [(item.kind, item.role, item.id) for item in items] == [
        (ItemKind.TEXT, "user", None),
        (ItemKind.TEXT, "assistant", None),
        (ItemKind.CALL, "assistant", CALL_ID),
        (ItemKind.RESULT, "tool", CALL_ID),
    ]


@pytest.mark.parametrize(
    "content",
    [
        "Fix it",
        "  Fix it\n",
        [{"type": "text", "text": "Fix it"}],
        [{"type": "text", "text": "Fix "}, {"type": "text", "text": "it"}],
        [{"type": "text", "text": "Fix it", "cache_control": {"type": "ephemeral"}}],
        "<system-reminder>Today is Monday.</system-reminder>Fix it",
    ],
)
def test_a_text_is_the_same_however_it_is_told(content: Any) -> None:
    """Rules 1 and 2: as a string or as parts, with or without what programs put in."""
    assert chat(user(content)) == chat(user("Fix it"))


def test_what_clients_drop_counts_for_nothing() -> None:
    """Rule 2: reasoning, names, empty members."""
    plain = chat(user("hi"), {"role": "assistant", "content": "Hello"})
    told = {"role": "assistant", "content": "Hello", "reasoning_content": "Hm.", "name": "bob"}
    assert chat(user("hi"), told | {"tool_calls": [], "refusal": None}) == plain
    assert chat(user("hi"), {"role": "assistant", "content": ""}) == chat(user("hi"))


def test_arguments_and_results_are_compared_as_json() -> None:
    """Rule 3: the order of members and white space do not count, values do."""
    one = chat(calls('{"path": "a.py", "id": 7}'))
    assert chat(calls('{"id":7,"path":"a.py"}')) == one
    assert chat(calls('{"id":8,"path":"a.py"}')) != one
    assert chat(calls("not json")) != chat(calls("not  json"))
    assert chat(calls("")) == chat(calls("{}"))
    texts: list[Any] = ['{"a": 1, "b": 2}', '{"b":2,"a":1}']
    texts.append([{"type": "text", "text": texts[0]}])
    results = [{"role": "tool", "tool_call_id": CALL_ID, "content": text} for text in texts]
    assert len({chat(result)[0] for result in results}) == 1


def test_media_are_told_by_their_bytes() -> None:
    """Rule 3: not by where they stand."""

    def image(url: str) -> list[HistoryItem]:
        return chat(user([{"type": "image_url", "image_url": {"url": url}}]))

    assert image("data:image/png;base64,AAAA") == image("data:image/x-png;base64,AAAA")
    assert image("data:image/png;base64,AAAA") != image("data:image/png;base64,AAAB")
    assert image("https://images.example/a.png") != image("https://images.example/b.png")


def test_spoken_words_are_compared_like_written_ones() -> None:
    """Rule 3: unless the sound itself came, too, which then counts."""

    def heard(text: str, **sound: Any) -> list[HistoryItem]:
        part = {"type": "input_audio", "transcript": text, **sound}
        return read("realtime", {"input": [user([part])]})

    assert heard(" Hello") == chat(user("Hello"))
    sound = {"data": "AAAA", "format": "wav"}
    assert heard("Hello", input_audio=sound) == heard("Bye", input_audio=sound) != heard("Hello")


def test_media_beside_the_content_of_an_answer_do_not_count() -> None:
    """Rule 2: some clients send them back, some do not."""
    answer = {"role": "assistant", "content": "Aye"}
    drawn = {"images": [{"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}]}
    assert chat(answer | drawn | {"audio": {"id": "audio_1"}}) == chat(answer)


def test_media_are_known_from_other_things() -> None:
    """They have no content that could be measured."""
    picture = {"type": "image_url", "image_url": {"url": "https://images.example/a.png"}}
    other = {"type": "new_thing", "value": "image\0"}
    text = {"type": "text", "text": "image\0"}
    assert [is_media(item) for item in chat(user([picture, other, text]))] == [
        True,
        False,
        False,
    ]


def test_a_unit_is_found_in_its_message() -> None:
    """System messages count, as they do among the request's; empty ones have no item."""
    asked = get_api("chat.completions").decode_asked(
        json.dumps({
            "messages": [
                {"role": "system", "content": "Be brief."},
                user("hi"),
                user(""),
                calls("{}", content="I look."),
                {"role": "system", "content": "Be long."},
            ],
        }).encode()
    )  # fmt: skip
    messages = asked.read_messages()
    items = read_history_items(messages)
    assert items is not None
    places = []
    for at, item in enumerate(items.history):
        found = find_message(messages, at)
        assert found is not None
        assert item in list_history_items(found[1])
        places.append(found[0])
    assert places == [1, 3, 3, 4]
    assert find_message(messages, len(places)) is None


def test_system_messages_at_the_beginning_stand_apart() -> None:
    """Rule 4: later ones are part of the history."""
    first = {"role": "developer", "content": "Be brief."}
    asked = get_api("chat.completions").decode_asked(
        json.dumps({"messages": [first, user("hi"), first]}).encode()
    )
    items = read_history_items(asked.read_messages())
    assert items is not None
    assert items.system == "Be brief."
    assert [item.role for item in items.history] == ["user", "developer"]


def test_apis_tell_the_same_conversation_in_the_same_items() -> None:
    """A text, a call, its result and an answer, by chats, Responses and Messages."""
    arguments, result = {"path": "a.py"}, "no such file"
    by_chat = chat(
        user("Fix it"),
        calls(json.dumps(arguments)),
        {"role": "tool", "tool_call_id": CALL_ID, "content": result},
        {"role": "assistant", "content": "Done."},
    )
    by_responses = read(
        "responses",
        {
            "instructions": "Be brief.",
            "input": [
                user([{"type": "input_text", "text": "Fix it"}]),
                {"type": "reasoning", "id": "rs_1", "summary": []},
                {
                    "type": "function_call",
                    "id": "fc_1",
                    "call_id": CALL_ID,
                    "name": "read",
                    "arguments": json.dumps(arguments),
                },
                {"type": "function_call_output", "call_id": CALL_ID, "output": result},
                {"role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
            ],
        },
    )
    by_messages = read(
        "messages",
        {
            "system": "Be brief.",
            "messages": [
                user("Fix it"),
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                        {"type": "tool_use", "id": CALL_ID, "name": "read", "input": arguments},
                    ],
                },
                user([{"type": "tool_result", "tool_use_id": CALL_ID, "content": result}]),
                {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
            ],
        },
    )
    assert by_chat == by_responses == by_messages


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)


@given(TEXTS, st.lists(st.integers(0, 40), max_size=4))
def test_any_split_of_a_text_into_parts_is_the_same(text: str, cuts: list[int]) -> None:
    """A client may send one part or many."""
    bounds = [0, *sorted(cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(bounds)]
    parts = [{"type": "text", "text": piece} for piece in pieces if piece]
    assert chat(user(parts)) == chat(user(text))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS, JSON, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_any_order_of_members_is_the_same(arguments: dict[str, Any], random: Any) -> None:
    """And any white space between them; a further member is another call."""
    names = list(arguments)
    random.shuffle(names)
    shuffled = {name: arguments[name] for name in names}
    assert chat(calls(json.dumps(arguments))) == chat(calls(json.dumps(shuffled, indent=2)))
    assert chat(calls(json.dumps(arguments))) != chat(calls(json.dumps(arguments | {"": 1.5})))


@given(JSON)
def test_nothing_raises(value: Any) -> None:
    """Whatever stands in a message's place."""
    for api in ("chat.completions", "messages"):
        read(api, {"messages": [value, {"role": value, "content": value}, user([value])]})
    read("responses", {"input": [value, {"type": "function_call_output", "output": value}]})


def test_a_history_of_too_many_items_has_none() -> None:
    """Rule 6: a body of a million messages is not read."""
    api = get_api("chat.completions")
    for messages in (
        [user("a")] * (MAX_HISTORY_ITEMS + 1),
        [calls("{}", content="a")] * (MAX_HISTORY_ITEMS // 2 + 1),
    ):
        asked = api.decode_asked(json.dumps({"messages": messages}).encode())
        assert read_history_items(asked.read_messages()) is None


def test_a_long_text_of_json_is_not_decoded() -> None:
    """Rule 6: it is compared as it came; a short one is brought into one form."""
    long = "[" + "[]," * MAX_CANONICAL_CHARS + "[] ]"
    [item] = chat({"role": "tool", "tool_call_id": CALL_ID, "content": long})
    assert item.text == long
    [item] = chat({"role": "tool", "tool_call_id": CALL_ID, "content": "[[], [] ]"})
    assert item.text == "[[],[]]"
