"""``telemetry.content_decoding``: bodies as their ``Content-Encoding`` says."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import brotli  # type: ignore[import-untyped]  # it has no stubs
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.errors import LimitExceeded
from telemetry import content_decoding
from telemetry.content_decoding import ContentDecoder, UndecodableContent
from tests.telemetry.tap_frames import cut

if TYPE_CHECKING:
    from collections.abc import Callable

    Encode = Callable[[bytes], bytes]


def _raw_deflate(data: bytes) -> bytes:
    encoder = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return encoder.compress(data) + encoder.flush()


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def _stacked(data: bytes) -> bytes:
    encoded: bytes = brotli.compress(gzip.compress(zlib.compress(data)))
    return encoded


CODINGS: dict[str, tuple[str, Encode]] = {
    "none": ("", bytes),
    "identity": ("identity", bytes),
    "gzip": ("gzip", gzip.compress),
    "x-gzip, in capitals": (" X-GZIP ", gzip.compress),
    "zlib": ("deflate", zlib.compress),
    "raw deflate": ("deflate", _raw_deflate),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", _zstd),
    "three codings": ("deflate, identity,gzip , br", _stacked),
}
TEXT = b"".join(b'data: {"n":%d}\n\n' % number for number in range(500))
every_coding = pytest.mark.parametrize(("name", "encode"), CODINGS.values(), ids=CODINGS)
real_coding = pytest.mark.parametrize(
    ("name", "encode"), list(CODINGS.values())[2:], ids=list(CODINGS)[2:]
)


def _decode(name: str, *pieces: bytes) -> tuple[bytes, Exception | None]:
    decoder = ContentDecoder(name)
    return b"".join([decoder.feed(piece) for piece in pieces]), decoder.error


@every_coding
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(3_000_000)], ids=len)
def test_what_was_encoded_is_decoded(name: str, encode: Encode, data: bytes) -> None:
    """Every coding by every name, nothing, a byte, a text, and more than one step of output."""
    assert _decode(name, encode(data)) == (data, None)


@every_coding
@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=200), at=st.lists(st.integers(0, 2**16), max_size=8))
def test_rule_2_the_cuts_do_not_matter(
    name: str, encode: Encode, data: bytes, at: list[int]
) -> None:
    """Any split of the encoded bytes, empty pieces included."""
    assert _decode(name, *cut(encode(data), at), b"") == (data, None)
    encoded = encode(data)
    assert _decode(name, *(encoded[at : at + 1] for at in range(len(encoded)))) == (data, None)


@pytest.mark.parametrize(
    ("name", "join"),
    [("gzip", gzip.compress), ("zstd", _zstd)],
)
def test_several_members_or_frames_are_one_body(name: str, join: Encode) -> None:
    """RFC 1952 and RFC 8878 let them follow one another, cut anywhere."""
    encoded = join(b"one, ") + join(b"") + join(b"two")
    assert _decode(name, encoded) == (b"one, two", None)
    assert _decode(name, *(encoded[at : at + 1] for at in range(len(encoded)))) == (
        b"one, two",
        None,
    )


@pytest.mark.parametrize(
    ("name", "encode"), [("deflate", _raw_deflate), ("gzip", lambda data: gzip.compress(data)[:-8])]
)
def test_what_a_step_leaves_inside_the_decoder_comes_out(name: str, encode: Encode) -> None:
    """All input is taken and the output full: zlib has more to say all the same."""
    for size in range(256 * 1024 + 15, 256 * 1024 + 40):
        assert _decode(name, encode(bytes(size))) == (bytes(size), None)


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_what_is_flushed_is_decoded_at_once(name: str) -> None:
    """A stream's events come out as they come in; its end need not be there."""
    if name == "br":
        encoder = brotli.Compressor()
        compress, flush = encoder.process, encoder.flush
    elif name == "zstd":
        stream = zstandard.ZstdCompressor().compressobj()
        compress, flush = stream.compress, lambda: stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    else:
        flate = zlib.compressobj(wbits=31 if name == "gzip" else 15)
        compress, flush = flate.compress, lambda: flate.flush(zlib.Z_SYNC_FLUSH)
    decoder = ContentDecoder(name)
    for text in (b"data: 1\n\n", b"data: 2\n\n"):
        assert decoder.feed(compress(text) + flush()) == text
    assert decoder.error is None


