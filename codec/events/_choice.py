"""The events of one choice: they say what its fold has that it did not have before.

The fold is the observer's own (:class:`codec.chat.choice.ChoiceFold`), so that all deltas together
are the values of the answer. Rules here are those of :mod:`codec.events.stream`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from codec.chat.tool_calls import ToolCallSlots
from codec.events.kinds import (
    ArgumentsDelta,
    ArgumentsDone,
    ContentDelta,
    ContentDone,
    LogprobsContentDelta,
    LogprobsContentDone,
    LogprobsRefusalDelta,
    LogprobsRefusalDone,
    Prefix,
    RefusalDelta,
    RefusalDone,
)
from codec.text.jsontext import decode_json_object, join_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codec.budget import Budget
    from codec.chat.choice import ChoiceFold
    from codec.chat.tool_calls import CallSlot
    from codec.events.kinds import ChatEvent
    from codec.text.jsontext import JsonObject

__all__ = ("ChoiceEvents",)

_LOGPROBS_DELTAS: dict[str, type[LogprobsContentDelta | LogprobsRefusalDelta]] = {
    "content": LogprobsContentDelta,
    "refusal": LogprobsRefusalDelta,
}


class ChoiceEvents:
    """Finds the events of one choice.

    Args:
        fold: the choice's fold, to which nothing has been fed yet.
        budget: the room for what the fold keeps.
        note: gets the names of anomalies.
        as_openai_python: the events come in the order of openai-python (rule 2).
    """

    def __init__(
        self,
        fold: ChoiceFold,
        budget: Budget,
        note: Callable[[str], object],
        *,
        as_openai_python: bool,
    ) -> None:
        self._as_openai_python = as_openai_python
        self._fold = fold
        self._slots = fold.tool_calls = _TracedCalls(budget, note)
        # The fold shows its text joined only; events need the pieces, and never change them.
        self._content: list[str] = fold._content  # noqa: SLF001 - as said
        self._refusal: list[str] = fold._refusal  # noqa: SLF001 - as above
        self._logprobs: JsonObject = fold._logprobs  # noqa: SLF001 - as above
        self._seen: Counter[type[ChatEvent]] = Counter()  # pieces that events had, by their kind
        self._tokens: dict[str, Prefix] = {}  # by the member of the log probabilities
        self._calls: dict[CallSlot, _Call] = {}
        self._unfinished: dict[_Call, None] = {}  # a set that keeps its order
        self._current: _Call | None = None
        self._done: set[type[ChatEvent]] = set()

    def add_events(self, choice: JsonObject, events: list[ChatEvent], *, failed: bool) -> None:
        """Append the events of an entry of ``choices`` that was just fed to the fold.

        If its chunk has an error, too, there are no done events (rule 5).
        """
        has_empty_text = self._as_openai_python and _has_empty_content(choice)
        self._add_text(ContentDelta, self._content, events, is_new=has_empty_text)
        self._add_text(RefusalDelta, self._refusal, events)
        if not self._as_openai_python:
            if self._logprobs:
                self._add_logprobs(events)
            if self._slots.touched:
                self._add_calls(events, dones=events)
        else:
            dones: list[ChatEvent] = []
            self._add_calls(events, dones)
            self._add_logprobs(events)
            events += dones
        if choice.get("finish_reason") and self._fold.finish_reason is not None and not failed:
            events.extend(self.finish())

    def finish(self) -> Iterator[ChatEvent]:
        """Yield the done events of all that has begun and is not done."""
        yield from self._text_dones()
        while self._unfinished:
            yield self._call_done(next(iter(self._unfinished)))

    def _add_text(
        self,
        kind: type[ContentDelta | RefusalDelta],
        pieces: list[str],
        events: list[ChatEvent],
        *,
        is_new: bool = False,
    ) -> None:
        seen, count = self._seen[kind], len(pieces)
        if count > seen or is_new:
            self._seen[kind] = count
            delta, so_far = "".join(pieces[seen:]), Prefix(pieces, count)
            events.append(kind(choice_index=self._fold.index, delta=delta, so_far=so_far))

    def _add_logprobs(self, events: list[ChatEvent]) -> None:
        for member, kind in _LOGPROBS_DELTAS.items():
            entries = self._logprobs.get(member)
            if not isinstance(entries, list):
                continue
            known = self._tokens.get(member)
            # A value of another type in between makes the fold begin another list.
            seen = known.count if known is not None and known.items is entries else 0
            if len(entries) > seen:
                so_far = self._tokens[member] = Prefix(entries, len(entries))
                delta = tuple(entries[seen:])
                events.append(kind(choice_index=self._fold.index, delta=delta, so_far=so_far))

    def _add_calls(self, events: list[ChatEvent], dones: list[ChatEvent]) -> None:
        touched, self._slots.touched = self._slots.touched, []
        for slot, count in touched:
            call = self._calls.get(slot)
            if call is None:
                call = self._calls[slot] = _Call(slot, position=len(self._calls))
                self._unfinished[call] = None
            if call is not self._current:
                if self._as_openai_python:
                    dones.extend(self._text_dones())
                if self._current is not None:
                    dones.extend(self._leave(self._current))
                self._current = call
            events.append(
                ArgumentsDelta(
                    choice_index=self._fold.index,
                    index=call.index,
                    call_id=slot.id,
                    name=slot.name,
                    delta="".join(call.arguments[call.count : count]),
                    so_far=Prefix(call.arguments, count),
                )
            )
            call.count = count

    def _leave(self, call: _Call) -> Iterator[ChatEvent]:
        """Yield the done event of a call when another one's turn comes, if it is whole (rule 4)."""
        if call in self._unfinished and not call.left:
            call.left = True
            try:
                decode_json_object("".join(call.arguments))
            except ValueError:
                return
            yield self._call_done(call)

    def _call_done(self, call: _Call) -> ArgumentsDone:
        del self._unfinished[call]
        return ArgumentsDone(
            choice_index=self._fold.index,
            index=call.index,
            call_id=call.slot.id,
            name=call.slot.name,
            arguments=join_text(call.arguments),
        )

    def _text_dones(self) -> Iterator[ChatEvent]:
        index = self._fold.index
        if self._content and self._is_first(ContentDone):
            whole = self._content[-1:] if self._fold.is_cumulative else self._content
            yield ContentDone(choice_index=index, content=join_text(whole))
        if self._refusal and self._is_first(RefusalDone):
            yield RefusalDone(choice_index=index, refusal=join_text(self._refusal))
        tokens = self._tokens.get("content")
        if tokens and self._is_first(LogprobsContentDone):
            yield LogprobsContentDone(choice_index=index, content=tuple(tokens.taken()))
        tokens = self._tokens.get("refusal")
        if tokens and self._is_first(LogprobsRefusalDone):
            yield LogprobsRefusalDone(choice_index=index, refusal=tuple(tokens.taken()))

    def _is_first(self, kind: type[ChatEvent]) -> bool:
        first = kind not in self._done
        self._done.add(kind)
        return first


