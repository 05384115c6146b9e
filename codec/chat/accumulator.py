"""Joins chunks to one answer, incrementally and within bounds.

Rules:

1. Choices are known by their ``index`` (:func:`codec.text.integers.index_of`), never by position; a
   choice without an index takes its place in the list
   (``docs/contract/wire.md#choices-by-index``).
2. ``id``, ``model``, ``created``, ``system_fingerprint`` and ``service_tier`` keep the first value
   that is not empty (``docs/contract/wire.md#first-value-stays``): Azure's first chunk has ``""``
   and ``0``.
3. Usage is taken from ``usage``, ``x_groq.usage`` and ``choices[i].usage``
   (``docs/contract/wire.md#places-of-usage``), also after finish reasons and beyond the limit.
4. Finish reasons do not end anything: later chunks are folded as well
   (``docs/contract/wire.md#finish-reasons``).
5. A value that is neither a chunk nor an error is noted (``foreign_chunk``) and ignored.
6. No JSON value raises. Members that a provider added are left out if they nest deeper than
   :data:`~codec.text.nesting.MAX_DEPTH` (``observer_limit``).
7. Beyond :data:`~codec.budget.MAX_ANSWER_BYTES` nothing grows, and after :data:`MAX_CHOICES` no
   choice is added (``observer_limit``), but finish reasons, usage and errors still count (R5).
8. The work for a chunk depends on the chunk alone, however much came before it.
9. A bare ``{"value": text}`` is text of choice 0 (Writer's legacy completions).
10. The answer is judged as a whole when it is asked for (``docs/contract/spans.md#anomalies``): a
    finish reason that promises calls although none came, argument text that is not JSON in a choice
    that was not cut (``docs/contract/wire.md#call-cut-off``), content that repeats itself.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from codec.budget import MAX_ANSWER_BYTES, Budget, size_bytes
from codec.chat.answer import ChatResponse
from codec.chat.choice import ChoiceFold
from codec.chat.chunk import ERROR_FINISH_REASONS, is_bare_value, is_chunk, is_plain_chunk
from codec.cost import decode_cost
from codec.error_objects import find_error, fit_error
from codec.members import merge_members
from codec.text.integers import index_of
from codec.usage import decode_usage
from codec.usage_fold import UsageFold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codec.growing_text import GrowingText
    from codec.said import ErrorObject
    from codec.text.jsontext import JsonObject
    from codec.usage import Usage

__all__ = ("MAX_CHOICES", "Accumulator")

MAX_CHOICES = 4096
"""The most choices of one answer; each is looked at in the end. OpenAI accepts an ``n`` up to 128,
and up to 2,048 prompts in one legacy completion."""

_MAX_IDENTITY_CHARACTERS = 1024
"""The longest ``id``, ``model`` and so on that is kept beyond the limit. Model names that are file
paths are shorter (``docs/contract/wire.md#dialects``, llama.cpp)."""

_WORST_GROWTH = 4
"""The shortest event that has text takes 45 bytes on the wire, and twice that in memory."""

_CHOICE_BYTES = 2048  # what a choice takes before it says anything
_IDENTITY = (
    ("id", str),
    ("model", str),
    ("created", int),
    ("system_fingerprint", str),
    ("service_tier", str),
)
_NOT_MERGED = frozenset({"choices"})
_OF_USAGE_EVENTS = _NOT_MERGED | {"object", "usage", "obfuscation", "p", *dict(_IDENTITY)}
_IS_CUMULATIVE = attrgetter("is_cumulative")
_LACKS_CALLS = attrgetter("lacks_calls")
_CUT_REASONS = ERROR_FINISH_REASONS | {None, "length", "content_filter"}


class Accumulator:
    """Folds the chunks of one stream, or one whole body. Not safe for concurrent calls.

    Args:
        choice_count: how many choices were asked for, at least 1.
        is_plain: the one value that is fed is a plain answer, or an answer that was folded before.
        lend: see :class:`codec.budget.Budget`.

    Attributes:
        budget: the room for all that is kept.
        has_content: text, reasoning, a refusal or a tool call was seen.

    >>> accumulator = Accumulator()
    >>> accumulator.feed({"choices": [{"index": 0, "delta": {"content": "Hel"}}]})
    >>> accumulator.feed({"choices": [{"index": 0, "delta": {"content": "lo"}}]})
    >>> accumulator.response().choices[0].message.content
    'Hello'
    """

    __slots__ = (
        "_anomalies",
        "_body",
        "_choice_count",
        "_choices",
        "_error",
        "_finished_count",
        "_hidden",
        "_identity",
        "_is_plain",
        "_is_whole",
        "_usage",
        "budget",
        "has_content",
    )

    def __init__(
        self,
        *,
        choice_count: int = 1,
        is_plain: bool = False,
        lend: Callable[[int], bool] | None = None,
    ) -> None:
        self.has_content = False
        self._is_plain = is_plain
        self._choice_count = choice_count
        self._finished_count = 0
        self.budget = Budget(MAX_ANSWER_BYTES, lend)
        self._choices: dict[int, ChoiceFold] = {}
        self._usage = UsageFold()
        self._error: ErrorObject | None = None
        self._identity: JsonObject = {}
        self._body: JsonObject = {}
        self._hidden: JsonObject = {}  # other members of hidden usage events
        self._is_whole = False  # the body came whole, and nothing is merged into it
        self._anomalies: dict[str, None] = {}  # a set that keeps its order

    @property
    def has_usage(self) -> bool:
        """Whether a usage with a count of completion tokens was seen, wherever it stood.

        Databricks sends usage with every chunk, of nulls until the end
        (``docs/contract/wire.md#dialects``).
        """
        return self._usage.has_completion

    @property
    def has_error(self) -> bool:
        """Whether an error was noted."""
        return self._error is not None

    @property
    def finished(self) -> bool:
        """Whether all choices that were asked for have finished, and no other was seen."""
        return self._choice_count <= self._finished_count == len(self._choices)

    def feed(
        self, chunk: Any, *, event_name: str | None = None, hidden_usage: bool = False
    ) -> None:
        """Fold one chunk.

        Args:
            chunk: the decoded JSON of one event, of any type; it is not changed.
            event_name: the name of that event; the data of an ``error`` event is always an error.
            hidden_usage: this is a usage-only chunk that the client did not receive: its usage and
                its cost count, but the body does not show it
                (``docs/contract/spans.md#output-value``, ``output.value``).
        """
        if event_name is not None or not is_plain_chunk(chunk):
            self._feed_unusual(chunk, event_name)
        if not isinstance(chunk, dict):
            return
        if len(self._identity) < len(_IDENTITY):
            self._feed_identity(chunk)
        choices = chunk.get("choices")
        if isinstance(choices, list):
            for position, choice in enumerate(choices):
                if isinstance(choice, dict):
                    self._feed_choice(position, choice)
        self._feed_usage(chunk, choices)
        if not self._is_whole:
            self._merge(chunk, hidden=hidden_usage)
        if self.budget.exceeded or self.budget.left_out or self._usage.exceeded:
            self.note("observer_limit")

    def feed_body(self, chunk: JsonObject, *, body: JsonObject) -> None:
        """Fold a whole answer instead of chunks. Neither object is changed.

        Args:
            chunk: the answer in the form of one chunk.
            body: the answer as it came; :meth:`response` returns it so.
        """
        self._is_whole = True
        self.feed(chunk)
        self._body = body

    def room_bytes(self, index: int) -> int:
        """Return how many bytes of events with text fit for a choice; 0 for an unknown choice."""
        if self.budget.exceeded or index not in self._choices:
            return 0
        return self.budget.left_bytes // _WORST_GROWTH

    def feed_texts(self, index: int, member: str, texts: list[str]) -> None:
        """Fold the texts of chunks of a choice in which nothing else is new; there is room for all.

        The texts are those of one member of the chunks' deltas (:mod:`codec.chat.template`).
        """
        self._choices[index].feed_texts(member, [*filter(None, texts)])

    def _merge(self, members: JsonObject, *, hidden: bool = False) -> None:
        into, skip = (self._hidden, _OF_USAGE_EVENTS) if hidden else (self._body, _NOT_MERGED)
        merge_members(into, members, skip=skip, budget=self.budget, extend_lists=False)

    def note(self, anomaly: str) -> None:
        """Note an anomaly by its name in ``docs/contract/spans.md#anomalies``."""
        self._anomalies[anomaly] = None

    def note_error(self, error: ErrorObject) -> None:
        """Note an error; the first one is kept, in a stream as far as there is room."""
        if self._error is None:
            self._error = error if self._is_whole else fit_error(error, self.budget)
            if self.budget.exceeded:
                self.note("observer_limit")

    def _feed_unusual(self, chunk: Any, event_name: str | None) -> None:
        """Fold what a plain chunk does not have."""
        if error := find_error(chunk, event_name):
            self.note_error(error)
        elif is_bare_value(chunk):
            self._feed_choice(0, {"text": chunk["value"]})
        elif not is_chunk(chunk):
            self.note("foreign_chunk")

    def _feed_identity(self, chunk: JsonObject) -> None:
        identity = self._identity
        for key, kind in _IDENTITY:
            value = chunk.get(key)
            if not value or type(value) is not kind or key in identity:
                continue
            size = len(value) if isinstance(value, str) else size_bytes(value)
            if size <= _MAX_IDENTITY_CHARACTERS:
                identity[key] = value
            else:
                self.note("observer_limit")

    def _feed_usage(self, chunk: JsonObject, choices: Any) -> None:
        groq = chunk.get("x_groq")
        if isinstance(groq, dict):
            self._usage.feed(groq.get("usage"))
        usage = chunk.get("usage")
        if usage:
            self._usage.feed(
                usage,
                alone_after=self._finished_count if choices == [] else 0,
                prompt_of=self._finishing_completion(choices),
            )

    def _finishing_completion(self, choices: Any) -> int | None:
        """Return the index of the one choice that a chunk of a legacy completion finishes."""
        if not (isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], dict)):
            return None
        choice = choices[0]
        index = index_of(choice.get("index"))
        fold = self._choices.get(index) if index is not None else None
        finishes = fold is not None and fold.is_completion and bool(choice.get("finish_reason"))
        return index if finishes else None

    def _feed_choice(self, position: int, choice: JsonObject) -> None:
        index = index_of(choice.get("index"))
        if index is None:
            index = position
        fold = self._choices.get(index)
        if fold is None:
            if len(self._choices) == MAX_CHOICES or not self.budget.reserve(_CHOICE_BYTES):
                self.note("observer_limit")
                return
            fold = self._choices[index] = ChoiceFold(index, self.budget, self._anomalies.setdefault)
        if "usage" in choice:
            self._usage.feed(choice["usage"])  # Moonshot
        was_finished = fold.finish_reason is not None
        fold.feed(choice, is_plain=self._is_plain)
        self._finished_count += fold.finish_reason is not None and not was_finished
        self.has_content = self.has_content or fold.has_content

    def look(
        self, index: int = -1, member: str = "", pending: Sequence[str] = ()
    ) -> Sequence[GrowingText]:
        """Look at the texts that have come so far.

        Args:
            index: the choice that has texts which are not folded yet.
            member: the member of its deltas that has these texts.
            pending: these texts.
        """
        return [
            text
            for _, fold in sorted(self._choices.items())
            for text in fold.look(member, pending if fold.index == index else ())
        ]

    def response(self, *, done: bool = False, event_count: int = 0) -> ChatResponse:
        """Return the answer as it stands.

        If more chunks follow, they also change ``body``, ``logprobs`` and ``usage.raw`` of this
        answer.
        """
        choices = [self._choices[index] for index in sorted(self._choices)]
        usage = decode_usage(self._usage.whole())
        body, hidden = self._body, self._hidden
        return ChatResponse(
            **self._identity,
            choices=tuple(choice.choice() for choice in choices),
            choice_count=self._choice_count,
            usage=usage,
            cost=decode_cost(usage.raw if usage else {}, body | hidden if hidden else body),
            error=self._error,
            done=done,
            event_count=event_count,
            anomalies=(*self._anomalies, *self._final_anomalies(choices, usage)),
            hidden_members=tuple([name for name in hidden if body.get(name) != hidden[name]]),
            body=body if self._is_whole else self._whole_body(choices),
        )

    def _final_anomalies(self, choices: list[ChoiceFold], usage: Usage | None) -> Iterator[str]:
        """Judge the whole. If there is an error, missing parts are not anomalies."""
        if any(map(_IS_CUMULATIVE, choices)):
            yield "cumulative_content"
        if any(map(_LACKS_CALLS, choices)):
            yield "missing_tool_calls"
        whole = [choice for choice in choices if choice.finish_reason not in _CUT_REASONS]
        if self._error is None and any(choice.has_bad_arguments for choice in whole):
            yield "bad_tool_arguments"
        if usage is not None:
            yield from usage.anomalies
        unfinished = not self._choices or self._finished_count < len(self._choices)
        if self._error is None and unfinished:
            yield "no_finish_reason"
        if self._error is None and usage is None:
            yield "no_usage"

    def _whole_body(self, choices: list[ChoiceFold]) -> JsonObject:
        body = {"choices": [choice.body() for choice in choices]} if choices else {}
        return self._body | body
