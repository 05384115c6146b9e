"""Masks with nothing hidden, with everything, and with some switches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telemetry.privacy.mask import Mask
from telemetry.privacy.switches import PrivacySwitches

if TYPE_CHECKING:
    from telemetry.privacy.redaction import Redaction

OPEN = Mask(PrivacySwitches())
EVERYTHING = Mask(PrivacySwitches.everything())


def mask_of(*switches: str, redaction: Redaction | None = None) -> Mask:
    """A mask with these switches and no others."""
    return Mask(PrivacySwitches(**dict.fromkeys(switches, True)), redaction)
