"""Usage of a run: where its tokens went, and what that says.

Counts are sums of what the provider reported (R6). If a call did not report a count, the sum lacks
it, and the number of calls that the sum covers is given. A sum that does not fit into a 64-bit
attribute is left out. The parts of the prompts are an estimate, and are called one
(:mod:`telemetry.conversations.prompt`).

Nothing of the content is kept or shown, except names of tools that may be shown. Memory is bounded
(R5): one prompt is kept, and lists end at :data:`MAX_LISTED`. Nothing raises, whatever comes in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from codec.history_items import list_history_items
from codec.text.integers import count_of
from telemetry.conversations.cache_breaks import (
    MIN_CACHED_TOKENS,
    CacheBreak,
    find_break,
    find_change,
    name_change,
)
from telemetry.conversations.prompt import MARK_BYTES, MARKED, Prompt, estimate_parts, read_prompt
from telemetry.conversations.repeated_calls import RepeatedCalls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.asked import Asked
    from codec.history_items import HistoryItem, RequestItems
    from codec.history_states import Digests, States
    from codec.said import Said
    from codec.usage import Usage
    from telemetry.conversations.cache_breaks import Change

MAX_LISTED: Final = 8
"""How many cache breaks and compactions are listed, the first ones; all are counted."""

_KEPT_BYTES: Final = 4_000
"""The memory of a run's usage without the states of its prompt and its repeated calls."""

_ESTIMATE: Final = "estimated_tokens_by_part"

_COUNTS: Final = {
    "prompt": "prompt_tokens",
    "cache_read": "cached_tokens",
    "cache_write": "cache_write_tokens",
    "completion": "completion_tokens",
}
"""Counts of :class:`codec.usage.Usage`, and the names of their sums."""


class _Sum(msgspec.Struct):
    total: int = 0
    calls: int = 0


class UsageSums(msgspec.Struct):
    """The sums of a run so far."""

    sums: dict[str, _Sum] = {}

    def add(self, usage: Usage) -> None:
        """Add what the provider reported of a call."""
        for count, name in _COUNTS.items():
            if (tokens := getattr(usage, count)) is not None:
                known = self.sums.setdefault(name, _Sum())
                known.total += tokens
                known.calls += 1

    def summarise(self, calls: int) -> dict[str, object]:
        """Return the sums, and in ``calls_that_told`` how many calls a sum covers if not all."""
        summary: dict[str, object] = {}
        partial: dict[str, int] = {}
        for name in _COUNTS.values():
            known = self.sums.get(name)
            if known is None or count_of(known.total) is None:
                continue
            summary[name] = known.total
            if known.calls < calls:
                partial[name] = known.calls
        return summary | {"calls_that_told": partial} if partial else summary


class _Fall(msgspec.Struct, frozen=True):
    """A prompt that is much smaller than the one before."""

    call: int
    tokens_before: int
    tokens: int


class _Kept(msgspec.Struct):
    """Everything that is known of a run."""

    key_mark: bytes
    calls: int = 0
    counted: int = 0
    sums: UsageSums = msgspec.field(default_factory=UsageSums)
    parts: dict[str, int] | None = {}
    first: int = 0
    greatest: int = 0
    changes: dict[str, int] = {}
    breaks: list[CacheBreak] = []
    break_count: int = 0
    falls: list[_Fall] = []
    fall_count: int = 0
    before: Prompt | None = None
    repeated: RepeatedCalls = msgspec.field(default_factory=RepeatedCalls)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Kept).decode


