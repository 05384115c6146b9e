"""Masks with some switches on, and what these change in the attributes of a span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.apis.api import Content
from codec.apis.table import APIS
from telemetry.privacy.hiding import hide_attributes
from telemetry.privacy.mask import Mask
from telemetry.privacy.switches import PrivacySwitches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from telemetry.attribute_values import AttributeValue
    from telemetry.privacy.redaction import Redaction

OPEN = Mask(PrivacySwitches())
EVERYTHING = Mask(PrivacySwitches.everything())

Changes = dict[str, Any]
DROPPED = None


def _switched(switches: Iterable[str], content: Content) -> PrivacySwitches:
    return PrivacySwitches(**dict.fromkeys(switches, True)).for_content(content)


def _members_of(content: Content) -> frozenset[str]:
    """The members that are content in the APIs of this kind."""
    apis = [api for api in APIS if api.content is content]
    return frozenset[str]().union(*(api.asked.content_members for api in apis))


def mask_of(
    *switches: str, redaction: Redaction | None = None, content: Content = Content.MESSAGES
) -> Mask:
    """A mask with these switches and no others."""
    return Mask(_switched(switches, content), redaction, content_members=_members_of(content))


def changes(
    attributes: Mapping[str, AttributeValue], *switches: str, content: Content = Content.MESSAGES
) -> Changes:
    """What is not as it was: the new values, ``None`` for what was left out."""
    hidden = hide_attributes(attributes, _switched(switches, content), _members_of(content))
    assert list(hidden) == [key for key in attributes if key in hidden]  # the order stays
    return {
        key: hidden.get(key, DROPPED)
        for key, value in attributes.items()
        if hidden.get(key, DROPPED) != value
    }


def dropped(*keys: str) -> Changes:
    return dict.fromkeys(keys, DROPPED)
