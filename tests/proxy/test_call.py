"""Calls read back from recorded spans."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from codec.chat.answer import ChatMessage, ChatResponse, Choice, ToolCall
from codec.parts import Media
from proxy.reading.call import RecordedCall
from proxy.reading.flat_messages import ContentPart, RecordedMessage
from proxy.reading.record import build_call_record, encode_line
from tests.proxy.recorded_calls import (
    TOOL,
    make_exchange,
    make_failed_exchange,
    make_tools_exchange,
    read_call,
)

if TYPE_CHECKING:
    from pathlib import Path

    from codec.text.jsontext import JsonObject


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where a test's store goes."""
    return tmp_path / "traces.db"


def with_attributes(call: RecordedCall, attributes: JsonObject) -> RecordedCall:
    """The call with other attributes on its span."""
    return RecordedCall(summary=call.summary, span=replace(call.span, attributes=attributes))


def answer(*choices: Choice, body: JsonObject | None = None) -> ChatResponse:
    """An answer of these choices."""
    return ChatResponse(model="gpt-demo", choices=choices, body=body or {})


def test_a_call_has_what_was_exchanged(store: Path) -> None:
    """Messages, parameters, numbers and ids come back as they went in."""
    call = read_call(store, make_exchange())
    assert [(m.role, m.parts[0].text) for m in call.input_messages] == [
        ("system", "Be brief."),
        ("user", "Hello there"),
    ]
    assert call.output_messages == (
        RecordedMessage(
            index=0, role="assistant", parts=(ContentPart(kind="text", text="Hi, you."),)
        ),
    )
    assert call.parameters == {"model": "gpt-demo", "stream": True, "temperature": 0.5}
    assert call.request["messages"][1]["content"] == "Hello there"
    assert call.response["choices"][0]["message"]["content"] == "Hi, you."
    assert (call.finish_reason, call.ttft_ms, call.request_id) == ("stop", 131.0, "req_1")
    assert call.requested_streaming
    assert call.duration_ns == 342_000_000
    assert call.tools == ()


def test_tools_and_tool_calls_come_back(store: Path) -> None:
    """Offered tools, earlier calls with their results, and the answer's calls in order."""
    call = read_call(store, make_tools_exchange())
    asked, called, result = call.input_messages
    assert [tool.value for tool in call.tools] == [TOOL, {"type": "custom"}]
    assert (call.tools[0].name, [*call.tools[0].parameters["properties"]]) == (
        "get_weather",
        ["city", "unit"],
    )
    assert asked.name == "ann"
    assert called.tool_calls == (ToolCall(id="call_0", name="get_weather", arguments="not {json"),)
    assert result.tool_call_id == "call_0"
    assert [c.arguments for c in call.output_messages[0].tool_calls] == [
        '{"city": "Lisbon"}',
        '{"city": "Oslo"}',
    ]


def test_more_than_ten_messages_stay_in_order(store: Path) -> None:
    """Indices are numbers, not words: 10 comes after 9."""
    texts = [f"message {number}" for number in range(12)]
    messages = [{"role": "user", "content": text} for text in texts]
    request = {"model": "m", "messages": messages}
    call = read_call(store, make_exchange(request_json=request))
    assert [message.parts[0].text for message in call.input_messages] == texts


def test_parts_of_a_message_come_back(store: Path) -> None:
    """Text, image, sound and document parts have their kind and what is known of them."""
    content = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf"}},
        {"type": "file", "file": {}},
    ]
    request = {"model": "m", "messages": [{"role": "user", "content": content}]}
    (message,) = read_call(store, make_exchange(request_json=request)).input_messages
    assert [(part.kind, part.text) for part in message.parts] == [
        ("text", "Look:"),
        ("image", "https://example.org/a.png"),
        ("audio", "data:audio/wav;base64,AAAA"),
        ("document", "a.pdf"),
        ("document", ""),
    ]


def test_the_words_of_a_sound_come_back(store: Path) -> None:
    """They tell more of it than where it is."""
    spoken = Media(kind="audio", file_id="a", transcript="Left here.", is_beside_content=True)
    message = ChatMessage(role="assistant", content="42", audio=spoken)
    choice = Choice(index=0, message=message, finish_reason="stop")
    call = read_call(store, make_exchange(response=answer(choice)))
    assert call.output_messages[0].parts == (
        ContentPart(kind="text", text="42"),
        ContentPart(kind="transcript", text="Left here.", place=1),
    )


def test_reasoning_comes_before_text(store: Path) -> None:
    """Reasoning is a part of its own."""
    message = ChatMessage(role="assistant", content="42", reasoning="Let me think.")
    choice = Choice(index=0, message=message, finish_reason="stop")
    call = read_call(store, make_exchange(response=answer(choice)))
    assert call.output_messages[0].parts == (
        ContentPart(kind="reasoning", text="Let me think."),
        ContentPart(kind="text", text="42", place=1),
    )


