"""The closed list of differences that the comparison allows, as data (``span-contract.md`` 6.2).

Rules:

1. What no entry of :data:`ALLOWANCES` explains is a fault. An entry looks at the traffic wherever
   it can, not only at the name of what differs.
2. Each is needed: some difference in the traffic has no other explanation
   (``test_every_allowance_is_needed``).
3. An entry of :data:`OURS` is a fault of the proxy that is known. The aim is that there is none.

SpanKind, scope and timestamps, which 6.2 allows as well, are not compared at all. What 6.2 says of
the SDK's ``Omit`` has no entry: this SDK leaves such parameters out before anybody sees them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.differential.allowance import Allowance, is_extra, matches
from tests.differential.allowed_by_contract import EXTRA_KEYS, WANTED
from tests.differential.allowed_for_dialects import DIALECTS
from tests.differential.allowed_for_the_sdk import UNSEEN, raises_midway
from tests.differential.comparison import ABSENT

if TYPE_CHECKING:
    from tests.differential.comparison import Difference
    from tests.differential.stage import Pair

__all__ = ("ALLOWANCES", "OURS", "find_explanations")


def _is_token_of_error(pair: Pair, difference: Difference) -> bool:
    return is_extra(difference, "events/First Token Stream Event") and raises_midway(pair)


def _is_empty_embedded_text(_: Pair, difference: Difference) -> bool:
    is_left_out = (difference.theirs, difference.ours) == ("", ABSENT)
    return is_left_out and matches(difference, r"embedding\.embeddings\.\d+\.embedding\.text")


def _is_vector_without_text(pair: Pair, difference: Difference) -> bool:
    found = re.fullmatch(r"embedding\.embeddings\.(\d+)\.embedding\.vector", difference.path)
    if found is None or difference.ours is not ABSENT:
        return False
    texts = pair.call.body.get("input")
    count = len(texts) if isinstance(texts, list) else 1
    return int(found[1]) >= count


OURS = (
    Allowance(
        name="an error that is the first event of a stream passes for its first token",
        source="1, events",
        explains=_is_token_of_error,
    ),
    Allowance(
        name="the empty text of an embedding is left out",
        source="1.6",
        explains=_is_empty_embedded_text,
    ),
    Allowance(
        name="a vector for which there is no text is left out",
        source="1.6",
        explains=_is_vector_without_text,
    ),
)
"""Rule 3."""

ALLOWANCES = (*EXTRA_KEYS, *WANTED, *UNSEEN, *DIALECTS, *OURS)
"""The list."""


def find_explanations(pair: Pair, difference: Difference) -> list[Allowance]:
    """The allowances that explain a difference; none where it is a fault."""
    return [one for one in ALLOWANCES if one.explains(pair, difference)]