@real_coding
def test_rule_3_a_body_that_ends_early_decodes_as_far_as_it_came(name: str, encode: Encode) -> None:
    """Some of the text, from its beginning, and no error: the relay knows that it was cut."""
    encoded = encode(TEXT * 20)
    decoded, error = _decode(name, encoded[: len(encoded) * 3 // 4])
    assert error is None
    assert (TEXT * 20).startswith(decoded)
    assert len(decoded) < len(TEXT) * 20


@real_coding
@pytest.mark.parametrize("garbage", [b"\xff" * 64, b"this is plain text, not encoded at all"])
def test_what_is_not_encoded_is_an_error(name: str, encode: Encode, garbage: bytes) -> None:
    """It is kept as the reason, nothing is raised, and nothing comes out any more."""
    decoder = ContentDecoder(name)
    assert decoder.feed(garbage) == b""
    assert isinstance(decoder.error, UndecodableContent)
    assert decoder.feed(encode(TEXT)) == b""


@pytest.mark.parametrize(
    ("name", "encode"), [("gzip", gzip.compress), ("br", brotli.compress), ("zstd", _zstd)]
)
def test_rule_4_what_decoded_before_an_error_is_kept(name: str, encode: Encode) -> None:
    """Garbage after the end costs nothing of what was read before it."""
    decoded, error = _decode(name, encode(TEXT), b"garbage, garbage")
    assert decoded == TEXT
    assert isinstance(error, UndecodableContent)


def test_garbage_after_a_deflated_body_is_passed_over() -> None:
    """Nothing can follow it, so nothing is asked of what does."""
    assert _decode("deflate", zlib.compress(TEXT) + b"garbage", b"more") == (TEXT, None)


@settings(deadline=None)
@given(name=st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip,br"]), data=st.binary())
def test_no_bytes_make_it_raise(name: str, data: bytes) -> None:
    """Whatever is fed, the error is a value."""
    decoder = ContentDecoder(name)
    decoder.feed(data)
    assert decoder.error is None or isinstance(decoder.error, UndecodableContent)


def _endless_zstd() -> bytes:
    """A frame of 160 MiB of zeros in blocks of four bytes (RFC 8878, 3.1.1.2)."""
    size = 128 * 1024
    block = ((size << 3) | 0b010).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd" + b"\x00\x38" + block * 1280


BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "gzip": ("gzip", lambda: gzip.compress(bytes(40 << 20))),
    "deflate": ("deflate", lambda: zlib.compress(bytes(40 << 20))),
    "br": ("br", lambda: brotli.compress(bytes(40 << 20), quality=5)),
    "zstd": ("zstd", _endless_zstd),
    "gzip in gzip": ("gzip, gzip", lambda: gzip.compress(gzip.compress(bytes(40 << 20)))),
}


@pytest.mark.parametrize(("name", "make"), BOMBS.values(), ids=BOMBS)
def test_rule_1_a_bomb_is_given_up_at_the_limit(
    name: str, make: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came before the limit comes out, to the byte, and memory stays near it."""
    limit = 1 << 20
    monkeypatch.setattr(content_decoding, "MAX_DECODED_BYTES", limit)
    bomb = make()
    tracemalloc.start()
    try:
        decoded, error = _decode(name, bomb, b"more")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(error, LimitExceeded)
    assert (error.limit, error.limit_bytes) == ("MAX_DECODED_BYTES", limit)
    assert decoded == bytes(limit)
    assert peak < 24 << 20  # zstd's step is the largest


def test_rule_1_the_limit_holds_for_a_coding_whose_output_another_swallows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A gzip header's name may be endless: nothing would come out of the last coding."""
    monkeypatch.setattr(content_decoding, "MAX_DECODED_BYTES", 1 << 20)
    inner = b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * (2 << 20)
    decoded, error = _decode("gzip, br", brotli.compress(inner))
    assert (decoded, type(error)) == (b"", LimitExceeded)


def test_rule_1_exactly_the_limit_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte more is not."""
    monkeypatch.setattr(content_decoding, "MAX_DECODED_BYTES", 1000)
    assert _decode("gzip", gzip.compress(bytes(1000))) == (bytes(1000), None)
    decoded, error = _decode("gzip", gzip.compress(bytes(1001)))
    assert (decoded, type(error)) == (bytes(1000), LimitExceeded)


@pytest.mark.parametrize("name", ["compress", "gzip;q=1", "gzip, aws-chunked", "br" * 5000])
def test_an_unknown_coding_is_refused(name: str) -> None:
    """Nothing can be decoded then."""
    with pytest.raises(UndecodableContent, match="unknown content coding"):
        ContentDecoder(name)


def test_more_codings_than_the_limit_are_refused() -> None:
    """Four are allowed, the fifth is not."""
    assert ContentDecoder("gzip," * 4).error is None
    with pytest.raises(UndecodableContent, match="too many"):
        ContentDecoder("gzip," * 5)
