"""Finds the members of a JSON object in its bytes, without parsing the rest.

The rewriter needs the place of two or three members of a body that may hold 20 MB of images.
Parsing it whole would block the interpreter for many milliseconds. So the body is scanned piece by
piece as it arrives, and only its outer structure is followed
(``docs/contract/promises.md#scanning``).

Rules:

1. Offsets count from the first byte of the body, however it was cut into pieces.
2. The state is a few numbers, one bracket for each level and the head of one key, whatever is fed
   (R5). The work is linear in the bytes: ``bytes.find`` passes long strings, and
   :mod:`codec.text.nesting` passes everything else in a value. Its pieces grow as long as they
   pass, and shrink to the byte that does not pass, which is then judged.
3. This is not a validator: strings and brackets inside a member's value are followed, not checked.
   But if the body cannot be followed with certainty, there is a :class:`Problem`: white space
   beyond JSON's, a comment, a bracket without its partner, a byte order mark, a second document.
4. Keys are compared as JSON strings: an escaped spelling of a name is that name (RFC 8259 8.3).
5. A member that occurs twice is counted twice, and its last place is kept, as most parsers do.
6. If a body is there as a whole, the parser finds its members, and their texts show the places. If
   that leaves a doubt, or the parser refuses the body, it is followed as all others are.
"""

from __future__ import annotations

import codecs
import re
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from codec.text.jsontext import decode_json, split_object
from codec.text.nesting import CLOSERS, MAX_DEPTH, Ending, is_shallow, pass_over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from codec.text.blocks import Blocks

__all__ = (
    "MAX_MEMBERS",
    "MAX_PIECE_BYTES",
    "MAX_WHOLE_BYTES",
    "BodyScan",
    "Member",
    "Problem",
    "RequestScanner",
    "scan_parsed",
    "scan_request",
)

MAX_PIECE_BYTES = 16 * 1024
"""Largest piece of a value that is passed over at once: a byte of larger ones costs no less."""

MAX_WHOLE_BYTES = 64 * 1024
"""Largest body that the parser reads, usually in 0.2 ms, at worst in a millisecond. Most chats
without images are smaller."""

MAX_MEMBERS = 256
"""The most members of the object itself, each of which costs some microseconds; a chat request has
less than 100."""

_BYTES_PER_ESCAPE = 6
"""``\\u0061``: the longest way to write one character of a name."""

_TO_NON_SPACE = re.compile(rb"[^ \t\n\r]").search
_TO_SCALAR_END = re.compile(rb"[^-+.0-9A-Za-z]").search
# The groups below repeat a bounded number of times, because each repetition costs memory. They are
# not possessive, because Python before 3.11.5 gets those wrong (cpython gh-106052).
_OVER_ESCAPES = re.compile(rb"(?:[^\"\\]*+\\.){1,256}", re.DOTALL).match
_TO_QUOTE_OR_BACKSLASH = re.compile(rb"[\"\\]").search

_TO_VALUE = re.compile(rb'[ \t\n\r]*[{,][ \t\n\r]*"([^"\\]*)"[ \t\n\r]*:[ \t\n\r]*').match
_TO_END = re.compile(rb"[ \t\n\r]*}").match

_Utf8Decoder = codecs.getincrementaldecoder("utf-8")

_QUOTE, _BACKSLASH, _COLON, _COMMA = b'"\\:,'


class Problem(StrEnum):
    """The reason why nothing can be said about the places in a body."""

    NOT_UTF8 = "not_utf8"
    NOT_AN_OBJECT = "not_an_object"
    MALFORMED = "malformed"
    NESTED_TOO_DEEPLY = "nested_too_deeply"
    TOO_MANY_MEMBERS = "too_many_members"
    TRUNCATED = "truncated"


