"""``input.value`` and ``output.value`` as texts for people, with the bodies beside them.

Lists, sessions and datasets of backends show these two values, and a body there is a wall of JSON.
With ``SPANTAP_VALUES=text`` the body moves, as it is, to ``spantap.request.body`` or
``spantap.response.body``.

A text is made of attributes that are also on the span, after everything is hidden and masked there:
so it shows only content that they show. A value that is hidden whole stays as it is, and so does a
value without a text (an image, vectors, a ranking, a verdict), with its MIME type. Neither a text
nor a body has a MIME type: ``text/plain`` is the convention's default
(``docs/contract/spans.md#mime-type``), and readers try whether a body is JSON.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from openinference.semconv.trace import (
    AudioAttributes,
    ChoiceAttributes,
    EmbeddingAttributes,
    MessageAttributes,
    MessageContentAttributes,
    PromptAttributes,
    RerankerAttributes,
    SpanAttributes,
    ToolCallAttributes,
)

from codec.apis.api import Content
from telemetry.privacy.json_strings import REDACTED
from telemetry.privacy.mask import MIME_TYPES
from telemetry.semconv import REQUEST_BODY, RESPONSE_BODY
from telemetry.spans.flattening import (
    MAX_FLATTENED_CHOICES,
    MAX_FLATTENED_PARTS,
    MAX_FLATTENED_TOOL_CALLS,
)
from telemetry.spans.user_text import find_user_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codec.parts import Message
    from codec.said import Answer
    from telemetry.observing.exchange import Exchange
    from telemetry.spans.user_text import Get


class ValueForm(StrEnum):
    """The content of ``input.value`` and ``output.value``."""

    TEXT = "text"
    """The user's newest text and the answer's text, if there is one; the bodies have separate
    attributes."""
    JSON = "json"
    """The bodies themselves, as the in-process instrumentation has it."""


MAX_STRIPPED_CHARS: Final = 1_048_576
"""Longest text that is copied to strip white space; a longer text is cut in any case (R5)."""

_BETWEEN_TEXTS: Final = "\n\n"
"""Between the texts of several prompts or choices: a paragraph each."""

_INPUT: Final = SpanAttributes.INPUT_VALUE
_OUTPUT: Final = SpanAttributes.OUTPUT_VALUE

_MESSAGES: Final = SpanAttributes.LLM_OUTPUT_MESSAGES
_CONTENT: Final = MessageAttributes.MESSAGE_CONTENT
_CONTENTS: Final = MessageAttributes.MESSAGE_CONTENTS
_TYPE: Final = MessageContentAttributes.MESSAGE_CONTENT_TYPE
_TEXT: Final = MessageContentAttributes.MESSAGE_CONTENT_TEXT
_SPOKEN: Final = MessageContentAttributes.MESSAGE_CONTENT_AUDIO
_SAID: Final = {"text": _TEXT, "audio": f"{_SPOKEN}.{AudioAttributes.AUDIO_TRANSCRIPT}"}
"""Kinds of parts that have text, and the member with the text."""
_CALLS: Final = MessageAttributes.MESSAGE_TOOL_CALLS
_NAME: Final = ToolCallAttributes.TOOL_CALL_FUNCTION_NAME
_ARGUMENTS: Final = ToolCallAttributes.TOOL_CALL_FUNCTION_ARGUMENTS_JSON

_ASKED_TEXTS: Final = {
    Content.TEXTS: (SpanAttributes.LLM_PROMPTS, PromptAttributes.PROMPT_TEXT),
    Content.VECTORS: (SpanAttributes.EMBEDDING_EMBEDDINGS, EmbeddingAttributes.EMBEDDING_TEXT),
}
_ANSWERED_TEXTS: Final = {
    Content.TEXTS: (SpanAttributes.LLM_CHOICES, ChoiceAttributes.COMPLETION_TEXT),
}
"""For calls without messages, the list and the member of the attributes with their texts."""


def move_bodies(
    values: dict[str, Any], exchange: Exchange, messages: Sequence[Message]
) -> dict[str, Any]:
    """Replace the bodies by texts, and put the bodies first.

    The first attributes are the first to be removed if there is too little room, and the other
    attributes have the content of the bodies.

    Args:
        values: the attributes of a span as they are shown, whole: nothing has been cut.
        exchange: the exchange of the span.
        messages: the messages of its request, as they were read.

    Returns:
        The attributes with the texts; `values` themselves if there is none.
    """
    bodies: dict[str, Any] = {}
    texts: dict[str, Any] = {}
    asked, answered = values.get(_INPUT), values.get(_OUTPUT)
    if type(asked) is str and asked != REDACTED:
        text = _find_input_text(values, exchange, messages)
        if text is not None and text != asked:
            bodies[REQUEST_BODY], texts[_INPUT] = asked, text
    if type(answered) is str and answered != REDACTED:
        text = _find_output_text(values, exchange)
        if text is not None and text != answered:
            bodies[RESPONSE_BODY], texts[_OUTPUT] = answered, text
    if not texts:
        return values
    moved = {**bodies, **values, **texts}
    for name in texts:
        moved.pop(MIME_TYPES[name], None)
    return moved


def _find_input_text(
    values: Mapping[str, Any], exchange: Exchange, messages: Sequence[Message]
) -> str | None:
    """Find the text of the request.

    It is the user's newest text or, for calls without messages, the prompts, the texts to embed, or
    the query of a ranking.
    """
    content = exchange.api.content
    if content is Content.MESSAGES:
        return find_asked_text(exchange, messages, values.get)
    if content is Content.RANKING:
        return _join([values.get(RerankerAttributes.RERANKER_QUERY)])
    return _join_list(values, *_ASKED_TEXTS[content]) if content in _ASKED_TEXTS else None


def _find_output_text(values: Mapping[str, Any], exchange: Exchange) -> str | None:
    """Find the text of the answer: all choices, each followed by its tool calls."""
    content = exchange.api.content
    if content is Content.MESSAGES and exchange.response is not None:
        return find_answer_text(exchange.response.answers, values.get)
    return _join_list(values, *_ANSWERED_TEXTS[content]) if content in _ANSWERED_TEXTS else None


def find_asked_text(exchange: Exchange, messages: Sequence[Message], get: Get) -> str | None:
    """Find the user's newest text, without what agents put around it."""
    parsed = exchange.read_observations(messages)
    return find_user_text(messages, parsed, get, _read_user).shown


