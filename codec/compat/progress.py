"""An answer as a start, its progress, and its completion (``seeds.md`` S3.9, S3.11).

For all choices; a chunk that says nothing, or has no choices, adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from codec.accumulator import Accumulator
from codec.compat.choices import text_of_choice
from codec.compat.stop_reasons import StopReason, stop_reason_of_chat
from codec.integers import index_of

if TYPE_CHECKING:
    from codec.answer import ChatResponse

__all__ = ("AnswerProgress", "ProgressKind", "ProgressStep")


class ProgressKind(StrEnum):
    """What a step tells."""

    START = "start"
    PROGRESS = "progress"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressStep:
    """One step of an answer.

    Attributes:
        kind: what it tells.
        choice: the choice's index; 0 for the start.
        text: the new text, where it is progress.
        stop: why the choice stopped, where it is completion; ``None`` where nobody said.
    """

    kind: ProgressKind
    choice: int = 0
    text: str = ""
    stop: StopReason | None = None


class AnswerProgress:
    """Turns the chunks of a chat into steps. Not safe for concurrent calls."""

    def __init__(self) -> None:
        self._accumulator = Accumulator()
        self._started = False

    def feed(self, chunk: Any) -> list[ProgressStep]:
        """Take a chunk and return the steps it makes."""
        self._accumulator.feed(chunk)
        steps = [] if self._started else [ProgressStep(kind=ProgressKind.START)]
        self._started = True
        listed = chunk.get("choices") if isinstance(chunk, dict) else None
        for position, choice in enumerate(listed if isinstance(listed, list) else ()):
            if text := text_of_choice(choice):
                index = index_of(choice.get("index"))
                steps.append(
                    ProgressStep(
                        kind=ProgressKind.PROGRESS,
                        choice=position if index is None else index,
                        text=text,
                    )
                )
        return steps

    def finish(self) -> tuple[list[ProgressStep], ChatResponse]:
        """Take the end: one completion for each choice, and the whole answer."""
        response = self._accumulator.response()
        steps = [
            ProgressStep(
                kind=ProgressKind.COMPLETE,
                choice=choice.index,
                stop=stop_reason_of_chat(choice.finish_reason),
            )
            for choice in response.choices
        ]
        return steps, response
