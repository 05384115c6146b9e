"""Bodies that are no chats, the same in every run: cut, mistyped, nested, doubled, noisy, none."""

from __future__ import annotations

import copy
import json
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("ODD_BYTES", "ODD_NUMBERS", "encode", "make_body", "odd_value", "spoil")

# fmt: off
_ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 2**63, 10**400, "", "x", "true", "0", "\ud800", "\0",
    [], {}, [[]], [{}], {"": {}}, [None],
)
ODD_NUMBERS = (
    b"1e999999", b"-0", b"1" * 5000, b"0.%b" % (b"1" * 3000), b"NaN", b"-Infinity", b"01",
)
"""Some of which are JSON."""
ODD_BYTES = (
    b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x00", b"\xef\xbb\xbf", b"\x1f\x8b",
)
"""None of which may stand in JSON: no UTF-8, a control character, signatures."""
_DOCUMENTS = (
    b"", b" ", b"\r\n\r\n", b"null", b"true", b"0", b'"chat"', b"[]", b"[{}]", b"{}",
    b"{", b"}", b"[", b'{"', b'{"model"', b'{"model":', b"{}{}", b"{},", b"{'a':1}",
    b"// no\n{}", b"\xef\xbb\xbf{}", '{"model":"m"}'.encode("utf-16"), b"model=m&stream=true",
    b"<xml/>", b"\x1f\x8b\x08\x00", b"-" * 9000,
)
_WORDS = ("hi ", "é", "🌊", '"', "\\", "\n", "x" * 50, "}", "]")
_DEPTHS = (10, 500, 513, 1000, 5000, 20_000)
# fmt: on


def make_body(number: int) -> bytes:
    """A body; each number makes one of its own."""
    dice = random.Random(f"body {number}")
    return _FAMILIES[number % len(_FAMILIES)](dice)


def encode(value: Any) -> bytes:
    """As clients write JSON, short."""
    return json.dumps(value, separators=(",", ":")).encode()


def odd_value(dice: random.Random) -> Any:
    """A value of any type, for a member that wants another one."""
    return copy.deepcopy(dice.choice(_ODD_VALUES))


def spoil(dice: random.Random, data: bytes) -> bytes:
    """Some of its bytes turned into others."""
    spoiled = bytearray(data)
    for _ in range(dice.randrange(1, 12)):
        spoiled[dice.randrange(len(spoiled))] = dice.randrange(256)
    return bytes(spoiled)


def _chat(dice: random.Random) -> dict[str, Any]:
    """A right one, with its members in any order."""
    words = "".join(dice.choices(_WORDS, k=8))
    body: dict[str, Any] = {
        "model": dice.choice(("m-1", "gpt-4o")),
        "messages": [{"role": "user", "content": words} for _ in range(dice.randrange(1, 4))],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "temperature": dice.random(),
        "n": 1,
    }
    options = dice.choice((..., ..., None, {}, {"include_usage": False}, {"include_usage": True}))
    if options is not ...:
        body["stream_options"] = options
    if dice.random() < 0.6:
        body["stream"] = True
    return dict(dice.sample(list(body.items()), k=len(body)))


def _cut(dice: random.Random) -> bytes:
    whole = encode(_chat(dice))
    return whole[: dice.randrange(len(whole))]


def _mistype(dice: random.Random) -> bytes:
    body = _chat(dice)
    for name in dice.sample(sorted(body), k=dice.randrange(1, 4)):
        body[name] = odd_value(dice)
    messages = body["messages"]
    if isinstance(messages, list) and messages:
        messages[0] = dice.choice((messages[0], odd_value(dice), {"role": odd_value(dice)}))
    return encode(body)


def _nest(dice: random.Random) -> bytes:
    depth = dice.choice(_DEPTHS)
    opening, closing = dice.choice(((b"[", b"]"), (b'{"a":', b"}")))
    value = opening * depth + b"1" + closing * (depth - dice.choice((0, 0, 1)))
    return encode(_chat(dice))[:-1] + b',"deep":' + value + b"}"


def _double(dice: random.Random) -> bytes:
    body = _chat(dice)
    name = dice.choice(sorted(body))
    return encode(body)[:-1] + b"," + encode({name: odd_value(dice)})[1:]


def _insert(dice: random.Random) -> bytes:
    body = bytearray(encode(_chat(dice)))
    for _ in range(dice.randrange(1, 4)):
        place = dice.randrange(len(body))
        body[place:place] = dice.choice(ODD_BYTES)
    return bytes(body)


_FAMILIES: tuple[Callable[[random.Random], bytes], ...] = (
    _cut,
    _mistype,
    _nest,
    _double,
    _insert,
    lambda dice: encode(_chat(dice))[:-1] + b',"seed":%b}' % dice.choice(ODD_NUMBERS),
    lambda dice: spoil(dice, encode(_chat(dice))),
    lambda dice: dice.choice(_DOCUMENTS),
    lambda dice: dice.randbytes(dice.randrange(3000)),
)
