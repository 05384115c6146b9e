"""A limit on the values of a label that clients or providers choose.

A client names its model and a provider its errors. Each name is a series for as long as the process
lives, so a client-controlled value never becomes an unbounded label.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

OTHER: Final = "_other"
"""The value in place of those that are too many."""

MAX_LABEL_CHARS = 128
"""The longest value, to which others are cut: names of models have less than half of it."""


class LabelLimit:
    """Admits the first `max_values` values of a label, and calls `on_overflow` for any other.

    For one thread.
    """

    def __init__(self, max_values: int, on_overflow: Callable[[], None]) -> None:
        self._max_values = max_values
        self._on_overflow = on_overflow
        self._admitted: set[str] = set()

    def admit(self, text: str | None) -> str:
        """Return the label's value for any `text`; empty for ``None``.

        It can be shown and encoded: ``?`` replaces what cannot be printed, such as lone surrogates.
        """
        text = (text or "")[:MAX_LABEL_CHARS]
        if not text or text in self._admitted:
            return text
        text = "".join(char if char.isprintable() else "?" for char in text)
        if text not in self._admitted:
            if len(self._admitted) >= self._max_values:
                self._on_overflow()
                return OTHER
            self._admitted.add(text)
        return text
