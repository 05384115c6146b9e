"""Reads by what a message is billed besides its counts: the steps in which it was made, and tools.

Rules:

1. Each step is a request of its own: prices by the length of a prompt ask for that of the step. An
   advisor's step is another model's.
2. Steps that do not come to the counts, that another model took up (a refused attempt is billed in
   part), or that nobody knows, are named as unknown. So is code that the provider ran, by the hour,
   and so are searches that found something where no count of searches tells of any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from codec.apis.messages.counts import has_all, read_counts
from codec.charges import Charges, Step, read_charges
from codec.members import list_of, object_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("read_message_charges",)

_ADVICE: Final = "advisor_message"
_KINDS: Final = frozenset({"message", "compaction", _ADVICE})
_CODE: Final = "code_execution"
_FOUND: Final = "web_search_tool_result"


def read_message_charges(body: Mapping[str, Any], raw: Mapping[str, Any]) -> Charges:
    """Read what a message is billed by.

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
    """Tell whether a block is what a search of the web found; one that failed costs nothing."""
    return block.get("type") == _FOUND and isinstance(block.get("content"), list)


def _read_steps(raw: Mapping[str, Any]) -> tuple[Step, ...] | None:
    """Read the steps, none where there is but one; ``None`` where they are not known (rule 2)."""
    steps = [object_of(step) for step in list_of(raw.get("iterations"))]
    kinds = [text_of(step.get("type")) for step in steps]
    if kinds in ([], ["message"]):
        return ()
    models = {step.get("model") for step in steps if step.get("type") != _ADVICE}
    if not _KINDS.issuperset(kinds) or len(models) > 1 or not has_all(raw, steps):
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
