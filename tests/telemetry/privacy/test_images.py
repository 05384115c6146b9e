"""Images in texts and in JSON, hidden."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.text.jsontext import decode_json, encode_json
from telemetry.privacy import images
from telemetry.privacy.images import redact_images, redact_long_images
from telemetry.privacy.json_strings import MAX_JSON_DEPTH, REDACTED
from tests.telemetry.privacy.spans import IMAGE, PNG

LIMIT = 60
LONG = "data:image/png;base64," + "iVBORw0KGgo" * 6


def redacted(value: Any) -> Any:
    return decode_json(redact_images(json.dumps(value)))


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (
            {"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}},
            {"type": "image_url", "image_url": {"url": REDACTED, "detail": REDACTED}},
        ),
        ({"type": "image_url", "image_url": IMAGE}, {"type": "image_url", "image_url": REDACTED}),
        (
            {"type": "input_image", "file_id": "f1", "n": 1, "more": ["x", None]},
            {"type": "input_image", "file_id": REDACTED, "n": 1, "more": [REDACTED, None]},
        ),
        (
            {"type": "image", "source": {"media_type": "image/png", "data": "QQ=="}},
            {"type": "image", "source": {"media_type": REDACTED, "data": REDACTED}},
        ),
        (
            {"type": "image", "mime_type": "image/png", "modality": "Ann", "data": "QQ=="},
            {"type": "image", "mime_type": "image/png", "modality": REDACTED, "data": REDACTED},
        ),
        (
            {"type": PNG, "a": "QQ=="},
            {"type": REDACTED, "a": REDACTED},
        ),
        (
            {"type": "uri", "modality": "image", "uri": IMAGE},
            {"type": "uri", "modality": "image", "uri": REDACTED},
        ),
        ({"image_url": {"url": IMAGE}}, {"image_url": {"url": REDACTED}}),
        ({"images": ["QQ=="], "text": "x"}, {"images": [REDACTED], "text": "x"}),
        (
            {"mask": {"filename": "ann.png", "bytes": 9}},
            {"mask": {"filename": REDACTED, "bytes": 9}},
        ),
        ({"mask": "QQ==", "masked": "x"}, {"mask": REDACTED, "masked": "x"}),
        ({"inline": {"url": PNG}}, {"inline": {"url": REDACTED}}),
        ({"text": "an image"}, {"text": "an image"}),
        ({"text": "a mask"}, {"text": "a mask"}),
    ],
)
def test_image_parts_are_hidden(part: Any, expected: Any) -> None:
    """All strings of an image part, but not what says that it is one."""
    assert redacted({"messages": [{"content": [part]}]}) == {"messages": [{"content": [expected]}]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PNG, REDACTED),
        (f" {PNG.upper()}", REDACTED),
        ("data:image/svg+xml,%3Csvg%3E", REDACTED),
        (f"See ![]({PNG}), or {IMAGE}", f"See ![]({REDACTED}), or {IMAGE}"),
        ("See DATA:Image/PNG;Base64,QQ== there", f"See {REDACTED} there"),
        ("See data:image/svg+xml;utf8,<svg a='b'>", REDACTED),
        (r'{"url": "data:image\/png;base64,QQ\/', f'{{"url": "{REDACTED}'),
        (r'{"url": "d\u0061ta:image/png;base64,QQ', REDACTED),
        (r'{"a": "{\"url\": \"d\\u0061ta:image/png', REDACTED),
        ("an image", "an image"),
        ("plain", "plain"),
    ],
)
def test_image_urls_in_texts_are_hidden(text: str, expected: str) -> None:
    """In any case, embedded or not, and in JSON that broke off."""
    assert redact_images(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        r'{"url": "data:image\/png;base64,QQ=="}',
        r'{"url": "d\u0061ta:image/png;base64,QQ=="}',
        json.dumps({"url": json.dumps({"url": PNG})}),
        json.dumps({"a": json.dumps([{"type": "image_url", "image_url": "QQ=="}])}),
        '{"url": "data:image/png;base64,QQ==", "url": "x"}',
    ],
)
def test_escaped_nested_and_doubled_urls_are_hidden(text: str) -> None:
    """No way of writing a URL in JSON gets it through."""
    assert "QQ" not in redact_images(text)


def test_escapes_without_end_are_harmless() -> None:
    """A run of backslashes hides no image, and is undone only so often."""
    text = "image " + "\\" * 5_000 + "u0064"
    assert redact_images(text) == text


def test_json_without_the_word_stays() -> None:
    """What cannot hold an image is the very same text."""
    text = '{"a" : [1,  "x\\n"]}'
    assert redact_images(text) is text


@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize(("depth", "shown"), [(MAX_JSON_DEPTH - 2, True), (MAX_JSON_DEPTH, False)])
def test_what_is_too_deep_is_hidden(part: bool, depth: int, shown: bool) -> None:
    """Below the depth that is walked nothing is shown, be it harmless."""
    value: Any = 7 if part else "seven"
    for _ in range(depth):
        value = [value]
    whole = {"type": "image", "a": value} if part else ["image", value]
    text = redact_images(json.dumps(whole))
    assert ("7" in text or "seven" in text) == shown
    assert (REDACTED in text) != shown


@pytest.mark.parametrize("depth", [MAX_JSON_DEPTH - 1, MAX_JSON_DEPTH])
def test_string_at_the_last_depth_is_hidden(depth: int) -> None:
    """Where no text in a string could be walked any more, there is none."""
    value: Any = "image"
    for _ in range(depth):
        value = [value]
    assert ("image" in redact_images(json.dumps(value))) == (depth < MAX_JSON_DEPTH)


def test_unreadable_depth_is_a_text() -> None:
    """JSON that no parser reads is looked at as text."""
    text = '{"image": ' * 100_000 + f'"{PNG}"'
    assert redact_images(text) == text.replace(PNG, REDACTED)


def test_what_cannot_be_written_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON that cannot be written anew is redacted whole."""
    monkeypatch.setattr(images, "json_text", lambda _: None)
    assert redact_images('{"image": 1}') == REDACTED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LONG, REDACTED),
        (LONG.replace("data:image", "DATA:Image"), REDACTED),
        (f"See ![]({LONG}).", f"See ![]({REDACTED})."),
        (f"See ![]({PNG}). {'x' * LIMIT}", f"See ![]({PNG}). {'x' * LIMIT}"),
        (PNG, PNG),
        (f"{IMAGE}?{'x' * LIMIT}", f"{IMAGE}?{'x' * LIMIT}"),
        ("data:image/svg+xml," + "x" * LIMIT, "data:image/svg+xml," + "x" * LIMIT),
        (json.dumps({"a": LONG, "b": PNG}), json.dumps({"a": REDACTED, "b": PNG})),
        (json.dumps({"a": json.dumps([LONG])}), json.dumps({"a": json.dumps([REDACTED])})),
        (json.dumps({"a": "ü" * LIMIT}), json.dumps({"a": "ü" * LIMIT})),
        (json.dumps({"a": "\u001b" * LIMIT}), json.dumps({"a": "\u001b" * LIMIT})),
        (json.dumps({"a": f"x {LONG}", "b": "ü"}), json.dumps({"a": f"x {REDACTED}", "b": "ü"})),
        (f'{{"a": "{LONG}', f'{{"a": "{REDACTED}'),
        (f'{{"a": "{LONG}'.replace("d", r"\u0064"), REDACTED),
        (f'{{"a": "{PNG}", "{"x" * LIMIT}'.replace("d", r"\u0064"), None),
    ],
)
def test_long_images_are_hidden(text: str, expected: str | None) -> None:
    """Base64 URLs over the limit, in texts and in JSON; all else stays as it is."""
    assert redact_long_images(text, LIMIT) == (text if expected is None else expected)


