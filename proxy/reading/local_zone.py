"""The zone of this machine, for times that somebody types."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo


class LocalZone(tzinfo):
    """The local zone with its changes between summer and winter, as the system knows them.

    ``datetime.now().astimezone().tzinfo`` is today's offset from UTC, which is wrong for a day of
    the other half of the year.
    """

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        """Return the offset from UTC of a local time; zero if the system cannot handle the time."""
        if moment is None:
            return None
        try:
            return moment.replace(tzinfo=None).astimezone().utcoffset()
        except (OverflowError, ValueError, OSError):  # such as in the year 1
            return timedelta(0)

    def dst(self, _: datetime | None) -> timedelta | None:
        """Return ``None``, because nobody asks whether it is summer time."""
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        """Return the name that the zone has at a local time."""
        return None if moment is None else moment.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, moment: datetime) -> datetime:
        """Convert a time in UTC, as :meth:`datetime.astimezone` needs it."""
        return moment.replace(tzinfo=UTC).astimezone().replace(tzinfo=self)
