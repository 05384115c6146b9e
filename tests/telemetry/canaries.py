"""Words that are found again, wherever they get to."""

from __future__ import annotations

import re
from typing import Any

from codec.text.jsontext import encode_json

__all__ = ("CANARY", "IMAGE_URL", "body", "plant")

CANARY = re.compile(rb"c4n4ry_([a-z]+)_")


def plant(name: str) -> str:
    """A word that is found again."""
    return f"c4n4ry_{name}_"


IMAGE_URL = f"https://images.example/{plant('image')}.png"


def body(value: Any) -> bytes:
    """A value as JSON."""
    return encode_json(value).encode()
