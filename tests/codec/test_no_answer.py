"""What came where an answer was due, and cannot be one."""

from __future__ import annotations

import time

import pytest

from codec.no_answer import NoAnswer, find_lack, find_message, find_page_words, find_words

HALVES = [
    b'{"id":"c","choi',
    b" \n{",
    b"[",
    b'[{"a": 1}',
    b'[{"a": 1},',
    b'{"a": "}',
    b'{"a": "\\"}',
]
OTHERS = [
    *(b"<!DOCTYPE html><html></html>", b"OK", b'"no"', b"[1]", b"null", b"{\xff}", b"\xff\xfb\x90"),
    *(b'{"a": 1} and more', b'{"a"]', b"{'a': 1}"),
]
READ_BY_OTHERS = {
    "UTF-16": '{"a": "\u5b22"}'.encode("utf-16"),
    "UTF-16 without its mark": '{"a": 1}'.encode("utf-16-be"),
    "Latin-1": '{"a": "caf\u00e9"}'.encode("latin-1"),
    "an integer of thousands of digits": b'{"a": %b}' % (b"9" * 5_000),
    "nested deeply": b'{"a": %b%b}' % (b"[" * 600, b"]" * 600),
    "nested too deeply for all": b'{"a": %b%b}' % (b"[" * 50_000, b"]" * 50_000),
}


@pytest.mark.parametrize("body", HALVES)
def test_json_that_ends_before_its_brackets_is_half(body: bytes) -> None:
    """Brackets in strings do not count."""
    assert find_lack(body) is NoAnswer.HALF


@pytest.mark.parametrize("body", OTHERS)
def test_what_has_an_end_is_something_else(body: bytes) -> None:
    """Pages, texts, values of another kind, JSON that nobody reads."""
    assert find_lack(body) is NoAnswer.OTHER


@pytest.mark.parametrize("body", READ_BY_OTHERS.values(), ids=READ_BY_OTHERS)
def test_what_others_read_is_not_judged(body: bytes) -> None:
    """It may be an answer to its client."""
    assert find_lack(body) is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"detail": "busy"}, "busy"),
        ({"message": "invalid api token", "detail": "x"}, "invalid api token"),
        ({"detail": [{"msg": "Field required"}]}, '[{"msg":"Field required"}]'),
        ({"code": 7, "msg": "no"}, '{"code":7,"msg":"no"}'),
        ({"message": "", "detail": None}, '{"message":"","detail":null}'),
    ],
)
def test_the_words_of_json(value: dict[str, object], words: str) -> None:
    """A message by a name that is known, else all of it."""
    assert find_words(value) == words
    assert find_message(value) == (None if words.startswith("{") else words)


PAGES = {
    "<!DOCTYPE html><html><title>Sign\n in &amp; go</title><p>Hi</p></html>": "Sign in & go",
    "<html><title> </title><h1>Bad</h1>\n<hr>nginx": "Bad nginx",
    "<style>a > b {}</style><SCRIPT>if (a<b) {'>'}</SCRIPT>\n<b>Wait</b>": "Wait",
    "<?xml version='1.0'?><Error><Code>Denied</Code><Message>No.</Message></Error>": "Denied No.",
    "upstream error:\n 1 < 2": "upstream error: 1 < 2",
    "<": "",
    "": "",
}


@pytest.mark.parametrize(("page", "words"), PAGES.items())
def test_the_words_of_a_page(page: str, words: str) -> None:
    """The title, else what a reader would see; a text that is no page is its own words."""
    assert find_page_words(page) == words


@pytest.mark.parametrize("piece", ["<", "<a>x", "<script>", "<!--", "<a ", "&", "&amp;"])
def test_words_are_found_in_time_that_follows_the_page(piece: str) -> None:
    """Whatever it is made of."""
    began = time.process_time()  # whatever else the machine has to do
    find_page_words("<p>" + piece * (1 << 20))
    assert time.process_time() - began < 2
