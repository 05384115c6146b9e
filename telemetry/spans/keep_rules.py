"""Rules that give unsampled exchanges a span all the same, judged when they have ended.

The sampler decides at ``begin``, before anybody can know how a call ends. With rules on, unsampled
calls are observed too, and the choice is made here (``docs/contract/promises.md#keep-rules``,
``docs/contract/spans.md#sampling``). It changes neither the ids nor what the upstream received.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec.structs import replace

from telemetry.observing.exchange import Outcome

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

_CANCELLED = frozenset({Outcome.CLIENT_DISCONNECTED, Outcome.CANCELLED})


class KeepReason(StrEnum):
    """A rule's name, in the settings and in ``metadata.kept_by``."""

    ERRORS = "errors"
    """The span has an ``error.type``: refused, unreachable, broken off."""
    CANCELLED = "cancelled"
    """The client went away before the end."""
    SLOW = "slow"
    """The call took longer than a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRules:
    """The rules in force.

    Attributes:
        reasons: the rules; empty if only sampling decides.
        slow_seconds: from the beginning of a call to its end; longer ones are slow.
    """

    reasons: frozenset[KeepReason] = frozenset()
    slow_seconds: float = 30.0

    def __bool__(self) -> bool:
        return bool(self.reasons)

    def judge(self, exchange: Exchange) -> KeepReason | None:
        """The first rule, in the order of :class:`KeepReason`, that wants the span."""
        holds = {
            KeepReason.ERRORS: exchange.error_type is not None,
            KeepReason.CANCELLED: exchange.outcome in _CANCELLED,
            KeepReason.SLOW: exchange.end_ns - exchange.start_ns > self.slow_seconds * 1e9,
        }
        return next((rule for rule in KeepReason if rule in self.reasons and holds[rule]), None)

    def apply(self, exchange: Exchange) -> Exchange:
        """Return an exchange with the rule that wants its span although the sampler does not."""
        if exchange.identity.sampled or (kept_by := self.judge(exchange)) is None:
            return exchange
        return replace(exchange, kept_by=kept_by.value)
