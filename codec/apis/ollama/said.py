"""Answers of Ollama's chats, and of its texts from a prompt (``docs/contract/apis.md#ollama``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from codec.apis.ollama.turns import has_bad_arguments, read_message, read_parts
from codec.bodies import decode_response_object
from codec.error_objects import find_error
from codec.members import text_of
from codec.parts import Message
from codec.said import Answer, Ending, Said, Stop
from codec.text.integers import count_of
from codec.usage import make_usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codec.said import ErrorObject
    from codec.text.jsontext import JsonObject
    from codec.usage import Usage

__all__ = (
    "ChatSaid",
    "GenerateSaid",
    "OllamaSaid",
    "count_context",
    "is_answer",
    "is_of_end",
    "make_said",
    "read_chat",
    "read_generate",
    "read_usage",
)

_STOPS: Final = {"stop": Stop.STOP, "length": Stop.LENGTH}
_OF_MODELS: Final = frozenset({"load", "unload"})
_COUNTS: Final = ("_count", "_duration")
_TOKENS: Final = frozenset({"prompt_eval_count", "eval_count"})
_OF_END: Final = frozenset({"done", "done_reason"})


class OllamaSaid(Said, frozen=True, kw_only=True):
    """The members that answers of chats and texts have in common."""

    @property
    def finish_reason(self) -> str | None:
        """The reason why the answer ended, in the server's word."""
        return text_of(self.body.get("done_reason"))

    @property
    def finish_reasons(self) -> Sequence[tuple[int, str]]:
        """The reason why the answer ended."""
        return [] if (word := self.finish_reason) is None else [(0, word)]

    def read_answers(self) -> Sequence[Answer]:
        """Read the one message; there is none if the call only loaded or unloaded a model."""
        message, word = self._read_message(), self.finish_reason
        if message is None or word in _OF_MODELS:
            return ()
        return [Answer(index=0, message=message, finish_reason=word, stop=_STOPS.get(word or ""))]

    def _read_message(self) -> Message | None:
        """Read the message; ``None`` if the answer has not begun."""
        raise NotImplementedError

    def ending(self, *, streamed: bool) -> Ending:
        """Tell how far the answer came: ``"done": true`` is its end.

        Old servers give no reason beside it.
        """
        if self.body.get("done") is True:
            return Ending.COMPLETE
        return super().ending(streamed=streamed)


class ChatSaid(OllamaSaid, frozen=True, kw_only=True):
    """The answer of a chat."""

    def _read_message(self) -> Message | None:
        message = self.body.get("message")
        return read_message(message) if isinstance(message, dict) else None


class GenerateSaid(OllamaSaid, frozen=True, kw_only=True):
    """The text that continues a prompt; it has no role."""

    def _read_message(self) -> Message | None:
        body = self.body
        if not (isinstance(body.get("response"), str) or text_of(body.get("thinking"))):
            return None
        return Message(None, read_parts(body, "response") or None)


_Said = TypeVar("_Said", bound=OllamaSaid)


def read_chat(body: bytes) -> ChatSaid:
    """Read the body of a chat's answer, or of an error.

    Raises:
        MalformedResponse: it is not a JSON object.
    """
    return _read(ChatSaid, body)


def read_generate(body: bytes) -> GenerateSaid:
    """Read the body with the text of a prompt, as :func:`read_chat` does."""
    return _read(GenerateSaid, body)


def _read(kind: type[_Said], body: bytes) -> _Said:
    value = decode_response_object(body)
    count_context(value)
    error = find_error(value)
    is_foreign = error is None and not is_answer(value)
    return make_said(kind, value, error=error, anomalies=("foreign_chunk",) if is_foreign else ())


def make_said(
    kind: type[_Said],
    body: JsonObject,
    *,
    error: ErrorObject | None = None,
    anomalies: Sequence[str] = (),
) -> _Said:
    """Make an answer of a whole body, or of what is known of one.

    Args:
        kind: the kind of answer.
        body: the answer.
        error: the error that came instead, or in the middle.
        anomalies: what was odd in the stream or the body.
    """
    usage = read_usage(body)
    judged = () if error is not None else _judge(body, usage)
    return kind(
        model=text_of(body.get("model")),
        usage=usage,
        error=error,
        anomalies=tuple(dict.fromkeys((*anomalies, *judged))),
        body=body,
    )


def read_usage(body: Mapping[str, Any]) -> Usage | None:
    """Read the counts, which stand beside the answer.

    The server leaves out counts of zero. An absent count stays absent, and then there is no total.
    Tokens from a cache are a part of the prompt. Durations are in nanoseconds, and only in the raw
    usage.
    """
    raw = {
        name: value for name, value in body.items() if name.endswith(_COUNTS) and value is not None
    }
    if not raw:
        return None
    prompt = count_of(raw.get("prompt_eval_count"))
    completion = count_of(raw.get("eval_count"))
    total = prompt + completion if prompt is not None and completion is not None else None
    cached = count_of(raw.get("prompt_eval_cached_count"))
    return make_usage(raw, prompt=prompt, completion=completion, total=total, cache_read=cached)


def is_answer(value: Mapping[str, Any]) -> bool:
    """Tell whether an object is an answer, or a line of one."""
    return (
        isinstance(value.get("message"), dict)
        or isinstance(value.get("response"), str)
        or isinstance(value.get("done"), bool)
    )


def is_of_end(name: str) -> bool:
    """Tell whether a member says how the answer ended; the counts do, too."""
    return name in _OF_END or name.endswith(_COUNTS)


def count_context(body: JsonObject) -> None:
    """Replace the tokens of a ``context`` by their number.

    A client sends them back to continue; nobody reads them in a span.
    """
    if isinstance(context := body.get("context"), list):
        body["context"] = f"<{len(context)} tokens>"


def _judge(body: JsonObject, usage: Usage | None) -> Iterator[str]:
    """Judge the whole (``docs/contract/spans.md#anomalies``)."""
    word = text_of(body.get("done_reason"))
    message = body.get("message")
    if word is not None and has_bad_arguments(message if isinstance(message, dict) else body):
        yield "bad_tool_arguments"
    if word is None:
        yield "no_finish_reason"
    if usage is not None:
        yield from usage.anomalies
    if word not in _OF_MODELS and (usage is None or usage.raw.keys().isdisjoint(_TOKENS)):
        yield "no_usage"
