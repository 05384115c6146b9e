"""``codec.text.multipart``: forms, however they are cut, beside two other readers of them."""

from __future__ import annotations

import asyncio
import random
from email.parser import BytesParser
from email.policy import HTTP
from itertools import pairwise
from typing import Any

import aiohttp
import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codec.text.multipart import (
    MAX_DELIMITERS,
    MAX_FIELD_BYTES,
    MAX_FORM_BYTES,
    MAX_HEAD_BYTES,
    Form,
    FormReader,
    FormState,
    find_boundary,
    is_form,
)

BOUNDARY = b"x-1"

LINES = st.lists(
    st.sampled_from([b"a", b"", b"-", b"--", b"--x-", b"--x-12", b"a--x-1", b" --x-1", b"--x-1 a"])
)
"""Lines of which none is a delimiter."""

Part = tuple[str, str | None, str | None, bytes]
"""Name, file name, type and content."""

PIECES = st.sampled_from(
    [b"a", b"\r", b"\n", b"\r\n", b"-", b"--", b"x-1", b"--x-1", b"\xff", b"\0"]
)
CONTENTS = st.lists(PIECES, max_size=12).map(b"".join)
NAMES = st.text(st.sampled_from("abé[]_ "), min_size=1, max_size=8).map(str.strip).filter(bool)
PARTS = st.lists(
    st.tuples(
        NAMES,
        st.none() | st.text(st.sampled_from('aé."\\;= '), max_size=8).map(str.strip),
        st.none() | st.sampled_from(["text/plain", "application/json", "audio/mpeg", "image/png"]),
        CONTENTS,
    ),
    max_size=5,
)


def quote(text: str) -> bytes:
    return b'"' + text.replace("\\", "\\\\").replace('"', '\\"').encode() + b'"'


def write_part(part: Part, boundary: bytes = BOUNDARY) -> bytes:
    """One part, as clients write it."""
    name, filename, kind, content = part
    head = b"Content-Disposition: form-data; name=" + quote(name)
    if filename is not None:
        head += b"; filename=" + quote(filename)
    if kind is not None:
        head += b"\r\ncontent-type: " + kind.encode()
    return b"--%b\r\n%b\r\n\r\n%b\r\n" % (boundary, head, content)


def write(*parts: Part, boundary: bytes = BOUNDARY, end: bytes = b"--x-1--\r\n") -> bytes:
    """A form."""
    return b"".join(write_part(part, boundary) for part in parts) + end


def field(name: str, text: str | bytes) -> Part:
    return name, None, None, text.encode() if isinstance(text, str) else text


def read(body: bytes, cuts: list[int] | None = None, boundary: bytes = BOUNDARY) -> Form:
    """The form, in reads that end at these places."""
    reader = FormReader(boundary)
    for start, end in pairwise([0, *sorted(cuts or ()), len(body)]):
        reader.feed(body[start:end])
    return reader.finish()


def list_parts(form: Form) -> list[tuple[str, Any]]:
    """Names and values, those of one name together."""
    return [
        (name, value)
        for name, values in form.members.items()
        for value in (values if isinstance(values, list) else [values])
    ]


def describe(name: str, filename: str | None, kind: str | None, content: bytes) -> tuple[str, Any]:
    """What rule 1 makes of a part."""
    if filename is None and (kind or "text/plain") in {"text/plain", "application/json"}:
        try:
            return name, content.decode()
        except UnicodeDecodeError:
            pass
    told = {"filename": filename, "content_type": kind, "bytes": len(content)}
    return name, {key: value for key, value in told.items() if value is not None}


