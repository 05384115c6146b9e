from __future__ import annotations

from typing import Any

import pytest

from codec.budget import Budget
from codec.chat.answer import ChatMessage
from codec.chat.choice import ChoiceFold


def fold(*choices: dict[str, Any], room: int = 10**6) -> ChoiceFold:
    """Fold entries of `choices`."""
    choice = ChoiceFold(0, Budget(room), lambda _: None)
    for entry in choices:
        choice.feed({"index": 0} | entry)
    return choice


def deltas(*entries: Any) -> ChoiceFold:
    """Fold deltas."""
    return fold(*({"delta": delta} for delta in entries))


THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param(
            [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}],
            ChatMessage(role="assistant", content="ab"), id="role replaced",
        ),
        pytest.param(
            [{"role": "assistant"}, {"role": None, "content": "a"}, {"role": ""}],
            ChatMessage(role="assistant", content="a"), id="NIM, SGLang: role null",
        ),
        pytest.param(
            [{"role": "assistant", "content": "ok", "tool_calls": None, "function_call": None,
              "refusal": None}],
            ChatMessage(role="assistant", content="ok"), id="nulls",
        ),
        pytest.param([{"content": " "}, {"content": "\n"}], ChatMessage(content=" \n"),
                     id="white space kept"),
        pytest.param([{"content": ""}, {}], ChatMessage(), id="no text is no content"),
        pytest.param(
            [{"refusal": "I can"}, {"refusal": "not."}],
            ChatMessage(refusal="I cannot."),
            id="refusal",
        ),
        pytest.param(
            [{"reasoning_content": "think", "content": None}, {"content": "answer"}],
            ChatMessage(reasoning="think", content="answer"), id="DeepSeek",
        ),
        pytest.param(
            [{"reasoning": "a"}, {"reasoning": "b"}], ChatMessage(reasoning="ab"), id="vLLM"
        ),
        pytest.param(
            [{"reasoning": "a", "reasoning_content": "a"}, {"reasoning_content": "b"}],
            ChatMessage(reasoning="ab"), id="both names in a delta: once",
        ),
        pytest.param(
            [{"reasoning_content": "ab"}, {"reasoning": "a"}, {"reasoning": "b"}],
            ChatMessage(reasoning="ab"), id="both names in different deltas: once",
        ),
        pytest.param(
            [{"reasoning_content": "a"}, {"reasoning": "b"}], ChatMessage(reasoning="ab"),
            id="both names, different text: in order",
        ),
        pytest.param(
            [{"reasoning": "a", "reasoning_content": "b"}], ChatMessage(reasoning="ba"),
            id="both names in a delta, different text: both",
        ),
        pytest.param(
            [{"content": [THINKING], "reasoning": "Hm"}, {"reasoning": "!"}],
            ChatMessage(reasoning="Hm!"), id="a thinking part and a name in a delta: once",
        ),
        pytest.param(
            [{"content": [THINKING, THINKING], "reasoning_content": "HmHm", "reasoning": "HmHm"}],
            ChatMessage(reasoning="HmHm"), id="several thinking parts and both names: once",
        ),
        pytest.param(
            [{"content": [THINKING]}, {"reasoning": "H"}, {"reasoning": "m"}],
            ChatMessage(reasoning="Hm"), id="thinking parts and a name in different deltas: once",
        ),
        pytest.param(
            [{"content": [THINKING]}, {"reasoning": "m"}], ChatMessage(reasoning="Hmm"),
            id="thinking parts and a name, different text: in order",
        ),
        pytest.param(
            [{"content": [THINKING]}, {"content": [THINKING, {"type": "text", "text": "A"}]},
             {"content": "B"}],
            ChatMessage(reasoning="HmHm", content="AB"), id="Mistral parts, then text again",
        ),
        pytest.param(
            [{"content": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]},
                {"type": "thinking", "thinking": "!"}, {"type": "thinking", "thinking": [7, "?"]},
                "A", {"text": "B"}, {"type": "image_url", "image_url": {}}, 7, None,
                {"type": "text", "text": ""},
            ]}],
            ChatMessage(reasoning="Hm!?", content="AB"), id="parts of other shapes",
        ),
        pytest.param(
            [{"content": 7, "role": 7, "refusal": 7, "reasoning": {"effort": "low"},
              "tool_calls": 7, "function_call": 7}],
            ChatMessage(), id="junk",
        ),
        pytest.param([None, "x", 7, [1]], ChatMessage(), id="no delta"),
    ],
)  # fmt: skip
def test_messages(entries: list[Any], expected: ChatMessage) -> None:
    """What deltas say, they say together."""
    assert deltas(*entries).choice().message == expected


def test_a_legacy_function_call_is_one_call() -> None:
    """``docs/contract/wire.md#function-call``: the name once, the arguments appended."""
    choice = deltas(
        {"function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": '{"a"'}},
        {"function_call": {"name": None, "arguments": ":1}"}},
    )
    call = choice.choice().message.function_call
    assert call is not None
    assert (call.id, call.name, call.arguments) == (None, "f", '{"a":1}')
    assert choice.body()["message"] == {"function_call": {"name": "f", "arguments": '{"a":1}'}}


