"""What is hidden within a value, and under names that nobody knows."""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.api import Content
from codec.text.jsontext import decode_json
from telemetry.privacy.hiding import hide_attributes
from telemetry.privacy.json_strings import MAX_JSON_DEPTH, REDACTED
from telemetry.privacy.switches import PrivacySwitches
from tests.telemetry.privacy.masks import DROPPED, changes, dropped
from tests.telemetry.privacy.spans import CHAT, IMAGE

if TYPE_CHECKING:
    from telemetry.attribute_values import AttributeValue


def test_images_in_embedded_texts_are_hidden() -> None:
    """Some models embed images."""
    key = "embedding.embeddings.0.embedding.text"
    attributes: dict[str, AttributeValue] = {key: "data:image/png;base64,QQ=="}
    assert changes(attributes, "hide_input_images") == {key: REDACTED}


def test_prompts_of_token_ids_are_hidden() -> None:
    """A completion whose prompt has no words is no chat either."""
    attributes: dict[str, AttributeValue] = {
        "input.value": '{"prompt": [101, 7592]}',
        "output.value": '{"choices": []}',
    }
    expected = dict.fromkeys(attributes, REDACTED)
    hidden = changes(attributes, "hide_prompts", "hide_choices", content=Content.TEXTS)
    assert hidden == expected


def test_parts_of_the_request_are_hidden_together() -> None:
    """All switches change one value."""
    switches = ("hide_input_images", "hide_llm_tools", "hide_llm_invocation_parameters")
    for some in combinations(switches, 2):
        value = changes(CHAT, *some)["input.value"]
        assert (IMAGE in value) == ("hide_input_images" not in some)
        assert ("look_up" in value) == ("hide_llm_tools" not in some)
        assert ("temperature" in value) == ("hide_llm_invocation_parameters" not in some)


@pytest.mark.parametrize(
    ("switch", "key"),
    [
        ("hide_inputs", "llm.input_messages.0.new"),
        ("hide_inputs", "llm.tools.0.new"),
        ("hide_inputs", "input.documents.0.document.url"),
        ("hide_inputs", "gen_ai.request.new"),
        ("hide_inputs", "gen_ai.input.messages.0.new"),
        ("hide_inputs", "llm.prompts.0.new"),
        ("hide_input_text", "llm.input_messages.0.new"),
        ("hide_input_text", "llm.prompt_template.new"),
        ("hide_outputs", "llm.output_messages.0.new"),
        ("hide_outputs", "llm.choices.0.new"),
        ("hide_outputs", "output.images.0.image.url"),
        ("hide_output_text", "llm.output_messages.0.message.new"),
        ("hide_llm_tools", "llm.tools.0.tool.new"),
        ("hide_llm_invocation_parameters", "openai.request.new"),
        ("hide_input_images", "input.images.0.new"),
    ],
)
def test_unknown_names_are_hidden_with_their_namespace(switch: str, key: str) -> None:
    """What a later convention adds is hidden with the rest."""
    assert changes({key: "Ann"}, switch) in ({key: DROPPED}, {key: REDACTED})


@pytest.mark.parametrize("key", ["llm.input_messages_count", "inputs", "llm", "x.input.value", ""])
def test_other_namespaces_stay(key: str) -> None:
    """A namespace ends at a dot."""
    switches = PrivacySwitches.everything()
    assert hide_attributes({key: "Ann"}, switches) == {key: "Ann"}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("llm.input_messages.0.message.content", '[{"image_url": "https://x.test/1.png"}, 1]'),
        ("llm.prompts.0.prompt.text", "See data:image/png;base64,QQ=="),
        ("llm.invocation_parameters", '{"image": "https://x.test/1.png"}'),
        ("llm.tools.0.tool.json_schema", '{"icon": "data:image/png;base64,QQ=="}'),
        ("gen_ai.input.messages", '[{"parts": [{"modality": "image", "content": "QQ=="}]}]'),
    ],
)
def test_images_are_hidden_wherever_the_request_says_them(key: str, text: str) -> None:
    """In flattened messages and GenAI content as well."""
    hidden = hide_attributes({key: text}, PrivacySwitches(hide_input_images=True))[key]
    assert REDACTED in str(hidden)
    assert not any(word in str(hidden) for word in ("x.test", "QQ"))


