"""Finish reasons as llama-stack's stop reasons (``docs/contract/sources.md#s3-1``).

Two APIs, two maps; and unlike there, a null or an empty word says nothing and overwrites nothing
(``docs/contract/wire.md#finish-reasons``).
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ("StopReason", "stop_reason_of_chat", "stop_reason_of_completion")


class StopReason(StrEnum):
    """Why generation stopped."""

    END_OF_TURN = "end_of_turn"
    """The assistant has said what it had to say."""
    END_OF_MESSAGE = "end_of_message"
    """The model waits for something, a tool's result above all."""
    OUT_OF_TOKENS = "out_of_tokens"
    """The answer was cut."""


_OF_COMPLETIONS = {
    "stop": StopReason.END_OF_TURN,
    "eos": StopReason.END_OF_TURN,
    "eos_token": StopReason.END_OF_TURN,
    "eom": StopReason.END_OF_MESSAGE,
}
_OF_CHATS = {
    "length": StopReason.OUT_OF_TOKENS,
    "tool_calls": StopReason.END_OF_MESSAGE,
}


def stop_reason_of_completion(finish_reason: str | None) -> StopReason | None:
    """Read the finish reason of a legacy completion; what is not known counts as cut."""
    if not finish_reason:
        return None
    return _OF_COMPLETIONS.get(finish_reason, StopReason.OUT_OF_TOKENS)


def stop_reason_of_chat(finish_reason: str | None) -> StopReason | None:
    """Read the finish reason of a chat; what is not known counts as the end of the turn."""
    if not finish_reason:
        return None
    return _OF_CHATS.get(finish_reason, StopReason.END_OF_TURN)
