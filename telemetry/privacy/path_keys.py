"""Hides parts of paths that look like a key or an id (R7).

Some proxies and bots take a key in the path. No rule says in which part.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

MAX_PATH_CHARS: Final = 200
"""The most characters of a path that are shown; the paths of models' calls have 120 at most."""

MAX_CACHED_PATHS = 256
"""The number of paths whose result is kept: applications call a handful."""

HIDDEN_PART: Final = "…"
"""The text that replaces a part."""

_KEY_OR_ID = re.compile(r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{16,}|[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-").search
"""A part of a path with a long word of letters and digits, or a UUID; no model's name has these."""


def hide_keys(path: str, most_chars: int = MAX_PATH_CHARS) -> str:
    """Return a path with ``…`` for each part that looks like a key or an id.

    A path longer than `most_chars` is cut after its last whole part: half a key does not look like
    a key.

    >>> hide_keys("/bot123456:AAF4h8Gk2mPqRs7TuVwX/v1/messages")
    '/…/v1/messages'
    """
    if len(path) > most_chars:
        path = f"{path[:most_chars].rpartition('/')[0]}/{HIDDEN_PART}"
    return _hide_keys(path)


@lru_cache(maxsize=MAX_CACHED_PATHS)
def _hide_keys(path: str) -> str:
    return "/".join([HIDDEN_PART if _KEY_OR_ID(part) else part for part in path.split("/")])
