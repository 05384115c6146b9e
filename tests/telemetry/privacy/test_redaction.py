"""Patterns, and what is done with what they find."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from telemetry.errors import ConfigurationError
from telemetry.privacy.json_strings import REDACTED
from telemetry.privacy.redaction import READY_MADE, Redaction

EMAIL = Redaction({}, ready_made=["email"])
CARD = Redaction({}, ready_made=["card"])
API_KEY = Redaction({}, ready_made=["api_key"])
TICKET = Redaction({"ticket": r"T-\d+"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see T-12, T-3.", f"see {REDACTED}, {REDACTED}."),
        ("T-", "T-"),
        ("", ""),
        ("Ünder T-1 😀", f"Ünder {REDACTED} 😀"),
        ("T-1\ud83d", f"{REDACTED}\ufffd"),
        ("T\ud83d", "T\ud83d"),
        (r"T\u002d1 \n", f"{REDACTED} \n"),
        (r"T-9 T\\u002d1", f"{REDACTED} {REDACTED}"),
        (r"T\nx", r"T\nx"),
        ("\\" * 5_000, "\\" * 5_000),
    ],
)
def test_matches_are_hidden(text: str, expected: str) -> None:
    """Each match, escaped or not; all else stays."""
    assert TICKET.redact_text(text) == expected


def test_what_is_found_under_few_escapes_stays_hidden_under_more() -> None:
    """A text that is looked at without its escapes again shows nothing found before."""
    redaction = Redaction({"escaped": r"A\\n", "plain": "B"})
    assert redaction.redact_text(r"A\\n \\u0042") == f"{REDACTED} {REDACTED}"


def test_overlapping_matches_are_one() -> None:
    """Every pattern sees the text as it came, and what overlaps has one mark."""
    redaction = Redaction({"a": "abc", "b": "cde", "c": "d", "mark": "REDACTED", "g": "g"})
    assert redaction.redact_text("_abcdef_g") == f"_{REDACTED}f_{REDACTED}"


def test_what_touches_is_one() -> None:
    """A pattern of single letters does not make a text many times longer."""
    assert Redaction({"a": "[ab]"}).redact_text("abab ab") == f"{REDACTED} {REDACTED}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"T-1" : "T-2", "n":1.0}', f'{{"{REDACTED}" : "{REDACTED}", "n":1.0}}'),
        (r'{"a": "T\u002d1"}', f'{{"a": "{REDACTED}"}}'),
        ('{"a": "T-1", "a": "x"}', f'{{"a": "{REDACTED}", "a": "x"}}'),
        (
            r'{"arguments": "{\"a\": \"T\\u002d1\"}"}',
            r'{"arguments": "{\"a\": \"' + REDACTED + r'\"}"}',
        ),
        (r'{"arguments": "{\"a\": \"T\\u002d1"}', r'{"arguments": "{\"a\": \"' + REDACTED + '"}'),
        (r'{"a": "T\u002d', r'{"a": "T\u002d'),
        (r'{"a": "T\u002d1', f'{{"a": "{REDACTED}'),
        ('{"a" :"x",  "b":1e3}', '{"a" :"x",  "b":1e3}'),
        ("T-1 [", f"{REDACTED} ["),
    ],
)
def test_matches_in_json_are_hidden(text: str, expected: str) -> None:
    """In keys and strings, those inside strings too; all else stays as it was."""
    assert TICKET.redact_json(text) == expected


def test_patterns_see_one_string_at_a_time() -> None:
    """The bounds of a string are the bounds of the text."""
    redaction = Redaction({"whole": "^secret$"})
    assert redaction.redact_json('["secret", "a secret"]') == f'["{REDACTED}", "a secret"]'


@pytest.mark.parametrize(
    "address",
    ["user@example.org", "a.b+c%d_e-f'g@mail.example.co.uk", "jürgen@bücher.example", "1@2.de"],
)
def test_email_addresses_are_found(address: str) -> None:
    """The ready-made ``email``."""
    assert EMAIL.redact_text(f"Write to <{address}>!") == f"Write to <{REDACTED}>!"
    escaped = address.replace("@", r"\u0040")
    assert EMAIL.redact_json(f'{{"to": "{escaped}"}}') == f'{{"to": "{REDACTED}"}}'


@pytest.mark.parametrize("text", ["a @ b.c", "@user", "user@host", "x@", "f(a)@b"])
def test_what_is_no_email_address_stays(text: str) -> None:
    """An address has a user and a host with a domain."""
    assert EMAIL.redact_text(text) == text


@pytest.mark.parametrize(
    "number",
    [
        "4111111111111111",
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "5555555555554444",
        "378282246310005",
        "3782 822463 10005",
        "30569309025904",
        "4222222222222",
        "6304000000000000000",
    ],
)
def test_card_numbers_are_found(number: str) -> None:
    """The ready-made ``card``: 13 to 19 digits, in groups or not, with a right check digit."""
    assert CARD.redact_text(f"card {number}.") == f"card {REDACTED}."
    assert CARD.redact_text(f"on 12 {number} 2027") == f"on 12 {REDACTED} 2027"
    assert CARD.redact_text(f"x{number}x") == f"x{REDACTED}x"
    assert CARD.redact_text(f"{number}, {number}") == f"{REDACTED}, {REDACTED}"


def test_card_number_that_is_a_number_is_found() -> None:
    """A card's number in JSON need not be a string."""
    assert CARD.redact_json('{"card": 4111111111111111}') == f'{{"card": "{REDACTED}"}}'


