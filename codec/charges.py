"""Reads by what an answer is billed besides its counts: steps, models, tools, tiers.

Rules:

1. Only what the answer says (R6). What it does not say has no value here.
2. What a provider bills, and what no price by the token or the search covers, is named: whoever
   reckons a cost then knows that it would be a part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from codec.members import object_of, text_of
from codec.text.integers import count_of
from codec.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("NO_CHARGES", "Charges", "Step", "read_charges")

_WEB_SEARCHES: Final = "web_search_requests"
_FREE: Final = frozenset({_WEB_SEARCHES, "web_fetch_requests"})
"""Counts of Anthropic's tools that cost nothing but tokens, or that are priced by the search."""
_XAI_TOOLS: Final = ("num_sources_used", "num_server_side_tools_used")
_XAI_DETAILS: Final = "server_side_tool_usage_details"
_TOLD: Final = frozenset(
    {"server_tool_use", "service_tier", "speed", "inference_geo", *_XAI_TOOLS, _XAI_DETAILS},
)


class Step(msgspec.Struct, frozen=True):
    """A part of an answer that is billed for itself.

    Attributes:
        model: ``None`` for that of the answer, which makes one step at least.
        tokens: its counts.
    """

    model: str | None
    tokens: Usage


class Charges(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer is billed by besides its counts.

    Attributes:
        steps: what the counts are the sum of, or leave out; empty where they are one step.
        web_searches: how often the provider's tool searched the web.
        file_searches: how often the provider's tool searched stored files.
        tier: the service tier, as the usage tells it.
        speed: ``fast`` is dearer.
        place: where it ran; a chosen one is dearer.
        unknown: names of what else is billed (rule 2).
    """

    steps: tuple[Step, ...] = ()
    web_searches: int = 0
    file_searches: int = 0
    tier: str | None = None
    speed: str | None = None
    place: str | None = None
    unknown: tuple[str, ...] = ()


NO_CHARGES: Final = Charges()


def read_charges(
    raw: Mapping[str, Any], *, steps: tuple[Step, ...] = (), unknown: tuple[str, ...] = ()
) -> Charges:
    """Read what a usage object tells, of whatever API.

    Args:
        raw: the usage object.
        steps: of the answer, where its API tells them.
        unknown: what else is billed, as its API tells.
    """
    if not steps and not unknown and _TOLD.isdisjoint(raw):
        return NO_CHARGES
    tools = object_of(raw.get("server_tool_use"))
    unpriced = (name for name in tools if name not in _FREE and count_of(tools[name]))
    told = {**object_of(raw.get(_XAI_DETAILS)), **{name: raw.get(name) for name in _XAI_TOOLS}}
    sources = (name for name in told if count_of(told[name]))
    return Charges(
        steps=steps,
        web_searches=count_of(tools.get(_WEB_SEARCHES)) or 0,
        tier=text_of(raw.get("service_tier")),
        speed=text_of(raw.get("speed")),
        place=text_of(raw.get("inference_geo")),
        unknown=(*unknown, *unpriced, *sources),
    )
