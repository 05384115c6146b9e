"""``telemetry.spans.size_limits``: how large a span's attributes may be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.text.jsontext import decode_json
from telemetry.spans import size_limits
from telemetry.spans.otlp.attributes import WrittenAttributes
from telemetry.spans.size_limits import (
    MAX_CUT_NOTES,
    SizeLimits,
    cut_text,
    fit_attributes,
    size_bytes,
    surely_fits,
)

if TYPE_CHECKING:
    from telemetry.attribute_values import AttributeValue

SMALL = SizeLimits(value_bytes=2_000, span_bytes=10_000)


def test_what_fits_is_left_alone() -> None:
    """The same values in the same order, and nothing noted."""
    attributes: dict[str, AttributeValue] = {
        "llm.input_messages.0.message.content": "x" * 2_000,
        "llm.token_count.prompt": 3,
        "tag.tags": ("a", "b"),
        "input.value": "ä" * 1_000,
    }
    fitting, notes = fit_attributes(attributes, SMALL)
    assert list(fitting.items()) == list(attributes.items())
    assert not notes


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.text(max_size=40)
        | st.integers(-(2**63), 2**63 - 1)
        | st.booleans()
        | st.floats()
        | st.lists(st.text(max_size=9), min_size=1).map(tuple)
        | st.lists(st.floats(), min_size=1).map(tuple),
        min_size=1,
    ),
    st.integers(0, 200),
    st.integers(0, 1_000),
)
def test_of_what_surely_fits_nothing_is_cut(
    attributes: dict[str, AttributeValue], value_bytes: int, span_bytes: int
) -> None:
    """What the size of the written bytes promises is what measuring says."""
    limits = SizeLimits(value_bytes=value_bytes, span_bytes=span_bytes)
    if surely_fits(WrittenAttributes({**attributes}), limits):
        fitting, notes = fit_attributes(attributes, limits)
        assert [*map(repr, fitting.items())] == [*map(repr, attributes.items())]
        assert not notes


def test_small_attributes_surely_fit() -> None:
    """The promise is made where there is room enough."""
    written = WrittenAttributes({"input.value": "x" * 900, "llm.token_count.prompt": 3})
    assert surely_fits(written, SMALL)
    assert not surely_fits(WrittenAttributes({"input.value": "x" * 2_001}), SMALL)


@pytest.mark.parametrize("member", ["a", "", 0.5])
def test_lists_take_more_room_than_their_bytes(member: str | float) -> None:
    """A list of so many members that only the frames around them are over the limit."""
    members: Any = (member,) * 100
    limits = SizeLimits(value_bytes=size_bytes(members) - 1, span_bytes=10_000)
    assert fit_attributes({"k": members}, limits)[1]
    assert not surely_fits(WrittenAttributes({"k": members}), limits)


def test_a_long_text_is_cut_with_a_mark() -> None:
    """It keeps its beginning and says how long it was."""
    key = "llm.input_messages.0.message.content"
    fitting, notes = fit_attributes({key: "x" * 5_000}, SMALL)
    text = fitting[key]
    assert isinstance(text, str)
    assert text.startswith("x" * 1_900)
    assert text.endswith("… [cut: 5000 bytes]")
    assert size_bytes(text) == 2_000
    assert notes == {key: 5_000}


@given(st.text(), st.integers(0, 200))
def test_a_cut_falls_between_characters(text: str, limit: int) -> None:
    """Whatever the characters, the text stays valid and within the limit and its mark."""
    short = cut_text(text, limit)
    if len(text.encode()) <= limit:
        assert short == text
    else:
        kept, mark, size = short.rpartition("… [cut: ")
        assert (text.startswith(kept), size) == (True, f"{len(text.encode())} bytes]")
        assert size_bytes(short) <= max(limit, size_bytes(mark + size))


@pytest.mark.parametrize(
    "key", ["input.value", "output.value", "llm.invocation_parameters", "gen_ai.input.messages"]
)
def test_json_stays_json(key: str) -> None:
    """Its long strings are cut, everything else in it stays."""
    value = {"model": "m", "messages": [{"role": "user", "content": "x" * 9_000}], "n": 1}
    fitting, notes = fit_attributes({key: json.dumps(value)}, SMALL)
    short = decode_json(str(fitting[key]))
    assert (short["model"], short["n"], short["messages"][0]["role"]) == ("m", 1, "user")
    assert short["messages"][0]["content"].endswith("… [cut: 9000 bytes]")
    assert notes == {key: len(json.dumps(value))}


def test_json_that_cannot_be_shortened_is_left_out() -> None:
    """A schema of thousands of members; input and output values are cut as plain text instead."""
    text = json.dumps(list(range(2_000)))
    attributes: dict[str, AttributeValue] = {
        "llm.tools.0.tool.name": "f",
        "llm.tools.0.tool.json_schema": text,
        "llm.tools.1.tool.json_schema": text,
        "input.value": text,
        "input.mime_type": "application/json",
    }
    fitting, notes = fit_attributes(attributes, SMALL)
    assert list(fitting) == ["llm.tools.0.tool.name", "input.value"]
    assert str(fitting["input.value"]).startswith("[0, 1,")
    assert notes == {"input.value": len(text), "llm.tools.*": 2 * len(text)}


@pytest.mark.parametrize("kind", ["image", "audio", "document"])
def test_half_an_image_is_none(kind: str) -> None:
    """A long ``data:`` URL is left out and noted; another URL is a text."""
    prefix = "llm.input_messages.0.message.contents.1.message_content"
    key = f"{prefix}.{kind}.{kind}.url"
    url = "data:image/png;base64," + "A" * 3_000
    fitting, notes = fit_attributes({key: url, f"{prefix}.type": kind}, SMALL)
    assert list(fitting) == [f"{prefix}.type"]
    assert notes == {"llm.input_messages.*": len(url)}
    assert key in fit_attributes({key: "https://x.example/" + "A" * 3_000}, SMALL)[0]


def test_text_that_is_no_json_is_cut_as_text() -> None:
    """A body that nobody could decode."""
    fitting, _ = fit_attributes({"output.value": "<p>" * 1_000}, SMALL)
    assert str(fitting["output.value"]).endswith("… [cut: 3000 bytes]")


def test_a_mime_type_stays_with_json() -> None:
    """Shortened JSON is JSON still."""
    attributes: dict[str, AttributeValue] = {
        "output.value": json.dumps({"a": "x" * 3_000}),
        "output.mime_type": "application/json",
    }
    assert "output.mime_type" in fit_attributes(attributes, SMALL)[0]


def test_room_is_given_to_the_last_ones_first() -> None:
    """History is left out, essentials stay, a small value finds room that a large one did not."""
    attributes: dict[str, AttributeValue] = {
        "llm.input_messages.0.message.role": "user",
        **{f"llm.input_messages.{n}.message.content": "x" * 1_900 for n in range(8)},
        "llm.model_name": "m",
    }
    fitting, notes = fit_attributes(attributes, SMALL)
    assert list(fitting) == [
        "llm.input_messages.0.message.role",
        *(f"llm.input_messages.{n}.message.content" for n in range(3, 8)),
        "llm.model_name",
    ]
    assert notes == {"llm.input_messages.*": 3 * 1_900}


def test_the_notes_are_bounded() -> None:
    """Of a thousand texts that were cut the notes name some."""
    attributes: dict[str, AttributeValue] = {f"a.{n}": "x" * 3_000 for n in range(1_000)}
    assert len(fit_attributes(attributes, SMALL)[1]) == MAX_CUT_NOTES


@given(
    st.dictionaries(
        st.sampled_from(["input.value", "a.0", "a.1", "a.2", "b", "c.0.tool.json_schema"]),
        st.text(max_size=300) | st.integers() | st.lists(st.text(max_size=9)).map(tuple),
    ),
    st.integers(0, 200),
    st.integers(0, 600),
)
def test_the_limits_hold_whatever_the_values(
    attributes: dict[str, AttributeValue], value_bytes: int, span_bytes: int
) -> None:
    """All together are within the limit of the span, and nothing is lost without a note."""
    limits = SizeLimits(value_bytes=value_bytes, span_bytes=span_bytes)
    fitting, notes = fit_attributes(attributes, limits)
    assert sum(len(key) + size_bytes(value) for key, value in fitting.items()) <= span_bytes
    assert list(fitting) == [key for key in attributes if key in fitting]
    for key, value in attributes.items():
        if fitting.get(key) != value:
            assert {key, f"{key.partition('.')[0]}.*"} & notes.keys()


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.text(max_size=60) | st.integers()),
    st.integers(0, 200),
    st.integers(0, 600),
)
def test_what_surely_fits_is_what_measuring_leaves_alone(
    attributes: dict[str, AttributeValue], value_bytes: int, span_bytes: int
) -> None:
    """The short way gives what the long one gives."""
    limits = SizeLimits(value_bytes=value_bytes, span_bytes=span_bytes)
    if size_limits._surely_fits(attributes, limits, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(size_limits, "_surely_fits", lambda *_: False)
            assert fit_attributes(attributes, limits) == (attributes, {})


def test_json_too_deep_to_write_is_cut_as_text() -> None:
    """Nothing raises."""
    text = "[" * 500 + '"' + "x" * 3_000 + '"' + "]" * 500
    assert str(fit_attributes({"input.value": text}, SMALL)[0]["input.value"]).startswith("[[[")


def test_members_of_lists_have_a_size_of_their_own() -> None:
    """A million empty texts are not nothing."""
    assert size_bytes(("",) * 1_000_000) == 8_000_000
    assert size_bytes((0.5, 0.25)) == 32
