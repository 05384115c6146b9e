"""Log lines for people: time, level, name, message, on standard error."""

from __future__ import annotations

import logging

__all__ = ("set_up_logging",)


def set_up_logging(level: str) -> None:
    """Send the ``spantap`` loggers, and others' warnings, to standard error."""
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    logging.getLogger("spantap").setLevel(level)
