"""``telemetry.store.wanted_text``: a text to be found in the bytes of a span."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.store.wanted_text import WantedText

TEXTS = st.text(
    alphabet=st.sampled_from("aB \"\\/\n\t\x01<&'+é\u2028😀u0")
    | st.characters(exclude_categories=["Cs"]),
    min_size=1,
    max_size=8,
)


def is_in(text: str, span: bytes) -> bool:
    return WantedText(text).is_in(span.lower())


def write_as_php(text: str) -> str:
    return json.dumps(text).replace("/", "\\/")


def write_as_go(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    for sign in "<>&\u2028\u2029":
        written = written.replace(sign, f"\\u{ord(sign):04x}")
    return written


def write_as_dotnet(text: str) -> str:
    """Also quotes, and with capital digits."""
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    return "".join(
        f"\\u{code:04X}" if code > 126 or chr(code) in "\"'&+<>`" else json.dumps(chr(code))[1:-1]
        for code in codes
    )


WRITERS = [
    json.dumps,
    lambda text: json.dumps(text, ensure_ascii=False),
    write_as_php,
    write_as_go,
    write_as_dotnet,
]


@given(TEXTS, st.binary(max_size=4), st.lists(st.sampled_from(WRITERS), max_size=3))
def test_a_text_is_found_however_it_is_written(
    text: str, around: bytes, writers: list[object]
) -> None:
    """As it is, and in JSON in JSON of any writers."""
    written = text
    for write in writers:
        written = write(written)  # type: ignore[operator]
    assert is_in(text, around + written.encode() + around)


@given(TEXTS, TEXTS)
def test_nothing_else_is_found(text: str, other: str) -> None:
    """In a text as it is, without escapes, exactly what is there."""
    if "\\" in other or "\\" in text:
        return
    folded = [re.sub("[A-Z]", lambda sign: sign[0].lower(), each) for each in (text, other)]
    assert is_in(text, other.encode()) == (folded[0] in folded[1])


@pytest.mark.parametrize(
    ("text", "span", "is_found"),
    [
        ("Not Found", b"... not found ...", True),
        ("not found", b"... NOT FOUND ...", True),
        ("not found", b"... not  found ...", False),
        ("é", "É".encode(), False),
        ("É", b"\\u00c9", True),
        ("É", b"\\u00C9", True),
        ('say "hi"', rb"say \"hi\"", True),
        ('say "hi"', rb"say \\\"hi\\\"", True),
        ('say "hi"', rb"say \hi\"", False),
        ("a\nb", rb"a\nb", True),
        ("a\nb", rb"a\\nb", True),
        ("a\nb", rb"a\tb", False),
        ("a\nb", b"anb", False),
        ("a\\nb", rb"a\\nb", True),
        ("\\", b"\\", True),
        ("\\\\", rb"\x", False),
        ('\\"', rb"\\\"", True),
        ("x\\", rb"x\\", True),
        ("😀!", rb"\ud83d\ude00!", True),
        ("😀!", rb"\ud83d!", False),
        ('a\\"', rb"a\\\u0022", True),
        ("</a>", rb"\u003c/a\u003E", True),
        ("a.c", b"abc", False),
    ],
)
def test_forms(text: str, span: bytes, is_found: bool) -> None:
    """One by one."""
    assert is_in(text, span) == is_found


@pytest.mark.parametrize("text", ['\\"', '"', "a\\b", 'a"\\"b', "\n\n", "é", "\\\\n", "a/\\/b"])
def test_time_is_linear(text: str) -> None:
    """In what is nearly the text, over and over, and in long runs of backslashes."""
    hostile = b"\\" * 200_000 + b"a" + b'a\\\\"' * 50_000 + b"u00e" * 50_000 + b"a" * 100_000
    begun = time.thread_time()
    for span in (hostile, hostile.replace(b'"', b""), hostile.replace(b"a", b"a\\")):
        is_in(text, span + b"\\")
    assert time.thread_time() - begun < 2
