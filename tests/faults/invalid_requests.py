"""Messages that are not valid HTTP, the same in every run (RFC 9112).

See ``docs/contract/promises.md#r3``.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("SECRET", "make_invalid_request")

SECRET = b"sk-secret-1234567890"
"""In most of them; in no answer, no log line (R7)."""

_CHUNKED = b"Transfer-Encoding: chunked"
_LINE = b"POST /v1/chat/completions HTTP/1.1"
_TOKEN = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def make_invalid_request(number: int) -> bytes:
    """A message that no valid request begins with; each number makes one of its own."""
    dice = random.Random(f"request {number}")
    return _FAMILIES[number % len(_FAMILIES)](dice)


def _head(*lines: bytes, line: bytes = _LINE) -> bytes:
    return b"\r\n".join([line, b"Host: c", b"Authorization: Bearer " + SECRET, *lines, b"", b""])


def _name(dice: random.Random) -> bytes:
    return b"X-" + bytes(dice.choices(_TOKEN, k=dice.randrange(1, 20)))


def _noise(dice: random.Random, most: int) -> bytes:
    return dice.randbytes(dice.randrange(1, most))


def _field(dice: random.Random, field: bytes) -> bytes:
    """A head with a wrong field somewhere among right ones."""
    fields = [b"%b: %d" % (_name(dice), dice.randrange(100)) for _ in range(dice.randrange(6))]
    fields.insert(dice.randrange(len(fields) + 1), field)
    return _head(*fields, b"Content-Length: 0")


def _chunks(dice: random.Random, broken: bytes) -> bytes:
    """Some chunks that are right, and one that is not."""
    pieces = [_noise(dice, 40) for _ in range(dice.randrange(4))]
    right = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return _head(_CHUNKED) + right + broken


def _lengths(dice: random.Random) -> bytes:
    """Framing that can be read in two ways: what smuggling is made of."""
    length = b"Content-Length: %d" % dice.randrange(9)
    pairs = ((length, _CHUNKED), (_CHUNKED, length), (length, b"content-length: 9"))
    return _head(*dice.choice(pairs)) + b"0\r\n\r\n"


# fmt: off
_CONTROLS = [bytes([code]) for code in (*range(9), 11, 12, *range(14, 32), 127)]
_NO_SIZES = (
    b"zz", b"+2", b"-1", b"0x2", b"2 ", b" 2", b"", b"f" * 17, b"2;", b"2;a\nb", b"2;a\x01",
)
_NO_LENGTHS = (
    b"+2", b"-2", b"0x2", b"", b"2, 2", b"2,3", b"2 2", b"9" * 25, b"two", b"2.0", b"1e3",
)
_VERSIONS = (
    b"HTTP/0.9", b"HTTP/1.2", b"HTTP/2.0", b"HTTP/9", b"http/1.1", b"HTTP/1.1.1", b"ICY/1.0",
)
_ENCODINGS = (
    b"gzip", b"identity", b"chunked, chunked", b"chunked, gzip", b"xchunked", b"gzip, chunked",
)
_NOT_NAMES = (b": 1", SECRET, b":", b"=1", b"X A: 1", b"X : 1", b"X\t: 1", b"X(: 1", b'X": 1')
_TARGETS = (b"v1", b"*", b"?a", b".", b"http://h/v1/chat/completions", b"https://h", b"ftp://h/")
_UPGRADES = (b"websocket", b"WebSocket", b"h2c, websocket")
# fmt: on

_FAMILIES: tuple[Callable[[random.Random], bytes], ...] = (
    # no HTTP at all
    lambda dice: b"\x00" + _noise(dice, 200) + b"\r\n\r\n",
    lambda dice: b"\x16\x03\x01" + dice.randbytes(dice.randrange(50, 300)) + b"\r\n\r\n",
    lambda dice: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _noise(dice, 40),
    lambda dice: b"HTTP/1.1 %d OK\r\nContent-Length: 0\r\n\r\n" % dice.randrange(100, 600),
    lambda dice: b"GET /%d HTTP/1.1\nHost: c\n\n" % dice.randrange(99),
    # request lines
    lambda dice: _head(line=b"%b / HTTP/1.1" % bytes(dice.choices(_TOKEN, k=12)).lower()),
    lambda dice: _head(line=b"GET / %b" % dice.choice(_VERSIONS)),
    lambda dice: _head(line=b"GET /a%bb HTTP/1.1" % dice.choice((b" ", b"\t", *_CONTROLS))),
    lambda dice: _head(line=b"GET /%b HTTP/1.1" % bytes([dice.randrange(128, 256)])),
    lambda dice: _head(line=b"GET %b HTTP/1.1" % dice.choice(_TARGETS)),
    lambda dice: _head(line=b"GET /%b HTTP/1.1" % (b"a" * dice.randrange(70_000, 90_000))),
    lambda dice: b"CONNECT h:%d HTTP/1.1\r\nHost: c\r\n\r\n" % dice.randrange(1, 65536),
    # fields
    lambda dice: b"GET /%d HTTP/1.1\r\nX-A: 1\r\n\r\n" % dice.randrange(99),  # no Host
    lambda dice: _field(dice, dice.choice((b"Host: d", b"host: c", b"HOST: d"))),
    lambda dice: _field(dice, b"%b: 1\r\n %b" % (_name(dice), SECRET)),
    lambda dice: _field(dice, b"%b: a%bb" % (_name(dice), dice.choice(_CONTROLS))),
    lambda dice: _field(dice, b"%b: a%bX-B: c" % (_name(dice), dice.choice((b"\r", b"\n")))),
    lambda dice: _field(dice, b"X-%b: 1" % bytes([dice.randrange(128, 256)])),
    lambda dice: _field(dice, dice.choice(_NOT_NAMES)),
    lambda dice: _field(dice, b"Connection: Upgrade\r\nUpgrade: " + dice.choice(_UPGRADES)),
    lambda dice: _field(dice, b"%b: %b" % (_name(dice), b"a" * dice.randrange(70_000, 90_000))),
    lambda dice: _head(*[b"%b: 1" % _name(dice)] * dice.randrange(260, 400)),
    # framing
    _lengths,
    lambda dice: _field(dice, b"Content-Length: " + dice.choice(_NO_LENGTHS)),
    lambda dice: _head(b"Transfer-Encoding: " + dice.choice(_ENCODINGS)) + b"0\r\n\r\n",
    lambda dice: _head(_CHUNKED, line=b"POST / HTTP/1.0") + b"%x\r\n" % dice.randrange(99),
    lambda dice: _chunks(dice, b"%b\r\n{}\r\n0\r\n\r\n" % dice.choice(_NO_SIZES)),
    lambda dice: _chunks(dice, b"%x\r\n{}\r\n0\r\n\r\n" % dice.choice((1, 3, 5))),
)
"""Every member of each is refused, whatever chance adds."""