def test_refusal_comes_from_the_output_value(store: Path) -> None:
    """A refusal has no attribute of its own, but its reader sees it."""
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "refusal": "No."}}]}
    choice = Choice(
        index=0, message=ChatMessage(role="assistant", refusal="No."), finish_reason="stop"
    )
    call = read_call(store, make_exchange(response=answer(choice, body=body)))
    assert call.output_messages == (
        RecordedMessage(
            index=0, role="assistant", parts=(ContentPart(kind="refusal", text="No."),)
        ),
    )


def test_choices_are_known_by_their_index(store: Path) -> None:
    """Several choices come in order of their index, each with its own refusal."""
    said = [
        ChatMessage(role="assistant", content="c0"),
        ChatMessage(role="assistant", refusal="No."),
        ChatMessage(role="assistant", content="c2"),
    ]
    choices = [Choice(index=n, message=message) for n, message in enumerate(said)]
    call = read_call(store, make_exchange(response=answer(*reversed(choices))))
    parts = [(m.index, m.parts[0].kind, m.parts[0].text) for m in call.output_messages]
    assert parts == [(0, "text", "c0"), (1, "refusal", "No."), (2, "text", "c2")]


def test_legacy_function_call_is_a_tool_call(store: Path) -> None:
    """The deprecated single call is shown like any other, and says what it is."""
    legacy = ToolCall(name="f", arguments='{"a": 1}')
    choice = Choice(index=0, message=ChatMessage(role="assistant", function_call=legacy))
    call = read_call(store, make_exchange(response=answer(choice)))
    (told,) = call.output_messages[0].tool_calls
    assert (told.name, told.arguments, told.type) == ("f", '{"a": 1}', "function_call")


def test_failed_call_has_no_answer(store: Path) -> None:
    """Nothing is invented where nothing came (R6)."""
    call = read_call(store, make_failed_exchange())
    assert (call.finish_reason, call.ttft_ms, call.request_id) == (None, None, None)
    assert (call.output_messages, call.response) == ((), None)
    assert call.error_type == "429"


def test_damaged_blob_gives_a_call_that_says_so(store: Path) -> None:
    """A row whose bytes are no span still has its summary."""
    from proxy.reading.call import decode_call  # noqa: PLC0415 - only here

    good = read_call(store, make_exchange())
    for blob in (b"\xff\xff", b""):
        call = decode_call(good.summary, blob)
        assert call.span.status_message == "the stored span is damaged"
        assert call.span.span_id == good.summary.span_id
        assert (call.input_messages, call.request, call.metadata) == ((), None, {})


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"llm": "leaf", "llm.input_messages.0.message.role": "user"},
        {"llm.input_messages.0.message.role": "user", "llm.input_messages": "leaf"},
        {"llm.input_messages.x.message.role": 1, "llm.input_messages.0": 2},
        {"llm.input_messages.0.message": 1, "llm.tools.0.tool.json_schema": "[1]"},
        {"llm.input_messages.0.message.contents.0.message_content": []},
        {"llm.input_messages.0.message.contents.0.message_content.text": 1},
        {"llm.output_messages.0.message.function_call_name": 1},
        {"metadata": "not json", "llm.invocation_parameters": "[]", "output.value": "{"},
        {"metadata": '{"ttft_ms": "soon", "request_id": 7, "anomalies": {}}'},
        {"output.value": '{"choices": {"index": 0}}', "llm.finish_reason": 1},
        {"output.value": "[" * 100_000},
    ],
)
def test_no_attribute_breaks_the_reader(store: Path, attributes: dict[str, Any]) -> None:
    """Whatever the attributes are, every property answers and the record is strict JSON."""
    call = with_attributes(read_call(store, make_exchange()), attributes)
    line = encode_line(build_call_record(call))
    assert json.JSONDecoder().decode(line)["span"]["attributes"] == attributes
    assert isinstance(call.input_messages, tuple)
    assert isinstance(call.output_messages, tuple)
    assert isinstance(call.tools, tuple)
    assert call.ttft_ms is None
    assert call.request_id is None


def test_json_that_is_not_strict_stays_text(store: Path) -> None:
    """NaN in a body does not make the record invalid JSON."""
    call = with_attributes(read_call(store, make_exchange()), {"input.value": '{"a": NaN}'})
    assert call.request == '{"a": NaN}'


def test_a_legacy_completion_has_prompts_and_texts(store: Path) -> None:
    """They are shown where a chat has its messages."""
    response = answer(Choice(index=0, message=ChatMessage(content="Ahoy")))
    exchange = make_exchange(
        endpoint="completions",
        request_json={"model": "m", "prompt": ["Greet.", [1, 2]]},
        response=response,
    )
    call = read_call(store, exchange)
    assert call.input_messages == (
        RecordedMessage(index=0, role="prompt", parts=(ContentPart(kind="text", text="Greet."),)),
    )
    assert call.output_messages == (
        RecordedMessage(index=0, role="completion", parts=(ContentPart(kind="text", text="Ahoy"),)),
    )
