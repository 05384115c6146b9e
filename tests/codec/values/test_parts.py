"""The parts of a message's content."""

from __future__ import annotations

from typing import Any

import pytest

from codec.values.parts import (
    AudioPart,
    ContentPart,
    FilePart,
    MediaPart,
    OtherPart,
    RefusalPart,
    TextPart,
    ThinkingPart,
    decode_part,
)


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ({"type": "text", "text": "a"}, TextPart(text="a")),
        ({"type": "text", "text": "a", "x": 1}, TextPart(text="a", extra={"x": 1})),
        ({"type": "refusal", "refusal": "no"}, RefusalPart(refusal="no")),
        (
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            ThinkingPart(text="hm"),
        ),
        (
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            ThinkingPart(text="hm", member="summary"),
        ),
        (
            {"type": "image_url", "image_url": {"url": "u", "detail": "low", "x": 1}, "y": 2},
            MediaPart(url="u", detail="low", media_extra={"x": 1}, extra={"y": 2}),
        ),
        ({"type": "video_url", "video_url": {"url": "u"}}, MediaPart(kind="video_url", url="u")),
        (
            {"type": "input_audio", "input_audio": {"data": "ZA==", "format": "wav"}},
            AudioPart(data="ZA==", format="wav"),
        ),
        (
            {"type": "file", "file": {"file_data": "d", "filename": "n", "file_id": "i", "x": 1}},
            FilePart(data="d", name="n", file_id="i", media_extra={"x": 1}),
        ),
        ({"type": "reference", "x": [1]}, OtherPart(native={"type": "reference", "x": [1]})),
        ("bare", OtherPart(native="bare")),
    ],
)  # fmt: skip
def test_every_kind_is_read_and_written(value: Any, part: ContentPart) -> None:
    """Each with its extras; writing gives the same JSON (``docs/contract/sources.md#s4-5``)."""
    assert decode_part(value) == part
    assert part.to_json() == value


@pytest.mark.parametrize(
    "value",
    [
        {"type": "text"},
        {"type": "text", "text": 5},
        {"type": "refusal"},
        {"type": "thinking", "thinking": 5},
        {"type": "image_url", "image_url": 5},
        {"type": "input_audio"},
        {"type": "file", "file": "x"},
        {"type": ["text"]},
        {},
        None,
    ],
)
def test_what_is_not_what_it_says_stays_as_it_is(value: Any) -> None:
    """A part of the wrong form keeps its JSON."""
    assert decode_part(value) == OtherPart(native=value)


def test_other_forms_are_read_as_well() -> None:
    """A bare URL, and thinking as text or a list of texts."""
    assert decode_part({"type": "image_url", "image_url": "u"}) == MediaPart(url="u")
    assert decode_part({"type": "thinking", "thinking": "hm"}) == ThinkingPart(text="hm")
    pieces = ["h", {"text": "m"}, {"x": 1}, 7]
    assert decode_part({"type": "thinking", "thinking": pieces}) == ThinkingPart(text="hm")
