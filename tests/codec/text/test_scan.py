"""The scanner: places of members, and bodies that cannot be followed."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.text import nesting
from codec.text import scan as scan_module
from codec.text.jsontext import decode_json
from codec.text.nesting import MAX_DEPTH
from codec.text.scan import (
    MAX_MEMBERS,
    MAX_WHOLE_BYTES,
    BodyScan,
    Problem,
    RequestScanner,
    scan_request,
)
from tests.call_count import count_calls

if TYPE_CHECKING:
    from collections.abc import Iterable


REQUEST_MEMBERS = frozenset({"stream", "stream_options", "model", "data_sources"})


def scan(*pieces: bytes) -> BodyScan:
    """Scan a body that comes in these pieces."""
    scanner = RequestScanner(REQUEST_MEMBERS)
    for piece in pieces:
        scanner.feed(piece)
    return scanner.finish()


def cut(body: bytes, cuts: Iterable[int]) -> list[bytes]:
    """Cut a body at these places, each taken modulo its length."""
    places = sorted({0, len(body), *(place % (len(body) + 1) for place in cuts)})
    return [body[start:end] for start, end in pairwise(places)]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
request_names = st.sampled_from(sorted(REQUEST_MEMBERS))
requests = st.dictionaries(request_names | st.text(), json_values)
layouts = st.sampled_from(
    [
        {"separators": (",", ":")},
        {"separators": (" ,\r\n", "\t: ")},
        {"indent": 2},
        {"ensure_ascii": False},
    ]
)


@given(requests, layouts, st.lists(st.integers(min_value=0)))
def test_every_member_is_found_where_it_lies(
    request: dict[str, Any], layout: dict[str, Any], cuts: list[int]
) -> None:
    """Rules 1 and 2: the text at the place is the value, however the body was cut."""
    text = json.dumps(request, **layout)
    body = text.encode("utf-8", "replace")
    expected = decode_json(body)
    found = scan(*cut(body, cuts))
    assert found.problem is None
    assert found.empty == (not expected)
    for name in ("stream", "stream_options", "model", "data_sources"):
        value = found.value(body, name)
        assert (value is not None) == (name in expected)
        if value is not None:
            assert repr(decode_json(value)) == repr(expected[name])


@given(requests, st.data())
def test_a_damaged_body_is_a_problem_or_still_the_same_object(
    request: dict[str, Any], data: st.DataObject
) -> None:
    """Rule 3: whatever byte is changed, a place is never wrong for a body that parses."""
    body = bytearray(json.dumps(request, ensure_ascii=False).encode("utf-8", "replace"))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] = data.draw(st.sampled_from(b'"\\{}[],: \n\x000a\xff'))
    damaged = bytes(body)
    found = scan(damaged)
    by_bytes = scan(*cut(damaged, range(len(damaged))))
    assert by_bytes == found or None not in {by_bytes.problem, found.problem}
    try:
        expected = decode_json(damaged)
    except ValueError:
        return
    if found.problem is None:
        assert set(found.members) <= set(expected)
        for name in found.members:
            value = found.value(damaged, name)
            assert value is not None
            assert repr(decode_json(value)) == repr(expected[name])
    else:
        assert not isinstance(expected, dict)


def follow(body: bytes) -> BodyScan:
    """Scan a whole body without asking the parser."""
    with mock.patch.object(scan_module, "MAX_WHOLE_BYTES", -1):
        return scan_request(body, REQUEST_MEMBERS)


spaces = st.sampled_from(["", "", " ", "\n", "\t\r\n  "])
names = st.sampled_from(
    ["stream", "stream", "model", "stream_options", "data_sources", "str\\u0065am", "\\u006dodel",
     "a\\u0062", "m\u00f6del", "x\\", '\\"stream', "", "\\ud83d", "a\\/b", "stream "]
)  # fmt: skip
texts = st.sampled_from(
    ["true", "false", "null", "1.50", "-0", "1e", "tru", "NaN", '"m"', '"stream"', '"\\"model"',
     '""', '"\\\\"', '"\\u00e9"', '"\u00e9"', '"a\nb"', '"\\x"', '"\\ud83d"', "[]", "{}",
     '["stream",1]', '{"stream": {"model" : [true]}}', '{"a":"}"}', "[1,]", "[}",
     '{"model":1,"model":2}', "", ","]
)  # fmt: skip


@st.composite
def written(draw: st.DrawFn) -> bytes:
    """An object as text, with names that come twice, escapes, any white space, and mistakes."""
    parts = [spaces, st.just('"'), names, st.just('"'), spaces, st.just(":"), spaces, texts, spaces]
    members = draw(st.lists(st.tuples(*parts).map("".join), max_size=5))
    text = ",".join(members) or draw(spaces)
    return f"{{{text}}}".encode()


@given(written(), st.sampled_from([b"", b"", b"", b"\n", b"}", b"\xff", b"{}"]))
def test_a_body_in_one_piece_is_found_as_it_is_followed(body: bytes, rest: bytes) -> None:
    """Rule 6: the parser's help changes nothing, whatever the body is and what comes behind it."""
    assert scan_request(body + rest, REQUEST_MEMBERS) == follow(body + rest)


