"""The profile of a dialect: how a provider departs from OpenAI's way to stream an answer.

Every default is OpenAI's way, so a profile lists departures only. Sources:
``docs/contract/wire.md#dialects`` for each dialect,
``docs/contract/wire.md#errors-in-a-200`` for errors, ``docs/contract/wire.md#framing`` for framing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codec.text.jsontext import JsonObject

__all__ = (
    "CallIndex",
    "CallShape",
    "Dialect",
    "ErrorForm",
    "ErrorShape",
    "Extras",
    "Framing",
    "NullUsage",
    "ReasoningShape",
    "Rejection",
    "RolePlace",
    "UsagePlace",
    "UsageShape",
)


class UsagePlace(Flag):
    """A place of usage in a stream; several at once are copies of one count."""

    NOWHERE = 0
    FINAL = auto()
    """On a last chunk with ``choices: []``."""
    BARE = auto()
    """On a last chunk that has no ``choices`` at all."""
    FINISH = auto()
    """On the chunk with the finish reason."""
    CHOICE = auto()
    """Inside the choice that has the finish reason."""
    GROQ = auto()
    """In ``x_groq`` beside the finish reason."""
    REPEAT = auto()
    """On a last chunk whose choice has nothing more to say."""
    EVERY = auto()
    """On every chunk with a choice, counted so far."""
    EACH_CHOICE = auto()
    """On a chunk with ``choices: []`` after the finish of each choice, which counts that alone."""


class NullUsage(Enum):
    """When the chunks without usage say ``usage: null``."""

    NEVER = auto()
    ASKED = auto()
    ALWAYS = auto()


class RolePlace(Enum):
    """The deltas that name the role."""

    FIRST = auto()
    EVERY = auto()
    NULL_LATER = auto()
    """The first; later ones say ``role: null``."""
    NONE = auto()


class CallIndex(Enum):
    """How calls are numbered."""

    COUNTED = auto()
    MISSING = auto()
    AFTER_TEXT = auto()
    """As blocks of content: the first call has 1."""


class ErrorForm(Enum):
    """How an error looks (``docs/contract/wire.md#errors-in-a-200``)."""

    MEMBER = auto()
    """``{"error": {...}}``."""
    OBJECT = auto()
    """``{"object": "error", ...}``."""
    TEXT = auto()
    """``{"error": "...", "error_type": "..."}``."""
    CHUNK = auto()
    """A chunk with a top-level ``error``, and the finish reason ``error``."""
    FINISH_REASON = auto()
    """A finish reason alone."""
    NOTHING = auto()
    """The stream just ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Framing:
    r"""How events are written.

    Attributes:
        line_end: ``\n`` or ``\r\n``.
        spaced: the JSON has spaces behind its separators.
        comments: lines before the first event, each a comment with a blank line behind it.
        comment_between: one more comment behind the first event.
        done: ``data: [DONE]`` ends the stream.
        content_type: the content type of the stream.
        blank_lines: blank lines before a plain body, with which a provider keeps the connection
            busy.
    """

    line_end: str = "\n"
    spaced: bool = False
    comments: tuple[str, ...] = ()
    comment_between: str | None = None
    done: bool = True
    content_type: str = "text/event-stream; charset=utf-8"
    blank_lines: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageShape:
    """The place and the form of usage in a stream.

    Attributes:
        asked: its places with ``include_usage``.
        unasked: its places without.
        null: when other chunks say ``usage: null``.
        continuous: ``continuous_usage_stats`` is obeyed.
        partial: completion and total are ``null`` until the finish.
        cached: the paths of cached prompt tokens.
        uncached: the path of the other prompt tokens.
        reasoning: the path of reasoning tokens.
        reasoning_apart: reasoning counts in the total, but not in the completion.
        members: further members of every usage object.
    """

    asked: UsagePlace = UsagePlace.FINAL
    unasked: UsagePlace = UsagePlace.NOWHERE
    null: NullUsage = NullUsage.NEVER
    continuous: bool = False
    partial: bool = False
    cached: tuple[str, ...] = ("prompt_tokens_details.cached_tokens",)
    uncached: str | None = None
    reasoning: str | None = "completion_tokens_details.reasoning_tokens"
    reasoning_apart: bool = False
    members: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallShape:
    """How tool calls come.

    Attributes:
        whole: a call is whole in one delta.
        with_finish: all calls are whole in the delta with the finish reason.
        index: how they are numbered.
        joined: the header already has the first piece of the arguments.
        later: members of the entries after the header.
        later_function: members of their ``function``.
        repeats_id: those entries have the id as well.
        members: further members of every header.
    """

    whole: bool = False
    with_finish: bool = False
    index: CallIndex = CallIndex.COUNTED
    joined: bool = False
    later: JsonObject = field(default_factory=dict)
    later_function: JsonObject = field(default_factory=dict)
    repeats_id: bool = False
    members: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningShape:
    """How reasoning comes; by default not at all.

    Attributes:
        member: the member of the delta that has it.
        detail: the list ``reasoning_details`` has it, too.
        tags: the tags between which it stands in the content.
        part: the type of the content part that has it, ``thinking`` or ``reasoning``.
        members: further members of a delta with reasoning.
    """

    member: str | None = None
    detail: bool = False
    tags: tuple[str, str] | None = None
    part: str | None = None
    members: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorShape:
    """How a stream fails, and what an error body looks like.

    Attributes:
        event: the event's name.
        finish_reason: the finish reason, in a form that has one.
        done: the end marker follows all the same.
        in_list: an error body stands in a list.
    """

    form: ErrorForm = ErrorForm.MEMBER
    event: str | None = None
    finish_reason: str = "error"
    done: bool = False
    body_form: ErrorForm = ErrorForm.MEMBER
    in_list: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """Members that only a provider has, by their place.

    Attributes:
        chunk: on every chunk; they may override its head.
        left_out: members of the head that are missing.
        first: on the first chunk of all.
        before: a chunk before the first one, without choices: members that differ in its head.
        finish: on a chunk with a finish reason.
        final: on the last chunk with usage (``FINAL``, ``BARE``, the last of ``EACH_CHOICE``).
        choice: in every choice, unless `finish_choice` applies.
        finish_choice: in a choice with a finish reason.
        delta: in every delta, unless one of the next two applies.
        call_delta: in a delta with calls.
        finish_delta: in the delta beside a finish reason.
        message: in the message of a plain answer.
        body: in a plain answer.
        padding: a member of every chunk that only makes it longer.
    """

    chunk: JsonObject = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    first: JsonObject = field(default_factory=dict)
    before: JsonObject | None = None
    finish: JsonObject = field(default_factory=dict)
    final: JsonObject = field(default_factory=dict)
    choice: JsonObject = field(default_factory=lambda: {"logprobs": None, "finish_reason": None})
    finish_choice: JsonObject = field(default_factory=dict)
    delta: JsonObject = field(default_factory=dict)
    call_delta: JsonObject = field(default_factory=dict)
    finish_delta: JsonObject = field(default_factory=dict)
    message: JsonObject = field(default_factory=dict)
    body: JsonObject = field(default_factory=dict)
    padding: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """The answer to a request that a provider does not accept."""

    status: int
    body: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A provider's way to write an answer.

    Attributes:
        name: the name of the dialect.
        role: which deltas name the role.
        refuses_apart: a refusal has a separate member; in other dialects it is text.
        finish_reasons: other words for finish reasons of chat streams.
        completion_finish_reasons: other words for finish reasons of legacy completions.
        finishes_twice: a chunk with a finish reason comes twice, the second one as ``REPEAT`` if
            the dialect has that.
        cumulative_content: the content of a delta is the whole text so far.
        whole_message: a choice has the whole ``message`` so far beside its delta.
        repeats_text: a choice has its ``text`` beside its delta.
        bare_values: chunks of a legacy completion are ``{"value": "..."}`` and no more.
        rejected_options: the answer to a request with ``stream_options``.
    """

    name: str
    framing: Framing = field(default_factory=Framing)
    usage: UsageShape = field(default_factory=UsageShape)
    calls: CallShape = field(default_factory=CallShape)
    reasoning: ReasoningShape = field(default_factory=ReasoningShape)
    error: ErrorShape = field(default_factory=ErrorShape)
    extras: Extras = field(default_factory=Extras)
    role: RolePlace = RolePlace.FIRST
    refuses_apart: bool = False
    finish_reasons: Mapping[str, str] = field(default_factory=dict)
    completion_finish_reasons: Mapping[str, str] = field(default_factory=dict)
    finishes_twice: bool = False
    cumulative_content: bool = False
    whole_message: bool = False
    repeats_text: bool = False
    bare_values: bool = False
    rejected_options: Rejection | None = None
