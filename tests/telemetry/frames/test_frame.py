"""``telemetry.frames.frame``: the seam between relaying and observing."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.frames.ending import EndKind
from telemetry.frames.frame import (
    RECORDED_REQUEST_HEADERS,
    RECORDED_RESPONSE_HEADERS,
    Begin,
    End,
    Frame,
    RequestBody,
    ResponseData,
    ResponseHead,
    decode_frames,
    encode_frames,
)
from telemetry.span_identity import SpanIdentity

_NUMBERS = st.integers(0, 2**63 - 1)
_TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
_HEADERS = st.lists(st.tuples(_TEXT, _TEXT), max_size=3).map(tuple)
_IDENTITIES = st.builds(
    SpanIdentity,
    trace_id=st.text("0123456789abcdef", min_size=32, max_size=32),
    span_id=st.text("0123456789abcdef", min_size=16, max_size=16),
    parent_span_id=st.none() | _TEXT,
    trace_flags=st.integers(0, 3),
    trace_state=_TEXT,
    linked=st.none() | st.tuples(_TEXT, _TEXT),
)
_FRAMES: st.SearchStrategy[Frame] = st.one_of(
    st.builds(
        Begin,
        exchange=_NUMBERS,
        at_ns=_NUMBERS,
        identity=_IDENTITIES,
        endpoint=_TEXT,
        method=_TEXT,
        path=_TEXT,
        headers=_HEADERS,
        upstream=_TEXT,
        provider=st.none() | _TEXT,
        server_address=st.none() | _TEXT,
        server_port=st.none() | st.integers(1, 65535),
        on_disconnect=_TEXT,
    ),
    st.builds(RequestBody, exchange=_NUMBERS, data=st.none() | st.binary(), size_bytes=_NUMBERS),
    st.builds(
        ResponseHead,
        exchange=_NUMBERS,
        at_ns=_NUMBERS,
        status=st.integers(100, 999),
        headers=_HEADERS,
        resend_count=st.integers(0, 3),
        rewrites=st.lists(_TEXT, max_size=2).map(tuple),
        hides_usage=st.booleans(),
        usage_event_not_stripped=st.booleans(),
    ),
    st.builds(ResponseData, _NUMBERS, _NUMBERS, st.binary()),
    st.builds(
        End,
        exchange=_NUMBERS,
        at_ns=_NUMBERS,
        kind=st.sampled_from(EndKind),
        message=_TEXT,
        undelivered_reads=st.integers(0, 3),
        shed_bytes=_NUMBERS,
    ),
)


def _carried(frame: Frame) -> Frame:
    [decoded] = decode_frames(encode_frames([frame]))
    return decoded


@settings(deadline=None)
@given(frame=_FRAMES)
def test_a_frame_is_the_same_after_its_way_as_bytes(frame: Frame) -> None:
    """Every kind with every member comes back equal, and of the same type."""
    decoded = _carried(frame)
    assert decoded == frame
    assert type(decoded) is type(frame)
    if isinstance(decoded, End):
        assert type(decoded.kind) is EndKind


def test_there_are_five_kinds() -> None:
    """A sixth kind would need a place in the observer and in the strategy above."""
    tags = {kind.__struct_config__.tag for kind in (Begin, RequestBody, ResponseHead)}
    tags |= {kind.__struct_config__.tag for kind in (ResponseData, End)}
    assert tags == {"begin", "request_body", "response_head", "response_data", "end"}


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x91\x93\xa3bug\x01\x02", b"\x91\x91\xa3end", b"{}"]
)
def test_bytes_that_are_no_frame_are_refused(data: bytes) -> None:
    """Nothing, no MessagePack, an unknown kind, a frame without its members, JSON."""
    with pytest.raises(msgspec.MsgspecError):
        decode_frames(data)


def test_no_header_that_carries_a_credential_is_recorded() -> None:
    """Only these enter a frame (R7)."""
    recorded = RECORDED_REQUEST_HEADERS | RECORDED_RESPONSE_HEADERS
    secret = {b"authorization", b"api-key", b"x-api-key", b"cookie", b"set-cookie"}
    assert not recorded & (secret | {b"proxy-authorization", b"x-goog-api-key"})
    assert all(name == name.lower() for name in recorded)
