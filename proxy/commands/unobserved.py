"""Describes calls that were not observed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.text import Text

from proxy.escape import escape_line
from telemetry.metrics.label_limit import OTHER
from telemetry.store.unobserved_calls import UPGRADE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from telemetry.store.unobserved_calls import UnobservedCalls

MAX_NAMED = 5
"""How many paths the description names, those with the most calls: a line or two."""


def print_unobserved(
    console: Console, unobserved: Sequence[UnobservedCalls], *, has_calls: bool
) -> None:
    """Print one line about calls that were not observed; nothing if there are none.

    Args:
        console: where to print.
        unobserved: what was not observed, the most frequent first.
        has_calls: calls were recorded. Then the line leaves out WebSockets if their clients may
            have continued over HTTP, as Codex does.
    """
    shown = [one for one in unobserved if not (has_calls and _may_continue(one))]
    if shown:
        words = f"{_name_kinds(shown, 1)} (`spantap check` says more)"
        console.print(
            Text(f"\n{words}", style="yellow"),
            no_wrap=True,
            overflow="ellipsis" if console.is_terminal else "ignore",
            crop=console.is_terminal,
        )


def describe_unobserved(unobserved: Sequence[UnobservedCalls]) -> str:
    """Say which calls were not observed, and which are.

    `unobserved` has at least one, the most frequent first.
    """
    from codec.apis.table import OBSERVED  # noqa: PLC0415 - it imports every API

    last = datetime.fromtimestamp(max(one.last_ns for one in unobserved) // 1_000_000_000, UTC)
    return (
        f"{_name_kinds(unobserved, MAX_NAMED)}; the last on "
        f"{last.astimezone():%Y-%m-%d at %H:%M}. Spans are made of {OBSERVED}."
    )


def _name_kinds(unobserved: Sequence[UnobservedCalls], limit: int) -> str:
    kinds = (
        ("Relayed and not recorded", [one for one in unobserved if not one.is_upgrade]),
        ("Refused, as WebSockets are", [one for one in unobserved if one.is_upgrade]),
    )
    return "; ".join(f"{kind}: {_name_paths(calls, limit)}" for kind, calls in kinds if calls)


def _name_paths(calls: Sequence[UnobservedCalls], limit: int) -> str:
    named = [one for one in calls if not one.path.endswith(OTHER)][:limit]
    paths = [
        f"{one.calls:,} x {'POST ' if one.path.startswith('/') else ''}{escape_line(one.path)}"
        for one in named
    ]
    if rest := sum(one.calls for one in calls) - sum(one.calls for one in named):
        paths.append(f"{rest:,} to other paths")
    return ", ".join(paths)


def _may_continue(refused: UnobservedCalls) -> bool:
    """Tell whether a client may continue over HTTP, as Codex does, once a WebSocket is refused."""
    from codec.apis.table import find_api  # noqa: PLC0415 - it imports every API

    return refused.is_upgrade and find_api("POST", refused.path.removeprefix(UPGRADE)) is not None
