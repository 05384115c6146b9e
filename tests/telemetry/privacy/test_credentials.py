"""Credentials of a call, masked in what is recorded of it (R7)."""

from __future__ import annotations

import json
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.privacy import credentials
from telemetry.privacy.credentials import Credentials
from telemetry.privacy.json_strings import REDACTED

KEY = "sk-planted-canary"
SIGNS = "sk-SECRET/abc+def="
ESCAPED = {
    "as it stands": SIGNS,
    "slashes": r"sk-SECRET\/abc+def=",
    "code points": r"sk-SECRET/abc\u002bdef\u003D",
    "of a URL": "sk-SECRET%2Fabc%2bdef%3D",
    "mixed": r"sk-SECRET\/abc%2Bdef\u003d",
    "in a text in a text": r"sk-SECRET\\\/abc\\\\u002bdef=",
    "of a URL in JSON": r"sk-SECRET\%2Fabc+def=",
}
ALL_ESCAPED = {"all code points": "".join(rf"\u{ord(char):04x}" for char in SIGNS)}


def mask(text: str, *values: str, is_whole: bool = True) -> str:
    return Credentials(values).redact_quote(text, is_whole=is_whole)


@pytest.mark.parametrize("quoted", [*ESCAPED.values(), *ALL_ESCAPED.values()])
def test_a_credential_is_masked_with_its_escapes(quoted: str) -> None:
    """Whether it came with escapes itself or not; what stands around it stays."""
    text = '{"a\\/b": "C:\\\\d %%s\n'
    rest = '\\"\\u002f%41."}'
    for value in (SIGNS, "sk-SECRET%2Fabc%2Bdef%3D", r"sk-SECRET\/abc+def="):
        assert mask(text + quoted + rest, value) == text + REDACTED + rest


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100%abcdef0123456789", "abcdef0123456789"),
        (r"\nnot-so-short", "not-so-short"),
        ("ends in backslash\\\\\\\\", "backslash\\"),
        ("ends in backslash\\", "backslash\\"),
    ],
)
def test_what_only_looks_like_an_escape_hides_none(text: str, value: str) -> None:
    """A sign before a credential may seem to take some of it."""
    masked = mask(text, value)
    assert REDACTED in masked
    assert value.rstrip("\\") not in masked


def test_a_key_of_several_lines_is_one_in_a_text_of_json() -> None:
    """As service accounts have it."""
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END"
    text = json.dumps({"a": json.dumps({"private_key": key})})
    assert "MIIE" not in Credentials([key]).redact(text)


def test_nothing_is_left_of_credentials_that_overlap() -> None:
    """One in another, one that begins as another does, one that begins within another."""
    found = mask("<abcdefghIJKLMNOP> <abcdefgh>", "abcdefgh", "abcdefghIJKLMNOP")
    assert found == f"<{REDACTED}> <{REDACTED}>"
    assert mask("<abcdefghIJKL>", "efghIJKL", "abcdefgh") == f"<{REDACTED}>"
    assert mask(KEY + KEY, KEY) == REDACTED


def test_a_json_text_that_a_mask_would_break_is_hidden_whole() -> None:
    """A number, say; text that is not JSON has nothing to break."""
    assert mask('{"n": 1234567890123456}', "1234567890123456") == REDACTED
    assert mask('{"n": 1234567890123456', "1234567890123456") == f'{{"n": {REDACTED}'


@pytest.mark.parametrize("quoted", ESCAPED.values(), ids=ESCAPED)
def test_in_content_a_credential_is_masked_as_an_encoder_writes_it(quoted: str) -> None:
    """Somewhere in a long text; where it is not, the text is the very same."""
    found = Credentials([SIGNS])
    text = '{"a": "' + "word\\n " * 40_000 + quoted + '"}'
    assert found.may_be_in(text.encode())
    assert found.redact(text) == text.replace(quoted, REDACTED)
    same = text.replace("SECRET", "secret")
    assert not found.may_be_in(same.encode())
    assert found.redact(same) is same


