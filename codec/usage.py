"""Reads providers' usage objects, of many shapes, to one :class:`Usage` value.

Rules:

1. A count that the provider did not report is ``None``; a reported zero is zero (R6). Gateways
   write a zero if they do not know a count: of several names the first with a count above zero
   wins.
2. Names of other APIs are read, too, with the meaning that they have there: Anthropic's
   ``input_tokens`` beside tokens of a cache leaves these out, unless the total says otherwise.
3. A total below prompt + completion is wrong at its source, and is left out
   (``total_inconsistent``, ``docs/contract/spans.md#total``). A larger one is legitimate (Gemini).
4. A count is a non-negative integer. ``12.0`` is accepted, because gateways in languages with one
   number type write so; ``true``, ``"12"``, ``-1`` and numbers that no 64-bit attribute holds are
   not counts.
5. Details are parts of prompt and completion. Reasoning that only the total includes (xAI) is added
   to the completion. Tokens of a cache, or of sound (Mistral), are added to a prompt that has no
   room for them. A part that is still larger than its whole is left out
   (``details_inconsistent``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from codec.members import object_of
from codec.text.integers import count_of

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = (
    "BASIC_COUNTS",
    "COMPLETION_COUNTS",
    "PROMPT_COUNTS",
    "Usage",
    "UsageEstimate",
    "decode_token_usage",
    "decode_usage",
    "first_count",
    "make_usage",
)

BASIC_COUNTS: Final = ("prompt_tokens", "completion_tokens", "total_tokens")
"""The names of the counts that every chat has."""
PROMPT_COUNTS: Final = ("prompt_tokens", "input_tokens")
"""The names of the tokens of a request: a chat's, and those of other APIs."""
COMPLETION_COUNTS: Final = ("completion_tokens", "output_tokens")
"""The names of the tokens of an answer, likewise."""

_BASIC_NAMES: Final = frozenset(BASIC_COUNTS)
_OF_PROMPT: Final = (
    "prompt_tokens_details",
    "input_tokens_details",
    "input_token_details",  # transcriptions, Realtime
)
_OF_COMPLETION: Final = (
    "completion_tokens_details",
    "output_tokens_details",
    "output_token_details",
)
_CACHE_READ: Final = (
    "prompt_cache_hit_tokens",  # DeepSeek
    "cached_tokens",  # Together, Moonshot
    "cache_read_input_tokens",  # Anthropic, Databricks
)
"""The names of the tokens from a cache outside of details."""
_CACHE_WRITE: Final = "cache_creation_input_tokens"
_WRITE_DETAILS: Final = (
    "cache_write_tokens",
    "cache_creation_tokens",  # LiteLLM
    _CACHE_WRITE,  # Qwen
)
_HOUR: Final = "cache_creation"
_HOUR_DETAILS: Final = "cache_creation_token_details"  # LiteLLM
_MESSAGE_NAMES: Final = frozenset({"cache_read_input_tokens", _CACHE_WRITE})
_REASONING: Final = ("reasoning_tokens", "thinking_tokens")
_CACHE_READ_NAMES: Final = frozenset(_CACHE_READ)
_WRITE_NAMES: Final = frozenset(_WRITE_DETAILS)
_REASONING_NAMES: Final = frozenset(_REASONING)