class RunUsage:
    """Follows the calls of one run. Not safe for concurrent calls.

    Args:
        digests: makes the digests by which prompts are compared.
    """

    __slots__ = ("_digests", "_kept")

    def __init__(self, digests: Digests) -> None:
        self._digests = digests
        self._kept = _Kept(key_mark=_mark_key(digests))

    def add(
        self,
        asked: Asked,
        said: Said | None,
        *,
        items: RequestItems | None = None,
        states: States | None = None,
        answered: Sequence[HistoryItem] | None = None,
        shows_names: bool = True,
    ) -> dict[str, object]:
        """Add the next call of the run, and return what its own span may show.

        Args:
            asked: what was asked.
            said: what was answered; ``None`` if nothing came.
            items: the items of the request, if they were read already.
            states: the states of the history by the same digests, if they were made already.
            answered: the items of one choice of the answer, if they were read already.
            shows_names: names of tools may be shown.

        Returns:
            ``estimated_tokens_by_part``, if there is an estimate; ``cache_broke_at`` and
            ``cache_expected_tokens``, if the cache broke.
        """
        kept = self._kept
        kept.calls += 1
        if said is None:
            return {}
        answered = _list_items(said) if answered is None else answered
        if answered:
            kept.repeated.note(answered, self._digests, shows_names=shows_names)
        if said.usage is not None:
            kept.sums.add(said.usage)
        now = read_prompt(asked, said, self._digests, items=items, states=states)
        return {} if now is None else self._compare(asked, now)

    def _compare(self, asked: Asked, now: Prompt) -> dict[str, object]:
        """Compare a prompt with the one before, and keep it for the next."""
        kept, before = self._kept, self._kept.before
        kept.counted += 1
        kept.first = now.tokens if kept.counted == 1 else kept.first
        kept.greatest = max(kept.greatest, now.tokens)
        summary: dict[str, object] = {}
        if parts := self._estimate(now):
            summary[_ESTIMATE] = parts
        if before is not None:
            change = find_change(before, now)
            self._note_change(before, now, change)
            if (expected := find_break(before, now, change)) is not None:
                at = name_change(change, asked)
                summary |= {"cache_broke_at": at, "cache_expected_tokens": expected}
                kept.break_count += 1
                if len(kept.breaks) < MAX_LISTED:
                    kept.breaks.append(CacheBreak(kept.calls, at, now.cached or 0, expected))
        was_cached = now.was_cached or (before is not None and before.was_cached)
        kept.before = replace(now, was_cached=was_cached)
        return summary

    def _estimate(self, now: Prompt) -> dict[str, int]:
        """Estimate the parts of a prompt, and add them to those of the run.

        Together they are the prompt tokens of the run. If one counted call has no estimate, the run
        has none.
        """
        parts, sums = estimate_parts(now.tokens, now.chars), self._kept.parts
        if not parts:
            self._kept.parts = None
        elif sums is not None:
            for name, tokens in parts.items():
                sums[name] = sums.get(name, 0) + tokens
        return parts

    def _note_change(self, before: Prompt, now: Prompt, change: Change | None) -> None:
        """Note that a prompt begins differently from the one before, or that its history is cut."""
        kept = self._kept
        if change is not None and not change.is_option:
            kept.changes[change.name] = kept.changes.get(change.name, 0) + 1
        if not (before.is_whole and now.is_whole) or before.marks[0] != now.marks[0]:
            return  # the counts cover something else, or are those of another model
        is_cut = now.items < before.items or (change is not None and change.item is not None)
        fell = before.tokens >= MIN_CACHED_TOKENS and 4 * now.tokens <= 3 * before.tokens
        if is_cut and fell:
            kept.fall_count += 1
            if len(kept.falls) < MAX_LISTED:
                kept.falls.append(_Fall(kept.calls, before.tokens, now.tokens))

    def summarise(self) -> dict[str, object]:
        """Return what is known of the run as a small JSON object; an empty one if nothing is."""
        kept = self._kept
        summary = kept.sums.summarise(kept.calls)
        if kept.parts and "prompt_tokens" in summary:
            summary[_ESTIMATE] = dict(kept.parts)
        if kept.before is not None:
            summary["context"] = self._summarise_context(kept.before.tokens)
        if kept.changes:
            summary["prompt_changes"] = dict(kept.changes)
        if kept.breaks:
            summary["cache_breaks"] = [
                {
                    "call": one.call,
                    "at": one.at,
                    "cached_tokens": one.cached,
                    "expected_tokens": one.expected,
                }
                for one in kept.breaks
            ]
        if kept.break_count > MAX_LISTED:
            summary["cache_break_count"] = kept.break_count
        if repeated := kept.repeated.summarise():
            summary["repeated_tool_calls"] = repeated
        return summary

    def _summarise_context(self, last: int) -> dict[str, object]:
        kept = self._kept
        summary: dict[str, object] = {"first": kept.first, "last": last, "greatest": kept.greatest}
        if kept.falls:
            summary["compactions"] = [
                {"call": fall.call, "from": fall.tokens_before, "to": fall.tokens}
                for fall in kept.falls
            ]
        if kept.fall_count > MAX_LISTED:
            summary["compaction_count"] = kept.fall_count
        return summary

    @property
    def held_bytes(self) -> int:
        """The memory that the usage takes, more or less."""
        before = self._kept.before
        states = 0 if before is None else len(before.states)
        return _KEPT_BYTES + states + self._kept.repeated.held_bytes

    def save(self) -> bytes:
        """Write everything that is kept: digests, counts and names of tools, no other content."""
        try:
            return _encode(self._kept)
        except (msgspec.MsgspecError, OverflowError, UnicodeEncodeError):
            return b""  # a sum has more than 64 bits: the usage begins anew

    @classmethod
    def load(cls, data: bytes, digests: Digests) -> RunUsage:
        """Read what :meth:`save` wrote; other bytes give a fresh object.

        Digests of another key compare with nothing: then the sums stay, and comparing begins anew.
        """
        usage = cls(digests)
        try:
            kept = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return usage
        mark = usage._kept.key_mark
        if kept.key_mark != mark:
            kept.key_mark, kept.before = mark, None
        if kept.before is not None and len(kept.before.marks) not in {0, len(MARKED)}:
            kept.before = None  # another version wrote it
        usage._kept = kept
        return usage


def _mark_key(digests: Digests) -> bytes:
    return digests.make(b"usage of runs")[:MARK_BYTES]


def _list_items(said: Said) -> list[HistoryItem]:
    """List the items of an answer that calls tools: of its first choice if it has several."""
    answers = said.answers
    if len(answers) > 1 and len(choices := said.choices_of_answers) > 1:
        answers = choices[:1]
    messages = [answer.message for answer in answers]
    return [
        item for one in messages if type(one.content) is tuple for item in list_history_items(one)
    ]
