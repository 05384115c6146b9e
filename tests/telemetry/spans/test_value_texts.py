"""``telemetry.spans.value_texts``: values that people can read, with the bodies beside them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.text.jsontext import decode_json
from proxy.reading.flat_messages import find_request_body, find_response_body
from telemetry.privacy.redaction import Redaction
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.rules import SpanRules
from telemetry.spans.size_limits import SizeLimits
from telemetry.spans.value_texts import ValueForm
from tests.telemetry.columns import PICTURE, user
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import begin, exchange_frames

if TYPE_CHECKING:
    from telemetry.attribute_values import AttributeValue

IN, OUT = "input.value", "output.value"
ASKED_BODY, ANSWERED_BODY = "spantap.request.body", "spantap.response.body"
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
OLD_CALL = {"name": "g", "arguments": "{}"}


def span(
    asked: dict[str, Any],
    answered: dict[str, Any],
    endpoint: str = "chat.completions",
    **rules: Any,
) -> dict[str, AttributeValue]:
    """The attributes of a plain call, with texts."""
    head = (("content-type", "application/json"),)
    _, *frames = exchange_frames(
        json.dumps(answered).encode(), asked=json.dumps(asked).encode(), headers=head
    )
    exchange = observe([begin(endpoint=endpoint), *frames])
    shown = build_exchange_attributes(exchange, SpanRules(**{"values": ValueForm.TEXT, **rules}))
    return dict(shown)


def chat(*messages: Any, said: Any = "Hello.", **rules: Any) -> dict[str, AttributeValue]:
    """The attributes of a chat; `said` is a text or more members of the answer's message."""
    message = {"role": "assistant", "content": said} if isinstance(said, str) else said
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return span({"model": "m", "messages": [*messages]}, {"choices": choices}, **rules)


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([user("Hi\n\nthere ")], "Hi\n\nthere"),
        ([user("first"), {"role": "assistant", "content": "a"}, user("second")], "second"),
        ([user([{"type": "text", "text": "look"}, PICTURE, {"type": "text", "text": "well"}])],
         "look\nwell"),
        ([user("<system-reminder>Monday</system-reminder>\nRename it")], "Rename it"),
        ([user("words"), user("<system-reminder>Monday</system-reminder>")], "words"),
        ([user("ask"), {"role": "tool", "tool_call_id": "c", "content": "r"}], "ask"),
    ],
)  # fmt: skip
def test_input_is_what_the_user_said_last(messages: list[Any], text: str) -> None:
    """Whole and with its line ends."""
    attributes = chat(*messages)
    assert attributes[IN] == text
    assert decode_json(str(attributes[ASKED_BODY])) == {"model": "m", "messages": messages}
    assert "input.mime_type" not in attributes


@pytest.mark.parametrize("messages", [[user([PICTURE])], [{"role": "system", "content": "s"}], []])
def test_without_a_text_the_body_stays(messages: list[Any]) -> None:
    """JSON, with its type."""
    attributes = chat(*messages)
    assert decode_json(str(attributes[IN]))["messages"] == messages
    assert attributes["input.mime_type"] == "application/json"
    assert ASKED_BODY not in attributes


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "Yes."}, "Yes."),
        ({"content": None, "refusal": "No."}, "No."),
        ({"content": "I look.", "tool_calls": [CALL, CALL]},
         'I look.\nf({"a": 1})\nf({"a": 1})'),
        ({"content": None, "tool_calls": [CALL]}, 'f({"a": 1})'),
        ({"content": None, "function_call": OLD_CALL}, "g({})"),
        ({"content": "Four.", "reasoning_content": "2+2"}, "Four."),
        ({"content": None, "audio": {"id": "a", "transcript": "Aye."}}, "Aye."),
        ({"content": "Four.", "images": [{"image_url": {"url": "https://x.test/a.png"}}]}, "Four."),
    ],
)  # fmt: skip
def test_output_is_the_answers_text_and_its_calls(message: dict[str, Any], text: str) -> None:
    """Reasoning is none of it."""
    attributes = chat(user("Hi"), said={"role": "assistant", **message})
    assert attributes[OUT] == text
    assert (
        decode_json(str(attributes[ANSWERED_BODY]))["choices"][0]["message"].items()
        >= {"role": "assistant"}.items()
    )
    assert "output.mime_type" not in attributes


def test_choices_are_paragraphs() -> None:
    """Each in the order of the answer."""
    choices = [
        {"index": n, "message": {"role": "assistant", "content": f"answer {n}"}} for n in (0, 1)
    ]
    attributes = span({"model": "m", "messages": [user("Hi")], "n": 2}, {"choices": choices})
    assert attributes[OUT] == "answer 0\n\nanswer 1"