@given(requests, layouts, st.data())
def test_a_damaged_body_in_one_piece_is_found_as_it_is_followed(
    request: dict[str, Any], layout: dict[str, Any], data: st.DataObject
) -> None:
    """Rule 6, for all that JSON can hold, as it is and with a byte that was changed."""
    body = bytearray(json.dumps(request, **layout).encode("utf-8", "replace"))
    assert scan_request(bytes(body), REQUEST_MEMBERS) == follow(bytes(body))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    assert scan_request(bytes(body), REQUEST_MEMBERS) == follow(bytes(body))


@pytest.mark.parametrize(
    ("body", "is_parsed"),
    [
        (b'{"model":"m","messages":[{"content":"\\n\xc3\xa9"}],"stream": true}', True),
        (b"{}", False),
        (b'{"a":"%b"}' % (b"x" * (MAX_WHOLE_BYTES - len(b'{"a":""}'))), True),
        (b'{"a":"%b"}' % (b"x" * (MAX_WHOLE_BYTES - len(b'{"a":"') - 1)), False),
        (b'{"stream":true,"stream":true}', False),
        (b'{"stream":true,"stre\\u0061m":true}', False),
        (b'{"a":["stream"],"stream":true}', True),
        (b'{ "a" :\t[1] , "b":2 }', True),
        (b'{"a":1,"b":2,"a":{"x":1,"b":3}}', False),
        (b'{"a":1,"b":22,"a":{"x":1,"b":3}}', False),
        (b'{"a":"\xff"}', False),
        (b'{"a":"\n"}', False),
        (b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}", True),
        (b'{"a":[' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"]}", False),
        (b'{"a":' + b"[],".join([b"["] * MAX_DEPTH) + b"]" * MAX_DEPTH + b"}", True),
        (b'{"a":' + b"[[]],".join([b"["] * MAX_DEPTH) + b"]" * MAX_DEPTH + b"}", False),
        (b'{"a":[{"b":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}]}", False),
        (b'{"a":[{"b":"%b"},{}]}' % (b"[{" * MAX_DEPTH), True),
        (b'{"a":[{"b":"\\"%b\\\\","c":[]},{}]}' % (b"[{" * MAX_DEPTH), True),
        (b'{"a":[' + b'{"b":[]},' * MAX_DEPTH + b"{}]}", True),
        (b"{" + b'"a":1,' * MAX_MEMBERS + b'"a":1}', False),
        (b"{%b}" % b",".join(b'"%d":1' % n for n in range(MAX_MEMBERS + 1)), False),
        (b'{"a":["\\\\",' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"]}", False),
    ],
)
def test_a_body_is_parsed_where_that_leaves_no_doubt(body: bytes, is_parsed: bool) -> None:
    """Rule 6: one that is too long, odd, or has a name twice is followed."""
    found = scan_module._find_members(body, REQUEST_MEMBERS)
    assert (found is not None) == is_parsed
    assert scan_request(body, REQUEST_MEMBERS) == follow(body)


depths = st.recursive(
    st.sampled_from(["1", '"["', '"\\\\"', '"\\"[{"', '"{\\\\\\"}"', "[]", "{}"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda texts: f"[{','.join(texts)}]"),
        st.lists(inner, max_size=3).map(
            lambda texts: "{" + ",".join(f'"{n}": {text}' for n, text in enumerate(texts)) + "}"
        ),
    ),
    max_leaves=8,
)


@given(st.lists(st.tuples(names, depths), max_size=5), st.integers(1, 5), st.integers(1, 5))
def test_the_limits_are_the_same_whether_a_body_is_parsed_or_followed(
    members: list[tuple[str, str]], depth: int, count: int
) -> None:
    """Brackets in strings, names that come twice, limits reached: Rule 6."""
    body = "{" + ",".join(f'"{name}":{text}' for name, text in members) + "}"
    with (
        mock.patch.object(nesting, "MAX_DEPTH", depth),
        mock.patch.multiple(scan_module, MAX_DEPTH=depth, MAX_MEMBERS=count),
    ):
        assert scan_request(body.encode(), REQUEST_MEMBERS) == follow(body.encode())


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", Problem.TRUNCATED),
        (b"  \n", Problem.TRUNCATED),
        (b"[]", Problem.NOT_AN_OBJECT),
        (b'"stream"', Problem.NOT_AN_OBJECT),
        (b"\x1f\x8b\x08\x00", Problem.NOT_UTF8),
        (b"\xef\xbb\xbf{}", Problem.NOT_AN_OBJECT),
        ('{"stream":true}'.encode("utf-16"), Problem.NOT_UTF8),
        ('{"stream":true}'.encode("utf-16-le"), Problem.MALFORMED),
        (b'{"a":"\xff"}', Problem.NOT_UTF8),
        (b'{"a":"\xed\xa0\x80"}', Problem.NOT_UTF8),
        (b'{"stream":true', Problem.TRUNCATED),
        (b'{"stream":"tr', Problem.TRUNCATED),
        (b'{"stream":{"a":[', Problem.TRUNCATED),
        (b'{"str', Problem.TRUNCATED),
        (b'{"stream"', Problem.TRUNCATED),
        (b'{"stream":', Problem.TRUNCATED),
        (b'{"stream":1,', Problem.TRUNCATED),
        (b'{"stream":true}{}', Problem.MALFORMED),
        (b'{"stream":true}\x00', Problem.MALFORMED),
        (b'{"stream":true,}', Problem.MALFORMED),
        (b'{,"stream":true}', Problem.MALFORMED),
        (b'{"stream" true}', Problem.MALFORMED),
        (b'{"stream":true "a":1}', Problem.MALFORMED),
        (b'{"stream":,"a":1}', Problem.MALFORMED),
        (b'{"stream":}', Problem.MALFORMED),
        (b'{"stream":true/* */}', Problem.MALFORMED),
        (b"{'stream':true}", Problem.MALFORMED),
        (b"{stream:true}", Problem.MALFORMED),
        (b'{"a":[}', Problem.MALFORMED),
        (b'{"a":[1}]', Problem.MALFORMED),
        (b'{"a":{"b":1]}', Problem.MALFORMED),
        (b'{"a":[1 // "\n]}', Problem.MALFORMED),
        (b'{"a":[\x0b1]}', Problem.MALFORMED),
        (b'{"\\u00":1}', Problem.MALFORMED),
        (
            b'{"a":' + b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1) + b"}",
            Problem.NESTED_TOO_DEEPLY,
        ),
        (b"{" + b'"a":1,' * MAX_MEMBERS + b'"a":1}', Problem.TOO_MANY_MEMBERS),
    ],
)
def test_a_body_that_cannot_be_followed_says_why(body: bytes, problem: Problem) -> None:
    """Rule 3. Of two reasons, which one is seen first may depend on the cuts."""
    assert scan(body) == BodyScan(problem=problem)
    assert scan(*cut(body, range(len(body)))).problem is not None


