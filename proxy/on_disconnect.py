"""The fate of an answer whose client has gone; apart, for settings need none of the relay."""

from __future__ import annotations

from enum import StrEnum


class OnDisconnect(StrEnum):
    """The fate of the upstream's answer when the client goes away."""

    CANCEL = "cancel"
    DRAIN = "drain"