def test_a_function_call_of_empty_strings_is_none() -> None:
    """Snowflake's messages have one where nothing is called.

    See ``docs/contract/wire.md#dialects``.
    """
    choice = deltas({"content": "Hi", "function_call": {"name": "", "arguments": ""}})
    assert choice.choice().message.function_call is None
    assert choice.body()["message"] == {"content": "Hi"}
    assert not deltas({"function_call": {"name": "", "arguments": ""}}).has_content


def test_a_message_beside_deltas_is_never_read() -> None:
    """Rule 4: Perplexity's cumulative message."""
    choice = fold(
        {"delta": {"content": "A"}, "message": {"content": "A"}},
        {"delta": {"content": "B"}, "message": {"content": "AB"}},
        {"delta": None, "message": {"content": "AB"}},
        {"message": {"content": "AB"}},
    )
    assert choice.choice().message.content == "AB"
    assert choice.body() == {"index": 0, "message": {"content": "AB"}}


def test_stop_gives_way_to_a_reason_that_promises_calls() -> None:
    """Where there are calls; any other reason behind the first one is passed over."""
    call = {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]}
    spoken = {"delta": {"content": "A"}, "finish_reason": "stop"}
    called = {"delta": call, "finish_reason": "tool_calls"}
    assert fold(spoken, called).finish_reason == "tool_calls"
    assert fold(spoken, called, spoken).finish_reason == "tool_calls"
    assert fold(spoken, {"delta": {}, "finish_reason": "tool_calls"}).finish_reason == "stop"
    assert fold(spoken, called | {"finish_reason": "length"}).finish_reason == "stop"


def test_a_message_alone_is_a_whole_answer() -> None:
    """A plain body has no deltas."""
    choice = fold({"message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"})
    assert choice.choice().message == ChatMessage(role="assistant", content="A")
    assert choice.finish_reason == "stop"


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ([None, "stop", None], "stop"),
        ([None, "", "length"], "length"),
        (["stop", "stop"], "stop"),
        (["stop", "length"], "stop"),
        (["x" * 257, "stop"], "stop"),
        (["x" * 256, "stop"], "x" * 256),
        ([7, None], None),
        ([], None),
    ],
)
def test_the_first_finish_reason_is_kept(reasons: list[Any], expected: str | None) -> None:
    """Later ones may contradict it; an empty one is none (``docs/contract/sources.md#s1-1``)."""
    choice = fold(*({"delta": {}, "finish_reason": reason} for reason in reasons))
    assert choice.choice().finish_reason == expected


def test_logprobs_are_concatenated() -> None:
    """Both lists in order; Snowflake's nulls are none (``docs/contract/sources.md#s0-10``)."""
    nothing = {"content": None, "refusal": None}
    choice = fold(
        {"logprobs": None},
        {"logprobs": {"content": [{"token": "a"}], "refusal": None}},
        {"logprobs": {"content": [{"token": "a"}], "refusal": [{"token": "r"}]}},
        {"logprobs": nothing},
    )
    logprobs = {"content": [{"token": "a"}, {"token": "a"}], "refusal": [{"token": "r"}]}
    assert choice.choice().logprobs == logprobs
    assert choice.body() == {"index": 0, "logprobs": logprobs}
    assert fold({"logprobs": nothing}).choice().logprobs is None


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x"}, {"refusal": "x"}, {"reasoning": "x"}, {"content": [THINKING]},
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]},
        {"function_call": {"name": "f"}}, {"reasoning_text": "x"}, {"audio": {"transcript": "x"}},
        {"images": [{"image_url": {"url": "https://x.test/a.png"}}]},
    ],
)  # fmt: skip
def test_content_is_seen(delta: dict[str, Any]) -> None:
    """Whatever is said, called or drawn; not a role alone (``docs/contract/sources.md#n5``)."""
    assert deltas(delta).has_content
    assert not deltas({"role": "assistant", "content": ""}, {"tool_calls": []}).has_content


def test_the_body_is_the_accumulated_choice() -> None:
    """As ``docs/contract/spans.md#accumulated-object`` has it; what is empty is left out."""
    choice = fold(
        {"delta": {"role": "assistant", "content": "", "refusal": None, "annotations": [1]}},
        {"delta": {"reasoning_content": "T", "annotations": [2]}, "content_filter_results": {}},
        {"delta": {"content": "A", "x": {"y": None, "z": 1}}, "logprobs": None},
        {"delta": {"content": "B"}, "finish_reason": "stop", "stop_reason": 128009, "usage": None},
    )
    assert choice.body() == {
        "index": 0,
        "message": {
            "role": "assistant",
            "content": "AB",
            "reasoning_content": "T",
            "annotations": [1, 2],
            "x": {"z": 1},
        },
        "finish_reason": "stop",
        "stop_reason": 128009,
    }


def test_the_body_keeps_parts_as_parts() -> None:
    """Mistral's parts are joined to what the message would have held unstreamed."""
    image = {"type": "image_url", "image_url": {"url": "u"}}
    choice = deltas(
        {"content": "0"},
        {"content": [THINKING]},
        {"content": [THINKING]},
        {"content": [{"type": "text", "text": "A"}]},
        {"content": "B"},
        {"content": [image]},
    )
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "HmHm"}]}
    assert choice.body()["message"]["content"] == [
        {"type": "text", "text": "0"}, thinking, {"type": "text", "text": "AB"}, image,
    ]  # fmt: skip
