"""Breaks of a provider's cache: where a prompt stopped being read from it, and what changed there.

Rules:

1. A break is told only where the provider says how much came from the cache, and that is less than
   the call before it lets one expect, by more than :data:`STEP_TOKENS`. Less than
   :data:`MIN_CACHED_TOKENS` is expected of nobody.
2. What the call before read from the cache or wrote to it was there, and is expected. Where the
   prompt itself changed, all of the prompt before is, if the provider caches without being asked:
   it had a cache in this run, and tells of no writes. One that tells of writes (Anthropic) caches
   what is marked, and no more.
3. What broke it is the first thing that differs from the call before, in the order in which
   providers read a prompt: the model, the form of the answer, tools, system messages, the history;
   then options. Where nothing does, the cache expired or was evicted, or something changed that is
   not compared (:mod:`codec.history_items`): reasoning, reminders, marks for the cache.
4. Only prompts that the request has whole are compared.

Sources: OpenAI's cookbook "Prompt Caching 201" (an exact prefix, from 1,024 tokens, in steps of
128, best effort); platform.claude.com "Prompt caching" (breakpoints, 512 to 4,096 tokens by model;
tools, system, messages); ai.google.dev "Context caching" (implicit, from 2,048 or 4,096 tokens);
api-docs.deepseek.com "Context Caching" (whole prefix items only).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from codec.history_items import find_message
from codec.history_states import STATE_BYTES
from telemetry.conversations.prompt import MARKED, MAX_COMPARED_ITEMS, OPTIONS, OUTSIDE

if TYPE_CHECKING:
    from codec.call import Asked
    from telemetry.conversations.prompt import Prompt

MIN_CACHED_TOKENS: Final = 1_024
"""What OpenAI caches at least, and most models of Anthropic; a shorter prompt costs little anyway.
"""

STEP_TOKENS: Final = 128
"""OpenAI counts cached tokens in steps of so many, DeepSeek and others in smaller ones."""

UNCHANGED: Final = "expired_or_evicted"
"""What is told of a break where nothing that is compared differs (rule 3)."""

_ROLES: Final = frozenset({"assistant", "developer", "function", "model", "system", "tool", "user"})
"""Roles that are told; any other is a client's own word."""


class Change(NamedTuple):
    """The first thing in which a prompt differs from the one before.

    Attributes:
        name: of a member, or ``messages``.
        item: of the history that differs, ``None`` outside of it.
    """

    name: str
    item: int | None = None

    @property
    def is_option(self) -> bool:
        """Whether the text of the prompt is the same."""
        return self.name in OPTIONS


class CacheBreak(msgspec.Struct, frozen=True, gc=False):
    """A break.

    Attributes:
        call: the place of the call in its run, from 1.
        at: what broke it.
        cached: how many tokens came from the cache.
        expected: how many could be expected.
    """

    call: int
    at: str
    cached: int
    expected: int


def find_change(before: Prompt, now: Prompt) -> Change | None:
    """Find the first thing that differs (rule 3); ``None`` where the prompt only grew, or ended.

    ``None``, too, where they do not compare (rule 4), or differ behind what is kept.
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
    """Find the first item that differs: each state stands for all items up to it."""
    old, new = before.states, now.states
    count = min(before.items, now.items, MAX_COMPARED_ITEMS)

    def differs(item: int) -> bool:
        at = slice((item + 1) * STATE_BYTES, (item + 2) * STATE_BYTES)
        return old[at] != new[at]

    if not count or not differs(count - 1):
        return None
    return bisect_left(range(count), True, key=differs)  # noqa: FBT003


def find_break(before: Prompt, now: Prompt, change: Change | None) -> int | None:
    """Find a break (rules 1 and 2).

    Args:
        before: the prompt before.
        now: this call's.
        change: what :func:`find_change` found.

    Returns:
        How many cached tokens could be expected; ``None`` where no fewer came.
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
    """Name what broke a cache: an item by its message, whose place is that on the span.

    Args:
        change: what differs, if anything does.
        asked: the request whose prompt differs.
    """
    if change is None:
        return UNCHANGED
    found = None if change.item is None else find_message(asked.read_messages(), change.item)
    if found is None:
        return change.name
    place, message = found
    return f"message {place} ({message.role})" if message.role in _ROLES else f"message {place}"
