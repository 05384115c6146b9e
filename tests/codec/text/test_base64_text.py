"""``codec.text.base64_text``: pictures counted and not kept."""

from __future__ import annotations

from codec.text.base64_text import MAX_KEPT_CHARS, shorten_base64, shorten_base64_text

LONG = "iVBORw0KGgo" + "A" * MAX_KEPT_CHARS


def test_other_members_are_texts() -> None:
    """Also where they look like base64."""
    members = {"arguments": LONG, "result": LONG, "b64_json": 5}
    shorten_base64(members)
    named = f"<{len(LONG)} base64 characters, image/png>"
    assert members == {"arguments": LONG, "result": named, "b64_json": 5}
    text = f'{{"arguments": "{LONG}", "result":"{LONG}"}}'.encode()
    assert shorten_base64_text(text) == text.replace(
        f'"result":"{LONG}'.encode(), f'"result":"{named}'.encode()
    )


def test_what_is_short_or_no_base64_stays() -> None:
    """A span shows pictures up to that size."""
    members = {"result": LONG[:MAX_KEPT_CHARS], "b64_json": f"{LONG} "}
    shorten_base64(members)
    assert members == {"result": LONG[:MAX_KEPT_CHARS], "b64_json": f"{LONG} "}


def test_a_piece_behind_a_shortened_one_is_counted_in() -> None:
    """So a picture of any size takes a few bytes while it arrives."""
    text = b""
    for _ in range(5):
        text = shorten_base64_text((text or b'{"result": "') + b"/9j/" + b"A" * 40_000)
    assert text == b'{"result": "<200020 base64 characters, image/jpeg>'
    assert shorten_base64_text(text + b'"}') == text + b'"}'


def test_either_alphabet_is_read() -> None:
    """Google's SDK writes base64 as for URLs, slashes and plus signs as ``_`` and ``-``."""
    picture = "_9j_" + "-A_" * 20_000
    members = {"data": picture}
    shorten_base64(members, ("data",))
    assert members == {"data": "<60004 base64 characters, image/jpeg>"}
    text = f'{{"inlineData": {{"mimeType": "image/jpeg", "data": "{picture}"}}}}'.encode()
    assert b'"data": "<60004 base64 characters, image/jpeg>"' in shorten_base64_text(text)
