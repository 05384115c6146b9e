"""``telemetry.finding.keys``: what can be asked."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest
from openinference.semconv.trace import OpenInferenceSpanKindValues

from telemetry.facts import (
    COLUMN_FACTS,
    FACTS,
    KINDS,
    OUTCOMES,
    OWN_FACTS,
    STATES,
    STATUSES,
    CallColumns,
)
from telemetry.finding.filter import parse_filter
from telemetry.finding.keys import KEYS, describe_keys, explain_unknown_key
from telemetry.observing.exchange import Outcome
from telemetry.reading.sqlite.conditions import COLUMNS
from telemetry.store.rows import SpanState, SpanStatus
from tests.telemetry.finding.calls import NOW_NS, fill_table, make_call


def test_words_are_those_that_are_stored() -> None:
    """They are written out, for their modules take too long to import."""
    assert tuple(Outcome) == OUTCOMES
    assert get_args(SpanStatus) == STATUSES
    assert tuple(SpanState) == STATES
    assert tuple(kind.value for kind in OpenInferenceSpanKindValues) == KINDS[:-1]


@pytest.mark.parametrize(("name", "example"), [*zip(KEYS, dict(describe_keys()), strict=True)])
def test_rule_1_an_example_is_a_filter(name: str, example: str) -> None:
    """By the very key that it is an example of."""
    (condition,) = parse_filter(example, now_ns=NOW_NS).conditions
    assert condition.key == name


@pytest.mark.parametrize("name", KEYS)
def test_rule_2_a_key_asks_columns(name: str) -> None:
    """Columns that there are, and the same values of a summary."""
    asked = [fact for fact in (*OWN_FACTS, *COLUMN_FACTS) if fact.keys]
    values = {fact.name: "x" if fact.form.value_type is str else 1 for fact in asked}
    call = make_call(**values, end_ns=3)
    for fact in FACTS:
        if fact.name in KEYS[name].facts:
            column = COLUMNS.get(fact.name, fact.name)
            (value,) = fill_table([call]).execute(f"SELECT {column} FROM spans").fetchone()
            assert value is not None
            assert value == fact.get(call)


def test_what_a_list_shows_can_be_asked() -> None:
    """Each column but numbers that nothing fills yet, and those that are nobody's question."""
    asked = {fact for key in KEYS.values() for fact in key.facts}
    left_out = {"parent_span_id", "turn", "link_rule"}
    left_out |= {"tool_calls", "new_messages", "preview", "step", "input_usd"}
    assert {*CallColumns.__struct_fields__} - asked == left_out


@pytest.mark.parametrize(
    ("name", "meant"),
    [("modle", "model"), ("Latency", "dur"), ("lanch", "launch"), ("sesion", "session")],
)
def test_a_slip_is_explained(name: str, meant: str) -> None:
    """By the key that is like it, or that means the same."""
    assert explain_unknown_key(name).endswith(f"did you mean `{meant}`?")


def test_a_filter_is_read_without_the_codec() -> None:
    """A list starts in 0.2 s, and the APIs alone take longer to import."""
    code = "import sys, telemetry.finding.filter; print([*sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "telemetry.finding.keys" in done.stdout
    assert "'codec." not in done.stdout
    assert "'openinference" not in done.stdout
