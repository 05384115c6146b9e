"""Terminals for tests: what is printed on one, without a terminal."""

from __future__ import annotations

import io

from rich.console import Console

__all__ = ("terminal",)


def terminal(width: int) -> tuple[Console, io.StringIO]:
    """A console that takes itself for a colour terminal."""
    out = io.StringIO()
    return Console(file=out, force_terminal=True, color_system="standard", width=width), out
