"""How a call is known to continue another one, in words."""

from __future__ import annotations

import pytest

from proxy.reading.link_words import describe_link
from telemetry.conversations.continuation import Rule


@pytest.mark.parametrize("rule", Rule)
def test_each_rule_has_words(rule: Rule) -> None:
    """They are words for people, and not the rule's name."""
    words = describe_link(rule.value)
    assert words is not None
    assert " " in words
    assert "_" not in words


def test_a_word_that_is_not_known_stays() -> None:
    """A damaged row, or a store of a later version, has another one."""
    assert describe_link("by_hand") == "by_hand"
    assert describe_link(None) is None
