"""The answer's side of a span, flattened."""

from __future__ import annotations

from typing import Any

import pytest

from codec.chat.answer import ChatMessage, ChatResponse, Choice, ToolCall
from codec.text.jsontext import decode_json
from telemetry.spans.flattening import MAX_FLATTENED_CHOICES, MAX_FLATTENED_TOOL_CALLS, Flattening
from telemetry.spans.response_attributes import (
    build_output_attributes,
    build_output_message_attributes,
    build_text_choice_attributes,
)
from tests.telemetry.exchanges import cleaned, make_exchange, make_response


def messages_of(response: ChatResponse) -> dict[str, Any]:
    """The attributes of an answer's messages, their common prefix taken off."""
    attributes = cleaned(
        build_output_message_attributes(make_exchange(response=response), Flattening())
    )
    assert all(key.startswith("llm.output_messages.") for key in attributes)
    return {key.removeprefix("llm.output_messages."): value for key, value in attributes.items()}


def output_of(response: ChatResponse | None) -> dict[str, Any]:
    """The attributes of an answer as a whole."""
    return cleaned(build_output_attributes(make_exchange(response=response)))


def test_plain_answer() -> None:
    """A text is the message's content."""
    assert messages_of(make_response(ChatMessage(role="assistant", content="Hello"))) == {
        "0.message.role": "assistant",
        "0.message.content": "Hello",
    }


def test_messages_stand_under_their_choices_index() -> None:
    """The choice's own index counts, not its position."""
    choices = (
        Choice(index=1, message=ChatMessage(content="b")),
        Choice(index=4, message=ChatMessage(content="e")),
    )
    assert messages_of(ChatResponse(choices=choices)) == {
        "1.message.content": "b",
        "4.message.content": "e",
    }


def test_reasoning_makes_parts() -> None:
    """Reasoning and text are two parts, and there is no plain content beside them."""
    message = ChatMessage(role="assistant", reasoning="Let me think.", content="42")
    assert messages_of(make_response(message)) == {
        "0.message.role": "assistant",
        "0.message.contents.0.message_content.type": "reasoning",
        "0.message.contents.0.message_content.text": "Let me think.",
        "0.message.contents.1.message_content.type": "text",
        "0.message.contents.1.message_content.text": "42",
    }


def test_a_refusal_is_content() -> None:
    """The message is no empty card, and output.value keeps what it is."""
    body = {"choices": [{"index": 0, "message": {"refusal": "I can't."}}]}
    response = make_response(ChatMessage(role="assistant", refusal="I can't."), body=body)
    expected = {"0.message.role": "assistant", "0.message.content": "I can't."}
    assert messages_of(response) == expected
    assert '"refusal": "I can\'t."' in output_of(response)["output.value"]


@pytest.mark.parametrize("reasoning", [None, "Hm."])
def test_a_refusal_stands_behind_text_and_reasoning(reasoning: str | None) -> None:
    """Whatever was said before it is said, too."""
    message = ChatMessage(reasoning=reasoning, content="First", refusal="No")
    texts = [value for key, value in messages_of(make_response(message)).items() if "text" in key]
    assert texts == [text for text in (reasoning, "First", "No") if text]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("chat.completion.chunk", "chat.completion"),
        ("text_completion.chunk", "text_completion"),
        ("text_completion", "text_completion"),
        ("", ""),
        (["odd"], ["odd"]),
    ],
)
def test_a_stream_put_together_does_not_call_itself_a_chunk(name: Any, expected: Any) -> None:
    """Whoever reads the output value finds a whole answer, named as one."""
    exchange = make_exchange(response=ChatResponse(body={"object": name}), streamed=True)
    output = dict(build_output_attributes(exchange))["output.value"]
    assert decode_json(str(output)) == {"object": expected}


def test_a_plain_answer_keeps_the_name_it_came_with() -> None:
    """The output value of what was not put together is what the client received."""
    body = {"object": "chat.completion.chunk"}
    assert decode_json(output_of(ChatResponse(body=body))["output.value"]) == body


def test_output_value_is_the_body() -> None:
    """The output value is the answer as JSON text, non-ASCII kept (1.5)."""
    response = ChatResponse(body={"id": "x", "choices": ["é"]})
    assert output_of(response) == {
        "output.value": '{"id": "x", "choices": ["é"]}',
        "output.mime_type": "application/json",
    }


def test_no_answer_no_output() -> None:
    """Without an answer there is no output of any kind."""
    assert output_of(None) == {}
    assert output_of(ChatResponse(body={"n": 10**5000})) == {}  # which Python cannot write
    assert cleaned(build_output_message_attributes(make_exchange(), Flattening())) == {}


def test_hostile_answer() -> None:
    """Lone surrogates become U+FFFD in messages, and stay escapes in the output's JSON."""
    text = "a\ud800\x00"
    response = make_response(ChatMessage(role=text, content=text), body={"c": text})
    assert messages_of(response) == {
        "0.message.role": "a\ufffd\x00",
        "0.message.content": "a\ufffd\x00",
    }
    assert output_of(response)["output.value"] == '{"c": "a\\ud800\\u0000"}'


def test_error_body_is_no_output() -> None:
    """A refused request has no output, though its body was decoded."""
    exchange = make_exchange(response=ChatResponse(body={"error": {}}), response_status=400)
    assert cleaned(build_output_attributes(exchange)) == {}


def test_an_answer_that_could_not_be_decoded_is_plain_text() -> None:
    """What came of it is kept as it came, without the mime type of JSON."""
    exchange = make_exchange(response=None, undecoded_body='{"id":"chat')
    assert cleaned(build_output_attributes(exchange)) == {"output.value": '{"id":"chat'}


def test_the_first_choices_and_calls_stay() -> None:
    """More than anybody asks for are cut and noted."""
    calls = (ToolCall(id="c"),) * (MAX_FLATTENED_TOOL_CALLS + 1)
    plain = (ChatMessage(content="x"),) * MAX_FLATTENED_CHOICES
    response = make_response(ChatMessage(tool_calls=calls), *plain)
    flattening = Flattening()
    attributes = dict(build_output_message_attributes(make_exchange(response=response), flattening))
    expected = [
        f"llm.output_messages.0.message.tool_calls.{position}.tool_call.id"
        for position in range(MAX_FLATTENED_TOOL_CALLS)
    ]
    expected += [
        f"llm.output_messages.{index}.message.content" for index in range(1, MAX_FLATTENED_CHOICES)
    ]
    assert list(attributes) == expected
    assert flattening.cut == {
        "message.tool_calls": len(calls),
        "llm.output_messages": MAX_FLATTENED_CHOICES + 1,
    }


def test_texts_of_a_legacy_completion_are_flattened() -> None:
    """By the choice's own index (``docs/contract/spans.md#legacy-completions``)."""
    response = make_response(ChatMessage(content="Ahoy"), ChatMessage())
    exchange = make_exchange(endpoint="completions", response=response)
    assert dict(build_text_choice_attributes(exchange, Flattening())) == {
        "llm.choices.0.completion.text": "Ahoy"
    }
    assert not dict(build_text_choice_attributes(make_exchange(), Flattening()))
