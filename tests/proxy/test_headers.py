"""Header fields as bytes: tables of what crosses the proxy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.headers import (
    Head,
    RawHeaders,
    RequestChanges,
    request_headers,
    response_headers,
)

Fields = list[tuple[bytes, bytes]]
UP = RequestChanges(host=b"up")
HOST = (b"Host", b"c")


@pytest.mark.parametrize(
    ("headers", "found", "joined", "options"),
    [
        ((), None, None, set()),
        (((b"X-Other", b"1"), (b"X-", b"2")), None, None, set()),
        (((b"x-a", b""),), b"", b"", {b""}),
        (((b"X-A", b"One"), (b"x-a", b"two , THREE")), b"One", b"One,two , THREE",
         {b"one", b"two", b"three"}),
    ],
)  # fmt: skip
def test_a_field_is_found_whatever_its_case(
    headers: RawHeaders, found: bytes | None, joined: bytes | None, options: set[bytes]
) -> None:
    """The first value, all values as one list, and the members of that list."""
    head = Head(headers)
    assert head.find(b"x-a") == found
    assert head.has(b"x-a") == (found is not None)
    assert head.join(b"x-a") == joined
    assert head.options(b"x-a") == options


@pytest.mark.parametrize(
    ("headers", "changes", "relayed"),
    [
        # Rule 3: Host.
        ([HOST], UP, [(b"Host", b"up")]),
        ([(b"A", b"1"), (b"hOST", b"c"), (b"B", b"2")], UP,
         [(b"A", b"1"), (b"hOST", b"up"), (b"B", b"2")]),
        ([(b"A", b"1")], UP, [(b"Host", b"up"), (b"A", b"1")]),
        # Names, case, order, duplicates and bytes stay.
        ([HOST, (b"b", b"\xff"), (b"B", b""), (b"b", b"\xff")], UP,
         [(b"Host", b"up"), (b"b", b"\xff"), (b"B", b""), (b"b", b"\xff")]),
        # Rule 1: hop by hop.
        ([HOST, (b"CONNECTION", b"close, X-a"), (b"x-A", b"1"), (b"Keep-Alive", b"2"),
          (b"TE", b"trailers"), (b"Trailer", b"x"), (b"Upgrade", b"h2c"),
          (b"Proxy-Authorization", b"x"), (b"proxy-connection", b"y"), (b"X-B", b"3")], UP,
         [(b"Host", b"up"), (b"X-B", b"3")]),
        ([HOST, (b"Connection", b"host, content-length, transfer-encoding"),
          (b"Content-Length", b"2")], UP, [(b"Host", b"up"), (b"Content-Length", b"2")]),
        # Rule 2: framing.
        ([HOST, (b"content-LENGTH", b"2")], RequestChanges(host=b"up", content_length=44),
         [(b"Host", b"up"), (b"content-LENGTH", b"44")]),
        ([HOST, (b"Transfer-Encoding", b"chunked")], RequestChanges(host=b"up", content_length=44),
         [(b"Host", b"up"), (b"Transfer-Encoding", b"chunked")]),
        # Rule 4: ours.
        ([HOST, (b"X-SpanTap-User", b"1"), (b"x-spanta", b"2")], UP,
         [(b"Host", b"up"), (b"x-spanta", b"2")]),
        # Rule 5: replaced in place once, appended, removed; even where Connection names it.
        ([HOST, (b"Traceparent", b"1"), (b"A", b"2"), (b"traceparent", b"3"), (b"tracestate", b"4"),
          (b"Connection", b"traceparent")],
         RequestChanges(host=b"up", replaced={b"traceparent": (b"traceparent", b"new"),
                                              b"tracestate": None,
                                              b"authorization": (b"Authorization", b"key")}),
         [(b"Host", b"up"), (b"traceparent", b"new"), (b"A", b"2"), (b"Authorization", b"key")]),
    ],
)  # fmt: skip
def test_a_request_head(headers: Fields, changes: RequestChanges, relayed: Fields) -> None:
    """What the upstream gets for what the client sent, by the rules of the module."""
    assert request_headers(Head(headers), changes) == relayed


LENGTH, DIGEST = (b"Content-Length", b"2"), (b"Content-MD5", b"x")
CHUNKED = (b"Transfer-Encoding", b"chunked")


@pytest.mark.parametrize(
    ("headers", "keeps_length", "keeps_chunked", "relayed"),
    [
        ([(b"Server", b"s"), (b"Set-Cookie", b"1"), (b"set-cookie", b"1")], True, False,
         [(b"Server", b"s"), (b"Set-Cookie", b"1"), (b"set-cookie", b"1")]),
        ([LENGTH, DIGEST], True, False, [LENGTH, DIGEST]),
        ([LENGTH, DIGEST, (b"Digest", b"y"), (b"Repr-Digest", b"z"), (b"Content-Digest", b"w"),
          (b"A", b"1")], False, False, [(b"A", b"1")]),
        ([(b"A", b"1"), CHUNKED, (b"B", b"2")], True, True,
         [(b"A", b"1"), CHUNKED, (b"B", b"2")]),
        ([CHUNKED], True, False, []),
        ([(b"Connection", b"close, x-a, Content-Length"), (b"X-A", b"1"), LENGTH,
          (b"Keep-Alive", b"1"), (b"Proxy-Authenticate", b"2"), (b"X-Spantap-A", b"3")],
         True, False, [LENGTH, (b"X-Spantap-A", b"3")]),
    ],
)  # fmt: skip
def test_an_answer_head(
    headers: Fields, *, keeps_length: bool, keeps_chunked: bool, relayed: Fields
) -> None:
    """What the client gets for what the upstream sent, by the rules of the module."""
    got = response_headers(Head(headers), keeps_length=keeps_length, keeps_chunked=keeps_chunked)
    assert got == relayed


@given(
    st.lists(st.tuples(st.text("abAB-", min_size=1).map(str.encode), st.binary())).map(tuple),
)
def test_fields_that_nothing_is_said_about_are_kept(headers: RawHeaders) -> None:
    """Both ways, whatever they are."""
    assert request_headers(Head((HOST, *headers)), UP) == [(b"Host", b"up"), *headers]
    assert response_headers(Head(headers), keeps_length=False, keeps_chunked=False) == [*headers]


def test_selected_fields_are_text() -> None:
    """Lower-case names, bytes as Latin-1, others left out."""
    head = Head([(b"X-A", b"\xe9"), (b"Authorization", b"Bearer sk"), (b"x-a", b"2")])
    assert head.select(frozenset({b"x-a"})) == (("x-a", "é"), ("x-a", "2"))


def test_fields_are_taken_out_whatever_their_case() -> None:
    """Every occurrence; the others keep their order."""
    head = Head([(b"A", b"1"), (b"Api-Key", b"x"), (b"b", b"2"), (b"API-KEY", b"y")])
    assert head.without(frozenset({b"api-key"})) == ((b"A", b"1"), (b"b", b"2"))
    assert head.without(frozenset()) == head


@given(st.lists(st.tuples(st.sampled_from([b"A", b"a", b"B", b"c"]), st.binary(max_size=2))))
def test_what_is_looked_up_is_what_a_search_finds(fields: Fields) -> None:
    """The first, all, and whether names repeat, beside going through the fields."""
    head = Head(fields)
    for name in (b"a", b"b", b"d"):
        values = [value for key, value in fields if key.lower() == name]
        assert head.find(name) == (values[0] if values else None)
        assert head.join(name) == (b",".join(values) if values else None)
    assert head.shape.has_repeated == (len({key.lower() for key, _ in fields}) < len(fields))


# What is remembered by the names of a head gives what going through its fields does.

HOP_BY_HOP = {b"connection", b"keep-alive", b"te", b"trailer", b"upgrade"}
HOP_BY_HOP |= {b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"}
FRAMING = {b"host", b"content-length", b"transfer-encoding"}
NAMES = [b"Host", b"Content-Length", b"Transfer-Encoding", b"Connection", b"TE", b"x-spantap-a"]
NAMES += [b"A", b"a", b"Digest", b"authorization", b"Traceparent", b"x-b"]
VALUES = st.sampled_from([b"", b"1", b"close", b"a, x-b", b"Keep-Alive, host", b"content-length"])
HEADS = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=9).filter(
    lambda fields: sum(name == b"Host" for name, _ in fields) < 2
)
REPLACED = st.dictionaries(
    st.sampled_from([b"authorization", b"traceparent", b"a"]),
    st.none() | st.just((b"New", b"value")),
)


def find_dropped(fields: Fields) -> set[bytes]:
    """The fields of this hop, one by one."""
    options = [value for name, value in fields if name.lower() == b"connection"]
    named = {option.strip().lower() for value in options for option in value.split(b",")}
    return HOP_BY_HOP | (named - FRAMING)


def relay_one_by_one(fields: Fields, changes: RequestChanges) -> Fields:
    """A request's fields, each looked at by itself."""
    waiting, relayed = dict(changes.replaced), []
    for name, value in fields:
        key = name.lower()
        if key in changes.replaced:
            if (pair := waiting.pop(key, None)) is not None:
                relayed.append(pair)
        elif key == b"host":
            relayed.append((name, changes.host))
        elif key == b"content-length" and changes.content_length is not None:
            relayed.append((name, b"%d" % changes.content_length))
        elif key not in find_dropped(fields) and not key.startswith(b"x-spantap-"):
            relayed.append((name, value))
    if not any(name.lower() == b"host" for name, _ in fields):
        relayed.insert(0, (b"Host", changes.host))
    return relayed + [pair for pair in waiting.values() if pair is not None]


