"""Reads and writes the numbers, durations and times of a filter.

Rules:

1. Every quantity except money is an integer, read without floating point: a count, or nanoseconds.
2. A duration has a unit. A time is a duration before now, a time of day (when it last occurred),
   ``today``, ``yesterday``, or an ISO 8601 date with or without a time.
3. A written quantity reads as the same value. Times are written in UTC.
4. Numbers fit into SQLite's 64 bits; a time that does not is moved to the nearest one that does.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import Enum
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo


class Unit(Enum):
    """The kind of a quantity."""

    COUNT = "a number, such as `5`, `1.5k` or `2M`"
    USD = "an amount in dollars, such as `0.05`"
    DURATION = "a duration with its unit, such as `5s`, `300ms` or `1h30m`"
    TIME = "a time: `2h` (ago), `14:03`, `today`, `2026-01-31` or `2026-01-31T14:03:00Z`"
    FLAG = "`yes` or `no`"


_MAX_INTEGER = (1 << 63) - 1

_SCALES = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}

_SECOND_NS = 1_000_000_000

_UNITS_NS = {
    "w": 7 * 86_400 * _SECOND_NS,
    "d": 86_400 * _SECOND_NS,
    "h": 3_600 * _SECOND_NS,
    "m": 60 * _SECOND_NS,
    "s": _SECOND_NS,
    "ms": 1_000_000,
    "us": 1_000,
    "µs": 1_000,
    "ns": 1,
}

_FLAGS = {"yes": 1, "true": 1, "1": 1, "no": 0, "false": 0, "0": 0}

_NUMBER = r"(?=\.?[0-9])([0-9]{0,20})(?:\.([0-9]{1,20}))?"
"""Whole part and fraction. The number of digits is limited, so that longer numbers are refused at
once."""

_COUNT = re.compile(rf"{_NUMBER}([kKmMgG]?)")
_USD = re.compile(r"\$?((?=\.?[0-9])[0-9]{0,20}(?:\.[0-9]{1,20})?(?:e[+-]?[0-9]{1,3})?)")
_DURATION_PART = re.compile(rf"{_NUMBER}(ms|us|µs|ns|[wdhms])")
_DURATION = re.compile(rf"(?:{_DURATION_PART.pattern})+")
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_DATE = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_quantity(text: str, unit: Unit) -> int | float:
    """Read a quantity of any unit but :attr:`Unit.TIME`.

    Raises:
        ValueError: the text is not a quantity; the message says what the key takes.
    """
    value = _READERS[unit](text)
    if value is None:
        raise ValueError(f"takes {unit.value}")
    if not isfinite(value) or (isinstance(value, int) and value > _MAX_INTEGER):
        raise ValueError("takes a smaller number")
    return value


def read_time(text: str, now_ns: int, zone: tzinfo) -> int:
    """Read a time as nanoseconds since the epoch (rule 2).

    Args:
        text: as it stands in the filter.
        now_ns: what durations count back from.
        zone: the time zone for times without one.

    Raises:
        ValueError: the text is not a time; the message says what the key takes.
    """
    if (duration := _read_duration(text)) is not None:
        return _clamp(now_ns - duration)
    try:
        moment, fraction = _read_moment(text, now_ns, zone)
    except (ValueError, OverflowError):  # such as the 30th of February
        raise ValueError(f"takes {Unit.TIME.value}") from None
    since = moment - _EPOCH
    return _clamp((since.days * 86_400 + since.seconds) * _SECOND_NS + fraction)


def write_quantity(value: float, unit: Unit) -> str:
    """Write a quantity so that it reads as the same (rule 3).

    >>> write_quantity(90_000_000_000, Unit.DURATION)
    '90s'
    """
    if unit is Unit.FLAG:
        return "yes" if value else "no"
    if not isinstance(value, int):
        return repr(value)
    if unit is Unit.DURATION:
        name = next(name for name, size in _UNITS_NS.items() if not value % size) if value else "s"
        return f"{value // _UNITS_NS[name]}{name}"
    if unit is Unit.TIME:
        seconds, fraction = divmod(value, _SECOND_NS)
        moment = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{moment}.{fraction:09}Z" if fraction else f"{moment}Z"
    return str(value)


def _read_count(text: str) -> int | None:
    number = _COUNT.fullmatch(text)
    if number is None:
        return None
    whole, fraction, scale = number.groups("")
    value, rest = _multiply(whole, fraction, _SCALES[scale.lower()])
    return None if rest else value


def _read_duration(text: str) -> int | None:
    """Read a duration in whole nanoseconds; ``None`` if the text is not a duration."""
    if not _DURATION.fullmatch(text):
        return None
    return sum(
        _multiply(whole, fraction, _UNITS_NS[unit])[0]
        for whole, fraction, unit in _DURATION_PART.findall(text)
    )


def _read_dollars(text: str) -> float | None:
    amount = _USD.fullmatch(text)
    return None if amount is None else float(amount[1])


def _read_flag(text: str) -> int | None:
    return _FLAGS.get(text.lower())


_READERS: dict[Unit, Callable[[str], int | float | None]] = {
    Unit.COUNT: _read_count,
    Unit.DURATION: _read_duration,
    Unit.USD: _read_dollars,
    Unit.FLAG: _read_flag,
}


def _multiply(whole: str, fraction: str, factor: int) -> tuple[int, int]:
    """Multiply a decimal number; return the whole part, and what is left of it."""
    return divmod(int(whole + fraction) * factor, int("1" + "0" * len(fraction)))


def _read_moment(text: str, now_ns: int, zone: tzinfo) -> tuple[datetime, int]:
    """Read a time that is not a duration; return it, and its fraction of a second in nanoseconds.

    Raises:
        ValueError, OverflowError: there is no such time.
    """
    now = (_EPOCH + timedelta(seconds=now_ns // _SECOND_NS)).astimezone(zone)
    if text.lower() in {"today", "yesterday"}:
        days = 1 if text.lower() == "yesterday" else 0
        return _at(now - timedelta(days=days), 0, 0, 0), 0
    if clock := _CLOCK.fullmatch(text):
        hour, minute, second = (int(digits) for digits in clock.groups("0"))
        moment = _at(now, hour, minute, second)
        return (moment if moment <= now else _at(now - timedelta(days=1), hour, minute, second)), 0
    parts = _DATE.fullmatch(text)
    if parts is None:
        raise ValueError
    day, time, fraction, offset = parts.groups("")
    moment = datetime.fromisoformat(f"{day}T{time or '00:00'}{offset}")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    return moment, int(fraction.ljust(9, "0"))


def _at(day: datetime, hour: int, minute: int, second: int) -> datetime:
    return day.replace(hour=hour, minute=minute, second=second, microsecond=0, fold=0)


def _clamp(time_ns: int) -> int:
    return max(0, min(time_ns, _MAX_INTEGER))