def find_answer_text(answers: Sequence[Answer], get: Get) -> str | None:
    """Find the texts and calls of all choices of an answer."""
    return _join([_read_answer(answer, get) for answer in answers[:MAX_FLATTENED_CHOICES]])


def _read_user(text: str) -> str | None:
    """Strip a user's own text; ``None`` if nothing of it is left."""
    return None if text.isspace() else _strip(text) or None


def _strip(text: str) -> str:
    """Remove white space around a text; a long one stays as it is, and is not copied."""
    return text.strip() if len(text) <= MAX_STRIPPED_CHARS else text


def _read_answer(answer: Answer, get: Get) -> str | None:
    """Read the texts of a choice, or of an item of an answer, and its calls."""
    message, prefix = answer.message, f"{_MESSAGES}.{answer.index}"
    text = get(f"{prefix}.{_CONTENT}")
    if type(message.content) is str:
        return text if type(text) is str else None
    said = [text]
    parts = len(message.parts)
    for position in range(min(parts, MAX_FLATTENED_PARTS) if text is None else 0):
        key = f"{prefix}.{_CONTENTS}.{position}"
        if (kind := get(f"{key}.{_TYPE}")) in _SAID:
            said.append(get(f"{key}.{_SAID[kind]}"))
    said += _read_calls(prefix, len(message.tool_calls), get)
    return "\n".join([one for one in said if type(one) is str and one != REDACTED]) or None


def _read_calls(prefix: str, count: int, get: Get) -> Iterator[str]:
    """Yield each call of a message as in a program: ``name(arguments)``."""
    for position in range(min(count, MAX_FLATTENED_TOOL_CALLS)):
        key = f"{prefix}.{_CALLS}.{position}"
        name, arguments = get(f"{key}.{_NAME}"), get(f"{key}.{_ARGUMENTS}")
        if name is not None or arguments is not None:
            yield f"{name or ''}({arguments or ''})"
    name = get(f"{prefix}.{MessageAttributes.MESSAGE_FUNCTION_CALL_NAME}")
    if name is not None:
        arguments = get(f"{prefix}.{MessageAttributes.MESSAGE_FUNCTION_CALL_ARGUMENTS_JSON}")
        yield f"{name}({arguments or ''})"


def _join_list(values: Mapping[str, Any], name: str, member: str) -> str | None:
    """Join the texts of a list in its order."""
    start, end = f"{name}.", f".{member}"
    return _join([v for key, v in values.items() if key.startswith(start) and key.endswith(end)])


def _join(texts: Sequence[Any]) -> str | None:
    """Join the shown parts of some texts; ``None`` if nothing is shown."""
    shown = [text for text in texts if type(text) is str and text != REDACTED]
    joined = shown[0] if len(shown) == 1 else _BETWEEN_TEXTS.join(shown)
    return None if not joined or joined.isspace() else joined
