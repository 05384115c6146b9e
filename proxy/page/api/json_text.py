"""JSON of the API: strict, whatever a client, a provider or a damaged row said.

Rules:

1. The text is ASCII: it holds a lone surrogate as an escape, and no byte steers a terminal.
2. A number that JSON has no word for is ``null``, and so is a value of no type of JSON. What is
   nested too deeply, or a number of thousands of digits, is told in words.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, Final

MAX_DEPTH: Final = 200
"""Bodies of APIs have a dozen levels, and browsers read thousands. The encoder takes as many as the
interpreter's limit on calls has left, which is some 900."""

MAX_INTEGER_BITS: Final = 1_024
"""Some 300 digits, as many as the largest number of a browser."""


def encode(value: Any) -> bytes:
    """Encode a value as strict JSON; what there is no word for is told by rule 2."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except (ValueError, TypeError, RecursionError, OverflowError):
        mended = _mend(value, MAX_DEPTH)
        return json.dumps(mended, allow_nan=False, separators=(",", ":")).encode()


def _mend(value: Any, depth: int) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= MAX_INTEGER_BITS else "[too large a number]"
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict | list | tuple) and depth == 0:
        return "[nested too deeply]"
    if isinstance(value, dict):
        return {str(name): _mend(item, depth - 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mend(item, depth - 1) for item in value]
    return None
