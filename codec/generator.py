"""Tokens to well-formed chunks: the opposite direction, for servers, demos and tests.

Rules:

1. The generator is pure: ``id``, ``created`` and ``model`` are given, and are the same on every
   chunk (``docs/contract/sources.md#s0-1``).
2. The first delta of each choice names the role, and no other delta does.
3. Usage follows the policy (``docs/contract/sources.md#s0-7``): no usage; usage on one more chunk
   without choices, while all others say ``usage: null``; or running counts on every chunk, and that
   last one.
4. ``total_tokens`` is always prompt + completion, and the completion includes the reasoning.
5. A choice finishes once, and says nothing afterwards.
6. The whole answer is made from the same state, and always has its usage.

All that is fed is kept for the whole answer, so the caller decides how much memory that takes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from codec.token_logprobs import TokenLogprob, chat_logprobs, text_logprobs

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from codec.text.jsontext import JsonObject

__all__ = (
    "MAX_CHOICES",
    "Answer",
    "CallFragment",
    "ChunkGenerator",
    "Delta",
    "Identity",
    "TokenLogprob",
    "UsagePolicy",
    "find_usage_policy",
)

MAX_CHOICES = 128
"""The largest ``n``: OpenAI's own limit."""


class UsagePolicy(StrEnum):
    """The place of usage in a stream (rule 3)."""

    NONE = "none"
    """No usage."""
    FINAL = "final"
    """On one more chunk without choices; the others say ``usage: null``."""
    CONTINUOUS = "continuous"
    """Running counts on every chunk, and that last one."""


def find_usage_policy(stream_options: Any) -> UsagePolicy:
    """Read the policy from the ``stream_options`` of a request, any JSON value.

    Running counts are for clients that ask for usage as well, as with vLLM
    (``docs/contract/wire.md#asking-for-usage``).
    """
    if not isinstance(stream_options, dict) or stream_options.get("include_usage") is not True:
        return UsagePolicy.NONE
    if stream_options.get("continuous_usage_stats") is True:
        return UsagePolicy.CONTINUOUS
    return UsagePolicy.FINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The members that every chunk of an answer has.

    Attributes:
        id: the answer's id, such as ``chatcmpl-...``.
        created: seconds since the epoch.
        members: further members, such as ``system_fingerprint``.
    """

    id: str
    created: int
    model: str
    members: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFragment:
    """A piece of a tool call: its header (id and name), or more of its arguments.

    Attributes:
        index: which call of the choice, counted from 0.
        id: the call's id, in a header only.
        name: the function's name, in a header only.
        arguments: a piece of the argument text, JSON once it is whole.
    """

    index: int = 0
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """The piece that one or several tokens add to a choice.

    Attributes:
        reasoning: comes as ``reasoning_content``.
        logprobs: one for each token of the text.
        tokens: how many tokens the piece has.
    """

    content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    call: CallFragment | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    tokens: int = 1

    def opening(self) -> Delta:
        """Return the delta before this one, which names the role and says nothing yet."""
        content, reasoning, refusal = (
            None if text is None else "" for text in (self.content, self.reasoning, self.refusal)
        )
        return Delta(content=content, reasoning=reasoning, refusal=refusal, tokens=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The content of one choice; a choice without a finish reason breaks off."""

    deltas: tuple[Delta, ...]
    finish_reason: str | None = "stop"


@dataclass(slots=True)
class _Choice:
    """A choice, as far as it has been written."""

    said: dict[str, list[str]] = field(default_factory=dict)
    calls: list[list[CallFragment]] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    opened: bool = False
    finish_reason: str | None = None
    text_length: int = 0


_TEXTS = {"content": "content", "reasoning": "reasoning_content", "refusal": "refusal"}


