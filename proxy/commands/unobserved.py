"""Describes calls that were not observed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.text import Text

from proxy.escape import escape_line
from telemetry.metrics.label_limit import OTHER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from telemetry.store.unobserved_calls import UnobservedCalls

MAX_NAMED = 5
"""How many paths are named, those with the most calls: a line or two."""


def print_unobserved(console: Console, unobserved: Sequence[UnobservedCalls]) -> None:
    """Print a paragraph about calls that were not observed; nothing if there are none."""
    if unobserved:
        text = Text(f"\n{describe_unobserved(unobserved)}", style="yellow")
        console.print(text, soft_wrap=not console.is_terminal)


def describe_unobserved(unobserved: Sequence[UnobservedCalls]) -> str:
    """Say which calls were not observed, and which are.

    `unobserved` has at least one, the most frequent first.
    """
    from codec.apis.table import OBSERVED  # noqa: PLC0415 - it imports every API

    kinds = (
        ("Relayed and not recorded", [one for one in unobserved if not one.is_upgrade]),
        ("Refused, as WebSockets are", [one for one in unobserved if one.is_upgrade]),
    )
    words = "; ".join(f"{kind}: {_name_paths(calls)}" for kind, calls in kinds if calls)
    last = datetime.fromtimestamp(max(one.last_ns for one in unobserved) // 1_000_000_000, UTC)
    return (
        f"{words}; the last on {last.astimezone():%Y-%m-%d at %H:%M}. Spans are made of {OBSERVED}."
    )


def _name_paths(calls: Sequence[UnobservedCalls]) -> str:
    named = [one for one in calls if not one.path.endswith(OTHER)][:MAX_NAMED]
    paths = [
        f"{one.calls:,} x {'' if one.is_upgrade else 'POST '}{escape_line(one.path)}"
        for one in named
    ]
    if rest := sum(one.calls for one in calls) - sum(one.calls for one in named):
        paths.append(f"{rest:,} to other paths")
    return ", ".join(paths)