@pytest.mark.parametrize(
    "text",
    [
        "4111111111111112",
        "411111111111",
        "41111111111111111111111",
        "1700000000006",
        "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        "4111  1111  1111  1111",
        "4111_1111_1111_1111",
    ],
)
def test_other_numbers_stay(text: str) -> None:
    """Wrong check digit, too short or long, a time, no groups as cards have them."""
    assert CARD.redact_text(text) == text


@given(
    st.from_regex(r"[2-9][0-9]{11,17}", fullmatch=True),
    st.lists(st.integers(4, 18), max_size=4),
    st.sampled_from([" ", "-"]),
    st.sampled_from(["", "x", "on 12 ", "1700000000000 "]),
)
def test_every_right_number_is_found(
    payload: str, bounds: list[int], separator: str, before: str
) -> None:
    """Any number with its right check digit, however it is grouped; none with a wrong one."""
    check = next(digit for digit in "0123456789" if luhn_sum(payload + digit) % 10 == 0)
    wrong = str((int(check) + 1) % 10)
    for digits, is_card in ((payload + check, True), (payload + wrong, False)):
        edges = [0, *sorted({bound for bound in bounds if bound < len(digits)}), len(digits)]
        pairs = pairwise(edges)
        number = separator.join(digits[start:end] for start, end in pairs)
        redacted = CARD.redact_text(f"{before}{number}, 7")
        if is_card:
            assert redacted == f"{before}{REDACTED}, 7"
        elif len(edges) == 2:
            assert redacted == f"{before}{number}, 7"


def luhn_sum(number: str) -> int:
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(number))]
    return sum(digit - 9 if digit > 9 else digit for digit in doubled)


@pytest.mark.parametrize("text", ["4111 " * 50_000, "4" * 500_000, "4-" * 100_000])
def test_many_digits_are_harmless(text: str) -> None:
    """Hostile runs of digits and groups are through before the test's time is up."""
    assert len(CARD.redact_text(text)) <= len(text)


@pytest.mark.parametrize(
    "key",
    [
        "sk-" + "a1B2" * 12,
        "sk-proj-" + "aB_-" * 10,
        "sk-ant-api03-" + "aB_-" * 10,
        "sk_live_" + "aB12" * 6,
        "AKIA" + "ABCD1234" * 2,
        "AIza" + "aB_-1" * 7,
        "ghp_" + "aB12" * 9,
        "github_pat_" + "aB12" * 6,
        "glpat-" + "aB12" * 5,
        "gsk_" + "aB12" * 13,
        "xai-" + "aB12" * 20,
        "hf_" + "aBcd" * 8,
        "xoxb-12345-abcde",
        "eyJhbGciOiJI.eyJzdWIiOiIx.abc-_9",
        "Bearer " + "aB12._~+/-" * 2 + "==",
        "bearer  " + "aB12" * 4,
    ],
)
def test_api_keys_are_found(key: str) -> None:
    """The ready-made ``api_key``: by the forms that their makers give them."""
    assert API_KEY.redact_text(f'key="{key}"') == f'key="{REDACTED}"'


@pytest.mark.parametrize(
    "text", ["a task-force-of-the-whole-world", "sk-short", "the bearer of news", "AKIA", "hf_x"]
)
def test_prose_is_no_api_key(text: str) -> None:
    """Words that look a little like a key stay."""
    assert API_KEY.redact_text(text) == text


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", r"is not an RE2 pattern: missing \)"),
        ("a(?=b)", "is not an RE2 pattern: invalid perl operator"),
        (r"(a)\1", "is not an RE2 pattern: invalid escape sequence"),
        ("a{9999}", "is not an RE2 pattern: invalid repetition size"),
        ("\ud83d", "is not Unicode text"),
        ("", "finds the empty string"),
        ("a*", "finds the empty string"),
        (r"\b", "finds the empty string"),
        ("x|$", "finds the empty string"),
        (r"\B", "finds the empty string"),
        (r"a|\b", "finds the empty string"),
        (r".+|\b", "finds the empty string"),
        (r"(?m)^\b|x", "finds the empty string"),
    ],
)
def test_bad_pattern_is_refused(pattern: str, reason: str) -> None:
    """At start, with its name and why."""
    with pytest.raises(ConfigurationError, match=f"redaction pattern 'mine' {reason}"):
        Redaction({"mine": pattern})


