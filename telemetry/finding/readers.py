"""Readers: they turn the value behind a key into a predicate.

Rules:

1. A known word may be written in either case, by a beginning that no other word has, and as a
   pattern. Other values (models, sessions, errors) are compared as they are.
2. A value that is not understood raises a :exc:`ValueError`. Its message follows the key's name and
   says what the key takes, or what may be meant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from telemetry.finding.patterns import read_pattern
from telemetry.finding.predicates import (
    Among,
    Begins,
    Compares,
    Like,
    Listed,
    OfLaunch,
    Predicate,
    Stem,
)
from telemetry.finding.quantities import Unit, read_quantity, read_time
from telemetry.launch_labels import clean_label, read_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo


@dataclass(frozen=True, slots=True)
class Asked:
    """The value behind a key, and what is needed to read times.

    Attributes:
        sign: between key and value: ``:``, ``=``, ``>``, ``>=``, ``<`` or ``<=``.
        value: the text with its escapes; not empty.
        now_ns: nanoseconds since the epoch.
        zone: the time zone for times without one.
    """

    sign: str
    value: str
    now_ns: int
    zone: tzinfo


Reader = Callable[[Asked], Predicate]
"""Makes a predicate, or raises :exc:`ValueError` (rule 2)."""

_OTHER_NAMES: Final = {"disconnected": "client_disconnected", "ok": "completed"}
"""Other words for a known word; they count only if no known word is written like them."""

_LONGEST_QUOTED = 40
"""The most characters of a wrong value that the error message repeats."""

_SIGNS = (">=", "<=", "=", ">", "<")


def read_text(asked: Asked) -> Predicate:
    """Read a pattern for a text that is compared as it is."""
    return Like(read_pattern(asked.value))


def read_stem(separators: str) -> Reader:
    """Make a reader of a name in lower case, its beginning up to a separator, or a pattern."""

    def read(asked: Asked) -> Predicate:
        pattern = read_pattern(asked.value.lower())
        return Like(pattern) if pattern.literal is None else Stem(pattern.literal, separators)

    return read


def read_id(asked: Asked) -> Predicate:
    """Read the beginning of an id; a star after it changes nothing."""
    pattern = read_pattern(asked.value)
    prefix = pattern.prefix if pattern.literal is None else pattern.literal
    if not prefix:
        raise ValueError("takes the beginning of an id")
    return Begins(prefix)


def read_launch(asked: Asked) -> Predicate:
    """Read the name of launches, its beginning, or the label of one launch."""
    pattern = read_pattern(asked.value)
    if pattern.literal is None:
        if pattern.prefix is None:
            raise ValueError("takes a name, or its beginning and `*`")
        return OfLaunch(pattern.prefix, is_prefix=True)
    label = clean_label(pattern.literal)
    _, _, number = label.partition("~~")
    return OfLaunch(read_name(label), number) if number else OfLaunch(pattern.literal)


def read_listed(separator: str) -> Reader:
    """Make a reader of patterns for one item of a list with that separator."""

    def read(asked: Asked) -> Predicate:
        pattern = read_pattern(asked.value)
        if any(separator in piece for piece in pattern.pieces):
            raise ValueError("takes one name")
        return Listed(pattern, separator)

    return read


def read_word(*known: str) -> Reader:
    """Make a reader of known words, which are stored as they are given here (rule 1)."""
    by_name = {word.lower(): word for word in known}

    def read(asked: Asked) -> Predicate:
        written = asked.value.lower().replace("-", "_")
        if written not in by_name and _OTHER_NAMES.get(written) in by_name:
            written = _OTHER_NAMES[written]
        pattern = read_pattern(written)
        if pattern.literal is None:
            found = [name for name in by_name if pattern.matches(name)]
            if found:
                return Among(str(pattern), tuple(by_name[name] for name in found))
        elif written in by_name:
            return Among(written, (by_name[written],))
        else:
            found = [name for name in by_name if name.startswith(written)]
            if len(found) == 1:
                return Among(found[0], (by_name[found[0]],))
        raise ValueError(_explain_word(asked.value, written, found, by_name))

    return read


def read_number(unit: Unit) -> Reader:
    """Make a reader of a quantity and its sign; ``tokens:>10`` is read, too."""

    def read(asked: Asked) -> Predicate:
        sign, value = asked.sign, asked.value
        if sign == ":" and unit is not Unit.FLAG:
            sign = next((one for one in _SIGNS if value.startswith(one)), sign)
            value = value.removeprefix(sign)
        return Compares("=" if sign == ":" else sign, read_quantity(value, unit), unit)

    return read


def read_time_bound(sign: str) -> Reader:
    """Make a reader of a time that is a bound for other times, as the sign says."""

    def read(asked: Asked) -> Predicate:
        return Compares(sign, read_time(asked.value, asked.now_ns, asked.zone), Unit.TIME)

    return read


def cut(text: str) -> str:
    """Cut a wrong value to the length that an error message repeats."""
    return text if len(text) <= _LONGEST_QUOTED else f"{text[:_LONGEST_QUOTED]}…"


def _explain_word(value: str, written: str, found: list[str], known: Iterable[str]) -> str:
    if found:
        return f"takes one word, and `{cut(value)}` can be {_list(found)}"
    if near := get_close_matches(written, known, n=1):
        return f"has no `{cut(value)}`; did you mean `{near[0]}`?"
    return f"has no `{cut(value)}`; it takes {_list(known)}"


def _list(words: Iterable[str]) -> str:
    *others, last = (f"`{word}`" for word in words)
    return f"{', '.join(others)} or {last}" if others else last
