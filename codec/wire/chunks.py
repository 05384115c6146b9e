"""The chunks of a stream, typed (``seeds.md`` S2.1-S2.4).

Views over the data that the observer folds, for those who want names and types. They take every
provider's chunks, for nothing in them is required.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from codec.errors import MalformedEvent
from codec.integers import count_of, index_of
from codec.jsontext import decode_json
from codec.wire._view import View, number, objects, text
from codec.wire.usage import UsageCounts

if TYPE_CHECKING:
    from codec.jsontext import JsonObject

__all__ = (
    "Chunk",
    "ChunkChoice",
    "Delta",
    "FunctionDelta",
    "Logprobs",
    "TokenLogprob",
    "ToolCallDelta",
    "decode_chunk",
)


class TokenLogprob(View):
    """One token and how likely it was."""

    __slots__ = ()
    KNOWN: ClassVar = frozenset({"token", "logprob", "bytes", "top_logprobs"})

    @property
    def token(self) -> str | None:
        """The token's text."""
        return text(self._raw.get("token"))

    @property
    def logprob(self) -> float | None:
        """The natural logarithm of its probability."""
        return number(self._raw.get("logprob"))

    @property
    def bytes(self) -> tuple[int, ...] | None:
        """The token's UTF-8 bytes, where it is a part of a character."""
        value = self._raw.get("bytes")
        if isinstance(value, list) and all(type(byte) is int for byte in value):
            return tuple(value)
        return None

    @property
    def top_logprobs(self) -> tuple[TokenLogprob, ...]:
        """The likeliest tokens at its place."""
        return tuple(map(TokenLogprob, objects(self._raw.get("top_logprobs"))))


class Logprobs(View):
    """The log probabilities of a choice, for each kind of its text."""

    __slots__ = ()
    KNOWN: ClassVar = frozenset({"content", "refusal", "reasoning_content"})

    @property
    def content(self) -> tuple[TokenLogprob, ...]:
        """Tokens of the content."""
        return tuple(map(TokenLogprob, objects(self._raw.get("content"))))

    @property
    def refusal(self) -> tuple[TokenLogprob, ...]:
        """Tokens of the refusal."""
        return tuple(map(TokenLogprob, objects(self._raw.get("refusal"))))

    @property
    def reasoning_content(self) -> tuple[TokenLogprob, ...]:
        """Tokens of the reasoning (DeepSeek)."""
        return tuple(map(TokenLogprob, objects(self._raw.get("reasoning_content"))))


class FunctionDelta(View):
    """What is called and with what, or a fragment of it."""

    __slots__ = ()
    KNOWN: ClassVar = frozenset({"name", "arguments"})

    @property
    def name(self) -> str | None:
        """The function's name."""
        return text(self._raw.get("name"))

    @property
    def arguments(self) -> str | None:
        """A fragment of the argument text; arguments of another type are in ``raw``."""
        return text(self._raw.get("arguments"))


class ToolCallDelta(View):
    """A fragment of a tool call; not one of its members is required."""

    __slots__ = ()
    KNOWN: ClassVar = frozenset({"index", "id", "type", "function"})

    @property
    def index(self) -> int | None:
        """The call that the piece belongs to (missing in Mistral and Gemini)."""
        return index_of(self._raw.get("index"))

    @property
    def id(self) -> str | None:
        """The call's id."""
        return text(self._raw.get("id"))

    @property
    def type(self) -> str | None:
        """The call's type."""
        return text(self._raw.get("type"))

    @property
    def function(self) -> FunctionDelta | None:
        """What is called."""
        value = self._raw.get("function")
        return FunctionDelta(value) if isinstance(value, dict) else None


