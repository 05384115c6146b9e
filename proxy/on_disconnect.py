"""What happens to an answer whose client has gone; settings use it without importing the relay."""

from __future__ import annotations

from enum import StrEnum


class OnDisconnect(StrEnum):
    """What happens to the upstream's answer when the client goes away."""

    CANCEL = "cancel"
    DRAIN = "drain"
