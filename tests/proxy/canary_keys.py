"""Keys of our own with a canary in each, and how they are read and tried."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from proxy.configure import read_inbound_keys
from proxy.settings.settings import Settings

if TYPE_CHECKING:
    from proxy.downstream.inbound_keys import InboundKeys

KEY = "inbound-canary-0123456789"
OTHER = "another-canary-0123456789"
DIGEST = hashlib.sha256(KEY.encode()).hexdigest()
HASHED = f"sha256:{DIGEST}"


def read(**settings: Any) -> InboundKeys:
    keys = read_inbound_keys(Settings(**settings))
    assert keys is not None
    return keys


def opens(keys: InboundKeys, key: str) -> bool:
    return bool(keys.find_carriers(((b"x-spantap-key", key.encode()),)))
