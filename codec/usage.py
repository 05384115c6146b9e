"""Provider usage objects, of many shapes, to one :class:`Usage` value.

Rules:

1. A count the provider did not report is ``None``; a reported zero is zero (R6).
2. Of several usage objects the last non-null wins, field by field (``dialects.md`` section 1,
   rule 3); nothing is summed, but for llama.cpp's one-per-choice chunks and TGI's one-per-prompt
   usage, which comes with the finish reason of each choice of a legacy completion.
3. A total below prompt + completion is wrong at its source: it is left out and noted
   (``span-contract.md`` 1.4). A larger one is legitimate (xAI, Gemini).
4. A count is a non-negative integer. One written as ``12.0`` is accepted, for gateways in languages
   with one number type write it so; ``true``, ``"12"``, ``-1`` and what no 64-bit attribute holds
   are not counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from codec.budget import MEMBER_BYTES, Budget, size_bytes
from codec.members import object_of
from codec.text.integers import count_of

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = (
    "MAX_USAGE_BYTES",
    "Usage",
    "UsageEstimate",
    "UsageFold",
    "decode_token_usage",
    "decode_usage",
    "merge_usage",
)

MAX_USAGE_BYTES = 64 * 1024
"""The most that a merged usage object may take, as an estimate. Real ones have less than 2 KiB;
without a limit a stream could add members to it for ever."""

_SHARED_BYTES = MAX_USAGE_BYTES // 2
"""Largest object that need not be merged to know that it fits: merging it takes less than twice its
size (:func:`codec.budget.size_bytes`)."""

_BASIC_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_BASIC_NAMES = frozenset(_BASIC_COUNTS)
_CHAT_NAMES = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "input_tokens_details": "prompt_tokens_details",
    "input_token_details": "prompt_tokens_details",  # transcriptions
    "output_tokens_details": "completion_tokens_details",
}
# Where else than in details the tokens from a cache may be.
_CACHE_READ = (
    "prompt_cache_hit_tokens",  # DeepSeek
    "cached_tokens",  # Together, Moonshot
    "cache_read_input_tokens",  # Databricks
)


class Usage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Token counts as the provider reported them.

    Attributes:
        prompt: tokens of the request, cached ones included.
        completion: tokens of the answer, in the provider's own count.
        total: the provider's total, absent where inconsistent (rule 3).
        cache_read: the part of ``prompt`` that came from a cache.
        cache_write: the part of ``prompt`` that was written to a cache.
        prompt_audio: the part of ``prompt`` that is audio.
        reasoning: tokens of reasoning.
        completion_audio: the part of ``completion`` that is audio.
        raw: the merged usage object, other members as they were on the wire.
    """

    prompt: int | None = None
    completion: int | None = None
    total: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    prompt_audio: int | None = None
    reasoning: int | None = None
    completion_audio: int | None = None
    raw: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @property
    def excludes_reasoning(self) -> bool:
        """Whether ``reasoning`` comes on top of ``completion`` (xAI, ``dialects.md`` section 8).

        Elsewhere it is a part of it. Only a total that fits nothing else tells.
        """
        if self.total is None or not self.reasoning:
            return False
        counted = (self.prompt or 0) + (self.completion or 0)
        return counted + self.reasoning == self.total

    @property
    def total_inconsistent(self) -> bool:
        """Whether the provider sent a total that rule 3 left out."""
        return self.total is None and count_of(self.raw.get("total_tokens")) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageEstimate:
    """Tokens that somebody counted locally, where the provider reported none (``seeds.md`` S3.13).

    A value of its own, so that it can never be taken for a :class:`Usage`: it belongs into the
    metadata, marked. No tokenizer comes with spantap.
    """

    prompt: int | None = None
    completion: int | None = None

    def to_json(self) -> JsonObject:
        """Return the ``usage_estimate`` of ``span-contract.md`` 1.8."""
        return {"prompt": self.prompt, "completion": self.completion, "estimated": True}


def decode_usage(raw: Any) -> Usage | None:
    """Read a usage object; ``None`` where it is none, or has nothing but nulls."""
    if not isinstance(raw, dict):
        return None
    if raw.get("prompt_tokens") is None and all(value is None for value in raw.values()):
        return None
    prompt, completion = count_of(raw.get("prompt_tokens")), count_of(raw.get("completion_tokens"))
    total = count_of(raw.get("total_tokens"))
    if total is not None and total < (prompt or 0) + (completion or 0):
        total = None
    if raw.keys() <= _BASIC_NAMES:
        return Usage(prompt=prompt, completion=completion, total=total, raw=raw)
    of_prompt = object_of(raw.get("prompt_tokens_details"))
    of_completion = object_of(raw.get("completion_tokens_details"))
    cache_read = count_of(of_prompt.get("cached_tokens"))
    if cache_read is None:
        cache_read = _count(raw, _CACHE_READ)
    if cache_read is None:
        cache_read = count_of(object_of(raw.get("input_tokens_details")).get("cached_tokens"))
    cache_write = count_of(of_prompt.get("cache_write_tokens"))
    if cache_write is None:
        cache_write = count_of(raw.get("cache_creation_input_tokens"))
    reasoning = count_of(of_completion.get("reasoning_tokens"))
    if reasoning is None:
        reasoning = count_of(raw.get("reasoning_tokens"))  # Together, Perplexity
    return Usage(
        prompt=prompt,
        completion=completion,
        total=total,
        cache_read=cache_read,
        cache_write=cache_write,
        prompt_audio=count_of(of_prompt.get("audio_tokens")),
        reasoning=reasoning,
        completion_audio=count_of(of_completion.get("audio_tokens")),
        raw=raw,
    )


