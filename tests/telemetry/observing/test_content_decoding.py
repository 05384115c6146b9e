"""``telemetry.observing.content_decoding``: bodies as their ``Content-Encoding`` says."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import brotli  # type: ignore[import-untyped]  # it has no stubs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.errors import LimitExceeded
from telemetry.observing import content_decoding
from telemetry.observing.content_decoding import ContentDecoder, UndecodableContent
from tests.telemetry.tap_frames import cut
from tests.zstd import compress_zstd, flush_zstd

if TYPE_CHECKING:
    from collections.abc import Callable

    Encode = Callable[[bytes], bytes]


def _raw_deflate(data: bytes) -> bytes:
    encoder = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return encoder.compress(data) + encoder.flush()


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
    "zstd": ("zstd", compress_zstd),
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


def _bytewise(name: str, encoded: bytes) -> tuple[bytes, type[Exception] | None]:
    decoded, error = _decode(name, *(encoded[at : at + 1] for at in range(len(encoded))))
    return decoded, type(error) if error is not None else None


@every_coding
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(3_000_000)], ids=len)
def test_what_was_encoded_is_decoded(name: str, encode: Encode, data: bytes) -> None:
    """Every coding by every name, nothing, a byte, a text, and more than one step of output."""
    assert _decode(name, encode(data)) == (data, None)


@every_coding
@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=200), at=st.lists(st.integers(0, 2**16), max_size=8))
def test_the_cuts_do_not_matter(name: str, encode: Encode, data: bytes, at: list[int]) -> None:
    """Any split of the encoded bytes, empty pieces included."""
    assert _decode(name, *cut(encode(data), at), b"") == (data, None)
    assert _bytewise(name, encode(data)) == (data, None)


@pytest.mark.parametrize(("name", "join"), [("gzip", gzip.compress), ("zstd", compress_zstd)])
def test_several_members_or_frames_are_one_body(name: str, join: Encode) -> None:
    """RFC 1952 and RFC 8878 let them follow one another, cut anywhere."""
    encoded = join(b"one, ") + join(b"") + join(b"two")
    assert _decode(name, encoded) == (b"one, two", None)
    assert _bytewise(name, encoded) == (b"one, two", None)


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
    events = (b"data: 1\n\n", b"data: 2\n\n")
    if name == "br":
        encoder = brotli.Compressor()
        parts = [encoder.process(event) + encoder.flush() for event in events]
    elif name == "zstd":
        parts = flush_zstd(*events)
    else:
        flate = zlib.compressobj(wbits=31 if name == "gzip" else 15)
        parts = [flate.compress(event) + flate.flush(zlib.Z_SYNC_FLUSH) for event in events]
    decoder = ContentDecoder(name)
    assert tuple(map(decoder.feed, parts)) == events
    assert decoder.error is None


@real_coding
def test_a_body_that_ends_early_decodes_as_far_as_it_came(name: str, encode: Encode) -> None:
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


@real_coding
@settings(max_examples=60, deadline=None)
@given(
    damage=st.tuples(st.integers(0, 2**16), st.integers(1, 255)),
    at=st.lists(st.integers(0, 2**16), max_size=4),
    count=st.sampled_from([1, 40, 400]),
)
def test_damage_shows_the_same_however_it_is_cut(
    name: str, encode: Encode, damage: tuple[int, int], at: list[int], count: int
) -> None:
    """One byte changed anywhere: what comes out, and whether there is an error, as byte by byte."""
    numbers = random.Random(count)
    text = b"".join(b"%x " % numbers.getrandbits(40) for _ in range(count))
    encoded = bytearray(encode(text))
    encoded[damage[0] % len(encoded)] ^= damage[1]
    decoded, error = _decode(name, *cut(bytes(encoded), at))
    assert (decoded, type(error) if error else None) == _bytewise(name, bytes(encoded))


@pytest.mark.parametrize(
    ("name", "encode", "begin"),
    [
        ("gzip", gzip.compress, b"\x1f\x8b\x08\xff"),
        ("zstd", compress_zstd, b"\x28\xb5\x2f\xfd\xff\xff\xff"),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_what_decoded_before_an_error_is_kept(
    name: str, encode: Encode, begin: bytes, together: bool
) -> None:
    """A second member that is none costs nothing of the first, be they of one read or of two."""
    first, second = encode(TEXT), begin + b"garbage, garbage"
    decoded, error = _decode(name, first + second) if together else _decode(name, first, second)
    assert decoded == TEXT
    assert isinstance(error, UndecodableContent)


def test_codings_on_top_of_one_another_keep_what_came_before_the_damage() -> None:
    """The inner one is damaged; the outer one has it all in one slice."""
    inner = gzip.compress(TEXT) + b"\x1f\x8b\x08\xff garbage"
    encoded = brotli.compress(inner)
    decoded, error = _decode("gzip, br", encoded)
    assert TEXT.startswith(decoded)
    assert isinstance(error, UndecodableContent)
    assert _bytewise("gzip, br", encoded) == (decoded, UndecodableContent)


@real_coding
@pytest.mark.parametrize("padding", [bytes(1), bytes(2000), b"garbage", b"\x1f\x8b", b"\x28\xb5?"])
def test_what_begins_no_member_is_passed_over(name: str, encode: Encode, padding: bytes) -> None:
    """However it is cut from the body, and however much more of it there is."""
    encoded = encode(TEXT) + padding
    assert _decode(name, encoded) == (TEXT, None)
    assert _decode(name, encoded[: -len(padding)], padding, b"more", encode(TEXT)) == (TEXT, None)
    assert _bytewise(name, encoded) == (TEXT, None)


def test_a_frame_that_zstd_skips_is_a_frame() -> None:
    """RFC 8878 section 3.1.2: before, between and after frames."""
    skipped = b"\x5e\x2a\x4d\x18\x03\0\0\0abc"
    encoded = skipped + compress_zstd(b"one, ") + skipped + compress_zstd(b"two") + skipped
    assert _decode("zstd", encoded) == (b"one, two", None)
    assert _bytewise("zstd", encoded) == (b"one, two", None)


def test_a_frame_with_too_large_a_window_is_refused_also_in_one_piece() -> None:
    """Else zstd would not look at the window of a frame that it gets whole."""
    frame = b"\x28\xb5\x2f\xfd\x40\x70\x00\x00" + b"\x03\x08\x00\x00"  # 16 MiB, 256 zeros
    assert _bytewise("zstd", frame) == (b"", UndecodableContent)
    decoded, error = _decode("zstd", frame)
    assert (decoded, type(error)) == (b"", UndecodableContent)


class _CountedMember:
    """A decoder whose work is counted: bytes that go in, and bytes that it copies at its end."""

    work = 0
    steps = 0

    def __init__(self, wbits: int) -> None:
        self._member = _decompressobj(wbits=wbits)

    def decompress(self, data: bytes) -> bytes:
        decoded = self._member.decompress(data)
        _CountedMember.steps += 1
        _CountedMember.work += len(data) + len(self._member.unused_data)
        return decoded

    @property
    def eof(self) -> bool:
        return self._member.eof

    @property
    def unused_data(self) -> bytes:
        return self._member.unused_data


_decompressobj = zlib.decompressobj


@pytest.mark.parametrize("size", [250_000, 1_000_000])
def test_a_body_of_empty_members_is_linear_work(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each copies what follows it, which must not be the rest of the body."""
    monkeypatch.setattr(zlib, "decompressobj", _CountedMember)
    monkeypatch.setattr(_CountedMember, "work", 0)
    member = gzip.compress(b"")
    encoded = member * (size // len(member))
    assert _decode("gzip", encoded) == (b"", None)
    assert _CountedMember.work < 20 * len(encoded)


def test_one_member_is_decoded_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs as much as some hundred bytes: of a usual body one takes a kilobyte at least."""
    text = random.Random(0).randbytes(100_000)
    monkeypatch.setattr(zlib, "decompressobj", _CountedMember)
    monkeypatch.setattr(_CountedMember, "steps", 0)
    assert _decode("gzip", gzip.compress(text)) == (text, None)
    assert _CountedMember.steps < 100


@pytest.mark.parametrize(("name", "encode"), [("gzip", gzip.compress), ("zstd", compress_zstd)])
def test_the_number_of_members_is_bounded(
    name: str, encode: Encode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as the limit come out, one more is an error."""
    monkeypatch.setattr(content_decoding, "MAX_MEMBERS", 3)
    assert _decode(name, encode(b"x") * 3) == (b"xxx", None)
    decoded, error = _decode(name, encode(b"x") * 4)
    assert (decoded, type(error)) == (b"xxx", UndecodableContent)


def test_the_encoded_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are kept until the end, because no read decodes alone; what came before comes out."""
    encoded = gzip.compress(TEXT)
    monkeypatch.setattr(content_decoding, "MAX_ENCODED_BYTES", len(encoded))
    assert _decode("gzip", encoded) == (TEXT, None)
    for pieces in ((encoded + b"\0",), (encoded[:9], encoded[9:], b"\0")):
        decoded, error = _decode("gzip", *pieces)
        assert isinstance(error, LimitExceeded)
        assert (decoded, error.limit) == (TEXT, "MAX_ENCODED_BYTES")


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
def test_a_bomb_is_given_up_at_the_limit(
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


@pytest.mark.parametrize(("name", "make"), BOMBS.values(), ids=BOMBS)
def test_one_read_comes_out_in_pieces(name: str, make: Callable[[], bytes]) -> None:
    """Who reads them one after the other never holds all of it."""
    sizes = [*map(len, ContentDecoder(name).decode(make()))]
    assert sum(sizes) >= 40 << 20
    assert max(sizes) <= 8 << 20


def test_the_limit_holds_for_a_coding_whose_output_another_swallows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A gzip header's name may be endless: nothing would come out of the last coding."""
    monkeypatch.setattr(content_decoding, "MAX_DECODED_BYTES", 1 << 20)
    inner = b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * (2 << 20)
    decoded, error = _decode("gzip, br", brotli.compress(inner))
    assert (decoded, type(error)) == (b"", LimitExceeded)


def test_exactly_the_limit_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
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
