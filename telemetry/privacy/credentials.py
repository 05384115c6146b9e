r"""Masks the credentials of one call in everything that is recorded of it (R7).

Providers often quote the key that they refuse, or the URL with the key in it. The client gets the
provider's text unchanged.

A credential is masked as it is written, with escapes of JSON (``\/``, ``\u002b``, in however many
texts within texts) and of URLs (``%2B``), and in any mixture of them: text and credentials are
compared both as they are and without escapes. A text is searched for it only if it has the
:func:`_probe` of the credential, which no encoder escapes: that costs a call next to nothing. In a
provider's words of an error, and in ids, it is also found if letters are escaped.

The work is bounded: a text that takes more work is hidden whole. A provider's words are also hidden
whole if some credentials are not known.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from codec.text.jsontext import is_json
from telemetry.privacy.json_strings import REDACTED, looks_like_json, splice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MIN_CREDENTIAL_CHARS = 8
"""Shorter values are never masked: they are not keys, and masking them would garble words."""

MAX_CREDENTIALS = 32
"""Credentials of a head or a body. Each is searched for in all content; real requests have two or
three, and an attack thousands."""

MAX_LOOKED_CHARS = 64 * 1024 * 1024
"""The most characters of a provider's words, times the credentials that are searched for: a tenth
of a second."""

MAX_PIECES = 32
"""Pieces of a text that are searched without escapes: some ten milliseconds each. Real texts have a
credential in one or two."""

_TELLING_CHARS = 16
"""A text of this length is more than a word."""

_PROBE_CHARS = 4
"""A shorter probe would be found in any text."""

_PROBED_CHARS = 1_024
"""How much of a credential's beginning is searched for its probe: keys have some hundred
characters, and a credential of a megabyte must not cost more."""

_PIECE_CHARS = 64 * 1024
"""A piece that is searched without escapes; the place of each of its characters takes memory."""

_ESCAPE: Final = re.compile(
    r"\\*+%([0-9a-fA-F]{2})"
    # A run of backslashes: one more for each text that the text is in.
    r"|\\++(?:u([0-9a-fA-F]{4})|([^\\]))",
    re.DOTALL,
)
"""An escape, for one character. It is possessive and cannot fail behind a backslash, so it is
linear."""

_CONTROLS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

_ESCAPED_LETTER = re.compile(
    r"(?:\\u00|%)(?:3[0-9]|[46][1-9a-fA-F]|[57][0-9aA])|\\[^\Wbfnrtu_]", re.ASCII
)
"""No encoder writes this text."""

_PARTIAL_ESCAPE = re.compile(r"(?:\\+u[0-9a-fA-F]{0,3}|%[0-9a-fA-F]?)\Z")
_PARTIAL_ESCAPE_CHARS = 8

_REACH_CHARS = 1_024
"""Escapes within escapes take more than six characters; this leaves room for a few of them."""

_LETTERS = re.compile(r"[A-Za-z0-9]+")


class Credentials:
    """The credentials of one call. Immutable, and never shown.

    Args:
        values: all credentials.
        quoted: further credentials, which are masked only in a provider's words.
        telling: the values that distinguish callers; `values` if it is not given.
        too_many: there are more credentials than are searched for, so all text of the call is
            masked.
        unknown: some credentials cannot be read, so a provider's words are masked as a whole.
    """

    __slots__ = ("_all", "_probes", "_telling", "_too_many", "_unknown", "_values")

    def __init__(
        self,
        values: Iterable[str] = (),
        quoted: Iterable[str] = (),
        *,
        telling: Iterable[str] | None = None,
        too_many: bool = False,
        unknown: bool = False,
    ) -> None:
        self._values = tuple(dict.fromkeys(values))
        self._telling = self._values if telling is None else tuple(dict.fromkeys(telling))
        self._all = tuple(dict.fromkeys((*self._values, *quoted)))
        self._probes: tuple[str, ...] | None = None
        self._too_many = too_many
        self._unknown = unknown

    def __bool__(self) -> bool:
        """Tell whether there is anything to mask."""
        return bool(self._all) or self._too_many or self._unknown

    @property
    def are_known(self) -> bool:
        """Whether all credentials are known."""
        return not (self._too_many or self._unknown)

    @property
    def are_unreadable(self) -> bool:
        """Whether some credentials cannot be read, so the caller is not known."""
        return self._unknown

    def digest(self, key: bytes) -> bytes:
        """Make a digest of the values that distinguish callers, in any order."""
        made = blake2b(digest_size=16, key=key)
        for value in sorted(self._telling):
            made.update(blake2b(value.encode("utf-8", "surrogatepass"), key=key).digest())
        return made.digest()

    def joined(self, other: Credentials) -> Credentials:
        """Return the credentials of this call and of another one, together."""
        if not other:
            return self
        return Credentials(
            self._values + other._values,
            self._all + other._all,
            telling=self._telling + other._telling,
            too_many=self._too_many or other._too_many,
            unknown=self._unknown or other._unknown,
        )

    def without(self, word: str | None) -> Credentials:
        """Return all except a word that is shown anyway, unless a name says that it is secret."""
        if word not in self._all or word in self._values:
            return self
        quoted = (value for value in self._all if value != word)
        return Credentials(
            self._values,
            quoted,
            telling=self._telling,
            too_many=self._too_many,
            unknown=self._unknown,
        )

    def _find_probes(self) -> tuple[str, ...]:
        """The probes of the values, made when they are first needed; a worker never needs them."""
        if self._probes is None:
            self._probes = tuple({_probe(value) for value in self._values})
        return self._probes

    def may_be_in(self, written: bytes) -> bool:
        """Tell whether content may hold a credential: whether it has one of the probes."""
        return self._too_many or any(probe.encode() in written for probe in self._find_probes())

    def redact(self, text: str) -> str:
        """Mask every credential in a text, JSON or not; return the same object if it has none.

        Everything else stays as it was. A JSON text that a mask would break is hidden whole.
        """
        if self._too_many:
            return REDACTED
        probes = self._find_probes()
        for probe in probes:  # not a generator, because there are many short texts
            if probe in text:
                return _redact(text, self._values, probes)
        return text

    def redact_quote(self, text: str, *, is_whole: bool = True) -> str:
        """Mask every credential in a provider's words; return the same object if they have none.

        A text that is not whole may end within a credential: then an end that may be the beginning
        of a credential is left out.
        """
        if self._too_many or self._unknown or len(text) * len(self._all) > MAX_LOOKED_CHARS:
            return REDACTED if text else text
        if not self._all:
            return text
        has_escapes = "\\" in text or "%" in text
        shows_probes = has_escapes and not _ESCAPED_LETTER.search(text)
        probes = {_probe(value) for value in self._all} if shows_probes else None
        redacted = _redact(text, self._all, probes)
        return redacted if is_whole else _without_begun(redacted, self._all)

    def redact_name(self, name: str) -> str:
        """Mask the credentials in the name of a field, which is in lower case."""
        for value in self._values:
            name = name.replace(value.lower(), REDACTED)
        return name

    @property
    def reach(self) -> int:
        """The most characters that a credential takes in a text, with a few to spare."""
        return 6 * max(map(len, self._values), default=0) + _REACH_CHARS

    def measure_shown(self, text: str) -> int | None:
        """Measure how much may be shown of content that is still growing.

        An end that may be the beginning of a credential is not shown yet. ``None`` if the content
        has a credential, or if that cannot be decided.
        """
        if not self.are_known or self.redact(text) is not text:
            return None
        return len(_without_begun(text, self._values)) if self._values else len(text)

    def plain_values(self) -> tuple[bytes, ...]:
        """The values that may be masked in one piece of a text, without seeing the others.

        Such a mask is only a first step. It must not hide a part of a longer credential whose rest,
        still a secret, is in another piece: the rest would not be found any more.
        """
        looked_for = self._all[:MAX_CREDENTIALS]
        return tuple(
            value.encode("utf-8", "surrogatepass")  # JSON may hold half a character
            for value in looked_for
            if not any(
                value in longer and len(longer) - len(value) >= MIN_CREDENTIAL_CHARS
                for longer in looked_for
            )
        )


NO_CREDENTIALS = Credentials()


def is_telling(value: str) -> bool:
    """Tell whether a value has the form of a key and is not a word.

    A short value without a digit may be a word, and is not masked in content.
    """
    return len(value) >= _TELLING_CHARS or any(map(str.isdigit, value))


def _probe(value: str) -> str:
    """Find the longest part of a credential's beginning that no encoder escapes."""
    if len(value) > _PROBED_CHARS:
        value = _PARTIAL_ESCAPE.sub("", value[:_PROBED_CHARS])
    plain, _ = _unescape(value)
    runs: set[str] = {*_LETTERS.findall(value), *_LETTERS.findall(plain)}
    for run in sorted(runs, key=lambda run: (-len(run), run)):
        if len(run) < _PROBE_CHARS:
            break
        if run in value and run in plain:
            return run
    return ""