def decode_token_usage(raw: Any) -> Usage | None:
    """Read a usage object whose counts may be of ``input_tokens`` and ``output_tokens``.

    OpenAI has these names in all its APIs but chats.
    """
    if not isinstance(raw, dict):
        return None
    named = {chat: raw[name] for name, chat in _CHAT_NAMES.items() if name in raw}
    usage = decode_usage({**raw, **named})
    return usage and msgspec.structs.replace(usage, raw=raw)


def merge_usage(into: JsonObject, new: JsonObject, budget: Budget) -> None:
    """Merge a usage object into what is known, by rule 2, details included.

    Args:
        into: changed in place.
        new: the newer object; neither changed nor shared but for its lists, which stay as they are.
        budget: what the growth of ``into`` is taken from; members that do not fit are left out.
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
    """The usage of one stream, wherever its parts ride.

    Attributes:
        raw: the merged object, empty until one came. It changes in place.
    """

    __slots__ = ("_alone_after", "_budget", "_is_shared", "_of_prompts", "_repeats", "raw")

    def __init__(self) -> None:
        self.raw: JsonObject = {}
        self._budget = Budget(MAX_USAGE_BYTES)
        self._is_shared = False  # with the chunk that it came in: most streams have one usage
        self._alone_after = 0
        self._of_prompts: dict[int, tuple[int | None, ...]] = {}
        self._repeats = False  # usage came otherwise than once for each prompt

    @property
    def exceeded(self) -> bool:
        """Whether a member was left out by :data:`MAX_USAGE_BYTES`; known counts still count."""
        return self._budget.exceeded

    @property
    def has_completion(self) -> bool:
        """Whether a count of completion tokens is known."""
        return count_of(self.raw.get("completion_tokens")) is not None

    def feed(self, raw: Any, *, alone_after: int = 0, prompt_of: int | None = None) -> None:
        """Fold the ``usage`` member of a chunk; anything but an object is ignored.

        Args:
            raw: the member's value; it is not changed.
            alone_after: for a chunk with ``choices: []`` the number of choices that had finished
                before it. llama.cpp with ``n > 1`` sends one such chunk after the finish of each
                choice, each counting only the tokens of that choice, and those alone are summed
                (``dialects.md`` section 3). Before any finish, such a chunk holds running counts.
            prompt_of: for a chunk that finishes one choice of a legacy completion, its index. TGI
                answers several prompts so, each with a usage of its own.
        """
        if not isinstance(raw, dict):
            return
        sums = _sums(self.raw, raw) if 0 < self._alone_after < alone_after else {}
        self._merge(raw)
        self.raw.update(sums)  # of counts that are there: nothing grows
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

        Usages that came once each, with the finish of another choice, all counts there, and count
        different prompts are taken for TGI's, one of each prompt: they are summed. Where the
        prompts count the same there is no telling, and the last one stands.
        """
        if self._repeats or not self._of_prompts:
            return self.raw
        counts = [*zip(*self._of_prompts.values(), strict=True)]
        if len(set(counts[0])) == 1:
            return self.raw
        if any(None in column for column in counts):
            return self.raw
        sums = (sum(count or 0 for count in column) for column in counts)
        return self.raw | dict(zip(_BASIC_COUNTS, sums, strict=True))


def _sums(old: JsonObject, new: JsonObject) -> JsonObject:
    """Return the counts of two choices together, none where they do not belong together."""
    prompt, *before = _basic_counts(old)
    same, *after = _basic_counts(new)
    if prompt is None or prompt != same or None in before or None in after:
        return {}
    completion = sum(count for count in (before[0], after[0]) if count is not None)
    return {"completion_tokens": completion, "total_tokens": prompt + completion}


def _basic_counts(raw: Mapping[str, Any]) -> tuple[int | None, int | None, int | None]:
    """Return the counts of the prompt, of the completion, and of both."""
    counts = map(raw.get, _BASIC_COUNTS)
    prompt, completion, total = map(count_of, counts)
    return prompt, completion, total


def _count(raw: Mapping[str, Any], places: tuple[str, ...]) -> int | None:
    """Return the first count (rule 4) among several members."""
    for name in places:
        if (count := count_of(raw.get(name))) is not None:
            return count
    return None
