"""What a message holds, as parts of OpenTelemetry's schema."""

from __future__ import annotations

from typing import Any

import pytest

from codec.chat.messages import read_message
from codec.parts import ToolCall
from telemetry.spans.flattening import MAX_FLATTENED_PARTS
from telemetry.spans.genai_parts import build_parts
from tests.telemetry.genai_schema import check_part

LIMIT = 64
PNG = "data:image/png;base64,QUJD"


def parts_of(content: Any) -> list[dict[str, Any]]:
    """The parts of a content, each as the schema has it."""
    message = read_message({"role": "user", "content": content})
    parts = list(build_parts(message.parts, image_max_length=LIMIT))
    for part in parts:
        check_part(part)
    return parts


def call_part(call: ToolCall) -> dict[str, Any]:
    """The part of a call."""
    (part,) = build_parts([call], image_max_length=LIMIT)
    return part


def result_part(message: dict[str, Any]) -> dict[str, Any]:
    """The part of a tool's answer."""
    told = read_message({"role": "tool", **message})
    (part,) = build_parts(told.parts, image_max_length=LIMIT)
    return part


def blob(modality: str, mime_type: str | None, content: str) -> dict[str, Any]:
    """A part with bytes."""
    typed = {} if mime_type is None else {"mime_type": mime_type}
    return {"type": "blob", "modality": modality, "content": content, **typed}


def uri(modality: str, place: str) -> dict[str, Any]:
    """A part that is elsewhere."""
    return {"type": "uri", "modality": modality, "uri": place}


@pytest.mark.parametrize(
    ("member", "value", "wanted"),
    [
        ("text", "Hi", {"type": "text", "content": "Hi"}),
        ("refusal", "No.", {"type": "text", "content": "No."}),
        ("image_url", {"url": "https://x.example/a.png"}, uri("image", "https://x.example/a.png")),
        ("image_url", "gs://bucket/a.png", uri("image", "gs://bucket/a.png")),
        ("image_url", {"url": PNG}, blob("image", "image/png", "QUJD")),
        ("image_url", PNG.upper(), blob("image", "image/png", "QUJD")),
        ("image_url", "data:;base64,QUJD", blob("image", None, "QUJD")),
        ("image_url", "data:image/png;x=y;base64,QQ==", blob("image", "image/png", "QQ==")),
        ("image_url", "data:image/svg+xml,<svg/>", uri("image", "data:image/svg+xml,<svg/>")),
        ("image_url", "data:image/png;base64", uri("image", "data:image/png;base64")),
        ("video_url", {"url": "https://x.example/v"}, uri("video", "https://x.example/v")),
        ("audio_url", "data:audio/wav;base64,QQ==", blob("audio", "audio/wav", "QQ==")),
        ("input_audio", {"data": "QQ==", "format": "wav"}, blob("audio", "audio/wav", "QQ==")),
        ("input_audio", {"data": "QQ==", "format": "mp3"}, blob("audio", "audio/mpeg", "QQ==")),
        ("input_audio", {"data": "QQ=="}, blob("audio", None, "QQ==")),
        ("file", {"file_data": PNG}, blob("image", "image/png", "QUJD")),
        (
            "file",
            {"file_data": "data:application/pdf;base64,QQ=="},
            blob("document", "application/pdf", "QQ=="),
        ),
        ("file", {"file_data": "QUJD", "file_id": "f"}, blob("document", None, "QUJD")),
        ("file", {"file_data": "https://x.example/p"}, uri("document", "https://x.example/p")),
        ("file", {"file_id": "f"}, {"type": "file", "modality": "document", "file_id": "f"}),
    ],
)
def test_parts_of_every_kind(member: str, value: Any, wanted: dict[str, Any]) -> None:
    """Text, bytes, places and ids (``docs/contract/sources.md#n12``)."""
    assert parts_of([{"type": member, member: value}]) == [wanted]


