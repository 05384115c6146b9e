"""``GET /api/settings``: the settings that the page's program was started with.

The page's process gets them as a list that people may see (:mod:`proxy.settings.shown`): secrets
are masked where it is made. Nothing here knows more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codec.text.jsontext import JsonObject


def read_settings(shown: Iterable[Mapping[str, str | None]]) -> JsonObject:
    """List the settings, in the order of the class that has them all."""
    return {"settings": [dict(one) for one in shown]}
