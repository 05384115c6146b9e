"""Requests that come as JSON or as a form, of any API: in a form all values are texts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from codec.call import Asked

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("FormRequest",)

_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_NUMBERS: Final = ("n", "temperature")
"""Members that are numbers, of those that a span has an attribute for."""


class FormRequest(Asked, frozen=True, gc=False):
    """A request whose values may be texts; its body has them as they came."""

    @property
    def stream(self) -> bool:
        """Whether a stream was asked for: by ``true``, as JSON or as a text."""
        value = self.body.get("stream")
        return value is True or (isinstance(value, str) and value.lower() == "true")

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters, what is a number or a truth value as one."""
        named: dict[str, Any] = {
            name: _read_number(self.body[name]) for name in _NUMBERS if name in self.body
        }
        return {**self.body, **named, "stream": self.stream}


def _read_number(value: Any) -> Any:
    """Read the number that a text is; anything else stays."""
    if not isinstance(value, str) or (found := _NUMBER.fullmatch(value)) is None:
        return value
    return float(value) if found[1] else int(value)
