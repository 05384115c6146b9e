"""A row of the table of facts (:mod:`telemetry.facts`).

A fact is one thing that is known about a call, such as its model or its cost. Whatever stores,
finds or shows it reads its row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

LAST: Final = 10_000
"""The place of a fact that names none: after all that do."""


class Form(Enum):
    """What the values of a fact are, and so how they are stored, compared and written."""

    TEXT = "text"
    """Text on one line."""
    ID = "id"
    """An id, which may be asked for by its beginning."""
    ITEMS = "items"
    """Names, joined by a separator; a list in JSON."""
    LABEL = "label"
    """The label of a launch (:mod:`telemetry.launch_labels`)."""
    COUNT = "count"
    """An integer."""
    FLAG = "flag"
    """1 or 0; true or false in JSON."""
    DOLLARS = "dollars"
    """An amount of US dollars."""
    DURATION = "duration"
    """Nanoseconds; milliseconds in JSON."""
    TIME = "time"
    """Nanoseconds since the epoch; ISO 8601 in JSON."""

    @property
    def value_type(self) -> type:
        """The type of a value."""
        return _TYPES.get(self, str)

    @property
    def is_number(self) -> bool:
        """Whether values are amounts, which can be compared by greater and less."""
        return self in {Form.COUNT, Form.DOLLARS, Form.DURATION}


class Aggregation(Enum):
    """What many calls come to."""

    NONE = "none"
    """Nothing that is shown."""
    SUM = "sum"
    """The sum of a count or of dollars. Sums of all calls are quick where
    :mod:`telemetry.store.minutes` has it for each minute; else they read rows. Only
    ``spantap stats --json`` shows the sum by itself: the table of ``spantap stats`` and the page's
    statistics have a fixed choice, with shares and rates made of several facts."""
    RANK = "rank"
    """The percentiles of durations, shown where a sum is."""


_TYPES: Final[dict[Form, type]] = {
    **dict.fromkeys((Form.COUNT, Form.FLAG, Form.DURATION, Form.TIME), int),
    Form.DOLLARS: float,
}

_SQL_TYPES: Final = {str: "TEXT", int: "INTEGER", float: "REAL"}


class OfSpan(NamedTuple):
    """Found in an attribute of the span. A long text is cut, and a hidden one is left out.

    So what an operator hides on the span is hidden here too, and no row says so itself.

    Attributes:
        attribute: its name.
    """

    attribute: str


class OfExchange(NamedTuple):
    """Found in a field of the :class:`~telemetry.observing.exchange.Exchange`.

    Nothing is masked, so it takes numbers, and words that neither client nor provider wrote.

    Attributes:
        path: names of fields with a dot between two. If one of the values on the way is ``None``,
            the fact is not known.
    """

    path: str


class FilterKey(NamedTuple):
    """A key of the filter language.

    Attributes:
        example: how it is used, such as ``cost>0.05``. It begins with the key's name. Facts that
            share a key name it alone, except for the first one; the key then asks all of them.
        meaning: what it asks, for people; by default what the fact means.
        place: its position in the list of keys.
        also: other words that people try for it.
        bound: of a time: ``>=`` or ``<``.
        of_names: the key that is meant where the value is a name and not a number.
    """

    example: str
    meaning: str = ""
    place: int = LAST
    also: tuple[str, ...] = ()
    bound: str = ""
    of_names: str = ""

    @property
    def name(self) -> str:
        """The name of the key."""
        found = re.match("[a-z]+", self.example)
        return found[0] if found else ""


class TerminalColumn(NamedTuple):
    """A column of the table on a terminal.

    Attributes:
        title: what stands above it.
        width: of usual contents, in characters.
        rank: the order in which columns get room.
        place: where it stands on a line.
        most_chars: the most characters of a text; 0 for what is usual.
        wide: the width that it gets before columns of a greater `wide_rank`.
    """

    title: str
    width: int
    rank: int = LAST
    place: int = LAST
    most_chars: int = 0
    wide: int = 0
    wide_rank: int = LAST


class PageColumn(NamedTuple):
    """A column of the table on the page.

    Attributes:
        title: what stands above it.
        place: where it stands on a line.
        name: the name of its cells, by which the page gives them their width; by default that of
            the fact.
        note: what is said where somebody points at the title.
    """

    title: str
    place: int = LAST
    name: str = ""
    note: str = ""


class Fact(msgspec.Struct, frozen=True):
    """A row of the table.

    Attributes:
        meaning: what it is, for people.
        name: that of the field, which is also that of the column.
        path: where a :class:`~telemetry.store.rows.SpanSummary` has it; by default under its name.
        form: what its values are.
        separators: for items, the character between two of them. For a text, the characters at
            which its first part ends: ``api:chat`` also finds ``chat.completions``.
        words: all values, where they are known.
        is_always: every row has it.
        schema: the number of the migration that adds its column; 0 where the migration is written
            out (:mod:`telemetry.store.schema`).
        found: where a new call has it; ``None`` where
            :func:`telemetry.spans.columns.build_columns` looks for it.
        keys: those that ask it.
        member: its name in JSON; by default its name, with the unit that it has there; ``None``
            where it is not in JSON.
        place: where it stands in JSON.
        terminal: its column on a terminal.
        page: its column on the page.
        aggregation: what it comes to of many calls.
        group: the name by which ``stats --by`` groups calls with the same value. Of a number, of
            which there may be as many as calls, only the dearest groups are summed up.
        order: the name by which ``traces --sort`` lists the calls with the most of it first, and
            ``traces --runs --sort`` the runs with the largest sum.
        make: makes it of a row, where it is not what stands in the column.
    """

    meaning: str
    name: str = ""
    path: str = ""
    form: Form = Form.TEXT
    separators: str = ""
    words: tuple[str, ...] = ()
    is_always: bool = False
    schema: int = 0
    found: OfSpan | OfExchange | None = None
    keys: tuple[FilterKey, ...] = ()
    member: str | None = ""
    place: int = LAST
    terminal: TerminalColumn | None = None
    page: PageColumn | None = None
    aggregation: Aggregation = Aggregation.NONE
    group: str = ""
    order: str = ""
    make: Callable[[Any], Any] | None = None

    @property
    def get(self) -> Callable[[Any], Any]:
        """What takes its value out of a :class:`~telemetry.store.rows.SpanSummary`."""
        return self.make or attrgetter(self.path or self.name)

    @property
    def json_name(self) -> str | None:
        """The name of its member in JSON."""
        if self.member == "" and self.name.endswith("_ns"):
            unit = "_time" if self.form is Form.TIME else "_ms"
            return self.name.removesuffix("_ns") + unit
        return self.name if self.member == "" else self.member

    @property
    def column_sql(self) -> str:
        """The definition of its column."""
        return f"{self.name} {_SQL_TYPES[self.form.value_type]}"
