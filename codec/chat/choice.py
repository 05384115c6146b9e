"""A choice of an answer, folded from deltas or read from a whole message.

A stream and a plain body go through the same code, so that the same answer gives the same values
(``docs/contract/sources.md#n3``). Text is kept in the fragments that came, and joined once, at the
end. The texts of many chunks that are folded together become one fragment, unless rule 5 may still
apply.

Rules:

1. Content, refusal and reasoning are appended; the role is replaced, because it may come with every
   delta. The first finish reason that is not empty is kept
   (``docs/contract/wire.md#finish-reasons``); ``stop`` gives way to one that promises calls, if
   there are calls.
2. Content may be text or a list of parts, also both in one stream (Mistral). Thinking parts are
   reasoning.
3. Reasoning may come in several ways (:mod:`codec.chat.reasoning`). Besides the content there may
   be sound (:mod:`codec.chat.spoken`), and images in lists, which are joined.
4. A ``message`` beside a ``delta`` repeats what the deltas said (Perplexity), and is never read.
   Copilot splits a plain answer into several choices with one index: their messages are one, and
   ``stop`` gives way to any other reason. ``text`` is read if there is neither: a legacy completion
   (``docs/contract/sources.md#s3-2``; Together's chats have ``text`` beside the delta).
5. If every fragment of content begins with the one before, and at least four of them grew, each is
   the text so far (gateways before Qwen, ``docs/contract/wire.md#text-so-far``): the last one is
   the content (:mod:`codec.chat.fragments`). The body stays what the client received.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from codec.budget import FRAGMENT_BYTES, size_bytes
from codec.chat.answer import ChatMessage, Choice
from codec.chat.chunk import PROMISE_CALLS
from codec.chat.fragments import are_cumulative, look_at_pieces
from codec.chat.reasoning import ALL_MEMBERS, REASONING_MEMBERS, ReasoningFold
from codec.chat.spoken import SpokenFold
from codec.chat.tool_calls import CallSlot, ToolCallSlots
from codec.growing_text import GrowingText, TextKind
from codec.media import read_made_images
from codec.members import list_of, merge_members, text_of, without_empty
from codec.text.jsontext import is_json, join_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codec.budget import Budget
    from codec.text.jsontext import JsonObject

__all__ = ("ChoiceFold",)

_MAX_REASON_CHARACTERS = 256
"""A finish reason is a word. It is taken even beyond the answer's limit, so it has a limit itself
(R5)."""

_CHOICE_MEMBERS = frozenset({"index", "delta", "message", "finish_reason", "logprobs"})
_COMPLETION_MEMBERS = _CHOICE_MEMBERS | {"text"}
_DELTA_MEMBERS = frozenset(
    {"role", "content", "refusal", "tool_calls", "function_call", "audio", *REASONING_MEMBERS}
)


class ChoiceFold:
    """A choice, as far as its chunks have come.

    Args:
        index: the choice's own index.
        budget: the room for what it keeps.
        note: gets the names of anomalies (``docs/contract/spans.md#anomalies``).

    Attributes:
        finish_reason: ``None`` until one came.
        is_completion: the choice is one of a legacy completion, with ``text`` and no message.
        has_content: text, reasoning, a refusal, sound, an image or a call was seen.
    """

    __slots__ = (
        "_budget",
        "_content",
        "_extra",
        "_function_call",
        "_joined",
        "_logprobs",
        "_message_extra",
        "_note",
        "_parts",
        "_reasoning",
        "_refusal",
        "_role",
        "_spoken",
        "finish_reason",
        "has_content",
        "index",
        "is_completion",
        "tool_calls",
    )

    def __init__(self, index: int, budget: Budget, note: Callable[[str], object]) -> None:
        self.index = index
        self.finish_reason: str | None = None
        self.tool_calls = ToolCallSlots(budget, note)
        self.has_content = False
        self.is_completion = False
        self._budget = budget
        self._note = note
        self._role: str | None = None
        self._content: list[str] = []
        self._joined = 0, ""  # how many fragments of content, and their text
        self._refusal: list[str] = []
        self._reasoning = ReasoningFold(budget)
        self._spoken: SpokenFold | None = None
        self._parts: list[tuple[str, Any]] | None = None  # (kind, text), once a list came
        self._function_call: CallSlot | None = None
        self._logprobs: JsonObject = {}
        self._extra: JsonObject = {}
        self._message_extra: JsonObject = {}

    def feed(self, choice: JsonObject, *, is_plain: bool = False) -> None:
        """Fold one entry of ``choices``: a delta, a whole message, or text.

        Args:
            choice: the entry.
            is_plain: the entry is one of a plain answer, where each message counts (rule 4).
        """
        delta = choice.get("delta")
        is_message = "delta" not in choice
        if is_message and (is_plain or not self.has_content):
            delta = choice.get("message")
        known = _CHOICE_MEMBERS
        if isinstance(delta, dict):
            if delta:
                self._feed_delta(delta, is_whole=is_message)
        elif isinstance(text := choice.get("text"), str) and self._may_be_completion:
            known = _COMPLETION_MEMBERS
            self.is_completion = True
            if text:
                self._append(self._content, text)
        finish_reason = choice.get("finish_reason")
        if finish_reason and isinstance(finish_reason, str):
            self._finish(finish_reason, is_plain=is_plain)
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict):
            self._merge(self._logprobs, logprobs)
        if not choice.keys() <= known:
            self._merge(self._extra, choice, known)

    def feed_texts(self, member: str, texts: list[str]) -> None:
        """Fold the texts of deltas in which nothing else is new (:mod:`codec.chat.template`).

        No text is empty, and there is room for all; `member` is ``content`` or one of reasoning.
        """
        if not texts:
            return
        whole = "".join(texts)
        self._budget.reserve_text(whole, len(texts))
        if member != "content":
            self._reasoning.feed_texts(member, whole)
            self._budget.spare(FRAGMENT_BYTES * len(texts))
            return
        if self._parts is not None:
            self._parts.append(("text", whole))
        begin = [*self._content[:2], *texts[:2]][:2]
        if begin[-1].startswith(begin[0]):
            self._content += texts  # each may be the text so far (rule 5)
            return
        apart = texts[: max(0, 2 - len(self._content))]
        self._content += [*apart, "".join(texts[len(apart) :])]
        self._budget.spare(FRAGMENT_BYTES * len(texts))

    def _finish(self, finish_reason: str, *, is_plain: bool) -> None:
        if self.finish_reason is not None and not (
            self.finish_reason == "stop"
            and (is_plain or (finish_reason in PROMISE_CALLS and self._calls_something))
        ):
            return
        if len(finish_reason) <= _MAX_REASON_CHARACTERS:
            self.finish_reason = finish_reason
        else:
            self._note("observer_limit")

    def _feed_delta(self, delta: JsonObject, *, is_whole: bool) -> None:
        thinking = ""
        content = delta.get("content")
        if content:
            if isinstance(content, str):
                if self._append(self._content, content) and self._parts is not None:
                    self._parts.append(("text", content))
            elif isinstance(content, list):
                thinking = self._feed_parts(content)
        if len(delta) == 1 and "content" in delta:
            return  # nearly every delta has nothing else
        role = delta.get("role")
        if (
            role
            and isinstance(role, str)
            and self._budget.reserve(len(role) - len(self._role or ""))
        ):
            self._role = role
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            self._append(self._refusal, refusal)
        if not ALL_MEMBERS.isdisjoint(delta) and self._reasoning.feed(delta, thinking):
            self.has_content = True
        if delta.get("tool_calls"):
            self.tool_calls.feed(delta["tool_calls"], are_whole=is_whole)
            self.has_content = self.has_content or bool(self.tool_calls)
        function_call = delta.get("function_call")
        if isinstance(function_call, dict) and any(function_call.values()):
            # Snowflake sends one with empty strings if nothing is called.
            self._feed_function_call(function_call)
        if isinstance(audio := delta.get("audio"), dict):
            self._spoken = self._spoken or SpokenFold(self._budget)
            self.has_content = self._spoken.feed(audio) or self.has_content
        if not delta.keys() <= _DELTA_MEMBERS:
            self._merge(self._message_extra, delta, _DELTA_MEMBERS)
            self.has_content = self.has_content or bool(delta.get("images"))

    def _feed_parts(self, parts: list[Any]) -> str:
        """Fold content that is a list of parts (rule 2) and return the thinking among it."""
        thinking = []
        if self._parts is None:
            self._parts = [("text", text) for text in self._content]
        for part in parts:
            if isinstance(part, str):
                kind, text = "text", part
            elif isinstance(part, dict):
                kind, text = _text_of_part(part)
            else:
                continue
            target = {"text": self._content, "thinking": self._reasoning.pieces}.get(kind)
            if target is None:
                if self._budget.reserve(size_bytes(part) + FRAGMENT_BYTES):
                    self._parts.append(("", part))
            elif text and self._append(target, text):
                self._parts.append((kind, text))
                if kind == "thinking":
                    thinking.append(text)
        return "".join(thinking)

    def _feed_function_call(self, function_call: JsonObject) -> None:
        slot = self._function_call = self._function_call or CallSlot()
        slot.identify(self._budget, name=text_of(function_call.get("name")))
        slot.feed(function_call, self._budget)
        self.has_content = True

    def _append(self, fragments: list[str], text: str) -> bool:
        self.has_content = True
        if kept := self._budget.reserve_text(text):
            fragments.append(text)
        return kept

    def _merge(
        self, into: JsonObject, members: JsonObject, skip: frozenset[str] = frozenset()
    ) -> None:
        merge_members(into, members, skip=skip, budget=self._budget, extend_lists=True)

    @property
    def _may_be_completion(self) -> bool:
        """Whether nothing came yet that only a message has."""
        return self.is_completion or not (self.has_content or self._role or self._message_extra)

    @property
    def is_cumulative(self) -> bool:
        """Whether each fragment of content was the whole text so far (rule 5); never for parts."""
        return self._parts is None and are_cumulative(self._content)

    @property
    def _calls_something(self) -> bool:
        return bool(self.tool_calls or self._function_call)

    @property
    def lacks_calls(self) -> bool:
        """Whether the finish reason says that something is called, but nothing is."""
        return self.finish_reason in PROMISE_CALLS and not self._calls_something

    @property
    def has_bad_arguments(self) -> bool:
        """Whether the arguments of a call are neither JSON nor empty; empty means no arguments."""
        legacy = self._function_call
        if not (self.tool_calls or legacy):
            return False
        calls = (*self.tool_calls.calls(), *((legacy.call(),) if legacy else ()))
        return any(
            call.type == "function" and call.arguments.strip() and not is_json(call.arguments)
            for call in calls
        )

    def look(self, member: str, pending: Sequence[str]) -> Iterator[GrowingText]:
        """Look at the texts so far, and at the pending texts of this member of deltas."""
        said, thought = (pending, ()) if member == "content" else ((), pending)
        yield from self._reasoning.look((self.index, "reasoning"), thought)
        if self._content or said:
            key, is_finished = (self.index, "content"), self.finish_reason is not None
            kind = TextKind.TEXT
            yield look_at_pieces(key, kind, self._content, said, is_finished=is_finished)
        if self._refusal:
            yield GrowingText((self.index, "refusal"), TextKind.TEXT, self._refusal)
        if self._spoken:
            yield self._spoken.look((self.index, "audio"))
        if self.tool_calls:
            yield from self.tool_calls.look(self.index)
        if self._function_call:
            yield self._function_call.look((self.index, "function_call"))

    def choice(self) -> Choice:
        """Return the choice as it stands."""
        function_call, tool_calls = self._function_call, self.tool_calls
        content = self._content[-1] if self.is_cumulative else self._joined_content()
        thinking = [text for kind, text in self._parts or () if kind == "thinking"]
        return Choice(
            index=self.index,
            message=ChatMessage(
                role=self._role,
                content=content or None,
                reasoning=self._reasoning.read(thinking) or None if self._reasoning else None,
                audio=self._spoken.read() if self._spoken else None,
                images=read_made_images(self._message_extra.get("images")),
                refusal=join_text(self._refusal) or None,
                tool_calls=tool_calls.calls() if tool_calls else (),
                function_call=function_call.call() if function_call else None,
            ),
            finish_reason=self.finish_reason,
            logprobs=self._logprobs or None,
        )

    def _joined_content(self) -> str:
        count = len(self._content)
        if self._joined[0] != count:
            self._joined = count, join_text(self._content)
        return self._joined[1]

    def body(self) -> JsonObject:
        """Return the choice of the ``docs/contract/spans.md#accumulated-object``."""
        body: JsonObject = {"index": self.index}
        if self.is_completion:
            body["text"] = self._joined_content()
        elif message := self._message():
            body["message"] = message
        if self.finish_reason:
            body["finish_reason"] = self.finish_reason
        if self._logprobs:
            body["logprobs"] = self._logprobs
        return body | self._extra if self._extra else body

    def _message(self) -> JsonObject:
        """Return the message of the accumulated object."""
        function_call, tool_calls = self._function_call, self.tool_calls
        message: JsonObject = {
            "role": self._role,
            "content": self._joined_content() if self._parts is None else self._joined_parts(),
            "refusal": join_text(self._refusal),
        }
        if self._reasoning:
            message |= self._reasoning.members()
        if self._spoken:
            message["audio"] = self._spoken.body()
        if function_call:
            message["function_call"] = function_call.function_body()
        if tool_calls:
            message["tool_calls"] = tool_calls.body()
        message = without_empty(message)
        return message | self._message_extra if self._message_extra else message

    def _joined_parts(self) -> list[Any]:
        """Return the parts in order, as a message that is not streamed would have them."""
        parts: list[Any] = []
        for kind, group in groupby(self._parts or (), key=lambda part: part[0]):
            values = [value for _, value in group]
            if kind == "text":
                parts.append({"type": "text", "text": join_text(values)})
            elif kind == "thinking":
                text = {"type": "text", "text": join_text(values)}
                parts.append({"type": "thinking", "thinking": [text]})
            else:
                parts += values
        return parts


def _text_of_part(part: JsonObject) -> tuple[str, str]:
    """Return the kind of a content part (``text``, ``thinking`` or another) and its text."""
    kind = part.get("type")
    if kind == "thinking":
        return "thinking", _joined_text(part.get("thinking"))
    if kind == "reasoning":  # Databricks
        return "thinking", _joined_text(part.get("summary"))
    text = part.get("text")
    return ("text", text) if isinstance(text, str) else ("", "")


def _joined_text(value: Any) -> str:
    """Return the text of a string, or of a list of strings and text parts."""
    if isinstance(value, str):
        return value
    texts = []
    for item in list_of(value):
        text = item.get("text") if isinstance(item, dict) else item
        if isinstance(text, str):
            texts.append(text)
    return "".join(texts)
