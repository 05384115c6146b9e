"""``codec.text.base64_text``: pictures counted and not kept."""

from __future__ import annotations

import pytest

from codec.text.base64_text import (
    MAX_KEPT_CHARS,
    TakenPictures,
    shorten_base64,
    shorten_base64_text,
)
from codec.text.jsontext import decode_json
from codec.text.sse import SseDecoder

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


PICTURES = [LONG + "B" * 300_000, LONG + "C" * 300_000, "_9j_" + "-A" * 40_000]
"""Two of one length, and one in the other alphabet."""


def stream(taken: TakenPictures | None, cut: int) -> tuple[list[bytes], list[dict[str, str]]]:
    """Events with pictures that come in pieces of a size: as they are read, and shortened."""
    shorten = shorten_base64_text if taken is None else taken.shorten_text
    decoder = SseDecoder(limit_bytes=1 << 20, shorten=shorten)
    data = b"".join(b'data: {"result": "%b"}\n\n' % one.encode() for one in PICTURES)
    read = [event for at in range(0, len(data), cut) for event in decoder.feed(data[at : at + cut])]
    texts = [event.data for event in read if event.data is not None]
    values: list[dict[str, str]] = [decode_json(text) for text in texts]
    for value in values:
        (shorten_base64 if taken is None else taken.shorten)(value)
    return texts, values


@pytest.mark.parametrize("cut", [700, 4_096, 65_536, 100_001, 10_000_000])
def test_what_is_taken_out_is_kept_and_the_answer_is_as_without_it(cut: int) -> None:
    """However the bytes are cut; the words lead to the picture."""
    taken = TakenPictures(lambda _: True)
    assert stream(taken, cut) == stream(None, cut)
    assert [text for _, text in taken.kept] == PICTURES
    assert [words for words, _ in taken.kept] == [value["result"] for value in stream(None, cut)[1]]


def test_without_room_nothing_is_kept() -> None:
    """Nor after it was forgotten; the answer stays as it is."""
    taken = TakenPictures(lambda _: False)
    assert stream(taken, 65_536) == stream(None, 65_536)
    assert taken.kept == []
    taken = TakenPictures(lambda _: True)
    stream(taken, 65_536)
    taken.forget()
    assert stream(taken, 65_536) == stream(None, 65_536)
    assert taken.kept == []


def test_what_is_no_part_of_the_answer_is_dropped() -> None:
    """An unfinished picture, before a finished one of the same length."""
    taken = TakenPictures(lambda _: True)
    members = [
        decode_json(taken.shorten_text(b'{"b64_json": "%b"}' % one.encode()))
        for one in PICTURES[:2]
    ]
    taken.drop(members[0])
    taken.shorten(members[1])
    assert [text for _, text in taken.kept] == PICTURES[1:2]