class Delta(View):
    """What one chunk adds to a choice. Its members stand beside each other, not for each other."""

    __slots__ = ()
    KNOWN: ClassVar = frozenset(
        {"role", "content", "reasoning_content", "reasoning", "refusal", "tool_calls",
         "function_call"}
    )  # fmt: skip

    @property
    def role(self) -> str | None:
        """Any role: assistant, developer, system, tool, user."""
        return text(self._raw.get("role"))

    @property
    def content(self) -> str | None:
        """A piece of text; content in parts is in ``raw``."""
        return text(self._raw.get("content"))

    @property
    def reasoning(self) -> str | None:
        """A piece of reasoning, under the first of its names that has one."""
        known = [text(self._raw.get(name)) for name in ("reasoning_content", "reasoning")]
        told = [value for value in known if value is not None]
        return next(filter(None, told), told[0] if told else None)

    @property
    def refusal(self) -> str | None:
        """A piece of a refusal."""
        return text(self._raw.get("refusal"))

    @property
    def tool_calls(self) -> tuple[ToolCallDelta, ...]:
        """Fragments of tool calls."""
        return tuple(map(ToolCallDelta, objects(self._raw.get("tool_calls"))))

    @property
    def function_call(self) -> FunctionDelta | None:
        """A fragment of the legacy call."""
        value = self._raw.get("function_call")
        return FunctionDelta(value) if isinstance(value, dict) else None


class ChunkChoice(View):
    """One choice's part of a chunk."""

    __slots__ = ()
    KNOWN: ClassVar = frozenset({"index", "delta", "finish_reason", "logprobs", "text"})

    @property
    def index(self) -> int | None:
        """The choice's own index."""
        return index_of(self._raw.get("index"))

    @property
    def delta(self) -> Delta | None:
        """What is added; ``None`` in a legacy completion, and in Azure's filter chunks."""
        value = self._raw.get("delta")
        return Delta(value) if isinstance(value, dict) else None

    @property
    def text(self) -> str | None:
        """What is added in a legacy completion."""
        return text(self._raw.get("text"))

    @property
    def finish_reason(self) -> str | None:
        """Any word (S2.2), an empty one as it came."""
        return text(self._raw.get("finish_reason"))

    @property
    def logprobs(self) -> Logprobs | None:
        """The log probabilities of what is added."""
        value = self._raw.get("logprobs")
        return Logprobs(value) if isinstance(value, dict) else None


class Chunk(View):
    """One chunk of a stream."""

    __slots__ = ()
    KNOWN: ClassVar = frozenset(
        {"id", "object", "created", "model", "service_tier", "system_fingerprint", "choices",
         "usage"}
    )  # fmt: skip

    @property
    def id(self) -> str | None:
        """The answer's id."""
        return text(self._raw.get("id"))

    @property
    def object(self) -> str | None:
        """Any word, as a rule ``chat.completion.chunk``."""
        return text(self._raw.get("object"))

    @property
    def created(self) -> int | None:
        """Seconds since the epoch."""
        return count_of(self._raw.get("created"))

    @property
    def model(self) -> str | None:
        """The model that answers."""
        return text(self._raw.get("model"))

    @property
    def service_tier(self) -> str | None:
        """How the request was served."""
        return text(self._raw.get("service_tier"))

    @property
    def system_fingerprint(self) -> str | None:
        """The backend's configuration."""
        return text(self._raw.get("system_fingerprint"))

    @property
    def choices(self) -> tuple[ChunkChoice, ...]:
        """The choices that the chunk adds to, which may be none."""
        return tuple(map(ChunkChoice, objects(self._raw.get("choices"))))

    @property
    def usage(self) -> UsageCounts | None:
        """The usage on the chunk itself (S2.6)."""
        value = self._raw.get("usage")
        return UsageCounts(value) if isinstance(value, dict) else None


def decode_chunk(data: bytes) -> Chunk:
    """Decode the data of one event.

    Raises:
        MalformedEvent: it is no JSON object (S2.7). The stream goes on; the next event may be one.
    """
    try:
        value = decode_json(data)
    except ValueError as error:
        raise MalformedEvent(f"event data: {error}", data) from error
    if not isinstance(value, dict):
        raise MalformedEvent(f"event data: a JSON {type(value).__name__}, no object", data)
    raw: JsonObject = value
    return Chunk(raw)
