"""``telemetry.finding.quantities``: numbers, durations and times, read and written."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.finding.quantities import Unit, read_quantity, read_time, write_quantity

SECOND_NS = 1_000_000_000
NOW_NS = int(datetime(2025, 11, 25, 16, tzinfo=UTC).timestamp()) * SECOND_NS
INTEGERS = st.integers(0, (1 << 63) - 1)
SOME_TEXT = st.text(max_size=12) | st.text(alphabet="0123456789.:-TZ+kmshde ", max_size=30)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("0", Unit.COUNT, 0),
        ("10k", Unit.COUNT, 10_000),
        ("1.5M", Unit.COUNT, 1_500_000),
        (".5k", Unit.COUNT, 500),
        ("9007199254740993", Unit.COUNT, 9_007_199_254_740_993),
        ("5s", Unit.DURATION, 5 * SECOND_NS),
        ("1h30m", Unit.DURATION, 5_400 * SECOND_NS),
        ("0.1s", Unit.DURATION, 100_000_000),
        ("250ms", Unit.DURATION, 250_000_000),
        ("3us4ns", Unit.DURATION, 3_004),
        ("2d", Unit.DURATION, 172_800 * SECOND_NS),
        ("0.05", Unit.USD, 0.05),
        ("$2", Unit.USD, 2.0),
        ("1e-05", Unit.USD, 1e-05),
        ("YES", Unit.FLAG, 1),
        ("0", Unit.FLAG, 0),
    ],
)
def test_rule_1_quantities_are_exact(text: str, unit: Unit, value: float) -> None:
    """No count or duration passes through floating point."""
    read = read_quantity(text, unit)
    assert read == value
    assert isinstance(read, float) == (unit is Unit.USD)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        *((text, Unit.COUNT) for text in ("", "-1", "1.5", "k", ".", "1,5", "1e3", "٣", "1 k")),
        *((text, Unit.DURATION) for text in ("", "5", "s", "5 s", "-5s", "5y", "1h30")),
        *((text, Unit.USD) for text in ("", "$", ".", "nan", "inf", "1e", "€5", "1e999")),
        *((text, Unit.FLAG) for text in ("", "y", "2", "on")),
        *((text, Unit.COUNT) for text in (str(1 << 63), "1" * 21, "9" * 19 + "g")),
        ("99999999w", Unit.DURATION),
    ],
)
def test_what_is_no_quantity_is_refused(text: str, unit: Unit) -> None:
    """Rules 2 and 4; the message says what the key takes."""
    with pytest.raises(ValueError, match=r"^takes "):
        read_quantity(text, unit)


@given(INTEGERS)
def test_rule_3_integers_are_written_as_they_read(value: int) -> None:
    """Counts, durations and times, whatever their unit."""
    assert read_quantity(write_quantity(value, Unit.COUNT), Unit.COUNT) == value
    assert read_quantity(write_quantity(value, Unit.DURATION), Unit.DURATION) == value
    assert read_time(write_quantity(value, Unit.TIME), 0, UTC) == value


@given(st.floats(0, allow_infinity=False, allow_nan=False))
def test_rule_3_dollars_are_written_as_they_read(value: float) -> None:
    """The same number, to the last bit, where it has fewer digits than a sum can have."""
    written = write_quantity(value, Unit.USD)
    assert read_quantity(written, Unit.USD) == value


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2h", "2025-11-25T14:00:00Z"),
        ("16:00", "2025-11-25T16:00:00Z"),
        ("16:00:01", "2025-11-24T16:00:01Z"),
        ("today", "2025-11-25T00:00:00Z"),
        ("Yesterday", "2025-11-24T00:00:00Z"),
        ("2025-01-31", "2025-01-31T00:00:00Z"),
        ("2025-01-31T14:03", "2025-01-31T14:03:00Z"),
        ("2025-01-31 14:03:05.25", "2025-01-31T14:03:05.250000000Z"),
        ("2025-01-31T14:03:05+01:30", "2025-01-31T12:33:05Z"),
        ("2025-01-31T14:03:05.000000001Z", "2025-01-31T14:03:05.000000001Z"),
        ("9999w", "1970-01-01T00:00:00Z"),
        ("1066-10-14", "1970-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59-23:59", "2262-04-11T23:47:16.854775807Z"),
    ],
)
def test_rule_2_forms_of_a_time(text: str, moment: str) -> None:
    """A time of day is the last one that was; none is outside what SQLite holds (rule 4)."""
    assert write_quantity(read_time(text, NOW_NS, UTC), Unit.TIME) == moment


def test_times_without_a_zone_are_in_the_one_that_is_given() -> None:
    """With its summer time, and its own midnight."""
    zone = ZoneInfo("Europe/Berlin")
    for text, moment in (
        ("17:30", "2025-11-24T16:30:00Z"),
        ("16:30", "2025-11-25T15:30:00Z"),
        ("today", "2025-11-24T23:00:00Z"),
        ("2025-07-01", "2025-06-30T22:00:00Z"),
        ("2025-07-01T00:00Z", "2025-07-01T00:00:00Z"),
    ):
        assert write_quantity(read_time(text, NOW_NS, zone), Unit.TIME) == moment


@given(SOME_TEXT)
def test_any_text_is_read_or_refused(text: str) -> None:
    """By nothing but the one error, with its message."""
    for unit in Unit:
        try:
            if unit is Unit.TIME:
                read_time(text, NOW_NS, UTC)
            else:
                read_quantity(text, unit)
        except ValueError as error:
            message = str(error)
        else:
            continue
        assert message.startswith("takes ")