PICTURE = "iVBORw0KGgo" + "A" * 5_000


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"type": "image_generation_call", "result": PICTURE}, {"result": REDACTED}),
        (
            {"type": "image", "source": {"type": "base64", "data": "/9j/" + "4" * 5_000}},
            {"source": {"type": "base64", "data": REDACTED}},
        ),
        (
            {"inlineData": {"data": "_9j_" + "-" * 5_000, "mimeType": "image/jpeg"}},
            {"inlineData": {"data": REDACTED, "mimeType": "image/jpeg"}},
        ),
        ({"images": ["R0lGOD" + "l" * 5_000, "short"]}, {"images": [REDACTED, "short"]}),
        ({"text": "UklGR" + " and so on " * 500}, {}),
    ],
)
def test_long_pictures_without_a_url_are_hidden(value: Any, expected: Any) -> None:
    """Known by how their base64 begins, escaped or not, whole or broken off."""
    text = encode_json(value)
    assert redact_long_images(text, 6_000) == text
    hidden = decode_json(redact_long_images(text, 1_000))
    assert hidden == value | expected
    assert decode_json(redact_long_images(text.replace("/", r"\/"), 1_000)) == hidden
    broken = redact_long_images(text[:-4], 1_000)
    assert (PICTURE not in broken) or not expected


@pytest.mark.parametrize("begin", ["data:audio/pcm;rate=24000;base64,", '{"audio":{"data":"'])
def test_long_sound_stays_although_a_picture_s_first_characters_are_in_it(begin: str) -> None:
    """They are in the middle of its base64; a picture behind it is hidden all the same."""
    sound = begin + "AbC4" * 2_000 + "/9j/" + "AbC4" * 2_000
    assert redact_long_images(sound, 1_000) == sound
    both = f"{sound} {PICTURE}"
    assert redact_long_images(both, 1_000) == f"{sound} {REDACTED}"


@pytest.mark.parametrize(
    "escaped", [r"data:image\/png", r"d\u0061ta:image/png", r"data\u003Aimage/png"]
)
def test_escapes_do_not_lift_the_limit(escaped: str) -> None:
    """However the URL is escaped in JSON."""
    text = '{"a": "' + LONG.replace("data:image/png", escaped) + '"}'
    assert redact_long_images(text, LIMIT) == f'{{"a": "{REDACTED}"}}'


@given(st.integers(LIMIT - 30, LIMIT + 30))
def test_limit_is_exact(length: int) -> None:
    """A URL of as many characters as the limit stays, one more is hidden."""
    url = LONG[:22].ljust(length, "A")
    expected = REDACTED if length > LIMIT else url
    assert redact_long_images(url, LIMIT) == expected
    assert decode_json(redact_long_images(json.dumps([url]), LIMIT)) == [expected]


@pytest.mark.parametrize(
    "text",
    ["data:image/" * 10_000, "data:image/png" + ";base64" * 20_000, "d\\u0061ta:image" * 10_000],
)
def test_hostile_texts_take_linear_time(text: str) -> None:
    """Texts made to trap a backtracking matcher are through before the test's time is up."""
    for made in (text, json.dumps([text]), f'["{text}"]'):
        assert REDACTED in redact_images(made)
        assert len(redact_long_images(made, LIMIT)) <= len(made)
