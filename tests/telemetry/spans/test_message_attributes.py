"""One message of the record, flattened."""

from __future__ import annotations

from typing import Any

import pytest

from codec.parts import Media, Message, Reasoning, ToolCall
from telemetry.spans.flattening import Flattening
from telemetry.spans.message_attributes import build_message_attributes


def flat(*parts: Any, shows_reasoning: bool = True) -> dict[str, Any]:
    """The attributes of a message of these parts."""
    message = Message(None, parts)
    pairs = build_message_attributes("m", message, Flattening(), shows_reasoning=shows_reasoning)
    return {key: value for key, value in pairs if value is not None}


def test_reasoning_is_a_part_with_its_id_and_its_encrypted_form() -> None:
    """Where the history's is not wanted, text is content (``docs/contract/spans.md#reasoning``)."""
    reasoning = Reasoning(text="r", id="i", encrypted="e")
    assert flat(reasoning) == {
        "m.message.contents.0.message_content.type": "reasoning",
        "m.message.contents.0.message_content.text": "r",
        "m.message.contents.0.message_content.id": "i",
        "m.message.contents.0.message_content.encrypted_content": "e",
    }
    assert flat(reasoning, "t", shows_reasoning=False) == {"m.message.content": "t"}


def test_what_a_model_spoke_and_drew_are_parts() -> None:
    """The words of a sound, and the id by which a client sends it back; its form is not known."""
    spoken = Media(kind="audio", data="AAAA", file_id="a", transcript="Aye", is_beside_content=True)
    drawn = Media(kind="image", url="https://x.test/a.png", is_beside_content=True)
    audio, image = "m.message.contents.0.message_content", "m.message.contents.1.message_content"
    assert flat(spoken, drawn) == {
        f"{audio}.type": "audio",
        f"{audio}.audio.audio.transcript": "Aye",
        f"{audio}.id": "a",
        f"{image}.type": "image",
        f"{image}.image.image.url": "https://x.test/a.png",
    }


def test_a_call_is_id_name_and_verbatim_arguments() -> None:
    """No arguments are no attribute; the position is that among the calls."""
    call = ToolCall(id="c", name="f", arguments="{oops")
    assert flat("t", ToolCall(), call) == {
        "m.message.content": "t",
        "m.message.tool_calls.1.tool_call.id": "c",
        "m.message.tool_calls.1.tool_call.function.name": "f",
        "m.message.tool_calls.1.tool_call.function.arguments": "{oops",
    }


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ('{"a": 1}', True),
        ("{oops", False),
        ("NaN", False),
        ("\ufeff{}", False),
        ('"\ud800"', False),
        ("", False),
        ("[" * 100_000, False),
        ("[" * 512 + "]" * 512, True),
        ("[" * 513 + "]" * 513, False),
    ],
)
def test_function_call_arguments_must_be_json(arguments: str, kept: bool) -> None:
    """The deprecated call's arguments are written only if a browser can parse them."""
    call = ToolCall(name="f", arguments=arguments, type="function_call")
    expected = {"m.message.function_call_name": "f"}
    if kept:
        expected["m.message.function_call_arguments_json"] = arguments
    assert flat(call) == expected