@given(HEADS, REPLACED, st.none() | st.just(44))
def test_a_request_head_is_what_its_fields_give_one_by_one(
    fields: Fields, replaced: dict[bytes, tuple[bytes, bytes] | None], content_length: int | None
) -> None:
    """Whatever is repeated, named by ``Connection``, replaced or ours."""
    changes = RequestChanges(host=b"up", content_length=content_length, replaced=replaced)
    assert request_headers(Head(fields), changes) == relay_one_by_one(fields, changes)


@given(HEADS, st.booleans(), st.booleans())
def test_an_answer_head_is_what_its_fields_give_one_by_one(
    fields: Fields, keeps_length: bool, keeps_chunked: bool
) -> None:
    """The same for the way back."""
    dropped = find_dropped(fields)
    dropped |= set() if keeps_length else {b"content-length", b"digest"}
    dropped |= set() if keeps_chunked else {b"transfer-encoding"}
    relayed = [(name, value) for name, value in fields if name.lower() not in dropped]
    got = response_headers(Head(fields), keeps_length=keeps_length, keeps_chunked=keeps_chunked)
    assert got == relayed


@given(HEADS)
def test_fields_are_selected_as_one_by_one(fields: Fields) -> None:
    """By name and by the beginning of a name."""
    selected = tuple(
        (name.lower().decode(), value.decode())
        for name, value in fields
        if name.lower() in {b"a", b"digest"} or name.lower().startswith(b"x-")
    )
    assert Head(fields).select(frozenset({b"a", b"digest"}), (b"x-",)) == selected
