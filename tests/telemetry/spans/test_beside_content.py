"""Spans of chats in which a model speaks, draws and thinks beside its content."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json
from telemetry.privacy.switches import PrivacySwitches
from telemetry.spans.rules import SpanRules
from telemetry.spans.value_texts import ValueForm
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import MS, START_NS, exchange_frames

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

SPOKEN_BEFORE, SPOKEN = "words-before", "words-now"
DRAWN_BEFORE, DRAWN = "https://x.test/before.png", "https://x.test/now.png"
THOUGHT_BEFORE, THOUGHT, THOUGHT_TOO = "thought-before", "thought-now", "thought-too"
LONG = f"data:image/png;base64,iVBORw0KGgo{'A' * 40_000}"
ASKED = {
    "model": "m-1",
    "stream": True,
    "messages": [
        {"role": "user", "content": "Which way?"},
        {
            "role": "assistant",
            "content": "Here.",
            "audio": {"id": "audio_0", "transcript": SPOKEN_BEFORE},
            "images": [{"type": "image_url", "image_url": {"url": DRAWN_BEFORE}}],
            "reasoning_details": [{"type": "reasoning.text", "text": THOUGHT_BEFORE}],
        },
        {"role": "user", "content": "And now?"},
    ],
}
DELTAS: list[dict[str, Any]] = [
    {"role": "assistant", "content": "", "audio": {"id": "audio_1"}},
    {"audio": {"transcript": SPOKEN[:3]}},
    {"audio": {"transcript": SPOKEN[3:], "data": "AAAA"}},
    {"images": [{"type": "image_url", "image_url": {"url": DRAWN}}]},
    {"reasoning_details": [{"type": "reasoning.text", "text": THOUGHT[:3], "index": 0}]},
    {"reasoning_details": [{"type": "reasoning.text", "text": THOUGHT[3:], "index": 0}]},
    {"reasoning_text": THOUGHT_TOO},
    {"content": "Left."},
]
OF_REQUEST = {SPOKEN_BEFORE, DRAWN_BEFORE, THOUGHT_BEFORE}
OF_ANSWER = {SPOKEN, DRAWN, THOUGHT, THOUGHT_TOO}


def call(*deltas: dict[str, Any]) -> Exchange:
    """The record of a stream of these deltas, the usual ones where none is given."""
    choices = [{"index": 0, "delta": delta} for delta in deltas or DELTAS]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    events = [f"data: {json.dumps({'choices': [one]})}\n\n".encode() for one in choices]
    return observe(exchange_frames(*events, b"data: [DONE]\n\n", asked=json.dumps(ASKED).encode()))


def span(exchange: Exchange, **privacy: Any) -> dict[str, Any]:
    """Its attributes, with content in both vocabularies and both forms of values."""
    rules = SpanRules(
        shows_genai_content=True, privacy=PrivacySwitches(**privacy), values=ValueForm.JSON
    )
    texts = SpanRules(shows_genai_content=True, privacy=PrivacySwitches(**privacy))
    moved = {f"text {k}": v for k, v in build_exchange_attributes(exchange, texts).items()}
    return moved | build_exchange_attributes(exchange, rules)


def test_what_is_beside_the_content_is_on_the_span() -> None:
    """In both vocabularies, of the answer and of the history."""
    attributes = span(call())
    told = {
        key.removeprefix("llm.output_messages.0.message.contents."): value
        for key, value in attributes.items()
        if key.startswith("llm.output_messages.0.message.contents.")
    }
    assert told == {
        "0.message_content.type": "reasoning",
        "0.message_content.text": THOUGHT_TOO + THOUGHT,
        "1.message_content.type": "text",
        "1.message_content.text": "Left.",
        "2.message_content.type": "audio",
        "2.message_content.audio.audio.transcript": SPOKEN,
        "2.message_content.id": "audio_1",
        "3.message_content.type": "image",
        "3.message_content.image.image.url": DRAWN,
    }
    (message,) = decode_json(attributes["gen_ai.output.messages"])
    assert message["parts"] == [
        {"type": "reasoning", "content": THOUGHT_TOO + THOUGHT},
        {"type": "text", "content": "Left."},
        {"type": "blob", "modality": "audio", "content": "AAAA"},
        {"type": "text", "content": SPOKEN},
        {"type": "uri", "modality": "image", "uri": DRAWN},
    ]
    before = "llm.input_messages.1.message.contents"
    assert attributes[f"{before}.0.message_content.text"] == "Here."
    assert attributes[f"{before}.1.message_content.audio.audio.transcript"] == SPOKEN_BEFORE
    assert attributes[f"{before}.1.message_content.id"] == "audio_0"
    assert attributes[f"{before}.2.message_content.image.image.url"] == DRAWN_BEFORE


@pytest.mark.parametrize(
    ("switch", "hidden"),
    [
        ("hide_outputs", OF_ANSWER),
        ("hide_output_messages", OF_ANSWER),
        ("hide_output_text", OF_ANSWER),
        ("hide_inputs", OF_REQUEST),
        ("hide_input_messages", OF_REQUEST),
        ("hide_input_text", OF_REQUEST),
        ("hide_input_images", {DRAWN_BEFORE}),
    ],
)
def test_switches_hide_it(switch: str, hidden: set[str]) -> None:
    """Each hides what it is about, and nothing else; without one all is seen."""
    everything = OF_REQUEST | OF_ANSWER
    assert {word for word in everything if word in str(span(call()))} == everything
    seen = str(span(call(), **{switch: True}))
    assert {word for word in everything if word not in seen} == hidden


def test_a_long_picture_is_hidden() -> None:
    """The limit of pictures counts for those that a chat made."""
    drawn = {"content": "Here.", "images": [{"type": "image_url", "image_url": {"url": LONG}}]}
    exchange = call(drawn)
    assert LONG[:40] not in str(span(exchange))
    assert (
        LONG
        in span(exchange, base64_image_max_length=50_000)[
            "llm.output_messages.0.message.contents.1.message_content.image.image.url"
        ]
    )


@pytest.mark.parametrize("said", [one for one in DELTAS if "content" not in one])
def test_the_first_of_it_is_the_first_content(said: dict[str, Any]) -> None:
    """It is what whoever waits gets first."""
    exchange = call({"role": "assistant", "audio": {"id": "audio_1"}}, said, {"content": "Left."})
    assert exchange.first_content_ns == START_NS + 110 * MS
