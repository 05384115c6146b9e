"""Reads what an answer is billed by besides its counts: steps, models, tools, tiers.

Only what the answer says is read (R6). If a provider bills something that has no price by the token
or by the search, it is named here, so that a computed cost is known to be incomplete.
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
"""Counts of Anthropic's tools that cost only tokens, or that have a price by the search."""
_XAI_TOOLS: Final = ("num_sources_used", "num_server_side_tools_used")
_XAI_DETAILS: Final = "server_side_tool_usage_details"
_BILLED: Final = frozenset(
    {"server_tool_use", "service_tier", "speed", "inference_geo", *_XAI_TOOLS, _XAI_DETAILS},
)


class Step(msgspec.Struct, frozen=True):
    """A part of an answer that is billed separately.

    Attributes:
        model: the step's model; ``None`` for the answer's, which makes at least one step.
        tokens: the step's counts.
    """

    model: str | None
    tokens: Usage


class Charges(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer is billed by besides its counts.

    Attributes:
        steps: the steps that the counts sum up or leave out; empty if there is only one.
        web_searches: how often the provider's tool searched the web.
        file_searches: how often the provider's tool searched stored files.
        tier: the service tier, from the usage.
        speed: ``fast`` costs more.
        place: where the model ran; a place that was asked for costs more.
        unknown: names of what else is billed, without a known price.
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
    """Read the charges in a usage object of any API.

    Args:
        raw: the usage object.
        steps: the steps of the answer, if its API reports them.
        unknown: names of what else is billed, by its API.
    """
    if not steps and not unknown and _BILLED.isdisjoint(raw):
        return NO_CHARGES
    tools = object_of(raw.get("server_tool_use"))
    unpriced = (name for name in tools if name not in _FREE and count_of(tools[name]))
    counts = {**object_of(raw.get(_XAI_DETAILS)), **{name: raw.get(name) for name in _XAI_TOOLS}}
    sources = (name for name in counts if count_of(counts[name]))
    return Charges(
        steps=steps,
        web_searches=count_of(tools.get(_WEB_SEARCHES)) or 0,
        tier=text_of(raw.get("service_tier")),
        speed=text_of(raw.get("speed")),
        place=text_of(raw.get("inference_geo")),
        unknown=(*unknown, *unpriced, *sources),
    )