class Usage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Token counts as the provider reported them.

    Attributes:
        prompt: tokens of the request, cached ones included.
        completion: tokens of the answer, reasoning included.
        total: the provider's total; ``None`` if it is inconsistent (rule 3).
        cache_read: the part of ``prompt`` that came from a cache.
        cache_write: the part of ``prompt`` that was written to a cache.
        cache_write_1h: the part of ``cache_write`` that is kept for an hour, at another price.
        prompt_audio: the part of ``prompt`` that is audio.
        cache_read_audio: the part of both ``cache_read`` and ``prompt_audio``.
        prompt_image: the part of ``prompt`` that is images.
        reasoning: the part of ``completion`` that is reasoning.
        completion_audio: the part of ``completion`` that is audio.
        anomalies: names of what was reported and left out, by rules 3 and 5.
        raw: the merged usage object, with its other members as they were on the wire.
    """

    prompt: int | None = None
    completion: int | None = None
    total: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = None
    prompt_audio: int | None = None
    cache_read_audio: int | None = None
    prompt_image: int | None = None
    reasoning: int | None = None
    completion_audio: int | None = None
    anomalies: tuple[str, ...] = ()
    raw: Mapping[str, Any] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageEstimate:
    """Tokens that the library's user counted (``docs/contract/sources.md#s3-13``).

    This is a separate type, so that nobody takes it for a :class:`Usage`: it belongs into the
    metadata, marked as an estimate. No tokenizer comes with spantap.
    """

    prompt: int | None = None
    completion: int | None = None

    def to_json(self) -> JsonObject:
        """Return the ``usage_estimate`` of ``docs/contract/spans.md#usage-estimate``."""
        return {"prompt": self.prompt, "completion": self.completion, "estimated": True}


def decode_usage(raw: Any) -> Usage | None:
    """Read a usage object; ``None`` if it is not one, or has nothing but nulls."""
    if not isinstance(raw, dict):
        return None
    if raw.get("prompt_tokens") is None and all(value is None for value in raw.values()):
        return None
    if raw.keys() <= _BASIC_NAMES:
        prompt, completion, total = map(count_of, map(raw.get, BASIC_COUNTS))
        return make_usage(raw, prompt=prompt, completion=completion, total=total)
    return _decode(raw, PROMPT_COUNTS, COMPLETION_COUNTS)


def decode_token_usage(raw: Any) -> Usage | None:
    """Read a usage object of an API whose counts are ``input_tokens`` and ``output_tokens``.

    OpenAI has these names in all its APIs except chats.
    """
    if not isinstance(raw, dict) or all(value is None for value in raw.values()):
        return None
    return _decode(raw, PROMPT_COUNTS[::-1], COMPLETION_COUNTS[::-1])


def make_usage(
    raw: Mapping[str, Any],
    *,
    prompt: int | None,
    completion: int | None,
    total: int | None,
    cache_read: int | None = None,
    cache_write: int | None = None,
    cache_write_1h: int | None = None,
    prompt_audio: int | None = None,
    cache_read_audio: int | None = None,
    prompt_image: int | None = None,
    reasoning: int | None = None,
    completion_audio: int | None = None,
) -> Usage:
    """Make a usage of counts; those that cannot be true are left out (rules 3 and 5)."""
    odd: tuple[str, ...] = ()
    if total is not None and total < (prompt or 0) + (completion or 0):
        total, odd = None, ("total_inconsistent",)
    of_prompt = (cache_read, cache_write, cache_write_1h, prompt_audio)
    of_completion = (reasoning, completion_audio)
    if any(of_prompt) or any(of_completion):
        both = (cache_read or 0) + (cache_write or 0)
        if prompt is not None and both > prompt:  # a token is read or written, never both
            cache_read = cache_write = cache_write_1h = None
        cache_write_1h = _within(cache_write, cache_write_1h)
        prompt_audio = _within(prompt, prompt_audio)
        reasoning = _within(completion, reasoning)
        completion_audio = _within(completion, completion_audio)
        kept = (cache_read, cache_write, cache_write_1h, prompt_audio)
        if (kept, (reasoning, completion_audio)) != (of_prompt, of_completion):
            odd += ("details_inconsistent",)
    return Usage(
        prompt=prompt,
        completion=completion,
        total=total,
        cache_read=cache_read,
        cache_write=cache_write,
        cache_write_1h=cache_write_1h,
        prompt_audio=prompt_audio,
        cache_read_audio=_within(cache_read, _within(prompt_audio, cache_read_audio)),
        prompt_image=_within(prompt, prompt_image),
        reasoning=reasoning,
        completion_audio=completion_audio,
        anomalies=odd,
        raw=raw,
    )


