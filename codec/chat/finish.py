"""Finish reasons, normalised to what they mean (``docs/contract/sources.md#s4-12``).

Records keep the wire value; this is a second, coarser reading of it.
"""

from __future__ import annotations

__all__ = ("normalise_finish_reason",)

_CLASSES = {
    "stop": "complete",
    "length": "length",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
}


def normalise_finish_reason(finish_reason: str | None, *, has_calls: bool = False) -> str | None:
    """Return ``complete``, ``length`` or ``tool_use``; any other word stays as it is.

    Args:
        finish_reason: as it was on the wire; ``None`` if none came.
        has_calls: the choice calls something. ``stop`` beside calls (Gemini, TGI, a named
            ``tool_choice``) means that they are to be run
            (``docs/contract/wire.md#finish-reasons``).
    """
    if finish_reason is None:
        return None
    kind = _CLASSES.get(finish_reason, finish_reason)
    return "tool_use" if has_calls and kind == "complete" else kind
