"""What was said, in one shape for all APIs: an answer, its messages and how it ended.

Answers and requests (:mod:`codec.asked`) are the record of a call. Each API reads its answers into
these values, whole or streamed. As in requests, nothing is invented (R6), and nothing raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from codec.charges import NO_CHARGES, Charges, read_charges
from codec.cost import Cost
from codec.embeddings import decode_vector
from codec.parts import Message
from codec.usage import Usage

if TYPE_CHECKING:
    from codec.asked import Tool
    from codec.parts import ToolCall
    from codec.rankings import Ranked
    from codec.verdicts import Verdict

__all__ = ("Answer", "Ending", "ErrorObject", "Said", "Stop", "Vector")

_CUT_OFF: Final = "event_cut_off"
_FOREIGN: Final = "foreign_chunk"
_ODD: Final = frozenset({_FOREIGN, "non_json_event"})
"""Anomalies of an answer, or a part of one, without any member of its API's answers."""


class Stop(StrEnum):
    """The reason why an answer ended, in the words of OpenTelemetry's message schema."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALL = "tool_call"
    CONTENT_FILTER = "content_filter"
    ERROR = "error"


class Answer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message of an answer.

    Attributes:
        index: its place on the wire.
        finish_reason: verbatim, never invented; ``None`` if none came.
        stop: the meaning of that word; ``None`` if the record has no word for it.
    """

    index: int
    message: Message
    finish_reason: str | None = None
    stop: Stop | None = None


class Vector(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An embedding.

    Attributes:
        index: the index of the input that it belongs to.
        value: the numbers as they came: a list, or base64 of 32-bit floats.
    """

    index: int
    value: Any

    def read(self) -> tuple[float, ...] | None:
        """Read the numbers; ``None`` if it has none."""
        return decode_vector(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorObject:
    """An error inside a body or a stream, in the provider's words.

    See ``docs/contract/wire.md#errors-in-a-200``.

    Attributes:
        code: as text (OpenRouter sends numbers).
        raw: the object as sent.
    """

    message: str
    type: str | None = None
    code: str | None = None
    raw: Any = None


class Ending(StrEnum):
    """How far an answer came, judged by the answer alone.

    See ``docs/contract/apis.md#how-an-answer-ends``.
    """

    COMPLETE = "complete"
    """The API's end mark was seen: nothing is missing, whichever side closes next."""
    STOPPED = "stopped"
    """All is there if the bytes end here, but no end mark was seen."""
    UNMARKED = "unmarked"
    """All is there if the bytes end here; the API never marks an end."""
    OPEN = "open"
    """More was to come."""
    CANCELLED = "cancelled"
    """Somebody stopped the answer, and it says so."""


class Said(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """An answer, put together.

    Each API derives a class from it, with what else its wire says.

    Attributes:
        created: seconds since the epoch.
        usage: the counts that the provider reported, wherever they stood.
        cost: what the answer costs, by the provider.
        error: the error in the answer.
        mime_type: the type of an answer whose content is not shown.
        output_bytes: the size of the sound in it, which is not kept.
        audio_seconds: how long that is, if its form is known.
        partial_images: how many unfinished images came before finished ones; they are not kept.
        hidden_members: names of members, besides usage, of events that the client does not receive.
        anomalies: short names, ``docs/contract/spans.md#anomalies``, each once, in the order in
            which they were first seen.
        body: the whole as one JSON object, as the client received it.
    """

    id: str | None = None
    model: str | None = None
    created: int | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    usage: Usage | None = None
    cost: Cost | None = None
    error: ErrorObject | None = None
    mime_type: str | None = None
    output_bytes: int | None = None
    audio_seconds: float | None = None
    partial_images: int | None = None
    hidden_members: tuple[str, ...] = ()
    anomalies: tuple[str, ...] = ()
    body: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @cached_property
    def answers(self) -> Sequence[Answer]:
        """The messages, sorted by index; they are read once, because many ask for them."""
        return self.read_answers()

    def read_answers(self) -> Sequence[Answer]:
        """Read the messages, sorted by index."""
        return ()

    @cached_property
    def tool_calls(self) -> Sequence[ToolCall]:
        """The calls of all messages."""
        return [call for answer in self.answers for call in answer.message.tool_calls]

    @property
    def choices_of_answers(self) -> Sequence[Answer]:
        """The messages, joined to one for each choice if the API has several for one."""
        return self.answers

    @property
    def vectors(self) -> Sequence[Vector]:
        """The embeddings."""
        return ()

    @property
    def ranking(self) -> Sequence[Ranked]:
        """The documents in their order, the best one first."""
        return ()

    @property
    def verdict(self) -> Verdict | None:
        """The verdict of a moderation."""
        return None

    @property
    def transcription_usage(self) -> Sequence[Mapping[str, Any]]:
        """The provider's usage of each transcript of what the user said, which has its own."""
        return ()

    @property
    def counted_tokens(self) -> int | None:
        """The number of tokens that was asked for, of an API that only counts them."""
        return None

    @property
    def has_output(self) -> bool:
        """Whether there is a message, a vector, a ranking or a verdict."""
        return bool(self.answers or self.vectors or self.ranking or self.verdict)

    @property
    def finish_reasons(self) -> Sequence[tuple[int, str]]:
        """The finish reasons: the index of each choice that has one, and its word."""
        return ()

    @property
    def failed_choice(self) -> tuple[int, str] | None:
        """The first choice whose finish reason says that the answer failed, and that word."""
        return None

    @property
    def refused(self) -> Sequence[int]:
        """The index of each message that declines to answer."""
        return ()

    def read_tools(self) -> Sequence[Tool]:
        """Read the tools that were on offer and are not in the request."""
        return ()

    def read_charges(self) -> Charges:
        """Read what the answer is billed by besides its counts."""
        return NO_CHARGES if self.usage is None else read_charges(self.usage.raw)

    def is_foreign(self, *, streamed: bool) -> bool:
        """Tell whether nothing in it belongs to an answer of its API.

        Then a plain answer has not one member of such an answer, and a stream only odd events.
        """
        if not streamed:
            return _FOREIGN in self.anomalies
        says_anything = self.usage or self.finish_reasons or self.has_output
        is_made = self.output_bytes or self.partial_images
        return not (says_anything or is_made or _ODD.isdisjoint(self.anomalies))

    @property
    def is_cut_off(self) -> bool:
        """Whether the answer is a stream that ends within an event."""
        return _CUT_OFF in self.anomalies

    def ending(self, *, streamed: bool) -> Ending:
        """Tell how far the answer came, as a stream or as a plain answer.

        A stream that is cut off within an event has not ended, whatever reason came before.
        """
        return Ending.OPEN if streamed else Ending.STOPPED

    def output(self, *, streamed: bool) -> Mapping[str, Any] | Sequence[Any] | str:  # noqa: ARG002
        """The answer, streamed or not, for ``output.value``: an object, or a list or text."""
        return dict(self.body)