class _Call:
    """A tool call, as far as events have reported it."""

    __slots__ = ("arguments", "count", "index", "left", "slot")

    def __init__(self, slot: CallSlot, position: int) -> None:
        self.slot = slot
        self.index = position if slot.index is None else slot.index
        self.arguments: list[str] = slot._arguments  # noqa: SLF001 - as the choice's text
        self.count = 0  # how many pieces events had
        self.left = False  # another call had its turn meanwhile


class _TracedCalls(ToolCallSlots):
    """Tool calls that record to which of them the entries of a delta went."""

    __slots__ = ("touched",)

    def __init__(self, budget: Budget, note: Callable[[str], object]) -> None:
        super().__init__(budget, note)
        self.touched: list[tuple[CallSlot, int]] = []  # each call, and how many pieces it then had

    def _feed_entry(self, entry: JsonObject, index: int | None, *, stands_alone: bool) -> None:
        super()._feed_entry(entry, index, stands_alone=stands_alone)
        # After something did not fit nothing grows any more, and the last call may be another one.
        if self._last is not None and not self._budget.exceeded:
            self.touched.append((self._last, len(self._last._arguments)))  # noqa: SLF001 - as above


def _has_empty_content(choice: JsonObject) -> bool:
    delta: Any = choice.get("delta")
    return isinstance(delta, dict) and delta.get("content") == ""
