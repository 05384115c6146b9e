"""The values of an answer. Immutable, and nothing is invented: what did not come is ``None`` (R6).

:mod:`codec.response` has the way to them from a plain body, :mod:`codec.stream` that from an event
stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from codec.chunk import ErrorObject
from codec.cost import Cost
from codec.usage import Usage

__all__ = ("ChatResponse", "Choice", "Message", "ToolCall")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One tool call of an answer.

    Attributes:
        id: the provider's id, first non-empty one.
        name: the function's name.
        arguments: the argument text exactly as sent (concatenated), JSON or not.
        type: ``function`` unless the provider said otherwise.
    """

    id: str | None = None
    name: str | None = None
    arguments: str = ""
    type: str = "function"


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The message of one choice.

    Attributes:
        role: as sent; ``assistant`` is not assumed.
        content: the text; ``None`` where no text came. Of a legacy completion, its ``text``.
        reasoning: from ``reasoning_content``, ``reasoning`` and the thinking parts of ``content``,
            equal texts counted once.
        refusal: the refusal text.
        tool_calls: in order of their index, or of arrival where that is missing.
        function_call: the legacy single call; its ``id`` is ``None``.
    """

    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    function_call: ToolCall | None = None


class Choice(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One choice, known by its own ``index``, not by its position.

    Attributes:
        finish_reason: verbatim, ``None`` where none came; never invented.
        logprobs: ``{"content": [...], "refusal": [...]}`` as sent and concatenated.
    """

    index: int
    message: Message
    finish_reason: str | None = None
    logprobs: Mapping[str, Any] | None = None


class ChatResponse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One chat completion.

    Attributes:
        id: first non-empty id.
        model: first non-empty model.
        created: seconds since the epoch, first non-zero.
        choices: sorted by index.
        choice_count: how many choices were asked for, as far as known.
        usage: what the provider reported, wherever it rode.
        cost: what the provider says the answer costs.
        error: the error object found in the body or stream.
        done: the end marker ``[DONE]`` was seen (streams only).
        event_count: events with data, end marker excluded (streams only).
        hidden_members: names of what hidden usage events said besides the usage, and no other event
            (streams only).
        anomalies: short names, ``span-contract.md`` 1.8, each once, in order of first sight.
        body: the whole as one JSON object, as the client received it. For a stream this is the
            accumulated object of ``span-contract.md`` 1.5.
    """

    id: str | None = None
    model: str | None = None
    created: int | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    choices: tuple[Choice, ...] = ()
    choice_count: int = 1
    usage: Usage | None = None
    cost: Cost | None = None
    error: ErrorObject | None = None
    done: bool = False
    event_count: int = 0
    hidden_members: tuple[str, ...] = ()
    anomalies: tuple[str, ...] = ()
    body: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Every choice that was seen has a finish reason, and there is at least one."""
        return bool(self.choices) and all(c.finish_reason is not None for c in self.choices)

    @property
    def is_complete(self) -> bool:
        """Nothing of this streamed answer is missing (``design.md`` section 6).

        That is: the end marker was seen, or a finish reason of every choice, of as many as were
        asked for, and a usage with a count of completion tokens.
        """
        return self.done or (
            self.finished
            and len(self.choices) >= self.choice_count
            and self.usage is not None
            and self.usage.completion is not None
        )
