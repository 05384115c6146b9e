"""``telemetry.spans.keep_rules``: which unsampled exchanges get a span."""

from __future__ import annotations

from typing import Any

import pytest

from telemetry.observing.exchange import Outcome
from telemetry.spans.keep_rules import KeepReason, KeepRules
from tests.telemetry.exchanges import START_NS, make_exchange

ALL = frozenset(KeepReason)
FAILED: dict[str, Any] = {"outcome": Outcome.UPSTREAM_ERROR, "error_type": "429"}
LEFT: dict[str, Any] = {"outcome": Outcome.CLIENT_DISCONNECTED}
SLOW: dict[str, Any] = {"end_ns": START_NS + 30_000_000_001}


@pytest.mark.parametrize(
    ("members", "wanted"),
    [
        (FAILED, KeepReason.ERRORS),
        (LEFT, KeepReason.CANCELLED),
        (SLOW, KeepReason.SLOW),
        ({**FAILED, **SLOW}, KeepReason.ERRORS),
        ({"end_ns": START_NS + 30_000_000_000}, None),
        ({}, None),
    ],
)
def test_each_rule_keeps_what_it_names(members: dict[str, Any], wanted: KeepReason | None) -> None:
    """Errors, cancelled and slow calls; the first that holds gives its name."""
    assert KeepRules(reasons=ALL).judge(make_exchange(**members)) == wanted


@pytest.mark.parametrize("members", [FAILED, LEFT, SLOW])
def test_a_rule_that_is_off_keeps_nothing(members: dict[str, Any]) -> None:
    """Without rules sampling alone decides."""
    assert not KeepRules()
    assert KeepRules().judge(make_exchange(**members)) is None
    for reason in KeepReason:
        kept = KeepRules(reasons=frozenset({reason})).judge(make_exchange(**members))
        assert kept in {reason, None}


def test_the_limit_of_slow_can_be_set() -> None:
    """In seconds, fractions included."""
    rules = KeepRules(reasons=ALL, slow_seconds=0.5)
    assert rules
    assert rules.judge(make_exchange(end_ns=START_NS + 500_000_001)) is KeepReason.SLOW
    assert rules.judge(make_exchange(end_ns=START_NS + 500_000_000)) is None
