"""Merges the usage objects of a stream to one, incrementally and within bounds.

If several usage objects come, the last value of each member that is not null wins
(``docs/contract/wire.md#last-usage-wins``). Nothing is summed, with two exceptions: llama.cpp sends
one chunk for each choice, and TGI one usage for each prompt, with the finish reason of each choice
of a legacy completion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.budget import MEMBER_BYTES, Budget, size_bytes
from codec.text.integers import count_of
from codec.usage import BASIC_COUNTS, COMPLETION_COUNTS, first_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codec.text.jsontext import JsonObject

__all__ = ("MAX_USAGE_BYTES", "UsageFold", "merge_usage")

MAX_USAGE_BYTES = 64 * 1024
"""The most memory that a merged usage object may take, as an estimate. Real ones have less than
2 KiB; without a limit a stream could add members to it for ever."""

_SHARED_BYTES = MAX_USAGE_BYTES // 2
"""Largest object that surely fits, so that it need not be merged to find out: merging takes less
than twice its size (:func:`codec.budget.size_bytes`)."""


def merge_usage(into: JsonObject, new: JsonObject, budget: Budget) -> None:
    """Merge a usage object into what is known, including its details.

    Args:
        into: the known object, changed in place.
        new: the newer object. It is not changed; only its lists are shared, and stay as they are.
        budget: the room for the growth of ``into``; members that do not fit are left out.
    """
    for key, value in new.items():
        known = key in into
        old = into.get(key)
        if known and (value is None or value == old):
            continue
        if not (isinstance(old, dict) and isinstance(value, dict)):
            kept = {} if isinstance(value, dict) else value
            growth = size_bytes(kept)
            growth += -size_bytes(old) if known else len(key) + MEMBER_BYTES
            if not budget.reserve(growth):
                continue
            into[key] = kept
        if isinstance(value, dict):
            merge_usage(into[key], value, budget)


class UsageFold:
    """The usage of one stream, from all places where it comes.

    Attributes:
        raw: the merged object, empty until one came. It changes in place.
    """

    __slots__ = ("_alone_after", "_budget", "_is_shared", "_of_prompts", "_repeats", "raw")

    def __init__(self) -> None:
        self.raw: JsonObject = {}
        self._budget = Budget(MAX_USAGE_BYTES)
        self._is_shared = False  # the object is the chunk's, as in most streams, with one usage
        self._alone_after = 0
        self._of_prompts: dict[int, tuple[int | None, ...]] = {}
        self._repeats = False  # usage came otherwise than once for each prompt

    @property
    def exceeded(self) -> bool:
        """Whether a member was left out for :data:`MAX_USAGE_BYTES`; known counts are kept."""
        return self._budget.exceeded

    @property
    def has_completion(self) -> bool:
        """Whether a count of completion tokens is known."""
        return first_count(self.raw, COMPLETION_COUNTS) is not None

    def feed(self, raw: Any, *, alone_after: int = 0, prompt_of: int | None = None) -> None:
        """Fold the ``usage`` member of a chunk; anything but an object is ignored.

        Args:
            raw: the member's value; it is not changed.
            alone_after: for a chunk with ``choices: []`` the number of choices that had finished
                before it. llama.cpp with ``n > 1`` sends one such chunk after the finish of each
                choice, each counting only the tokens of that choice, and those alone are summed
                (``docs/contract/wire.md#usage-of-each-choice``). Before any finish, such a chunk
                holds running counts.
            prompt_of: for a chunk that finishes one choice of a legacy completion, its index. TGI
                answers several prompts so, with a separate usage for each.
        """
        if not isinstance(raw, dict):
            return
        sums = _sums(self.raw, raw) if 0 < self._alone_after < alone_after else {}
        self._merge(raw)
        self.raw.update(sums)  # replaces counts that are there, so nothing grows
        self._alone_after = alone_after or self._alone_after
        if prompt_of is None or prompt_of in self._of_prompts:
            self._repeats = True
        else:
            self._of_prompts[prompt_of] = _basic_counts(raw)

    def _merge(self, raw: JsonObject) -> None:
        if not self.raw and size_bytes(raw) <= _SHARED_BYTES:
            self.raw, self._is_shared = raw, True
            return
        if self._is_shared:
            first, self.raw, self._is_shared = self.raw, {}, False
            merge_usage(self.raw, first, self._budget)
        merge_usage(self.raw, raw, self._budget)

    def whole(self) -> JsonObject:
        """Return the usage of all choices.

        Usages are summed if they look like TGI's, one for each prompt: each came once, with the
        finish of another choice and with all counts, and they count different prompts. If the
        prompts have the same counts, nothing can be decided, and the last usage stands.
        """
        if self._repeats or not self._of_prompts:
            return self.raw
        counts = [*zip(*self._of_prompts.values(), strict=True)]
        if len(set(counts[0])) == 1:
            return self.raw
        if any(None in column for column in counts):
            return self.raw
        sums = (sum(count or 0 for count in column) for column in counts)
        return self.raw | dict(zip(BASIC_COUNTS, sums, strict=True))


def _sums(old: JsonObject, new: JsonObject) -> JsonObject:
    """Return the sums of two choices' counts; empty if they do not belong together."""
    prompt, *before = _basic_counts(old)
    same, *after = _basic_counts(new)
    if prompt is None or prompt != same or None in before or None in after:
        return {}
    completion = sum(count for count in (before[0], after[0]) if count is not None)
    return {"completion_tokens": completion, "total_tokens": prompt + completion}


def _basic_counts(raw: Mapping[str, Any]) -> tuple[int | None, int | None, int | None]:
    """Return the counts of the prompt, of the completion, and of both."""
    counts = map(raw.get, BASIC_COUNTS)
    prompt, completion, total = map(count_of, counts)
    return prompt, completion, total
