"""``telemetry.news.texts``: what is new in texts that grow, and what is not told."""

from __future__ import annotations

import random

import pytest

from codec.growing_text import GrowingText, TextKind
from telemetry.news.texts import MAX_TEXTS, MAX_TOLD_CHARS, TextCount, TextReader
from telemetry.privacy.credentials import NO_CREDENTIALS, Credentials

KEY = "sk-abc123/def+456=="
SPELLINGS = {
    "plain": KEY,
    "JSON": KEY.replace("/", "\\/"),
    "unicode escapes": "".join(
        f"\\u{ord(letter):04x}" if letter in "/+=" else letter for letter in KEY
    ),
    "URL": KEY.replace("/", "%2F").replace("+", "%2B").replace("=", "%3d"),
    "JSON in JSON": KEY.replace("/", "\\\\\\/"),
}


def grow(pieces: list[str], *, pending: tuple[str, ...] = ()) -> list[GrowingText]:
    return [GrowingText("a", TextKind.TEXT, pieces, pending=pending)]


def read(reader: TextReader, texts: list[GrowingText], credentials: Credentials) -> str:
    return "".join(new.text for new in reader.read(texts, credentials))


def test_each_look_tells_what_is_new() -> None:
    """With how much came before."""
    pieces = ["Hel"]
    reader = TextReader()
    [first] = reader.read(grow(pieces), NO_CREDENTIALS)
    pieces += ["lo", " you"]
    [second] = reader.read(grow(pieces), NO_CREDENTIALS)
    assert [*reader.read(grow(pieces), NO_CREDENTIALS)] == []
    assert (first.text, first.at, second.text, second.at) == ("Hel", 0, "lo you", 3)


def test_pending_pieces_are_told_once() -> None:
    """Also where they become one piece, or the text comes whole in the end."""
    reader = TextReader()
    pieces = ["a"]
    told = read(reader, grow(pieces, pending=("b", "c")), NO_CREDENTIALS)
    told += read(reader, grow(pieces, pending=("b", "c", "d")), NO_CREDENTIALS)
    pieces.append("bcde")
    told += read(reader, grow(pieces, pending=("f",)), NO_CREDENTIALS)
    whole = GrowingText("a", TextKind.TEXT, ("abcdefgh",), grows=False)
    told += read(reader, [whole], NO_CREDENTIALS)
    assert told == "abcdefgh"


def test_a_look_tells_so_much_of_a_text() -> None:
    """The rest comes with the next looks, and nothing is missing."""
    pieces = ["x" * 1000, "y" * (3 * MAX_TOLD_CHARS), "z"]
    reader = TextReader()
    told = []
    while new := read(reader, grow(pieces), NO_CREDENTIALS):
        assert len(new) <= MAX_TOLD_CHARS
        told.append(new)
    assert "".join(told) == "".join(pieces)


def test_of_very_many_texts_some_are_followed() -> None:
    """So that what is remembered is bounded."""
    texts = [GrowingText(number, TextKind.TEXT, ["a"]) for number in range(2 * MAX_TEXTS)]
    assert len([*TextReader().read(texts, NO_CREDENTIALS)]) == MAX_TEXTS


def test_halves_of_characters_are_joined() -> None:
    """The first waits for the second; one without another is replaced."""
    reader = TextReader()
    pieces = ["a\ud83d"]
    assert read(reader, grow(pieces), NO_CREDENTIALS) == "a"
    pieces.append("\ude00b")
    assert read(reader, grow(pieces), NO_CREDENTIALS) == "\U0001f600b"
    pieces.append("\udc00c")
    assert read(reader, grow(pieces), NO_CREDENTIALS) == "?c"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_credential_is_never_told(spelling: str) -> None:
    """However it is cut and spelled: no more of it than may begin any other word."""
    written = SPELLINGS[spelling]
    text = f"The key is {written}, I think."
    rng = random.Random(1)
    for _ in range(200):
        places = sorted(rng.sample(range(1, len(text)), rng.randint(1, 12)))
        reader, pieces, told = TextReader(), [], ""
        for start, end in zip([0, *places], [*places, len(text)], strict=True):
            pieces.append(text[start:end])
            told += read(reader, grow(pieces), Credentials([KEY]))
        assert reader.is_withheld
        assert "The key is ".startswith(told)


def test_what_may_be_the_beginning_of_a_credential_waits() -> None:
    """And is told once it is none."""
    reader = TextReader()
    pieces = ["The key is sk-abc"]
    assert read(reader, grow(pieces), Credentials([KEY])) == "The key is "
    pieces.append("aret, nothing else")
    assert read(reader, grow(pieces), Credentials([KEY])) == "sk-abcaret, nothing else"
    assert not reader.is_withheld


@pytest.mark.parametrize(
    "credentials",
    [Credentials(unknown=True), Credentials(too_many=True)],
    ids=["encrypted", "many"],
)
def test_without_knowing_the_credentials_nothing_is_told(credentials: Credentials) -> None:
    """As of a call that comes from the spool after a restart."""
    reader = TextReader()
    assert read(reader, grow(["Hello"]), credentials) == ""
    assert reader.is_withheld


def test_a_text_with_an_image_is_told_no_further() -> None:
    """The span hides long ones."""
    reader = TextReader()
    pieces = ["Look: data:image/png;ba"]
    read(reader, grow(pieces), NO_CREDENTIALS)
    pieces.append("se64,AAAA")
    assert read(reader, grow(pieces), NO_CREDENTIALS) == ""
    assert reader.is_withheld


def test_characters_are_counted_once() -> None:
    """Of pieces that grow, pieces that wait and texts that come whole."""
    count = TextCount()
    pieces = ["ab"]
    assert count.count(grow(pieces, pending=("c",))) == 3
    pieces += ["c", "def"]
    assert count.count(grow(pieces)) == 6
    whole = GrowingText("b", TextKind.ARGUMENTS, ("1234",), grows=False)
    assert count.count([*grow(pieces), whole]) == 10
