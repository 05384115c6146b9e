"""The terms of a call: what else than its tokens decides what it costs.

Rules:

1. What the answer says counts. Where it says nothing and something else than the ordinary was asked
   for, nobody knows what it was served at, and there is no listed price.
2. Where it ran is no part of any listed price but the ordinary one's (Anthropic asks a tenth more
   for a chosen place).
3. A chat that may search the web does not tell how often it did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from codec.charges import NO_CHARGES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codec.charges import Charges
    from telemetry.observing.exchange import Exchange

_ORDINARY: Final[Mapping[str, frozenset[object]]] = {
    "service_tier": frozenset(
        {*(None, "", "auto", "default", "standard"), "standard_only", "on_demand", "unspecified"}
    ),
    "speed": frozenset({None, "", "standard"}),
    "inference_geo": frozenset({None, "", "global", "not_available"}),
}
"""Values by which a request asks for nothing in particular."""

_TIERS: Final = ("service_tier", "serviceTier")
_SEARCH_MODELS: Final = ("-search-preview", "-search-api")
"""Names of OpenAI's chats that always search the web."""


class Terms(NamedTuple):
    """The terms of a call, ``None`` where nothing was said.

    Attributes:
        tier: its service tier.
        speed: its speed.
    """

    tier: str | None = None
    speed: str | None = None


def find_charges(exchange: Exchange) -> Charges:
    """What a call is billed by besides its counts, searches that nobody counts included."""
    response, asked = exchange.response, _asked(exchange)
    charges = NO_CHARGES if response is None else response.read_charges()
    model = str(asked.get("model"))
    if asked.get("web_search_options") is None and not any(map(model.__contains__, _SEARCH_MODELS)):
        return charges
    return replace(charges, unknown=(*charges.unknown, "web_search_options"))


def find_terms(exchange: Exchange, charges: Charges) -> Terms | None:
    """The terms by which a list has its prices; ``None`` where they are not known (rules 1, 2)."""
    asked, response = _asked(exchange), exchange.response
    tier = charges.tier or (None if response is None else response.service_tier)
    tiers = [asked.get(name) for name in _TIERS]
    if tier is None and any(_is_chosen("service_tier", one) for one in tiers):
        return None
    if charges.speed is None and _is_chosen("speed", asked.get("speed")):
        return None
    if _is_chosen("inference_geo", charges.place or asked.get("inference_geo")):
        return None
    return Terms(tier, charges.speed)


def _asked(exchange: Exchange) -> Mapping[str, Any]:
    return {} if exchange.request is None else exchange.request.body


def _is_chosen(name: str, value: object) -> bool:
    """Tell whether a request asks for something else than the ordinary."""
    return (value.lower() if isinstance(value, str) else None) not in _ORDINARY[name]
