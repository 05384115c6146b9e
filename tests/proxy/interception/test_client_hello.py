"""The first message of real TLS clients, and of none."""

from __future__ import annotations

import ssl
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.interception.client_hello import (
    MAX_HELLO_BYTES,
    BadHello,
    ClientHello,
    NotTls,
    read_client_hello,
)


def real_hello(name: str | None, *protocols: str) -> bytes:
    """What OpenSSL says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = name is not None
    if protocols:
        context.set_alpn_protocols(protocols)
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def vector(size_bytes: int, data: bytes) -> bytes:
    return len(data).to_bytes(size_bytes) + data


def hello(*extensions: tuple[int, bytes], cut: int = 1 << 14) -> bytes:
    """A message with these extensions, in records of at most `cut` bytes."""
    body = b"\x03\x03" + bytes(32) + vector(1, b"") + vector(2, b"\x13\x01") + vector(1, b"\0")
    body += vector(2, b"".join(kind.to_bytes(2) + vector(2, value) for kind, value in extensions))
    message = b"\x01" + vector(3, body)
    pieces = [message[place : place + cut] for place in range(0, len(message), cut)]
    return b"".join(b"\x16\x03\x01" + vector(2, piece) for piece in pieces)


def named(*names: bytes) -> tuple[int, bytes]:
    return 0, vector(2, b"".join(b"\0" + vector(2, name) for name in names))


@pytest.mark.parametrize("name", ["api.model.test", None])
@pytest.mark.parametrize("protocols", [(), ("h2",), ("h2", "http/1.1")])
def test_a_real_client_is_understood(name: str | None, protocols: tuple[str, ...]) -> None:
    expected = ClientHello(name, tuple(protocol.encode() for protocol in protocols))
    assert read_client_hello(real_hello(name, *protocols)) == expected
    assert read_client_hello(real_hello(name, *protocols) + b"more") == expected


def test_it_is_waited_for_until_it_is_whole() -> None:
    """At every byte, also if it is cut into several records."""
    for data in (real_hello("api.model.test"), hello(named(b"a.test"), cut=30)):
        for size in range(len(data)):
            assert read_client_hello(data[:size]) is None
        assert read_client_hello(data) is not None


def test_names_are_compared_in_lower_case_without_a_final_dot() -> None:
    assert read_client_hello(hello(named(b"Api.Model.TEST."))) == ClientHello("api.model.test", ())


@pytest.mark.parametrize(
    "data",
    [
        hello(named(b"a.test", b"b.test")),
        hello(named(b"")),
        hello(named(b"a.test"), named(b"a.test")),
        hello((0, b"\0\xff\0")),
        hello((16, vector(2, b"\x05h2"))),
        hello(cut=2),  # in too many records
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\x40\x01",
        b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00",
        b"\x16\x03\x01\x00\x04\x01\x00\x00\x01\x17\x03\x03\x00\x01\x00",
        b"\x16\x03\x01\x00\x04\x01\xff\xff\xff",
    ],
)
def test_an_invalid_message_is_refused(data: bytes) -> None:
    """Two names, a list that is cut short, too many records, another kind of record between."""
    with pytest.raises(BadHello):
        read_client_hello(data)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1", b"\x16\x04", b"\x80\x2e\x01", b"SSH-2.0"])
def test_what_is_not_tls_is_told_apart(data: bytes) -> None:
    with pytest.raises(NotTls):
        read_client_hello(data)


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda data: b"\x16\x03\x01" + data))
def test_any_bytes_end_in_an_answer(data: bytes) -> None:
    """Incomplete, not TLS or invalid; never another error."""
    with suppress(NotTls, BadHello):
        read_client_hello(data)


@given(st.data())
def test_a_damaged_message_ends_in_an_answer(data: st.DataObject) -> None:
    whole = bytearray(hello(named(b"api.model.test"), (16, vector(2, b"\x02h2\x08http/1.1"))))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(NotTls, BadHello):
        read_client_hello(bytes(whole))


@given(
    st.lists(st.binary(min_size=1, max_size=20), max_size=5),
    st.integers(min_value=40, max_value=400),
    st.lists(st.tuples(st.integers(17, 65535), st.binary(max_size=30)), max_size=4),
)
def test_protocols_are_found_between_other_extensions(
    protocols: list[bytes], cut: int, others: list[tuple[int, bytes]]
) -> None:
    others = list(dict(others).items())
    value = vector(2, b"".join(vector(1, name) for name in protocols))
    data = hello(*others[:2], (16, value), *others[2:], cut=cut)
    assert read_client_hello(data) == ClientHello(None, tuple(protocols))


def test_no_more_is_kept_than_a_message_may_have() -> None:
    """A client that never ends its message is refused at the limit."""
    endless = b"\x16\x03\x01\x40\x00\x01\x00\x7f\xfc" + bytes(1 << 14)
    data = endless[: 5 + (1 << 14)] * 3
    data = data[: MAX_HELLO_BYTES + 1]
    with pytest.raises(BadHello):
        read_client_hello(data)
