"""The counts of a message, and what else it is billed by: the steps it took, and tools.

See ``docs/contract/apis.md#counts`` and ``docs/contract/apis.md#messages-stream``.

The prompt's count includes tokens that were read from a cache or written to it; the provider
reports these separately. Anthropic reports no total: it is the sum of prompt and answer. Some
gateways answer with the names that chats use; the names mean the same.

``iterations`` lists the steps in which a message was made. The provider's counts are the sum of the
``message`` steps. They leave out compactions, which the same model made and which are billed, so
those are added. An advisor is another model: its tokens stay in the raw usage, and its steps are
not the message's. Each step is billed as a request by itself: where the price depends on the length
of the prompt, the step's own prompt counts.
"""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from codec.charges import Charges, Step, read_charges
from codec.members import list_of, object_of, text_of
from codec.text.integers import count_of
from codec.usage import decode_usage, first_count, make_usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codec.usage import Usage

__all__ = ("COMPLETION_COUNTS", "read_counts", "read_message_charges")

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
"""The counts of :data:`_PARTS`, and then the tokens written to a cache for an hour."""


def read_counts(raw: Any, *, is_cut: bool) -> Usage | None:
    """Read a usage object; ``None`` if it is not one, or has nothing but nulls.

    Args:
        raw: the last usage of the message.
        is_cut: the message came as a stream without its last counts. Then the count of the answer
            is left out, because the one that a stream begins with is a guess.
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


def _has_all(raw: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether a usage object is the sum of its steps, with or without compactions."""
    said, compacted = _sum_steps(steps, "message"), _sum_steps(steps, "compaction")
    if not any(step.get("type") == "message" for step in steps):
        return True
    counts, both = _read_parts(raw), tuple(map(add, said, compacted))
    return any(counts[:4] == some[:4] and counts[4] in {0, some[4]} for some in (said, both))


def _sum_compactions(raw: Mapping[str, Any]) -> _Parts:
    """Sum up the compactions, part by part, unless the counts include them already."""
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
    """The tokens written to a cache for an hour, a part of all that were written."""
    return count_of(object_of(step.get("cache_creation")).get("ephemeral_1h_input_tokens"))


def _add(count: int | None, more: int) -> int | None:
    """Add to a count; an absent count stays absent if there is nothing to add."""
    return count if count is None and not more else count_of((count or 0) + more)


_ADVICE: Final = "advisor_message"
_KINDS: Final = frozenset({"message", "compaction", _ADVICE})
_CODE: Final = "code_execution"
_FOUND: Final = "web_search_tool_result"


def read_message_charges(body: Mapping[str, Any], raw: Mapping[str, Any]) -> Charges:
    """Read what a message is billed by.

    Whatever has no known price is named as unknown: steps that are not known, code that the
    provider ran (billed by the hour), and searches that found something although no count reports a
    search.

    Args:
        body: the message.
        raw: its usage.
    """
    blocks = [*map(object_of, list_of(body.get("content")))]
    ran_code = any(
        block.get("type") == "server_tool_use" and str(block.get("name")).endswith(_CODE)
        for block in blocks
    )
    steps = _read_steps(raw)
    unknown = (*((_CODE,) if ran_code else ()), *(("iterations",) if steps is None else ()))
    charges = read_charges(raw, steps=steps or (), unknown=unknown)
    if charges.web_searches or not any(map(_has_found, blocks)):
        return charges
    return replace(charges, unknown=(*charges.unknown, _FOUND))


def _has_found(block: Mapping[str, Any]) -> bool:
    """Tell whether a block is what a search of the web found; a failed search costs nothing."""
    return block.get("type") == _FOUND and isinstance(block.get("content"), list)


def _read_steps(raw: Mapping[str, Any]) -> tuple[Step, ...] | None:
    """Read the steps; empty if there is only one, ``None`` if they are not known.

    They are not known if their sum is not the message's counts, if one is of an unknown type, or if
    another model took one over (a refused attempt is billed in part).
    """
    steps = [object_of(step) for step in list_of(raw.get("iterations"))]
    kinds = [text_of(step.get("type")) for step in steps]
    if kinds in ([], ["message"]):
        return ()
    models = {step.get("model") for step in steps if step.get("type") != _ADVICE}
    if not _KINDS.issuperset(kinds) or len(models) > 1 or not _has_all(raw, steps):
        return None
    if "message" not in kinds:
        steps.append({name: value for name, value in raw.items() if name != "iterations"})
    read = []
    for step in steps:
        is_advice = step.get("type") == _ADVICE
        tokens, model = read_counts(step, is_cut=False), text_of(step.get("model"))
        if tokens is None or (is_advice and model is None):
            return None
        read.append(Step(model if is_advice else None, tokens))
    return tuple(read)
