"""The terms of a call: what decides its cost besides its tokens."""

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
"""Values of a request that ask for the ordinary terms."""

_TIERS: Final = ("service_tier", "serviceTier")
_SEARCH_MODELS: Final = ("-search-preview", "-search-api")
"""Names of OpenAI's chats that always search the web."""


class Terms(NamedTuple):
    """The terms of a call, ``None`` if nothing was said.

    Attributes:
        tier: its service tier.
        speed: its speed.
    """

    tier: str | None = None
    speed: str | None = None


def find_charges(exchange: Exchange) -> Charges:
    """What a call is billed for besides its counts.

    Searches are unknown charges if a chat may search the web, because it does not say how often it
    did.
    """
    response, asked = exchange.response, _asked(exchange)
    charges = NO_CHARGES if response is None else response.read_charges()
    model = str(asked.get("model"))
    if asked.get("web_search_options") is None and not any(map(model.__contains__, _SEARCH_MODELS)):
        return charges
    return replace(charges, unknown=(*charges.unknown, "web_search_options"))


def find_terms(exchange: Exchange, charges: Charges) -> Terms | None:
    """The terms on which the price depends; ``None`` if they are unknown.

    What the answer says counts. If it says nothing and the request asked for special terms, nobody
    knows the terms of the answer, and there is no listed price. Nor is there one for a chosen
    place: Anthropic asks a tenth more for it.
    """
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
    """Tell whether a request asks for something special."""
    return (value.lower() if isinstance(value, str) else None) not in _ORDINARY[name]
