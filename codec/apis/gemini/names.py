"""Names of members, which requests may spell in either way.

See ``docs/contract/apis.md#gemini-request``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from codec.members import list_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ("both", "member_of", "some_of")

_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


@lru_cache(maxsize=128)  # there are some sixty names, all of them ours
def _snake(name: str) -> str:
    return _HUMP.sub("_", name).lower()


def member_of(members: Mapping[str, Any], name: str) -> Any:
    """Get a member by its name in camel case, in whichever case it came.

    >>> member_of({"function_call": 1}, "functionCall")
    1
    """
    value = members.get(name)
    return members.get(_snake(name)) if value is None else value


def both(*names: str) -> frozenset[str]:
    """Give these names in both cases."""
    return frozenset({*names, *map(_snake, names)})


def some_of(value: Any) -> Sequence[Any]:
    """Get the items of a list; Vertex AI takes an object for a list of one."""
    return [value] if isinstance(value, dict) else list_of(value)
