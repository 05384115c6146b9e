"""Masks with nothing hidden, with everything, and with some switches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.apis.api import Content
from telemetry.privacy.mask import Mask
from telemetry.privacy.switches import PrivacySwitches

if TYPE_CHECKING:
    from telemetry.privacy.redaction import Redaction

OPEN = Mask(PrivacySwitches())
EVERYTHING = Mask(PrivacySwitches.everything())


def mask_of(
    *switches: str, redaction: Redaction | None = None, content: Content = Content.MESSAGES
) -> Mask:
    """A mask with these switches and no others."""
    on = PrivacySwitches(**dict.fromkeys(switches, True))
    return Mask(on.for_content(content), redaction)
