"""The counts of a message, steps that they leave out included.

Rules (``docs/contract/apis.md#counts`` and ``docs/contract/apis.md#messages-stream``):

1. The prompt's count includes what was read from a cache and written to it; the provider tells
   these apart. There is no total but their sum with the answer's.
2. A stream that broke off has no count of what was said: the one that it began with is a guess.
3. ``iterations`` are the steps in which a message was made. The counts are the sum of the
   ``message`` steps and leave compactions out, which the same model made and which are billed:
   these are added. An advisor is another model: its tokens stay in the raw usage.
4. Chats' names, by which gateways answer, mean what they mean in chats.
"""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from codec.members import list_of, object_of
from codec.text.integers import count_of
from codec.usage import decode_usage, first_count, make_usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codec.usage import Usage

__all__ = ("COMPLETION_COUNTS", "has_all", "read_counts")

COMPLETION_COUNTS: Final = ("output_tokens", "completion_tokens")
"""The names of the tokens of the answer; the second one is a chat's."""

_PARTS: Final = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
)
_NOTHING: Final = (0, 0, 0, 0, 0)
_Parts = tuple[int, ...]
"""The counts of :data:`_PARTS`, and last what was written to a cache for an hour."""


def read_counts(raw: Any, *, is_cut: bool) -> Usage | None:
    """Read a usage object; ``None`` where it is none, or has nothing but nulls.

    Args:
        raw: the usage of the message, as it was told last.
        is_cut: it came as a stream, of which the last counts are missing (rule 2).
    """
    if not isinstance(raw, dict) or all(value is None for value in raw.values()):
        return None
    prompt, read, written, _ = (count_of(raw.get(name)) for name in _PARTS)
    if not prompt and count_of(raw.get("prompt_tokens")):
        usage = decode_usage(raw)
        cut = {"completion": None, "total": None, "reasoning": None} if is_cut else {}
        return usage and replace(usage, **cut)
    completion = None if is_cut else first_count(raw, COMPLETION_COUNTS)
    more = _sum_compactions(raw)
    read, written = _add(read, more[1]), _add(written, more[2])
    hour = _add(_count_hour(raw), more[4])
    if prompt is not None:
        prompt = count_of(prompt + more[0] + (read or 0) + (written or 0))
    if completion is not None:
        completion = count_of(completion + more[3])
    both = prompt is not None and completion is not None
    return make_usage(
        raw,
        prompt=prompt,
        completion=completion,
        total=count_of((prompt or 0) + (completion or 0)) if both else None,
        cache_read=read,
        cache_write=written,
        cache_write_1h=hour,
        reasoning=count_of(object_of(raw.get("output_tokens_details")).get("thinking_tokens")),
    )


def has_all(raw: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether a usage object is the sum of its steps, compactions included or not (rule 3)."""
    said, compacted = _sum_steps(steps, "message"), _sum_steps(steps, "compaction")
    if not any(step.get("type") == "message" for step in steps):
        return True
    told, both = _read_parts(raw), tuple(map(add, said, compacted))
    return any(told[:4] == some[:4] and told[4] in {0, some[4]} for some in (said, both))


def _sum_compactions(raw: Mapping[str, Any]) -> _Parts:
    """Sum up the compactions, part by part, unless the counts have them already (rule 3)."""
    steps = [object_of(step) for step in list_of(raw.get("iterations"))]
    compacted = _sum_steps(steps, "compaction")
    if compacted == _NOTHING:
        return _NOTHING
    both = map(add, compacted, _sum_steps(steps, "message"))
    return _NOTHING if _read_parts(raw)[:4] == tuple(both)[:4] else compacted


def _sum_steps(steps: Sequence[Mapping[str, Any]], kind: str) -> _Parts:
    parts = [_read_parts(step) for step in steps if step.get("type") == kind]
    return tuple(map(sum, zip(*parts, strict=True))) if parts else _NOTHING


def _read_parts(step: Mapping[str, Any]) -> _Parts:
    counts = [count_of(step.get(name)) or 0 for name in _PARTS]
    return (*counts, _count_hour(step) or 0)


def _count_hour(step: Mapping[str, Any]) -> int | None:
    """The tokens that were written to a cache for an hour, a part of those written."""
    return count_of(object_of(step.get("cache_creation")).get("ephemeral_1h_input_tokens"))


def _add(count: int | None, more: int) -> int | None:
    """Add to a count, which stays absent where there is nothing to add."""
    return count if count is None and not more else count_of((count or 0) + more)