@pytest.mark.parametrize("at", range(-40, 8, 4))
def test_a_credential_over_the_end_of_a_piece_is_masked(at: int) -> None:
    """A text is looked at in pieces, and a credential may lie in two."""
    before = "\\n" * ((credentials._PIECE_CHARS + at) // 2)
    quoted = ESCAPED["slashes"]
    assert mask(before + quoted + "\\n", SIGNS) == before + REDACTED + "\\n"


def test_words_are_masked_in_what_a_provider_says_alone() -> None:
    """``lm-studio`` is a key that many send, and a word."""
    found = Credentials([], ["lm-studio"])
    assert found.redact("use lm-studio") == "use lm-studio"
    assert found.redact_quote("no key lm-studio") == f"no key {REDACTED}"
    assert not found.may_be_in(b"lm-studio")


@given(st.integers(0, 200), st.sampled_from([*ESCAPED.values(), *ALL_ESCAPED.values()]))
def test_of_a_text_that_is_cut_no_part_of_a_credential_is_left(end: int, quoted: str) -> None:
    """Wherever it is cut, within an escape too."""
    text = f"the key <{quoted}> is wrong, and so is <{quoted}>, says the server"
    masked = mask(text[:end], SIGNS, KEY, is_whole=False)
    assert f"the key <{REDACTED}> is wrong, and so is <{REDACTED}>, says the server".startswith(
        masked
    )


def test_more_than_can_be_looked_for_is_hidden_whole() -> None:
    """Many credentials in a short text are found, and many in a long one would take long."""
    many = [f"canary-{number:05}" for number in range(1_000)]
    assert mask(f"<{many[7]}>", *many) == f"<{REDACTED}>"
    assert mask("x" * 70_000, *many) == REDACTED


def test_a_long_text_that_is_full_of_a_key_is_hidden_whole() -> None:
    """Each piece of it would have to be looked at; with the key in one or two it is not hidden."""
    piece = "word\\n " * (credentials._PIECE_CHARS // 7) + ESCAPED["slashes"]
    found = Credentials([SIGNS])
    assert found.redact(piece * (credentials.MAX_PIECES + 2)) == REDACTED
    assert found.redact(piece * 2) == (piece * 2).replace(ESCAPED["slashes"], REDACTED)


def test_what_is_not_known_hides_what_a_provider_says() -> None:
    """Content stays: most of it quotes nothing."""
    unknown = Credentials(unknown=True)
    assert unknown
    assert unknown.redact_quote("bad key") == REDACTED
    assert unknown.redact_quote("") == ""
    assert unknown.redact("hello") == "hello"


def test_a_word_that_is_told_anyway_stays_unless_it_is_named_as_a_credential() -> None:
    """A gateway's header names the model, and so does the error."""
    found = Credentials([KEY], ["gpt-4o-mini"])
    assert found.without("gpt-4o-mini").redact_quote("no gpt-4o-mini") == "no gpt-4o-mini"
    assert found.without(KEY).redact_quote(KEY) == REDACTED
    assert found.without(None) is found


@given(
    st.text("\\u0a2f%/", max_size=60),
    st.lists(st.text("\\u0a2f%/", min_size=8, max_size=12), max_size=3),
    st.booleans(),
)
def test_whatever_comes_nothing_is_raised_and_none_is_left(
    text: str, values: list[str], is_whole: bool
) -> None:
    """A mask is no credential, so neither is what is around it."""
    masked = mask(text, *values, is_whole=is_whole)
    for part in masked.split(REDACTED):
        assert not any(value in part for value in values)


def test_backslashes_without_end_are_passed_over_once() -> None:
    """A pattern that went back would take minutes for them."""
    text = "\\" * 1_000_000
    assert mask(text, KEY) == text
    assert mask(text + KEY, KEY).endswith(REDACTED)
    assert mask(text, KEY, is_whole=False) == ""


def test_what_is_masked_piece_by_piece_leaves_no_secret_of_a_longer_one() -> None:
    """``Bearer`` may stay; what is more than a word may not, and waits for the whole text."""
    assert Credentials([f"Bearer {KEY}", KEY]).plain_values() == (
        b"Bearer %b" % KEY.encode(),
        KEY.encode(),
    )
    assert Credentials([f"{KEY}-and-more", KEY]).plain_values() == (b"%b-and-more" % KEY.encode(),)


def test_what_is_masked_piece_by_piece_may_hold_half_a_character() -> None:
    """JSON in a header has them, and a client writes what it likes."""
    [value] = Credentials(["\ud83e-planted-canary"]).plain_values()
    assert value == b"\xed\xa0\xbe-planted-canary"


LONG = ".".join(f"w{number:05d}" for number in range(100_000))
"""A credential of 700 KB, every word of which is another one."""


@pytest.mark.parametrize("value", [LONG, LONG.replace(".", "%2B"), LONG.replace(".", r"\u002b")])
def test_a_long_credential_is_probed_at_its_beginning(value: str) -> None:
    """A client must not hold up others by what it sends as its key: it took hours for megabytes."""
    with mock.patch.object(credentials, "_LETTERS", wraps=credentials._LETTERS) as letters:
        masked = mask(f"your key {value} is wrong", value)
    assert masked == f"your key {REDACTED} is wrong"
    assert max((len(call.args[0]) for call in letters.findall.mock_calls), default=0) <= 1_024


def test_a_worker_looks_for_no_probe() -> None:
    """It asks for the values alone, on the loop that all calls share."""
    with mock.patch.object(credentials, "_probe") as probe:
        found = Credentials([KEY, SIGNS]).joined(Credentials(["another-key-0"]))
        assert len(found.plain_values()) == 3
    probe.assert_not_called()


def test_half_an_escape_at_the_end_of_the_beginning_is_no_probe() -> None:
    """It stands in no text in which the credential is written otherwise."""
    for cut in range(1, 9):
        value = "-" * (1_024 - cut) + r"\u00e9" + "+" * 50
        text = "-" * (1_024 - cut) + "\u00e9" + "+" * 50
        assert mask(rf"your key {text} is\nwrong", value) == rf"your key {REDACTED} is\nwrong"