def grouped(parts: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Those of one name together, as :func:`list_parts` has them."""
    names = [name for name, _ in parts]
    return sorted(parts, key=lambda part: names.index(part[0]))


def is_free(parts: list[Part]) -> bool:
    """Whether no content has the delimiter in it, at its beginning either."""
    return all(b"\r\n--x-1" not in b"\r\n" + content + b"\r\n" for *_, content in parts)


@given(PARTS, st.lists(st.integers(0, 2_000), max_size=8))
def test_rules_1_and_2_the_parts_are_what_was_written_however_they_are_cut(
    parts: list[Part], places: list[int]
) -> None:
    """Whole, cut anywhere, byte by byte."""
    body = write(*parts)
    whole = read(body)
    assert read(body, [place % len(body) for place in places]) == whole
    assert read(body, [*range(1, len(body))]) == whole
    if is_free(parts):
        assert whole.state == FormState.WHOLE
        assert list_parts(whole) == grouped([describe(*part) for part in parts])


@given(st.lists(LINES.map(b"\r\n".join), min_size=1, max_size=4))
def test_the_standard_librarys_reader_agrees(contents: list[bytes]) -> None:
    """On what is content: a line that only begins as a delimiter is (rule 3)."""
    body = write(*[("a", None, None, content) for content in contents])
    head = b'Content-Type: multipart/form-data; boundary="x-1"\r\n\r\n'
    parts = BytesParser(policy=HTTP).parsebytes(head + body).get_payload()
    assert isinstance(parts, list)
    expected = [part.get_payload(decode=True).decode() for part in parts]  # type: ignore[union-attr]
    assert [value for _, value in list_parts(read(body))] == expected


@given(PARTS)
def test_aiohttps_reader_agrees(parts: list[Part]) -> None:
    """On names, file names and contents, where it takes the form at all."""
    if not is_free(parts):
        return
    body = write(*parts)

    async def read_parts() -> list[tuple[str, Any]]:
        stream = aiohttp.StreamReader(_Protocol(), 2**16, loop=asyncio.get_running_loop())
        stream.feed_data(body)
        stream.feed_eof()
        reader = aiohttp.MultipartReader(
            {"Content-Type": "multipart/form-data; boundary=x-1"},
            stream,
        )
        found = []
        while (part := await reader.next()) is not None:
            assert isinstance(part, aiohttp.BodyPartReader)
            kind = part.headers.get("Content-Type")
            content = bytes(await part.read())
            found.append(describe(part.name or "", part.filename, kind, content))
        return found

    assert list_parts(read(body)) == grouped(asyncio.run(read_parts()))


class _Protocol(aiohttp.base_protocol.BaseProtocol):
    """What a stream reader wants."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop())


def test_real_clients_write_forms_that_are_read() -> None:
    """The SDK of OpenAI (httpx), and aiohttp."""
    request = httpx.Request(
        "POST",
        "http://x",
        data={"model": "whisper-1", "timestamp_granularities[]": ["word", "segment"]},
        files=[("file", ('a "b".mp3', b"\r\n--" * 99, "audio/mpeg"))],
    )
    boundary = find_boundary(request.headers["content-type"].encode())
    assert boundary is not None
    form = read(request.read(), boundary=boundary)
    assert form.state == FormState.WHOLE
    assert form.members == {
        "model": "whisper-1",
        "timestamp_granularities[]": ["word", "segment"],
        "file": {"filename": "a %22b%22.mp3", "content_type": "audio/mpeg", "bytes": 396},
    }


@pytest.mark.parametrize(
    ("head", "members"),
    [
        (b'Content-Disposition: form-data; name="a"', {"a": "v"}),
        (b"CONTENT-DISPOSITION:form-data;NAME=a", {"a": "v"}),
        (b'Content-Disposition: form-data;\r\n\tname="a"', {"a": "v"}),
        (b'Content-Disposition: form-data; name="a\\"\\\\b"', {'a"\\b': "v"}),
        (
            b'Content-Disposition: form-data; name="a"; filename=""',
            {"a": {"filename": "", "bytes": 1}},
        ),
        (
            b"Content-Disposition: form-data; name=a; filename*=UTF-8''na%C3%AFve.wav; filename=x",
            {"a": {"filename": "naïve.wav", "bytes": 1}},
        ),
        (
            b'Content-Type: \r\nContent-Disposition: form-data; name="a"; filename="C:\\x\\y.png"',
            {"a": {"filename": "C:\\x\\y.png", "bytes": 1}},
        ),
        (
            b'Content-Disposition: form-data; name="a"\r\nContent-Type: audio/wav; x=1',
            {"a": {"content_type": "audio/wav", "bytes": 1}},
        ),
        (
            b'Content-Disposition: form-data; name="a"\r\nContent-Type: Text/Plain; charset=utf-8',
            {"a": "v"},
        ),
    ],
)
def test_heads_of_all_kinds(head: bytes, members: dict[str, Any]) -> None:
    """Names of fields in any case, quoted and plain values, folded lines, coded file names."""
    assert read(b"--x-1\r\n%b\r\n\r\nv\r\n--x-1--" % head) == Form(members, FormState.WHOLE)


def test_preamble_padding_and_epilogue_are_no_content() -> None:
    """RFC 2046, section 5.1.1."""
    part = write_part(field("a", "1")).replace(b"--x-1\r\n", b"--x-1 \t\r\n")
    form = read(b"before\r\n" + part + b"--x-1-- \r\nafter\r\n" + write_part(field("b", "2")))
    assert form == Form({"a": "1"}, FormState.WHOLE)


@given(st.binary(max_size=400) | st.lists(PIECES, max_size=30).map(b"".join))
@example(b"--x-1\r\n\r\n--x-1")
def test_rule_2_nothing_raises_whatever_the_bytes_are(body: bytes) -> None:
    """And the cuts make no difference."""
    assert read(body) == read(body, [*range(1, len(body))])


def test_what_broke_off_is_told_as_far_as_it_came() -> None:
    """A text so far, and of a file no size, at any place; never more than the whole says."""
    parts = [field("model", "whisper-1"), ("file", "a.wav", "audio/wav", b"\0" * 30)]
    body = write(*parts, field("language", "en"))
    for end in range(len(body) - 4):
        form = read(body[:end])
        assert form.state == FormState.BROKEN
        for name, value in form.members.items():
            whole = dict([describe(*part) for part in (*parts, field("language", "en"))])[name]
            if isinstance(value, str):
                assert value.startswith(str(whole)) or str(whole).startswith(value)
            else:
                assert value.items() <= whole.items()


def test_a_part_without_a_name_breaks_the_form_and_costs_itself_alone() -> None:
    """Rule 4."""
    body = write(field("a", "1"), field("", "2"), field("b", "3"))
    assert read(body) == Form({"a": "1", "b": "3"}, FormState.BROKEN)


def test_rule_4_a_long_text_is_cut_and_the_fields_behind_it_are_told() -> None:
    """A character that is cut in two goes as a whole; a file is never too long."""
    long = "aé" * MAX_FIELD_BYTES
    big = ("file", "a.bin", None, b"\xff" * 3 * MAX_FORM_BYTES)
    unnamed = ("data", None, None, b"\xff" * 3 * MAX_FIELD_BYTES)
    body = write(field("prompt", long), big, unnamed, field("model", "m"))
    for cuts in ([], [*range(0, len(body), 65_536)], [*range(0, len(body), 7_777)]):
        form = read(body, cuts)
        assert form.state == FormState.CUT
        assert form.members["prompt"] == long.encode()[:MAX_FIELD_BYTES].decode("utf-8", "ignore")
        assert form.members["file"] == {"filename": "a.bin", "bytes": 3 * MAX_FORM_BYTES}
        assert form.members["data"] == {"bytes": 3 * MAX_FIELD_BYTES}
        assert form.members["model"] == "m"


def test_rule_4_a_form_keeps_no_more_than_its_limit_and_what_is_lent() -> None:
    """Then it says that it is cut."""
    lent: list[int] = []

    def lend(size_bytes: int) -> bool:
        lent.append(size_bytes)
        return sum(lent) < 2 * MAX_FIELD_BYTES

    parts = [field(f"f{number}", "v" * MAX_FIELD_BYTES) for number in range(8)]
    form = read(write(*parts))
    assert form.state == FormState.CUT
    assert sum(len(text) for text in form.members.values()) < MAX_FORM_BYTES
    reader = FormReader(BOUNDARY, lend)
    reader.feed(write(*parts))
    form = reader.finish()
    assert form.state == FormState.CUT
    assert sum(len(text) for text in form.members.values()) < 2 * MAX_FIELD_BYTES


def test_rule_4_a_head_without_an_end_breaks_the_form() -> None:
    """What came before it is told; whatever comes later is not read."""
    long = b'--x-1\r\nContent-Disposition: form-data; name="%b"' % (b"n" * MAX_HEAD_BYTES)
    body = write_part(field("a", "1")) + long + b"\r\n\r\nv\r\n--x-1--"
    for cuts in ([], [*range(0, len(body), 1_000)]):
        assert read(body, cuts) == Form({"a": "1"}, FormState.BROKEN)


def test_rule_5_lines_like_delimiters_are_counted() -> None:
    """Whether they are some or not."""
    many = write(*[field("a", "1")] * (MAX_DELIMITERS - 1))
    assert read(many).state == FormState.WHOLE
    assert read(write(*[field("a", "1")] * (MAX_DELIMITERS + 9))).state == FormState.CUT
    false = write(("f", "a", None, b"\r\n--x-1!" * MAX_DELIMITERS), field("b", "2"))
    form = read(false)
    assert form == Form({}, FormState.CUT)
    assert read(false, [*range(1, len(false))]) == form


def test_boundaries() -> None:
    """Quoted, plain, among other parameters; none that is too long, and none of another type."""
    assert find_boundary(b"multipart/form-data; boundary=abc") == b"abc"
    assert find_boundary(b'Multipart/Form-Data; charset=x;BOUNDARY="a;b c"') == b"a;b c"
    for none in (
        b"multipart/form-data",
        b"multipart/form-data; boundary=",
        b"x; boundary=" + b"a" * 71,
    ):
        assert find_boundary(none) is None
    assert is_form(b" multipart/form-data")
    assert is_form(b"MULTIPART/mixed")
    assert not is_form(b"application/json")
    assert not is_form(b"")


def test_random_bytes_are_a_file_of_their_size() -> None:
    """A megabyte, in reads as a socket gives them."""
    content = random.Random(1).randbytes(1_000_000)
    body = write(("file", "a", None, content), field("model", "m"))
    form = read(body, [*range(0, len(body), 65_536)])
    assert form.members == {"file": {"filename": "a", "bytes": 1_000_000}, "model": "m"}
