"""The console that commands print on: a terminal, or a pipe, which has no width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from typing import TextIO

_PIPE_WIDTH = 1_000
"""Wide enough for any table whose cells are bounded, where no terminal sets a width."""


def open_console(out: TextIO) -> Console:
    """Open a console on `out`; rich's own guesses about colours and widths end at a pipe."""
    is_terminal = out.isatty()
    return Console(
        file=out,
        force_terminal=is_terminal,
        width=None if is_terminal else _PIPE_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )
