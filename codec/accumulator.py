"""Chunks to one answer, incrementally and within bounds.

Rules:

1. Choices are known by their ``index``, never by position; one without an index takes its place
   in the list (``dialects.md`` section 1, rule 2).
2. ``id``, ``model``, ``created``, ``system_fingerprint`` and ``service_tier`` keep the first value
   that is not empty (rule 10): Azure's first chunk has ``""`` and ``0``.
3. Usage is taken from ``usage``, ``x_groq.usage`` and ``choices[i].usage`` (rule 4), and comes
   also after finish reasons, and after the limit.
4. Finish reasons do not end anything: what follows is folded as well (rule 5).
5. A value that is neither chunk nor error is noted (``foreign_chunk``) and passed over.
6. No JSON value raises.
7. Past :data:`MAX_ACCUMULATED_BYTES` nothing grows any more (anomaly ``observer_limit``), but
   finish reasons, usage and errors are still taken (R5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.answer import ChatResponse
from codec.choice import ChoiceFold
from codec.chunk import find_error, is_chunk
from codec.members import Budget, merge_members
from codec.usage import UsageFold, decode_usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.chunk import ErrorObject
    from codec.jsontext import JsonObject
    from codec.usage import Usage

__all__ = ("MAX_ACCUMULATED_BYTES", "Accumulator")

MAX_ACCUMULATED_BYTES = 16 * 1024 * 1024
"""What the answer of one stream may take in memory, as an estimate: some 240,000 deltas of one
token each, about twice what the longest answers of today have, or 16 MiB in whole deltas."""

_CHOICE_BYTES = 2048  # what a choice takes before it says anything
_IDENTITY = {
    "id": str,
    "model": str,
    "created": int,
    "system_fingerprint": str,
    "service_tier": str,
}
_NOT_MERGED = frozenset({"choices"})


class Accumulator:
    """Folds the chunks of one stream, or one whole body. Not safe for concurrent calls.

    >>> accumulator = Accumulator()
    >>> accumulator.feed({"choices": [{"index": 0, "delta": {"content": "Hel"}}]})
    >>> accumulator.feed({"choices": [{"index": 0, "delta": {"content": "lo"}}]})
    >>> accumulator.response().choices[0].message.content
    'Hello'
    """

    __slots__ = (
        "_anomalies",
        "_body",
        "_budget",
        "_choices",
        "_error",
        "_identity",
        "_usage",
    )

    def __init__(self) -> None:
        self._budget = Budget(MAX_ACCUMULATED_BYTES)
        self._choices: dict[int, ChoiceFold] = {}
        self._usage = UsageFold()
        self._error: ErrorObject | None = None
        self._identity: JsonObject = {}
        self._body: JsonObject = {}
        self._anomalies: dict[str, None] = {}  # a set that keeps its order

    @property
    def has_content(self) -> bool:
        """Text, reasoning, a refusal or a tool call was seen."""
        return any(choice.has_content for choice in self._choices.values())

    @property
    def has_usage(self) -> bool:
        """A usage object was seen, wherever it rode."""
        return self._usage.raw is not None

    @property
    def finished(self) -> bool:
        """Every choice that was seen has a finish reason, and there is at least one."""
        choices = self._choices.values()
        return bool(choices) and all(choice.finish_reason for choice in choices)

    def feed(
        self, chunk: Any, *, event_name: str | None = None, hidden_usage: bool = False
    ) -> None:
        """Fold one chunk.

        Args:
            chunk: the decoded JSON of one event, of any type; it is not changed.
            event_name: the name of that event; whatever an ``error`` event carries is an error.
            hidden_usage: the client did not receive this chunk, a usage-only one: its usage counts,
                but the body does not show it (``span-contract.md`` 1.1, ``output.value``).
        """
        try:
            self._feed(chunk, event_name, hidden_usage=hidden_usage)
        except RecursionError:  # nested just within what the parser takes
            self.note("observer_limit")

    def note(self, anomaly: str) -> None:
        """Note an anomaly by its name in ``span-contract.md`` 1.8."""
        self._anomalies[anomaly] = None

    def note_error(self, error: ErrorObject) -> None:
        """Note an error; the first one is kept."""
        self._error = self._error or error

    def _feed(self, chunk: Any, event_name: str | None, *, hidden_usage: bool) -> None:
        if error := find_error(chunk, event_name):
            self.note_error(error)
        elif not is_chunk(chunk):
            self.note("foreign_chunk")
        if not isinstance(chunk, dict):
            return
        if len(self._identity) < len(_IDENTITY):
            self._feed_identity(chunk)
        choices = chunk.get("choices")
        if isinstance(choices, list):
            for position, choice in enumerate(choices):
                if isinstance(choice, dict):
                    self._feed_choice(position, choice)
        self._feed_usage(chunk, choices)
        if not hidden_usage:
            merge_members(
                self._body, chunk, skip=_NOT_MERGED, budget=self._budget, extend_lists=False
            )
        if self._budget.exceeded or self._usage.exceeded:
            self.note("observer_limit")

    def _feed_identity(self, chunk: JsonObject) -> None:
        for key, kind in _IDENTITY.items():
            value = chunk.get(key)
            if value and type(value) is kind:
                self._identity.setdefault(key, value)

    def _feed_usage(self, chunk: JsonObject, choices: Any) -> None:
        groq = chunk.get("x_groq")
        if isinstance(groq, dict):
            self._usage.feed(groq.get("usage"))
        usage = chunk.get("usage")
        if usage:
            finished = sum(1 for choice in self._choices.values() if choice.finish_reason)
            self._usage.feed(usage, alone_after=finished if choices == [] else None)

    def _feed_choice(self, position: int, choice: JsonObject) -> None:
        index = choice.get("index")
        if not isinstance(index, int) or isinstance(index, bool):
            index = position
        fold = self._choices.get(index)
        if fold is None:
            if not self._budget.take(_CHOICE_BYTES):
                return
            fold = self._choices[index] = ChoiceFold(index, self._budget, self.note)
        if "usage" in choice:
            self._usage.feed(choice["usage"])  # Moonshot
        fold.feed(choice)

    def response(self, *, done: bool = False, event_count: int = 0) -> ChatResponse:
        """Return the answer as it stands.

        More chunks may follow; they then show in ``body`` and ``logprobs`` of this one, too.

        Args:
            done: the end marker was seen.
            event_count: events with data, end marker excluded.
        """
        choices = [self._choices[index] for index in sorted(self._choices)]
        usage = decode_usage(self._usage.raw)
        return ChatResponse(
            **self._identity,
            choices=tuple(choice.choice() for choice in choices),
            usage=usage,
            error=self._error,
            done=done,
            event_count=event_count,
            anomalies=(*self._anomalies, *self._final_anomalies(usage)),
            body=self._whole_body(choices),
        )

    def _final_anomalies(self, usage: Usage | None) -> Iterator[str]:
        """Judge the whole. Where there was an error, what is missing is no anomaly beside it."""
        if usage is not None and usage.total_inconsistent:
            yield "total_inconsistent"
        if self._error is None and not self.finished:
            yield "no_finish_reason"
        if self._error is None and usage is None:
            yield "no_usage"

    def _whole_body(self, choices: list[ChoiceFold]) -> JsonObject:
        body = {"choices": [choice.body() for choice in choices]} if choices else {}
        return self._body | body
