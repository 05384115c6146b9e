"""The catalogue: well-known providers, each under a prefix that is its name.

The rows are data, in ``catalogue.json`` beside this module: a base URL, the ``llm.provider`` that
belongs to its host (``null`` if :mod:`telemetry.provider` knows no word), the source of the URL,
and when the row was written.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec


class CatalogueRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A provider: ``/NAME`` is its prefix."""

    name: str
    url: str
    provider: str | None
    source: str
    date: str


@cache
def read_catalogue() -> tuple[CatalogueRow, ...]:
    """Read the rows, in the order of the file."""
    data = Path(__file__).with_name("catalogue.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[CatalogueRow, ...])