def test_numbers_in_hidden_namespaces_are_no_images() -> None:
    """A value that is no text holds none."""
    assert changes({"llm.tools.0.n": 1}, "hide_input_images") == {}


@pytest.mark.parametrize("text", ["no JSON", '{"image": ', '["image"]', '"image"', "[[" * 10_000])
@pytest.mark.parametrize("switch", ["hide_llm_tools", "hide_llm_invocation_parameters"])
def test_request_that_is_no_object_is_redacted(switch: str, text: str) -> None:
    """Where members would have to go and there is no telling which."""
    assert changes({"input.value": text}, switch) == {"input.value": REDACTED}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no JSON", "no JSON"),
        ('{"image": ', REDACTED),
        ('["image",  1]', '["image", 1]'),
        ('{"a" :1}', '{"a" :1}'),
    ],
)
def test_request_of_any_kind_without_images(text: str, expected: str) -> None:
    """What may hold an image and is not JSON is redacted, all else stays."""
    hidden = hide_attributes({"input.value": text}, PrivacySwitches(hide_input_images=True))
    assert hidden == {"input.value": expected}


def test_request_without_tools_stays_as_it_is() -> None:
    """Character by character."""
    assert changes({"input.value": '{"a" :1}'}, "hide_llm_tools") == {}


def test_doubled_tools_are_hidden() -> None:
    """Of members with one name none stays."""
    text = '{"tools": ["Ann"], "tools": 1, "a": 2}'
    expected = {"input.value": json.dumps({"tools": REDACTED, "a": 2})}
    assert changes({"input.value": text}, "hide_llm_tools") == expected


def test_request_that_cannot_be_written_is_redacted() -> None:
    """A number of more digits than Python writes, say."""
    text = '{"tools": 1, "a": 1' + "0" * 5_000 + "}"
    assert changes({"input.value": text}, "hide_llm_tools") == {"input.value": REDACTED}


@pytest.mark.parametrize("text", ["no JSON", "[]", "{"])
def test_unreadable_parameters_and_metadata_are_left_out(text: str) -> None:
    """Readers expect an object or nothing."""
    attributes: dict[str, AttributeValue] = {"llm.invocation_parameters": text, "metadata": text}
    assert changes(attributes, "hide_input_text", "hide_output_text") == dropped(*attributes)


def _nested(value: Any) -> Any:
    for _ in range(MAX_JSON_DEPTH + 2):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"n": 1, "f": 0.5, "b": True, "s": "Ann", "none": None}, {"n": 1, "f": 0.5, "b": True}),
        ({"Ann asked": 1, "": 1, "é": 1, "x" * 65: 1, "a-b.c_1": 1}, {"a-b.c_1": 1}),
        ({"ids": [101, 7592], "list": [{"n": 1}]}, {}),
        ({"a": {"s": "Ann"}, "b": {"n": 1, "s": "Ann"}}, {"b": {"n": 1}}),
        (_nested(1), {}),
    ],
)
def test_usage_keeps_its_numbers(raw: Any, expected: Any) -> None:
    """Under names as programs have them; token ids of a text are none."""
    hidden = changes({"metadata": json.dumps({"usage_raw": raw, "a": "b"})}, "hide_output_text")
    assert decode_json(hidden["metadata"]) == {"a": "b", "usage_raw": expected}


def test_the_usage_of_transcripts_keeps_its_numbers() -> None:
    """Of each of them."""
    raw = [{"n": 1, "s": "Ann"}, "Ann"]
    members = json.dumps({"transcription_usage": raw, "a": "b"})
    hidden = changes({"metadata": members}, "hide_output_text")
    assert decode_json(hidden["metadata"]) == {"a": "b", "transcription_usage": [{"n": 1}]}


@pytest.mark.parametrize("raw", ["Ann", ["Ann"], None])
def test_usage_that_is_no_object_is_left_out(raw: Any) -> None:
    """Nobody knows what it says."""
    hidden = changes({"metadata": json.dumps({"usage_raw": raw, "a": "b"})}, "hide_outputs")
    assert decode_json(hidden["metadata"]) == {"a": "b"}


def test_metadata_without_usage_stay() -> None:
    """There is nothing to hide in them."""
    assert changes({"metadata": '{"a": "b"}'}, "hide_outputs") == {}