def _redact(text: str, values: Sequence[str], probes: Iterable[str] | None) -> str:
    found = [place for value in values for place in _find(text, value)]
    if "\\" in text or "%" in text:
        found += _find_escaped(text, values, probes)
    if not found:
        return text
    redacted = splice(text, _merge(sorted(found)))
    if looks_like_json(text) and not is_json(redacted) and is_json(text):
        return REDACTED  # a credential that was not a string
    return redacted


def _find(text: str, value: str) -> Iterator[tuple[int, int]]:
    """Find a credential; yield the start and end of each occurrence."""
    first = text.find(value)
    while first >= 0:
        yield first, first + len(value)
        first = text.find(value, first + len(value))


def _find_escaped(
    text: str, values: Sequence[str], probes: Iterable[str] | None
) -> Iterator[tuple[int, int]]:
    """Find credentials with any escapes; if a text takes too much work, all of it counts as found.

    Only pieces of the text with one of the probes are searched; without probes, all pieces.
    """
    plain_values = {_unescape(value)[0] for value in values}
    wanted = [plain for plain in plain_values if len(plain) >= MIN_CREDENTIAL_CHARS]
    overlap = 6 * max(map(len, values)) + _PIECE_CHARS // 64
    step = max(_PIECE_CHARS, overlap)
    pieces = 0
    for start in range(0, len(text), step):
        piece = text[start : start + step + overlap]
        if probes is not None and not any(probe in piece for probe in probes):
            continue
        if (pieces := pieces + 1) > MAX_PIECES:
            yield 0, len(text)
            return
        plain = _ESCAPE.sub(_unescape_one, piece.rstrip("\\"))  # as in `_unescape`, linear
        if found := [value for value in wanted if value in plain]:
            plain, places = _unescape(piece)
            for value in found:
                for first, last in _find(plain, value):
                    yield start + places[first], start + places[last]


