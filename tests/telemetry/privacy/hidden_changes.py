"""What hiding changes in the attributes of a span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.apis.api import Content
from telemetry.privacy.hiding import hide_attributes
from telemetry.privacy.switches import PrivacySwitches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from telemetry.attribute_values import AttributeValue

Changes = dict[str, Any]
DROPPED = None


def changes(
    attributes: Mapping[str, AttributeValue], *switches: str, content: Content = Content.MESSAGES
) -> Changes:
    """What is not as it was: the new values, ``None`` for what was left out."""
    on = PrivacySwitches(**dict.fromkeys(switches, True))
    hidden = hide_attributes(attributes, on.for_content(content))
    assert list(hidden) == [key for key in attributes if key in hidden]  # the order stays
    return {
        key: hidden.get(key, DROPPED)
        for key, value in attributes.items()
        if hidden.get(key, DROPPED) != value
    }


def dropped(*keys: str) -> Changes:
    return dict.fromkeys(keys, DROPPED)
