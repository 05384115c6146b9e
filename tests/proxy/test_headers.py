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
    assert head.has_repeated == (len({key.lower() for key, _ in fields}) < len(fields))