def test_unknown_ready_made_pattern_is_refused() -> None:
    """The message says which there are."""
    with pytest.raises(ConfigurationError, match="'phone', only email, card, api_key"):
        Redaction({}, ready_made=["phone"])


def test_all_ready_made_patterns_are_there() -> None:
    """What is named can be had, all at once and beside one's own."""
    redaction = Redaction({"email": "Ann"}, ready_made=READY_MADE)
    text = f"Ann a@b.example 4111111111111111 sk-{'x' * 20}"
    assert redaction.redact_text(text) == " ".join([REDACTED] * 4)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+b", "(?:a?){50}a{50}c"])
def test_no_pattern_hangs(pattern: str) -> None:
    """Patterns that take a backtracking matcher for ever are through at once."""
    redaction = Redaction({"evil": pattern})
    redaction.redact_json(json.dumps(["a" * 20_000 + "!"]))


def test_without_re2_a_pattern_of_ones_own_is_refused() -> None:
    """At start, and the message says what is missing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "re2", None)
        with pytest.raises(ConfigurationError, match="'mine' needs RE2, which is not"):
            Redaction({"mine": "x"})


KEYS = ("eyJ", "eyJhbGciOi", ".eyJhbGciOi", "sk-", "beaRer ", "AKIA", "ghp_", "x" * 16)
PIECES = st.sampled_from((*KEYS, "a", "1", "é_", ".", "@", "@b.c", "-", "_", "'", "=", " ", "😀"))


@given(st.lists(PIECES, max_size=25).map("".join))
@example("a@b.c'd@e.f")
@example("a.eyJ-eyJhbGciOi.eyJhbGciOi.x")
@example("éeyJhbGciOi.eyJhbGciOi.")
def test_ready_made_patterns_find_the_same_without_re2(text: str) -> None:
    """Character by character, whether it is hidden."""
    assert _hidden(text, *_PLAIN) == _hidden(text, EMAIL, API_KEY)


def _plain() -> tuple[Redaction, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "re2", None)
        return Redaction({}, ready_made=["email"]), Redaction({}, ready_made=["api_key"])


_PLAIN = _plain()


def _hidden(text: str, *redactions: Redaction) -> list[set[int]]:
    return [
        {place for finder in redaction._finders for span in finder(text) for place in range(*span)}
        for redaction in redactions
    ]


@pytest.mark.parametrize(
    "piece", ["a", "a@", "a.", "@a.", "eyJ-", ".eyJ", "eyJhbGciOi.", "sk-", "bearer ", " ", "AKIA"]
)
def test_no_text_hangs_without_re2(piece: str) -> None:
    """Ten times the text takes ten times as long, and not a hundred."""
    seconds = []
    for count in (4_000, 40_000):
        started = time.process_time()
        for redaction in _PLAIN:
            redaction._redact(piece * count)
        seconds.append(time.process_time() - started)
    assert seconds[1] < 40 * seconds[0] + 0.1, seconds


def test_without_patterns_re2_is_not_loaded() -> None:
    """Who has no patterns does not pay for the library."""
    code = (
        "import sys; from telemetry.privacy.redaction import Redaction;"
        "Redaction({}, ready_made=['card']); assert 're2' not in sys.modules;"
        "Redaction({'a': 'b'}); assert 're2' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


LEAVES: st.SearchStrategy[Any] = st.recursive(
    st.just("user@example.org") | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.just("user@example.org"), inner, max_size=3)
        | inner.map(json.dumps)
    ),
    max_leaves=6,
)


@given(LEAVES, st.sampled_from(["@", r"\u0040"]))
def test_an_address_never_slips_through(value: Any, at: str) -> None:
    """Wherever it stands in JSON, and however it is escaped."""
    text = json.dumps(value).replace("@", at)
    redacted = EMAIL.redact_json(text)
    assert "example.org" not in redacted
    if "example.org" not in text:
        assert redacted is text or redacted == text


def test_a_pattern_that_finds_far_too_often_hides_the_text() -> None:
    """Each find may look at all of the rest: without a budget this one takes time by the square."""
    hostile = "x" * 60_000
    started = time.monotonic()
    assert Redaction({"slow": "x.*y|x"}).redact_text(hostile) == REDACTED
    assert time.monotonic() - started < 30, "and not an hour"
    few = Redaction({"slow": "x.*y|x"})
    assert few.redact_text("a x b") == f"a {REDACTED} b"


@pytest.mark.parametrize("text", ["4111 1111 1111 1111", "ann@x.example", "sk-" + "a" * 20, "word"])
def test_a_short_text_is_redacted_each_time_alike(text: str) -> None:
    """What was kept of the first time is what the second one gives."""
    redaction = Redaction({}, ready_made=READY_MADE)
    first = redaction.redact_text(text)
    assert (
        redaction.redact_text(text) == first == redaction.redact_text(f"{text} " * 20)[: len(first)]
    )
