"""``telemetry.facts``: the table agrees with the types beside it, and with the names on spans."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args, get_type_hints

import pytest
from msgspec.structs import replace
from openinference.semconv.trace import SpanAttributes

from codec.said import Said
from codec.usage import Usage
from telemetry.conversation_position import ConversationPosition
from telemetry.fact import Fact, Form, OfExchange, OfSpan
from telemetry.facts import COLUMN_FACTS, FACTS, OWN_FACTS, CallColumns
from telemetry.observing.exchange import Exchange
from telemetry.span_identity import SpanIdentity
from telemetry.store.rows import SpanState, SpanStatus, SpanSummary
from telemetry.store.schema import MIGRATIONS, list_migrations

_COUNT = Fact("a count", "count", form=Form.COUNT)


def find_types(hint: Any) -> set[Any]:
    """The types of a field, our own words as what they are made of."""
    types = {hint} if hint in {SpanState, SpanStatus} else {*(get_args(hint) or (hint,))}
    return {str if kind in {SpanState, SpanStatus} else kind for kind in types}


@pytest.mark.parametrize("fact", COLUMN_FACTS, ids=lambda fact: fact.name)
def test_the_form_of_a_column_is_the_type_of_its_field(fact: Fact) -> None:
    """And a column may be without a value."""
    assert find_types(get_type_hints(CallColumns)[fact.name]) == {fact.form.value_type, type(None)}
    assert not fact.is_always


def test_own_facts_are_the_fields_of_a_summary() -> None:
    """In its order; those that every row has are no ``None``."""
    hints = get_type_hints(SpanSummary)
    names = [field.name for field in dataclasses.fields(SpanSummary)]
    assert [*(fact.name for fact in OWN_FACTS), "columns"] == names
    for fact in OWN_FACTS:
        nothing = set[Any]() if fact.is_always else {type(None)}
        assert find_types(hints[fact.name]) == {fact.form.value_type, *nothing}, fact.name


def test_every_fact_has_its_own_name() -> None:
    """Also in JSON."""
    names = [fact.name for fact in FACTS]
    members = [fact.json_name for fact in FACTS if fact.json_name is not None]
    assert len(names) == len({*names})
    assert len(members) == len({*members})
    assert all(fact.meaning for fact in FACTS)


def test_attributes_are_those_of_openinference() -> None:
    """They are written out, for its module takes too long to import."""
    known = {value for name, value in vars(SpanAttributes).items() if name.isupper()}
    named = {fact.found.attribute for fact in FACTS if isinstance(fact.found, OfSpan)}
    assert named
    assert named <= known


_FIELDS: dict[str, type] = {
    "identity": SpanIdentity,
    "position": ConversationPosition,
    "response": Said,
    "usage": Usage,
}
"""What is in a field, by its name."""


def test_fields_are_those_of_an_exchange() -> None:
    """Also those of what is in one; a name that is gone would be seen in a call with it alone."""
    paths = [fact.found.path for fact in FACTS if isinstance(fact.found, OfExchange)]
    assert paths
    for path in paths:
        holder: type = Exchange
        for name in path.split("."):
            assert name in holder.__struct_fields__, path  # type: ignore[attr-defined]
            holder = _FIELDS.get(name, object)


def test_a_fact_adds_its_column_by_a_migration() -> None:
    """It has its place by its number; several columns may be added by one."""
    written = {1: ("CREATE TABLE spans (seq INTEGER)",)}
    facts = [
        replace(_COUNT, schema=2),
        Fact("a text", "text", schema=3),
        Fact("an amount", "amount", form=Form.DOLLARS, schema=2),
        Fact("an older one", "older"),
    ]
    assert list_migrations(written, facts) == (
        *written.values(),
        ("ALTER TABLE spans ADD COLUMN count INTEGER", "ALTER TABLE spans ADD COLUMN amount REAL"),
        ("ALTER TABLE spans ADD COLUMN text TEXT",),
    )


def test_a_later_migration_moves_none_of_those_before_it() -> None:
    """Whether it is written out or a fact's: a store skips as many as it has had."""
    first, later = ("CREATE TABLE spans (seq INTEGER)",), ("CREATE TABLE tally (recorded INTEGER)",)
    facts = [replace(_COUNT, schema=2)]
    released = list_migrations({1: first}, facts)
    written_later = list_migrations({1: first, 3: later}, facts)
    assert written_later == (*released, later)
    facts.append(Fact("a text", "text", schema=4))
    assert list_migrations({1: first, 3: later}, facts)[:3] == written_later


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (1, "which are written out"),
        (len(MIGRATIONS), "which are written out"),
        (len(MIGRATIONS) + 2, f"no migration has the number {len(MIGRATIONS) + 1}"),
    ],
)
def test_no_migration_is_left_out_or_changed(schema: int, fault: str) -> None:
    """A released one is never edited."""
    written = dict(enumerate(MIGRATIONS, start=1))
    with pytest.raises(ValueError, match=fault):
        list_migrations(written, [replace(_COUNT, schema=schema)])
