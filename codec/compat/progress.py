"""An answer as a start, its progress, and its completion (``docs/contract/sources.md#s3-9``).

For all choices; a chunk that says nothing, or has no choices, adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from codec.chat.accumulator import Accumulator
from codec.compat.choices import text_of_choice
from codec.compat.stop_reasons import StopReason, stop_reason_of_chat, stop_reason_of_completion
from codec.members import list_of, object_of
from codec.text.integers import index_of

if TYPE_CHECKING:
    from codec.chat.answer import ChatResponse

__all__ = ("AnswerProgress", "ProgressKind", "ProgressStep")


class ProgressKind(StrEnum):
    """The kind of a step."""

    START = "start"
    PROGRESS = "progress"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressStep:
    """One step of an answer.

    Attributes:
        choice: the choice's index; 0 for the start.
        text: the new text, where it is progress.
        stop: why the choice stopped, where it is completion; ``None`` where nobody said.
    """

    kind: ProgressKind
    choice: int = 0
    text: str = ""
    stop: StopReason | None = None


class AnswerProgress:
    """Turns the chunks of a chat or a legacy completion into steps. Not for concurrent calls.

    End markers stay in the text; :mod:`codec.compat.end_markers` cuts them.
    """

    def __init__(self) -> None:
        self._accumulator = Accumulator()
        self._started = False
        self._legacy: set[int] = set()  # choices of a legacy completion

    def feed(self, chunk: Any) -> list[ProgressStep]:
        """Feed a chunk and return the steps it makes."""
        self._accumulator.feed(chunk)
        steps = [] if self._started else [ProgressStep(kind=ProgressKind.START)]
        self._started = True
        for position, choice in enumerate(list_of(object_of(chunk).get("choices"))):
            if not isinstance(choice, dict):
                continue
            index = index_of(choice.get("index"))
            index = position if index is None else index
            delta = choice.get("delta")
            if not isinstance(delta, dict) and isinstance(choice.get("text"), str):
                self._legacy.add(index)
            # What stands beside a delta repeats it (Perplexity, Together).
            if text := text_of_choice({"delta": delta} if isinstance(delta, dict) else choice):
                step = ProgressStep(kind=ProgressKind.PROGRESS, choice=index, text=text)
                steps.append(step)
        return steps

    def finish(self) -> tuple[list[ProgressStep], ChatResponse]:
        """End the stream: one completion for each choice, and the whole answer."""
        response = self._accumulator.response()
        steps = [
            ProgressStep(
                kind=ProgressKind.COMPLETE,
                choice=choice.index,
                stop=stop_reason_of_completion(choice.finish_reason)
                if choice.index in self._legacy
                else stop_reason_of_chat(choice.finish_reason),
            )
            for choice in response.choices
        ]
        return steps, response