def _merge(found: list[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
    """Merge places that overlap or touch, in their order, so that they get one mask."""
    start, end = found[0]
    for first, last in found:
        if first > end:
            yield start, end, REDACTED
            start, end = first, last
        end = max(end, last)
    yield start, end, REDACTED


def _without_begun(text: str, values: Sequence[str]) -> str:
    """Return a text without an end that may be the beginning of a credential."""
    text = text.rstrip("\\")
    text = text[:-_PARTIAL_ESCAPE_CHARS] + _PARTIAL_ESCAPE.sub("", text[-_PARTIAL_ESCAPE_CHARS:])
    longest = max(map(len, values))
    tail_start = max(0, len(text) - 6 * longest)
    plain, places = _unescape(text[tail_start:])
    end = len(plain)
    for wanted in {form for value in values for form in (value, _unescape(value)[0]) if form}:
        at = plain.find(wanted[0], max(0, len(plain) - len(wanted) + 1), end)
        while at >= 0:
            if wanted.startswith(plain[at:]):
                end = at
                break
            at = plain.find(wanted[0], at + 1, end)
    return text[: tail_start + places[end]]


def _unescape(text: str) -> tuple[str, Sequence[int]]:
    """Return a text without escapes, and where each character begins in the original.

    The last place is the end of the original.
    """
    if "\\" not in text and "%" not in text:
        return text, range(len(text) + 1)
    plain: list[str] = []
    places: list[int] = []
    done = 0
    # Backslashes at the end escape nothing.
    for escape in _ESCAPE.finditer(text, 0, len(text.rstrip("\\"))):
        start = escape.start()
        plain.append(text[done:start])
        places.extend(range(done, start + 1))
        plain.append(_unescape_one(escape))
        done = escape.end()
    plain.append(text[done:].rstrip("\\"))
    places.extend(range(done, len(text) + 1))
    return "".join(plain), places


def _unescape_one(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    return chr(int(code, 16)) if code else _CONTROLS.get(escape[3], escape[3])