def test_the_words_of_a_sound_are_a_text_behind_it() -> None:
    """The sound where it is known, else what the provider calls it by."""
    words = {"type": "text", "content": "Aye"}
    stored = {"type": "file", "modality": "audio", "file_id": "a"}
    for audio, parts in (
        ({"data": "AAAA", "transcript": "Aye"}, [blob("audio", None, "AAAA"), words]),
        ({"id": "a", "transcript": "Aye"}, [stored, words]),
        ({"transcript": "Aye"}, [words]),
    ):
        message = read_message({"role": "assistant", "audio": audio})
        told = [*build_parts(message.parts, image_max_length=LIMIT)]
        assert told == parts
        for part in told:
            check_part(part)


@pytest.mark.parametrize("part", [{"type": "thinking", "thinking": "Hm."}, {"type": "", "a": [1]}])
def test_a_type_that_openai_does_not_have(part: dict[str, Any]) -> None:
    """The schema's generic part: any type, any members."""
    assert parts_of([part]) == [part]


@pytest.mark.parametrize("member", ["text", "refusal", "image_url", "input_audio", "file"])
@pytest.mark.parametrize("value", [None, "", 1, [], {}, {"url": 1}, {"data": 1, "file_id": 2}])
def test_what_does_not_keep_its_promise_is_left_out(member: str, value: Any) -> None:
    """The raw value has it."""
    assert parts_of([{"type": member, member: value}, {"type": member}]) == []


@pytest.mark.parametrize("content", [None, 5, {}, [None], [[]], [{}], [{"type": 5}], "", [""]])
def test_what_is_no_content_has_no_parts(content: Any) -> None:
    """Whatever JSON stands there."""
    assert parts_of(content) == []


def test_texts_without_a_type() -> None:
    """A content that is a text, or a list of texts."""
    assert parts_of("a") == parts_of(["a"]) == [{"type": "text", "content": "a"}]


@pytest.mark.parametrize("member", ["image_url", "file"])
def test_a_long_image_is_hidden(member: str) -> None:
    """As in every other attribute; the URL is measured whole, and only images are."""
    head = "data:image/png;base64,"
    for length, shown in ((LIMIT, True), (LIMIT + 1, False)):
        url = head + "A" * (length - len(head))
        value = {"file_data": url} if member == "file" else {"url": url}
        [part] = parts_of([{"type": member, member: value}])
        assert part["content"] == (url.removeprefix(head) if shown else "__REDACTED__")
    [audio] = parts_of([{"type": "audio_url", "audio_url": "data:audio/wav;base64," + "A" * 99}])
    assert audio["content"] == "A" * 99


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ('{"a": [1]}', {"a": [1]}),
        ("5", 5),
        ('{"a":', '{"a":'),
        ('{"a": NaN}', '{"a": NaN}'),
        ("\ud800", "\ud800"),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_arguments_are_values_where_they_are_json(arguments: str, wanted: Any) -> None:
    """And only what every reader takes for JSON."""
    part = call_part(ToolCall(id="c", name="f", arguments=arguments))
    assert part == {"type": "tool_call", "id": "c", "name": "f", "arguments": wanted}


def test_a_custom_tool_is_given_text() -> None:
    """A number, say, is what it wrote."""
    part = call_part(ToolCall(name="f", arguments="5", type="custom"))
    assert part == {"type": "tool_call", "name": "f", "arguments": "5"}


def test_a_call_of_which_nothing_came() -> None:
    """The schema wants a name."""
    assert call_part(ToolCall()) == {"type": "tool_call", "name": ""}


@pytest.mark.parametrize("content", ["42", None, {"a": 1}, ["a", {"type": "text", "text": "b"}]])
def test_what_a_tool_answered(content: Any) -> None:
    """As it came."""
    part = result_part({"tool_call_id": "c", "content": content})
    assert part == {"type": "tool_call_response", "id": "c", "response": content}
    assert "id" not in result_part({"tool_call_id": 5})


def test_lists_are_bounded() -> None:
    """The first ones."""
    many = ["x"] * (MAX_FLATTENED_PARTS + 1)
    assert len(parts_of(many)) == MAX_FLATTENED_PARTS
    assert len(result_part({"content": many})["response"]) == MAX_FLATTENED_PARTS