def first_count(members: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """Return the first count above zero under several names, else a reported zero (rule 1)."""
    found = None
    for name in names:
        count = count_of(members.get(name))
        if count:
            return count
        found = count if found is None else found
    return found


def _decode(raw: JsonObject, prompts: tuple[str, ...], completions: tuple[str, ...]) -> Usage:
    """Read a usage object, each count by the first of its names that has one."""
    of_prompt, of_completion = _details(raw, _OF_PROMPT), _details(raw, _OF_COMPLETION)
    read = count_of(of_prompt.get("cached_tokens"))
    if not read and not _CACHE_READ_NAMES.isdisjoint(raw):
        read = _either(read, first_count(raw, _CACHE_READ))
    written = None
    if not _WRITE_NAMES.isdisjoint(of_prompt) or _CACHE_WRITE in raw:
        written = _either(first_count(of_prompt, _WRITE_DETAILS), count_of(raw.get(_CACHE_WRITE)))
    reasoning = first_count(of_completion, _REASONING)
    if not reasoning and not _REASONING_NAMES.isdisjoint(raw):
        reasoning = _either(reasoning, first_count(raw, _REASONING))
    prompt, completion = first_count(raw, prompts), first_count(raw, completions)
    total = count_of(raw.get("total_tokens"))
    if reasoning and completion is not None and total == (prompt or 0) + completion + reasoning:
        completion += reasoning
    audio = count_of(of_prompt.get("audio_tokens"))
    cached = (read or 0) + (written or 0)
    if prompt is not None and (cached or audio):
        rest = None if total is None else total - (completion or 0)
        is_messages = not raw.get("prompt_tokens") and not _MESSAGE_NAMES.isdisjoint(raw)
        is_apart = is_messages and (rest is not None or not of_prompt)
        prompt = _add_beside(prompt, rest, cached, audio or 0, is_apart=is_apart)
    return make_usage(
        raw,
        prompt=prompt,
        completion=completion,
        total=total,
        cache_read=read,
        cache_write=written,
        cache_write_1h=None if written is None else _count_hour(raw, of_prompt),
        prompt_audio=audio,
        cache_read_audio=_count_cached_audio(of_prompt),
        prompt_image=count_of(of_prompt.get("image_tokens")),
        reasoning=reasoning,
        completion_audio=count_of(of_completion.get("audio_tokens")),
    )


def _add_beside(
    prompt: int, rest: int | None, cached: int, audio: int, *, is_apart: bool
) -> int | None:
    """Add to a prompt the tokens of a cache, or of sound, that it leaves out (rules 2 and 5).

    Args:
        prompt: the prompt as it was reported.
        rest: what the total leaves for the prompt; ``None`` if there is no total.
        cached: tokens of a cache, read and written.
        audio: tokens of sound.
        is_apart: the names are Anthropic's, whose prompt leaves out the tokens of a cache.
    """
    if is_apart and rest in (None, prompt + cached):
        return count_of(prompt + cached)
    if any(beside > prompt and rest == prompt + beside for beside in (cached, audio)):
        return rest
    return prompt


def _details(raw: JsonObject, names: tuple[str, ...]) -> Mapping[str, Any]:
    """Find the parts of a count under each name; a part above zero wins over a zero (rule 1)."""
    found: JsonObject = {}
    for name in names:
        details = raw.get(name)
        if not details or not isinstance(details, dict):
            continue
        kept = {key: value for key, value in found.items() if value} if found else {}
        found = {**details, **kept} if kept else details
    return found


def _count_hour(raw: JsonObject, of_prompt: Mapping[str, Any]) -> int | None:
    """The tokens that were written to a cache for an hour; they may be reported in two places."""
    for details in (of_prompt.get(_HOUR_DETAILS), raw.get(_HOUR)):
        if count := count_of(object_of(details).get("ephemeral_1h_input_tokens")):
            return count
    return None


def _count_cached_audio(of_prompt: Mapping[str, Any]) -> int | None:
    details = of_prompt.get("cached_tokens_details")  # Realtime's
    return None if details is None else count_of(object_of(details).get("audio_tokens"))


def _either(first: int | None, second: int | None) -> int | None:
    """The first of two counts that is above zero (rule 1)."""
    return first or second or (second if first is None else first)


def _within(whole: int | None, part: int | None) -> int | None:
    """The part; ``None`` if it is larger than its whole (rule 5)."""
    return None if part is not None and whole is not None and part > whole else part
