"""All dialects by name."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from codec.dialects._engines import ENGINES
from codec.dialects._hosts import HOSTS
from codec.dialects._makers import MAKERS
from codec.dialects._openai import OPENAI

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codec.dialects.profile import Dialect

__all__ = ("DIALECTS", "find_dialect")

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {dialect.name: dialect for dialect in (*OPENAI, *MAKERS, *ENGINES, *HOSTS)}
)
"""Every dialect: the rows of the table in ``docs/contract/wire.md#dialects``."""


def find_dialect(name: str) -> Dialect:
    """Return the dialect of that name.

    Raises:
        ValueError: there is no such dialect; the message lists all dialects.
    """
    dialect = DIALECTS.get(name)
    if dialect is None:
        raise ValueError(f"unknown dialect {name!r}: there is {', '.join(DIALECTS)}")
    return dialect