class ChunkGenerator:
    """Makes the chunks of one answer. Not safe for concurrent calls.

    Args:
        identity: the members that every chunk has.
        choice_count: how many choices there are, at most :data:`MAX_CHOICES`.
        prompt_tokens: the tokens of the request.
        cached_tokens: how many of them came from a cache; ``None`` if that is not known.
        usage: where the usage goes.
        is_completion: the chunks are those of a legacy completion, which has text only.
        custom_tools: the names of the tools whose calls have free text instead of arguments.

    Raises:
        ValueError: there are too many choices, or too few.

    >>> identity = Identity(id="chatcmpl-1", created=1, model="m")
    >>> generator = ChunkGenerator(identity, prompt_tokens=3)
    >>> generator.chunk(Delta(content="Hi"))["choices"][0]["delta"]["content"]
    'Hi'
    >>> generator.completion()["usage"]
    {'prompt_tokens': 3, 'completion_tokens': 1, 'total_tokens': 4}
    """

    def __init__(
        self,
        identity: Identity,
        *,
        choice_count: int = 1,
        prompt_tokens: int = 0,
        cached_tokens: int | None = None,
        usage: UsagePolicy = UsagePolicy.NONE,
        is_completion: bool = False,
        custom_tools: Container[str | None] = (),
    ) -> None:
        if not 1 <= choice_count <= MAX_CHOICES:
            raise ValueError(f"from 1 to {MAX_CHOICES} choices, not {choice_count}")
        self._identity = identity
        self._choices = [_Choice() for _ in range(choice_count)]
        self._prompt_tokens = prompt_tokens
        self._cached_tokens = cached_tokens
        self._completion_tokens = 0
        self._reasoning_tokens = 0
        self._policy = usage
        self._is_completion = is_completion
        self._custom_tools = custom_tools

    def generate(self, answers: Sequence[Answer]) -> Iterator[JsonObject]:
        """Make all chunks of an answer, in OpenAI's order.

        Each choice opens with its role, the deltas interleave, the finish reasons come in separate
        chunks, and the usage comes last. `answers` has one answer for each choice.

        Raises:
            ValueError: as :meth:`chunk`.
        """
        for index, answer in enumerate(answers):
            if answer.deltas and not self._is_completion:
                yield self.chunk(answer.deltas[0].opening(), index)
        for row in zip_longest(*(answer.deltas for answer in answers)):
            for index, delta in enumerate(row):
                if delta is not None:
                    yield self.chunk(delta, index)
        for index, answer in enumerate(answers):
            if answer.finish_reason is not None:
                yield self.chunk(Delta(tokens=0), index, answer.finish_reason)
        if (last := self.usage_chunk()) is not None:
            yield last

    def chunk(self, delta: Delta, index: int = 0, finish_reason: str | None = None) -> JsonObject:
        """Make one chunk with a delta of a choice, and perhaps its finish reason.

        Raises:
            ValueError: there is no such choice, it has finished (rule 5), a call has no header, or
                a legacy completion says anything but text.
        """
        if not 0 <= index < len(self._choices):
            raise ValueError(f"there is no choice {index}")
        choice = self._choices[index]
        if choice.finish_reason is not None:
            raise ValueError(f"choice {index} has finished")
        shape = self._text_entry if self._is_completion else self._chat_entry
        entry = shape(choice, delta)
        choice.opened = True
        choice.finish_reason = finish_reason
        choice.logprobs += delta.logprobs
        self._completion_tokens += delta.tokens
        self._reasoning_tokens += delta.tokens if delta.reasoning is not None else 0
        chunk = self._head(".chunk") | {
            "choices": [{"index": index} | entry | {"finish_reason": finish_reason}]
        }
        if self._policy is UsagePolicy.NONE:
            return chunk
        running = self.usage() if self._policy is UsagePolicy.CONTINUOUS else None
        return chunk | {"usage": running}

    def usage_chunk(self) -> JsonObject | None:
        """Make the last chunk, with the usage; ``None`` if the policy has none."""
        if self._policy is UsagePolicy.NONE:
            return None
        return self._head(".chunk") | {"choices": [], "usage": self.usage()}

    def usage(self) -> JsonObject:
        """Return the usage so far, with details as far as they are known."""
        usage: JsonObject = {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": self._completion_tokens,
            "total_tokens": self._prompt_tokens + self._completion_tokens,
        }
        if self._cached_tokens is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": self._cached_tokens}
        if self._reasoning_tokens:
            usage["completion_tokens_details"] = {"reasoning_tokens": self._reasoning_tokens}
        return usage

    def completion(self) -> JsonObject:
        """Return the whole answer, as far as it was fed (rule 6)."""
        shape = self._text_choice if self._is_completion else self._chat_choice
        choices = [
            {"index": index} | shape(choice) | {"finish_reason": choice.finish_reason}
            for index, choice in enumerate(self._choices)
        ]
        return self._head("") | {"choices": choices, "usage": self.usage()}

    def _head(self, suffix: str) -> JsonObject:
        kind = "text_completion" if self._is_completion else f"chat.completion{suffix}"
        named = self._identity
        head = {"id": named.id, "object": kind, "created": named.created, "model": named.model}
        return head | named.members

    def _chat_entry(self, choice: _Choice, delta: Delta) -> JsonObject:
        said: JsonObject = {}
        if not choice.opened:
            # OpenAI opens a choice so, whatever comes first.
            said = {"role": "assistant", "content": None}
            said |= {"refusal": None} if delta.content is not None else {}
        for name, member in _TEXTS.items():
            if (text := getattr(delta, name)) is not None:
                said[member] = text
                choice.said.setdefault(member, []).append(text)
        if delta.call is not None:
            said["tool_calls"] = [self._add_call(choice.calls, delta.call)]
        logprobs = chat_logprobs(delta.logprobs, is_refusal=delta.refusal is not None)
        return {"delta": said, "logprobs": logprobs}

    def _chat_choice(self, choice: _Choice) -> JsonObject:
        said = {member: "".join(texts) or None for member, texts in choice.said.items()}
        message: JsonObject = {"role": "assistant", "content": None, "refusal": None} | said
        if choice.calls:
            message["tool_calls"] = [self._whole_call(fragments) for fragments in choice.calls]
        is_refusal = message["refusal"] is not None
        return {
            "message": message,
            "logprobs": chat_logprobs(choice.logprobs, is_refusal=is_refusal),
        }

    def _text_entry(self, choice: _Choice, delta: Delta) -> JsonObject:
        if (delta.reasoning, delta.refusal, delta.call) != (None, None, None):
            raise ValueError("a legacy completion has text only")
        text = delta.content or ""
        logprobs = text_logprobs(delta.logprobs, choice.text_length)
        choice.said.setdefault("content", []).append(text)
        choice.text_length += len(text)
        return {"text": text, "logprobs": logprobs}

    def _text_choice(self, choice: _Choice) -> JsonObject:
        text = "".join(choice.said.get("content", ()))
        return {"text": text, "logprobs": text_logprobs(choice.logprobs, 0)}

    def _add_call(self, calls: list[list[CallFragment]], fragment: CallFragment) -> JsonObject:
        """Add a fragment to the calls so far, and return it as an entry of a delta."""
        index = fragment.index
        if fragment.id is not None and fragment.name is not None:
            if index != len(calls):
                raise ValueError(f"the next call is {len(calls)}, not {index}")
            calls.append([fragment])
            return {"index": index} | self._whole_call([fragment])
        if not 0 <= index < len(calls):
            raise ValueError(f"call {index} has no header")
        calls[index].append(fragment)
        kind, text = self._call_members(calls[index][0].name)
        return {"index": index, kind: {text: fragment.arguments}}

    def _whole_call(self, fragments: Sequence[CallFragment]) -> JsonObject:
        kind, text = self._call_members(fragments[0].name)
        said = {"name": fragments[0].name, text: "".join(one.arguments for one in fragments)}
        return {"id": fragments[0].id, "type": kind, kind: said}

    def _call_members(self, name: str | None) -> tuple[str, str]:
        """Return the member of a call of this tool, and that of its text in there."""
        return ("custom", "input") if name in self._custom_tools else ("function", "arguments")
