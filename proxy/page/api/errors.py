"""What the API answers where it cannot do what was asked."""

from __future__ import annotations

from typing import Final

__all__ = ("STATUSES", "ApiError")

STATUSES: Final = {
    "filter": 400,
    "parameter": 400,
    "not_found": 404,
    "busy": 503,
    "store": 503,
}
"""The HTTP status of each code."""


class ApiError(Exception):
    """Something that was asked for cannot be told; the message says why, in a sentence.

    Attributes:
        code: one of :data:`STATUSES`.
        position: of the first character of a filter that is wrong, counted from 0.
    """

    def __init__(self, code: str, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.position = position