@pytest.mark.parametrize(
    ("endpoint", "asked", "answered", "texts"),
    [
        ("completions", {"prompt": ["a", "b"]}, {"choices": [{"index": 0, "text": "c"}]},
         ("a\n\nb", "c")),
        ("completions", {"prompt": [1, 2]}, {"choices": []}, (None, None)),
        ("embeddings", {"input": "fox"}, {"data": [{"index": 0, "embedding": [0.5]}]},
         ("fox", None)),
        ("rerank", {"query": "q", "documents": ["d"]},
         {"results": [{"index": 0, "relevance_score": 0.5}]}, ("q", None)),
        ("moderations", {"input": "kind"}, {"results": [{"flagged": False, "categories": {}}]},
         (None, None)),
        ("images", {"prompt": "a cat"}, {"data": [{"b64_json": "aGk="}]}, ("a cat", None)),
        ("audio.speech", {"input": "say", "voice": "v"}, {}, ("say", None)),
        ("responses", {"input": "hi"},
         {"object": "response", "status": "completed", "output": [
             {"type": "message", "role": "assistant",
              "content": [{"type": "output_text", "text": "ho"}]},
             {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}]},
         ("hi", "ho\n\nf({})")),
        ("messages", {"messages": [user("hi")]},
         {"type": "message", "role": "assistant", "content": [
             {"type": "thinking", "thinking": "hm", "signature": "s"},
             {"type": "text", "text": "ho"},
             {"type": "tool_use", "id": "t", "name": "f", "input": {}}]}, ("hi", "ho\nf({})")),
        ("gemini.generate", {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
         {"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "ho"}]}}]},
         ("hi", "ho")),
        ("ollama.chat", {"messages": [user("hi")], "stream": False},
         {"message": {"role": "assistant", "content": "ho"}, "done": True}, ("hi", "ho")),
        ("ollama.generate", {"prompt": "hi", "stream": False},
         {"response": "ho", "done": True}, ("hi", "ho")),
    ],
)  # fmt: skip
def test_texts_of_every_api(
    endpoint: str,
    asked: dict[str, Any],
    answered: dict[str, Any],
    texts: tuple[str | None, str | None],
) -> None:
    """As docs/spans.md lists them."""
    attributes = span({"model": "m", **asked}, answered, endpoint)
    found = [
        attributes[name] if body in attributes else None
        for name, body in ((IN, ASKED_BODY), (OUT, ANSWERED_BODY))
    ]
    assert found == [*texts]


@pytest.mark.parametrize(
    ("switch", "shows"),
    [
        ("hide_inputs", OUT),
        ("hide_input_messages", OUT),
        ("hide_input_text", OUT),
        ("hide_outputs", IN),
        ("hide_output_messages", IN),
        ("hide_output_text", IN),
    ],
)
def test_what_is_hidden_is_in_no_text_and_no_body(switch: str, shows: str) -> None:
    """The other side stays."""
    privacy = PrivacySwitches(**{switch: True})
    attributes = chat(user("asked words"), said="said words", privacy=privacy)
    hidden, word = (OUT, "said") if shows == IN else (IN, "asked")
    assert attributes[hidden] == "__REDACTED__"
    assert word not in str(attributes)
    assert attributes[shows] in {"asked words", "said words"}


def test_patterns_hold_in_texts_and_bodies() -> None:
    """Patterns are applied to the texts and to the bodies."""
    redaction = Redaction({"secret": "s3cret"})
    attributes = chat(user("my s3cret"), said="your s3cret", redaction=redaction)
    assert attributes[IN] == "my __REDACTED__"
    assert attributes[OUT] == "your __REDACTED__"
    assert "s3cret" not in str(attributes)


def test_bodies_are_the_first_to_go() -> None:
    """Messages and texts stay where there is no room for bodies."""
    sizes = SizeLimits(value_bytes=4_000, span_bytes=16_500)
    attributes = chat(user("q" * 2_500), said="a" * 2_500, sizes=sizes)
    assert [attributes[IN], attributes[OUT]] == ["q" * 2_500, "a" * 2_500]
    assert attributes["llm.input_messages.0.message.content"] == "q" * 2_500
    assert ASKED_BODY not in attributes
    cut = decode_json(str(attributes["metadata"]))["cut"]
    assert ASKED_BODY in cut
    assert find_request_body(attributes, cut) is None


def test_a_body_that_is_too_long_is_cut_as_json() -> None:
    """Under a size limit; and the note is the body's, for a request that is not held, too."""
    sizes = SizeLimits(value_bytes=4_000, span_bytes=100_000)
    attributes = chat(user("q" * 9_000), said="a" * 9_000, sizes=sizes)
    for value, body in ((IN, ASKED_BODY), (OUT, ANSWERED_BODY)):
        assert str(attributes[value]).endswith("… [cut: 9000 bytes]")
        assert decode_json(str(attributes[body]))
    cut = decode_json(str(attributes["metadata"]))["cut"]
    assert {IN, OUT, ASKED_BODY, ANSWERED_BODY} <= cut.keys()


TEXTS = st.text(st.characters(exclude_categories=()), max_size=40)


@given(TEXTS, TEXTS)
def test_both_forms_have_the_same_bodies(asked: str, said: str) -> None:
    """Whatever is said, halves of surrogate pairs among it."""
    attributes = chat(user(asked), said=said)
    plain = chat(user(asked), said=said, values=ValueForm.JSON)
    assert find_request_body(attributes, ()) == find_request_body(plain, ())
    assert find_response_body(attributes, ()) == find_response_body(plain, ())
    assert {*plain} - {"input.mime_type", "output.mime_type"} <= {*attributes}
