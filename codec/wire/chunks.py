"""Chunks and usage, typed (``docs/contract/sources.md#the-types-of-the-wire``).

These are views over the data that the observer folds, for code that wants names and types. They
accept every provider's chunks, because nothing in them is required.

Usage has its wire names (``docs/contract/sources.md#s2-5``); :func:`codec.usage.decode_usage` gives
the counts by their meaning, under whatever names they came.
"""

from __future__ import annotations

from codec.chat.reasoning import REASONING_MEMBERS
from codec.errors import MalformedEvent
from codec.members import string_of
from codec.text.integers import count_of, index_of
from codec.text.jsontext import decode_json_object
from codec.wire._view import Member, View, number_of, view_of, views_of

__all__ = (
    "Chunk",
    "ChunkChoice",
    "CompletionDetails",
    "Delta",
    "FunctionDelta",
    "Logprobs",
    "PromptDetails",
    "TokenLogprob",
    "ToolCallDelta",
    "UsageCounts",
    "decode_chunk",
)


class PromptDetails(View):
    """Parts of the prompt's tokens."""

    __slots__ = ()
    cached_tokens = Member(count_of, "Read from a cache.")
    cache_write_tokens = Member(count_of, "Written to a cache.")
    cache_creation_tokens = Member(count_of, "Written to a cache (LiteLLM).")
    audio_tokens = Member(count_of, "Audio.")


class CompletionDetails(View):
    """Parts of the completion's tokens."""

    __slots__ = ()
    reasoning_tokens = Member(count_of, "Reasoning.")
    audio_tokens = Member(count_of, "Audio.")
    accepted_prediction_tokens = Member(count_of, "Tokens of a predicted output that were used.")
    rejected_prediction_tokens = Member(count_of, "Tokens of one that were not used.")


class UsageCounts(View):
    """The counts of one usage object. A count is a non-negative integer."""

    __slots__ = ()
    prompt_tokens = Member(count_of, "Tokens of the request.")
    completion_tokens = Member(count_of, "Tokens of the answer.")
    total_tokens = Member(count_of, "The provider's own total.")
    prompt_cache_hit_tokens = Member(count_of, "Prompt tokens read from a cache (DeepSeek).")
    prompt_cache_miss_tokens = Member(count_of, "Prompt tokens not read from one (DeepSeek).")
    prompt_tokens_details = Member(view_of(PromptDetails), "Parts of the prompt's tokens.")
    completion_tokens_details = Member(
        view_of(CompletionDetails), "Parts of the completion's tokens."
    )


class TokenLogprob(View):
    """A token, and how likely it was."""

    __slots__ = ()
    token = Member(string_of, "The token's text.")
    logprob = Member(number_of, "The natural logarithm of its probability.")

    @property
    def bytes(self) -> tuple[int, ...] | None:
        """The token's UTF-8 bytes, if it is a part of a character."""
        value = self._raw.get("bytes")
        if isinstance(value, list) and all(type(byte) is int for byte in value):
            return tuple(value)
        return None

    @property
    def top_logprobs(self) -> tuple[TokenLogprob, ...]:
        """The likeliest tokens at its place."""
        return views_of(TokenLogprob)(self._raw.get("top_logprobs"))


class Logprobs(View):
    """The log probabilities of a choice, for each kind of its text."""

    __slots__ = ()
    content = Member(views_of(TokenLogprob), "Tokens of the content.")
    refusal = Member(views_of(TokenLogprob), "Tokens of the refusal.")
    reasoning_content = Member(views_of(TokenLogprob), "Tokens of the reasoning (DeepSeek).")


class FunctionDelta(View):
    """The name and arguments of a call, or a fragment of them."""

    __slots__ = ()
    name = Member(string_of, "The function's name.")
    arguments = Member(
        string_of, "A fragment of the argument text; arguments of another type are in ``raw``."
    )


class ToolCallDelta(View):
    """A fragment of a tool call; not one of its members is required."""

    __slots__ = ()
    index = Member(index_of, "The call that the piece belongs to (missing in Mistral and Gemini).")
    id = Member(string_of, "The call's id.")
    type = Member(string_of, "The call's type.")
    function = Member(view_of(FunctionDelta), "What is called.")


class Delta(View, also=("reasoning_content",)):
    """The piece that a chunk adds to a choice; its members stand beside each other."""

    __slots__ = ()
    role = Member(string_of, "Any role: assistant, developer, system, tool, user.")
    content = Member(string_of, "A piece of text; content in parts is in ``raw``.")
    refusal = Member(string_of, "A piece of a refusal.")
    tool_calls = Member(views_of(ToolCallDelta), "Fragments of tool calls.")
    function_call = Member(view_of(FunctionDelta), "A fragment of the legacy call.")

    @property
    def reasoning(self) -> str | None:
        """A piece of reasoning, under the first of its names that has one."""
        known = [string_of(self._raw.get(name)) for name in REASONING_MEMBERS]
        texts = [value for value in known if value is not None]
        return next(filter(None, texts), texts[0] if texts else None)


class ChunkChoice(View):
    """A choice's part of a chunk."""

    __slots__ = ()
    index = Member(index_of, "The choice's own index.")
    delta = Member(
        view_of(Delta), "What is added; none in a legacy completion and in Azure's filter chunks."
    )
    text = Member(string_of, "What is added in a legacy completion.")
    finish_reason = Member(string_of, "Any word, an empty one as it came.")
    logprobs = Member(view_of(Logprobs), "The log probabilities of what is added.")


class Chunk(View):
    """A chunk of a stream."""

    __slots__ = ()
    id = Member(string_of, "The answer's id.")
    object = Member(string_of, "Any word, as a rule ``chat.completion.chunk``.")
    created = Member(count_of, "Seconds since the epoch.")
    model = Member(string_of, "The model that answers.")
    service_tier = Member(string_of, "How the request was served.")
    system_fingerprint = Member(string_of, "The backend's configuration.")
    choices = Member(views_of(ChunkChoice), "The choices that it adds to, which may be none.")
    usage = Member(view_of(UsageCounts), "The usage on the chunk itself.")


def decode_chunk(data: bytes) -> Chunk:
    """Decode the data of one event.

    Raises:
        MalformedEvent: it is not a JSON object (``docs/contract/sources.md#s2-7``). The stream goes
            on; the next event may be one.
    """
    try:
        return Chunk(decode_json_object(data))
    except ValueError as error:
        raise MalformedEvent(f"event data: {error}", data) from error