class Member(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The place of one member's value.

    Attributes:
        start: offset of its first byte.
        end: offset past its last byte.
        count: how often the member occurs; the place is that of the last one.
    """

    start: int
    end: int
    count: int = 1


class BodyScan(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of a scan.

    Attributes:
        problem: why the body cannot be followed; the rest then means nothing.
        empty: the object has no member at all.
        members: the members that were asked for and occur, by name.
    """

    problem: Problem | None = None
    empty: bool = True
    members: dict[str, Member] = msgspec.field(default_factory=dict)

    def value(self, body: bytes | Blocks, name: str, max_bytes: int | None = None) -> bytes | None:
        """The JSON text of a member's value; ``None`` if it is absent.

        Args:
            body: the bytes that were scanned.
            name: one of the names that were asked for.
            max_bytes: how many bytes are copied at most; the rest is cut off.
        """
        member = self.members.get(name)
        if member is None:
            return None
        end = member.end if max_bytes is None else min(member.end, member.start + max_bytes)
        return body[member.start : end]


class RequestScanner:
    """Scans one JSON object, fed in pieces of any size. Nothing is raised."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._max_key_bytes = _BYTES_PER_ESCAPE * max(map(len, self._names)) + len('""')
        self._step: Callable[[RequestScanner, bytes, int], int] = RequestScanner._before_object
        self._utf8 = _Utf8Decoder()
        self._problem: Problem | None = None
        self._members: dict[str, Member] = {}
        self._member_count = 0
        self._offset = 0
        self._key = bytearray()
        self._value_start = 0
        self._closers = bytearray()
        self._escaped = False
        self._reach = 1

    def feed(self, data: bytes) -> None:
        """Scan the next piece."""
        if self._problem is None:
            self._check_utf8(data)
        position = 0
        while position < len(data) and self._problem is None:
            position = self._step(self, data, position)
        self._offset += len(data)

    def finish(self) -> BodyScan:
        """Return what was found, after all of the body was fed."""
        problem = self._problem
        if problem is None and self._step is not RequestScanner._after_object:
            problem = Problem.TRUNCATED
        if problem is not None:
            return BodyScan(problem=problem)
        return BodyScan(empty=not self._member_count, members=dict(self._members))

    def _check_utf8(self, data: bytes) -> None:
        # Most bodies are ASCII, which is checked at memory speed.
        if data.isascii() and not self._utf8.getstate()[0]:
            return
        try:
            self._utf8.decode(data)
        except UnicodeDecodeError:
            self._problem = Problem.NOT_UTF8

    # Each step takes a piece and the position of an unread byte, and returns up to where it read:
    # past the end of what it is about, or the end of the piece.

    def _before_object(self, data: bytes, position: int) -> int:
        found = _TO_NON_SPACE(data, position)
        if found is None:
            return len(data)
        if data[found.start()] != ord("{"):
            return self._fail(Problem.NOT_AN_OBJECT, data)
        self._step = RequestScanner._before_key
        return found.end()

    def _before_key(self, data: bytes, position: int) -> int:
        found = _TO_NON_SPACE(data, position)
        if found is None:
            return len(data)
        byte = data[found.start()]
        if byte == _QUOTE:
            self._member_count += 1
            self._key[:] = b'"'
            self._step = RequestScanner._in_key
        elif byte == ord("}") and not self._member_count:
            self._step = RequestScanner._after_object
        else:
            return self._fail(Problem.MALFORMED, data)
        return found.end()

    def _in_key(self, data: bytes, position: int) -> int:
        end = self._find_string_end(data, position)
        # One byte beyond the longest spelling is kept: such a key then equals no name.
        room = self._max_key_bytes + 1 - len(self._key)
        self._key += data[position : min(end or len(data), position + room)]
        if not end:
            return len(data)
        self._step = RequestScanner._before_colon
        return end

    def _before_colon(self, data: bytes, position: int) -> int:
        found = _TO_NON_SPACE(data, position)
        if found is None:
            return len(data)
        if data[found.start()] != _COLON:
            return self._fail(Problem.MALFORMED, data)
        self._step = RequestScanner._before_value
        return found.end()

    def _before_value(self, data: bytes, position: int) -> int:
        found = _TO_NON_SPACE(data, position)
        if found is None:
            return len(data)
        start = found.start()
        byte = data[start]
        self._value_start = self._offset + start
        if byte == _QUOTE:
            self._step = RequestScanner._in_string
            return found.end()
        if byte in CLOSERS:
            self._closers.append(CLOSERS[byte])
            self._step = RequestScanner._in_container
            return found.end()
        if _TO_SCALAR_END(data, start, start + 1):
            return self._fail(Problem.MALFORMED, data)
        self._step = RequestScanner._in_scalar
        return found.end()

    def _in_scalar(self, data: bytes, position: int) -> int:
        found = _TO_SCALAR_END(data, position)
        return len(data) if found is None else self._end_value(data, found.start())

    def _in_string(self, data: bytes, position: int) -> int:
        end = self._find_string_end(data, position)
        return self._end_value(data, end) if end else len(data)

    def _in_container(self, data: bytes, position: int) -> int:
        reach = self._reach
        ending = pass_over(data[position : position + reach], self._closers)
        if ending is not None:
            self._reach = min(2 * reach, MAX_PIECE_BYTES)
            if ending is not Ending.OUTSIDE:
                self._escaped = ending is Ending.BEHIND_BACKSLASH
                self._step = RequestScanner._in_nested_string
            return min(position + reach, len(data))
        self._reach = max(reach // 2, 1)
        return position if reach > 1 else self._end_container(data, position)

    def _end_container(self, data: bytes, position: int) -> int:
        """Judge the one byte that could not be passed over."""
        byte = data[position]
        if byte in CLOSERS:
            return self._fail(Problem.NESTED_TOO_DEEPLY, data)
        if byte != self._closers.pop():
            return self._fail(Problem.MALFORMED, data)
        return self._end_value(data, position + 1)

    def _in_nested_string(self, data: bytes, position: int) -> int:
        end = self._find_string_end(data, position)
        if not end:
            return len(data)
        self._step = RequestScanner._in_container
        return end

    def _after_value(self, data: bytes, position: int) -> int:
        found = _TO_NON_SPACE(data, position)
        if found is None:
            return len(data)
        byte = data[found.start()]
        if self._member_count > MAX_MEMBERS:
            return self._fail(Problem.TOO_MANY_MEMBERS, data)
        if byte == _COMMA:
            self._step = RequestScanner._before_key
        elif byte == ord("}"):
            self._step = RequestScanner._after_object
        else:
            return self._fail(Problem.MALFORMED, data)
        return found.end()

    def _after_object(self, data: bytes, position: int) -> int:
        if _TO_NON_SPACE(data, position):
            return self._fail(Problem.MALFORMED, data)
        return len(data)

    def _fail(self, problem: Problem, data: bytes) -> int:
        self._problem = problem
        return len(data)

    def _end_value(self, data: bytes, end: int) -> int:
        self._step = RequestScanner._after_value
        name = self._key_name()
        if name is None:
            return self._fail(Problem.MALFORMED, data)
        if name in self._names:
            known = self._members.get(name)
            self._members[name] = Member(
                start=self._value_start,
                end=self._offset + end,
                count=1 if known is None else known.count + 1,
            )
        return end

    def _key_name(self) -> str | None:
        """The key just read: ``""`` if it is too long to matter, ``None`` if it is malformed."""
        if len(self._key) > self._max_key_bytes:
            return ""
        if b"\\" not in self._key:
            return self._key[1:-1].decode("utf-8", "replace")
        try:
            name = decode_json(bytes(self._key))
        except ValueError:
            return None
        return str(name)

    def _find_string_end(self, data: bytes, position: int) -> int:
        """Find the end of the string that ``position`` is inside of.

        Returns:
            The offset past its closing quote; 0 if the piece ends before it.
        """
        start = position + self._escaped  # a backslash of the last piece escapes the first byte
        self._escaped = False
        quote = data.find(_QUOTE, start)
        if quote == start or (quote > start and data[quote - 1] != _BACKSLASH):
            return quote + 1
        if quote < 0 and data.find(_BACKSLASH, start) < 0:
            return 0
        while escapes := _OVER_ESCAPES(data, start):
            start = escapes.end()
        found = _TO_QUOTE_OR_BACKSLASH(data, start)
        if found is None:
            return 0
        self._escaped = data[found.start()] == _BACKSLASH
        return 0 if self._escaped else found.end()


def scan_request(body: bytes, names: frozenset[str]) -> BodyScan:
    """Scan one JSON object that is there as a whole, for members of these names (rule 6)."""
    scan = scan_parsed(body, names)
    if scan is None:
        scanner = RequestScanner(names)
        scanner.feed(body)
        scan = scanner.finish()
    return scan


def scan_parsed(body: bytes, names: frozenset[str]) -> BodyScan | None:
    """Scan a body with the parser; ``None`` if the body must be followed (rule 6)."""
    members = _find_members(body, names)
    return None if members is None else BodyScan(empty=b'"' not in body, members=members)


def _find_members(body: bytes, names: frozenset[str]) -> dict[str, Member] | None:
    """Find members by the texts of all values; ``None`` if the body must be followed.

    The texts stand one after the other behind their names, up to the end of the body. A name that
    comes twice, with an escape in it or not, has only one text here, so the other one's place does
    not fit.
    """
    if not (body.startswith(b"{") and body.endswith(b"}")) or len(body) > MAX_WHOLE_BYTES:
        return None
    try:
        _ = body.isascii() or body.decode()  # the parser does not check that
        texts = split_object(body)
    except ValueError:
        return None
    if len(texts) > MAX_MEMBERS:
        return None  # to be followed up to the first that is too many
    members = {}
    end = 0
    for name, text in texts.items():
        value = _TO_VALUE(body, end)
        if value is None or value[1] != name.encode():
            return None
        start = value.end()
        if not body.startswith(text, start):
            return None
        end = start + len(text)
        if len(text) > len("[]") * MAX_DEPTH and not _is_shallow(body, start, end):
            return None
        if name in names:
            members[name] = Member(start=start, end=end)
    return members if _TO_END(body, end) else None


def _is_shallow(body: bytes, start: int, end: int) -> bool:
    """Tell whether a long value that was parsed has at most :data:`MAX_DEPTH` brackets open."""
    brackets = body.count(b"[", start, end) + body.count(b"{", start, end)
    if brackets <= MAX_DEPTH or body[start] not in CLOSERS:
        return True  # nearly always, even with the brackets inside of strings
    return is_shallow(body[start:end])
