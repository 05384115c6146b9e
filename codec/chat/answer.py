"""The values of a chat completion's answer. Immutable, and nothing is invented (R6).

:mod:`codec.chat.response` reads them from a plain body, :mod:`codec.chat.stream` from an event
stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from codec.charges import Charges, read_charges
from codec.chat.chunk import ERROR_FINISH_REASONS
from codec.members import list_of, object_of
from codec.parts import Media, Message, Reasoning, Refusal, ToolCall
from codec.said import Answer, Ending, Said, Stop

__all__ = ("ChatMessage", "ChatResponse", "Choice", "ToolCall", "whole_object")

_STOPS: Final = {
    "stop": Stop.STOP,
    "length": Stop.LENGTH,
    "tool_calls": Stop.TOOL_CALL,
    "function_call": Stop.TOOL_CALL,
    "content_filter": Stop.CONTENT_FILTER,
    **dict.fromkeys(ERROR_FINISH_REASONS, Stop.ERROR),
}

_RAN: Final = "executed_tools"
_RUNS: Final = "builtin_function"

_OBJECTS: Final = {
    "chat.completion.chunk": "chat.completion",
    "text_completion.chunk": "text_completion",
}


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The message of one choice.

    Attributes:
        role: as sent; ``assistant`` is not assumed.
        content: the text; of a legacy completion, its ``text``.
        reasoning: as :mod:`codec.chat.reasoning` reads it; equal texts are there once.
        audio: the sound of a spoken answer, and its words.
        images: the images of the answer.
        tool_calls: in the order of their indexes, or of arrival if these are missing.
        function_call: the legacy single call; its ``id`` is ``None``.
    """

    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    audio: Media | None = None
    images: tuple[Media, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    function_call: ToolCall | None = None

    def read(self) -> Message:
        """The message as the record has it: reasoning, content, refusal, media, then the calls."""
        calls = self.tool_calls
        if self.function_call is not None:
            calls = (*calls, replace(self.function_call, type="function_call"))
        media = self.images if self.audio is None else (self.audio, *self.images)
        if not (self.reasoning or self.refusal or media or calls):
            return Message(self.role, self.content)
        parts = (
            *((Reasoning(text=self.reasoning),) if self.reasoning else ()),
            *((self.content,) if self.content else ()),
            *((Refusal(self.refusal),) if self.refusal else ()),
            *media,
            *calls,
        )
        return Message(self.role, parts)


class Choice(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A choice, known by its own ``index``, not by its position.

    Attributes:
        finish_reason: verbatim, never invented; ``None`` if none came.
        logprobs: ``{"content": [...], "refusal": [...]}`` as sent and concatenated.
    """

    index: int
    message: ChatMessage
    finish_reason: str | None = None
    logprobs: Mapping[str, Any] | None = None


class ChatResponse(Said, frozen=True, kw_only=True):
    """A chat completion.

    If a stream has several values of ``id``, ``model`` or ``created``, the first that is not empty
    counts.

    Attributes:
        choices: sorted by index.
        choice_count: how many choices were asked for, as far as known.
        done: the end marker ``[DONE]`` was seen (streams only).
        event_count: events with data, end marker excluded (streams only).
        body: the plain body; for a stream, the accumulated object of
            ``docs/contract/spans.md#accumulated-object``.
    """

    choices: tuple[Choice, ...] = ()
    choice_count: int = 1
    done: bool = False
    event_count: int = 0

    @property
    def finished(self) -> bool:
        """Whether every choice that was seen has a finish reason, and there is at least one."""
        return bool(self.choices) and all(c.finish_reason is not None for c in self.choices)

    @property
    def is_complete(self) -> bool:
        """Whether nothing of this streamed answer is missing.

        That is (``docs/contract/promises.md#endings``): the end marker was seen, or a finish reason
        of every choice, of as many as were asked for, and a usage with a count of completion
        tokens.
        """
        return self.done or (
            self.finished
            and len(self.choices) >= self.choice_count
            and self.usage is not None
            and self.usage.completion is not None
        )

    def read_charges(self) -> Charges:
        """Read what the answer is billed by besides its counts.

        The price of tools that Groq ran is not known, nor of a search that Moonshot is to run.
        """
        choices = map(object_of, list_of(self.body.get("choices")))
        ran = any(object_of(choice.get("message")).get(_RAN) for choice in choices)
        runs = any(call.type == _RUNS for one in self.choices for call in one.message.tool_calls)
        unknown = (*((_RAN,) if ran else ()), *((_RUNS,) if runs else ()))
        return read_charges({} if self.usage is None else self.usage.raw, unknown=unknown)

    def read_answers(self) -> Sequence[Answer]:
        """Read the messages of the choices."""
        return [
            Answer(
                index=choice.index,
                message=choice.message.read(),
                finish_reason=choice.finish_reason,
                stop=_STOPS.get(choice.finish_reason or ""),
            )
            for choice in self.choices
        ]

    @property
    def has_output(self) -> bool:
        """Whether there is a message."""
        return bool(self.choices)

    @property
    def tool_calls(self) -> Sequence[ToolCall]:
        """The calls of all choices, without making answers of these: most have none."""
        calls: list[ToolCall] = []
        for choice in self.choices:
            calls += choice.message.tool_calls
            if choice.message.function_call is not None:
                calls.append(choice.message.function_call)
        return calls

    @property
    def finish_reasons(self) -> Sequence[tuple[int, str]]:
        """The finish reasons: the index of each choice that has one, and its word."""
        return [
            (choice.index, choice.finish_reason)
            for choice in self.choices
            if choice.finish_reason is not None
        ]

    @property
    def failed_choice(self) -> tuple[int, str] | None:
        """The first choice whose finish reason says that the answer failed, and that word."""
        for choice in self.choices:
            if choice.finish_reason in ERROR_FINISH_REASONS:
                return choice.index, choice.finish_reason
        return None

    @property
    def refused(self) -> Sequence[int]:
        """The index of each choice that declines to answer."""
        return [choice.index for choice in self.choices if choice.message.refusal]

    def ending(self, *, streamed: bool) -> Ending:
        """Tell how far the answer came.

        A plain answer that finished is whole, because nothing more of it can come. For a stream
        that ends, one finish reason is enough: some servers finish only one choice of several.
        """
        if self.is_complete if streamed else self.finished:
            return Ending.COMPLETE
        has_stopped = not streamed or (self.finish_reasons and not self.is_cut_off)
        return Ending.STOPPED if has_stopped else Ending.OPEN

    def output(self, *, streamed: bool) -> Mapping[str, Any]:
        """The answer as one JSON object, whose ``object`` is that of a whole answer."""
        if streamed and isinstance(name := self.body.get("object"), str):
            return {**self.body, "object": whole_object(name)}
        return self.body


def whole_object(name: str) -> str:
    """Return the ``object`` of a whole answer for that of a chunk; another word stays as it is."""
    return _OBJECTS.get(name, name)