def test_the_limits_themselves_are_within_the_limits() -> None:
    """As many brackets and members as the constants say are followed."""
    deep = b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}"
    wide = b"{" + b'"a":1,' * (MAX_MEMBERS - 1) + b'"a":1}'
    assert scan(deep).problem is None
    assert scan(wide).problem is None


@pytest.mark.parametrize(
    "key",
    [
        b'"stream"',
        b'"stre\\u0061m"',
        b'"\\u0073\\u0074\\u0072\\u0065\\u0061\\u006D"',
    ],
)
def test_a_key_is_compared_as_a_json_string(key: bytes) -> None:
    """Rule 4: an escaped spelling is the same name."""
    body = b"{%b : true}" % key
    assert scan(body).value(body, "stream") == b"true"
    assert scan(*cut(body, range(len(body)))).value(body, "stream") == b"true"


@pytest.mark.parametrize(
    "key",
    [b'"Stream"', b'" stream"', b'"stream\\u0000"', b'"stream\\\\"', b'"' + b"stream" * 20 + b'"'],
)
def test_another_key_is_another_name(key: bytes) -> None:
    """Rule 4, the other way round: case, spaces and length count."""
    assert not scan(b"{%b:true}" % key).members


def test_the_longest_spelling_of_the_longest_name_is_known() -> None:
    """All of it escaped; and one character more is another name."""
    key = b"".join(b"\\u%04x" % byte for byte in b"stream_options")
    assert "stream_options" in scan(b'{"%b":1}' % key).members
    assert not scan(b'{"%b\\u0073":1}' % key).members


