"""Breaks of a provider's cache: where a prompt stopped being read from it, and what changed there.

Sources: OpenAI's cookbook "Prompt Caching 201" (an exact prefix, from 1,024 tokens, in steps of
128, best effort); platform.claude.com "Prompt caching" (breakpoints, 512 to 4,096 tokens by model;
tools, system, messages); ai.google.dev "Context caching" (implicit, from 2,048 or 4,096 tokens);
api-docs.deepseek.com "Context Caching" (whole prefix units only).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from codec.history_items import find_message
from codec.history_states import STATE_BYTES
from codec.observations import read_observations
from telemetry.conversations.prompt import MARKED, MAX_COMPARED_ITEMS, OPTIONS, OUTSIDE

if TYPE_CHECKING:
    from codec.asked import Asked
    from telemetry.conversations.prompt import Prompt

MIN_CACHED_TOKENS: Final = 1_024
"""OpenAI and most models of Anthropic cache no fewer. A shorter prompt costs little anyway."""

STEP_TOKENS: Final = 128
"""OpenAI counts cached tokens in steps of this size, DeepSeek and others in smaller ones."""

UNCHANGED: Final = "expired_or_evicted"
"""The cause of a break if nothing that is compared differs."""

_ROLES: Final = frozenset({"assistant", "developer", "function", "model", "system", "tool", "user"})
"""Roles that are shown; any other is a client's own word."""


class Change(NamedTuple):
    """The first thing in which a prompt differs from the one before.

    Attributes:
        name: the name of the member that differs, or ``messages``.
        item: the place of the item of the history that differs; ``None`` if a member does.
    """

    name: str
    item: int | None = None

    @property
    def is_option(self) -> bool:
        """Whether only an option differs, and the text of the prompt is the same."""
        return self.name in OPTIONS


class CacheBreak(msgspec.Struct, frozen=True, gc=False):
    """A break.

    Attributes:
        call: the place of the call in its run, from 1.
        at: what broke the cache.
        cached: how many tokens came from the cache.
        expected: how many could be expected.
    """

    call: int
    at: str
    cached: int
    expected: int


def find_change(before: Prompt, now: Prompt) -> Change | None:
    """Find the first difference from the prompt before.

    The order is that in which providers read a prompt: the model, the form of the answer, tools,
    system messages, the history; then options.

    Returns:
        ``None`` if the prompt only grew or ended earlier, if one of the two is not whole, or if
        they differ only after what is kept. What is not compared may have changed all the same
        (:mod:`codec.history_items`): reasoning, reminders, marks for the cache.
    """
    if not (before.is_whole and now.is_whole):
        return None
    name = _find_mark(before, now)
    if name in OUTSIDE:
        return Change(name)
    item = _find_item(before, now)
    if item is not None:
        return Change("messages", item)
    return None if name is None else Change(name)


def _find_mark(before: Prompt, now: Prompt) -> str | None:
    if before.marks == now.marks:  # as most are
        return None
    marks = zip(MARKED, before.marks, now.marks, strict=True)
    return next(name for name, old, new in marks if old != new)


def _find_item(before: Prompt, now: Prompt) -> int | None:
    """Find the first item that differs: each state stands for all items before it."""
    old, new = before.states, now.states
    count = min(before.items, now.items, MAX_COMPARED_ITEMS)

    def differs(item: int) -> bool:
        at = slice((item + 1) * STATE_BYTES, (item + 2) * STATE_BYTES)
        return old[at] != new[at]

    if not count or not differs(count - 1):
        return None
    return bisect_left(range(count), True, key=differs)  # noqa: FBT003


def find_break(before: Prompt, now: Prompt, change: Change | None) -> int | None:
    """Find a break of the cache.

    A break is reported only if the provider says how much came from the cache, and if that is less
    than expected by more than :data:`STEP_TOKENS`. Fewer than :data:`MIN_CACHED_TOKENS` are never
    expected.

    What the call before read from the cache or wrote to it was there, and is expected again. If the
    prompt itself changed, the whole prompt before is expected, provided that the provider caches
    without being asked: it used a cache in this run, and reports no writes. A provider that reports
    writes (Anthropic) caches only what is marked.

    Args:
        before: the prompt before.
        now: the prompt of this call.
        change: what :func:`find_change` found.

    Returns:
        How many cached tokens were expected; ``None`` if as many came.
    """
    if now.cached is None or not (before.is_whole and now.is_whole):
        return None
    if change is None and min(before.items, now.items) > MAX_COMPARED_ITEMS:
        return None
    expected = (before.cached or 0) + (before.written or 0)
    caches_all = before.written is None and (before.was_cached or now.was_cached)
    if change is not None and not change.is_option and caches_all:
        expected = before.tokens
    expected = min(expected, now.tokens)
    fell = now.cached < expected - STEP_TOKENS
    return expected if fell and expected >= MIN_CACHED_TOKENS else None


def name_change(change: Change | None, asked: Asked) -> str:
    """Name what broke a cache. An item is named by its message and its place on the span.

    Args:
        change: the difference, if there is one.
        asked: the request whose prompt differs.
    """
    if change is None:
        return UNCHANGED
    if change.item is None:
        return change.name
    found = find_message(read_observations([*asked.read_messages()]), change.item)
    if found is None:
        return change.name
    place, message = found
    return f"message {place} ({message.role})" if message.role in _ROLES else f"message {place}"
