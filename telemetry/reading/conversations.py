"""A conversation: how many rows it has, what they come to, and its calls.

A conversation has the rows with its number: its calls, its tools, and the agents of its runs. Sums
are of calls and of tools.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from telemetry.finding.where import ALL_CALLS, ALL_ROWS, ask_known
from telemetry.reading.conversation_family import read_family
from telemetry.reading.engine import LAST_SEQ

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.finding.where import Where
    from telemetry.reading.conversation_family import Family
    from telemetry.reading.engine import Engine
    from telemetry.store.rows import SpanSummary

MAX_NAMES: Final = 20
"""Models that are named of a conversation: it has one or two."""

_NAMES: Final = (
    *("calls", "failed_calls", "tools", "tool_errors", "priced", "prompt_tokens"),
    *("cached_tokens", "completion_tokens", "cost_usd", "start_ns", "end_ns", "first_seq"),
    *("last_seq", "last_call_seq", "list_usd", "saved_usd", "unpriced", "input_usd"),
)


@dataclass(slots=True, kw_only=True)
class ConversationSums:
    """What a conversation comes to.

    Attributes:
        runs: how many runs it has; a call that no other continues is in none.
        run_numbers: of those runs, oldest first.
        errors: calls that failed.
        tools: how many tools have answered.
        tool_errors: how many of these answers said that the tool failed.
        priced: how many calls have a cost.
        unpriced: of how many calls a cost is missing.
        list_usd: the part of it at list price, which a subscription paid.
        saved_usd: what the provider's cache saved.
        input_usd: the part of the cost that the requests' tokens have, as far as it is known.
        models: those that answered, in the order in which they came.
        launch: the label of the launch that began it.
        preview: what the user asked first.
        first_seq: the number of its first row.
        last_seq: that of its newest call, or of its newest row where no call is left.
    """

    number: int
    calls: int = 0
    errors: int = 0
    tools: int = 0
    tool_errors: int = 0
    runs: int = 0
    run_numbers: list[int] = field(default_factory=list)
    priced: int = 0
    unpriced: int = 0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    list_usd: float | None = None
    saved_usd: float | None = None
    input_usd: float | None = None
    start_ns: int = 0
    end_ns: int = 0
    first_seq: int = 0
    last_seq: int = 0
    models: list[str] = field(default_factory=list)
    session: str | None = None
    client: str | None = None
    launch: str | None = None
    preview: str | None = None


def find_first(engine: Engine, where: Where) -> SpanSummary | None:
    """Find the row of the first question that the user asked, or the first row if none is known."""
    asked = engine.select(where.also(ask_known("preview")), 1, oldest_first=True).rows
    rows = asked or engine.select(where, 1, oldest_first=True).rows
    return rows[0] if rows else None


class Conversation:
    """One conversation.

    Args:
        engine: reads it.
        number: its number; there need not be such a conversation.
    """

    def __init__(self, engine: Engine, number: int) -> None:
        self._engine = engine
        self._number = number
        self._all = ALL_ROWS.also(conversation=number)
        self._calls = ALL_CALLS.also(conversation=number)

    def sum(self) -> ConversationSums | None:
        """Sum it up; ``None`` where there is none of that number."""
        amounts = self._engine.sum(self._all, (), _NAMES).groups.get((), ())
        known = dict(zip(_NAMES, amounts, strict=False))
        if known.get("last_seq") is None:
            return None
        known["last_seq"] = known.pop("last_call_seq") or known["last_seq"]
        known |= {name: known[name] or 0 for name in ("start_ns", "end_ns")}
        errors = known.pop("failed_calls")
        for name in ("cost_usd", "list_usd", "saved_usd", "input_usd"):
            known[name] = None if known[name] is None else float(known[name])
        sums = ConversationSums(number=self._number, errors=errors, **known)
        self._add_names(sums)
        if (first := find_first(self._engine, self._calls)) is not None:
            sums.preview, sums.launch = first.columns.preview, first.launch
        return sums

    def _add_names(self, sums: ConversationSums) -> None:
        """Add what its rows are of, in the order in which that came."""
        of = ("run", "model", "session", "client")
        found = self._engine.sum(self._all, of, ("first_seq",)).groups
        runs, models = set[int](), dict[str, None]()
        for run, model, session, client in sorted(found, key=lambda key: found[key]):
            if isinstance(run, int):
                runs.add(run)
            # A disk may have damaged any of them.
            if model and isinstance(model, str) and len(models) < MAX_NAMES:
                models[model] = None
            sums.session = sums.session or (session if isinstance(session, str) else None)
            sums.client = sums.client or (client if isinstance(client, str) else None)
        sums.runs, sums.run_numbers, sums.models = len(runs), sorted(runs), [*models]

    def run_numbers(self) -> list[int]:
        """Find the numbers of its runs, oldest first."""
        return sorted(self._engine.runs(self._all, LAST_SEQ))

    def calls(self, limit: int, *, after: int = 0) -> list[SpanSummary]:
        """Read calls of it, oldest first, those with a greater number than `after`."""
        return [*self._engine.select(self._calls, limit, after=after, oldest_first=True).rows]

    def family(self, is_late: Callable[[], bool]) -> Family:
        """Read its rows and its sub-agents (:mod:`telemetry.reading.conversation_family`)."""
        return read_family(self._engine, self._number, is_late)

    def has(self, where: Where, since: int) -> bool:
        """Tell whether it has a row that is meant, from a number on; texts are not looked for."""
        of_both = where.also(conversation=self._number)
        return bool(self._engine.select(of_both, 1, after=since - 1).rows)