def test_a_member_inside_a_value_is_not_a_member_of_the_request() -> None:
    """Only the outermost object counts, however much a value looks like one."""
    body = rb'{"messages":[{"stream":true,"content":"\"stream\":true,}"}],"x":"{\"stream\":1}"}'
    assert scan(body) == BodyScan(empty=False)


def test_a_member_that_occurs_twice_is_counted() -> None:
    """Rule 5: the last place is kept, as most parsers do."""
    body = b'{"stream":false,"a":1,"stre\\u0061m":true}'
    found = scan(body)
    assert found.members["stream"].count == 2
    assert found.value(body, "stream") == b"true"


def test_an_empty_object_is_empty() -> None:
    """White space inside or around it does not matter."""
    assert scan(b" {\n} ").empty
    assert not scan(b'{"a":{}}').empty


TREE = b"0"
for _ in range(10):
    TREE = b'[%b,{"a":%b}]' % (TREE, TREE)

SHAPES = [
    b"{},",
    b"[],",
    b'{"a":[]},',
    b"0,",
    b'"",',
    b'"ab",',
    b'"\\n",',
    b'"\\"",',
    b'{"role":"user","content":"Hi"},',
    b"[" * 500 + b"]" * 500 + b",",
    b'{"a":' * 250 + b"0" + b"}" * 250 + b",",
    b'"%b",' % (b'\\"' * 9_000),
    b'"%b",' % (b"QUJD" * 9_000),
    TREE + b",",
]


@pytest.mark.parametrize("unit", SHAPES)
def test_of_whatever_shape_a_body_is_it_takes_few_steps(unit: bytes) -> None:
    """Rule 2: a call of Python or C for 32 bytes at most; and all of it is followed."""
    body = b'{"model":"m","messages":[%b0],"stream":true}' % (unit * (100_000 // len(unit)))
    assert count_calls(lambda: scan(body)) < len(body) / 32
    assert scan(body).value(body, "stream") == b"true"


def test_of_too_many_members_no_more_are_looked_at() -> None:
    """Rule 2, of a short body: however many there are, it takes the steps of one too many."""
    wide, wider = (
        b"{%b}" % b",".join(b'"%d":1' % number for number in range(count))
        for count in (MAX_MEMBERS + 1, 6_000)
    )
    steps = count_calls(lambda: scan_request(wide, REQUEST_MEMBERS))
    assert count_calls(lambda: scan_request(wider, REQUEST_MEMBERS)) <= steps


@pytest.mark.parametrize("count", range(120, 270))
def test_a_row_of_short_strings_is_followed(count: int) -> None:
    """However many there are, and wherever pieces end in it."""
    body = b'{"a":[%b0],"stream":true}' % (b'"b",' * count)
    assert scan(body).value(body, "stream") == b"true"


@pytest.mark.parametrize("count", range(8))
def test_backslashes_before_a_quote_are_counted(count: int) -> None:
    """An odd run of them escapes the quote, wherever the run is cut."""
    body = b'{"a":"' + b"\\" * count + b'","stream":true}'
    whole = scan(body)
    assert (whole.problem is None) == (count % 2 == 0)
    for place in range(len(body)):
        assert scan(body[:place], body[place:]) == whole


def test_state_stays_small_whatever_is_fed() -> None:
    """Rule 2: neither a long key nor a long string is kept."""
    scanner = RequestScanner(REQUEST_MEMBERS)
    scanner.feed(b'{"')
    for _ in range(64):
        scanner.feed(b"k" * 4_096)
    scanner.feed(b'":[{"b":"')
    for _ in range(64):
        scanner.feed(b"\\n" * 4_096)
    assert len(scanner._key) < 256
    assert len(scanner._closers) == 2
    scanner.feed(b'"}]}')
    assert scanner.finish() == BodyScan(empty=False)


def test_other_names_can_be_asked_for() -> None:
    """The scanner serves any object, such as the stream options."""
    scanner = RequestScanner(("include_usage",))
    scanner.feed(b'{"include_usage": null}')
    assert scanner.finish().value(b'{"include_usage": null}', "include_usage") == b"null"


def test_of_a_long_value_no_more_is_copied_than_is_wanted() -> None:
    """A limit cuts it; a shorter one is whole."""
    body = b'{"stream": true, "model": "long"}'
    assert scan(body).value(body, "model", 3) == b'"lo'
    assert scan(body).value(body, "stream", 5) == b"true"
