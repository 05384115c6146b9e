"""The differences that the comparison allows (``docs/contract/spans.md#allowed-differences``).

Rules:

1. What no entry of :data:`ALLOWANCES` explains is a fault. An entry looks at the traffic wherever
   it can, not only at the name of what differs.
2. Each is needed: some difference in the traffic has no other explanation
   (``test_every_allowance_is_needed``).

SpanKind, scope and timestamps are not compared at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.differential.allowed_by_contract import EXTRA_KEYS, WANTED
from tests.differential.allowed_for_dialects import DIALECTS
from tests.differential.allowed_for_responses import OF_RESPONSES
from tests.differential.allowed_for_the_sdk import UNSEEN

if TYPE_CHECKING:
    from tests.differential.allowance import Allowance
    from tests.differential.comparison import Difference
    from tests.differential.stage import Pair

__all__ = ("ALLOWANCES", "find_explanations", "is_explained")

ALLOWANCES = (*EXTRA_KEYS, *WANTED, *UNSEEN, *DIALECTS, *OF_RESPONSES)
"""The list."""


def find_explanations(pair: Pair, difference: Difference) -> list[Allowance]:
    """The allowances that explain a difference; none where it is a fault."""
    return [one for one in ALLOWANCES if one.explains(pair, difference)]


def is_explained(pair: Pair, difference: Difference) -> bool:
    """Whether one of the allowances explains a difference."""
    return any(one.explains(pair, difference) for one in ALLOWANCES)
