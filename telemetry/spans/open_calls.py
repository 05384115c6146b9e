"""Open exchanges as others may see them: content that their spans will hide is hidden here.

Of the body the model asked for and what is new in the request are shown, and not even these if
inputs are hidden. What is new is found as for the columns of the call that it will be, in texts
that go through a mask like its span's: credentials and the finds of the settings' patterns are
masked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from openinference.semconv.trace import SpanAttributes

from codec.apis.api import Content
from codec.apis.table import get_api
from codec.observations import read_observations
from codec.parts import Refusal, Text
from telemetry.attribute_values import clean_attributes
from telemetry.observing.client_headers import read_caller
from telemetry.observing.open_call import OpenCall
from telemetry.observing.purposes import find_purpose
from telemetry.privacy.body_credentials import find_body_credentials
from telemetry.spans.columns import FIRST_TEXTS, find_client, fold_first, fold_words
from telemetry.spans.flattening import Flattening
from telemetry.spans.message_attributes import build_message_attributes
from telemetry.spans.steps import describe_step, describe_work
from telemetry.spans.user_text import find_user_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.asked import Asked
    from codec.parts import Message
    from telemetry.observing.open_call import OpenExchange
    from telemetry.privacy.mask import Mask
    from telemetry.spans.rules import SpanRules

MAX_MODEL_CHARS: Final = 256
"""The most characters of a model's name, as in the row that the call will have."""

MAX_SHOWN_CHARS: Final = 65_536
"""The longest message that is looked at: a whole one is masked, while frames wait."""

_MESSAGES: Final = f"{SpanAttributes.LLM_INPUT_MESSAGES}."


def tell_open(
    exchange: OpenExchange, rules: SpanRules, before: OpenCall | None = None
) -> OpenCall | None:
    """Describe an open exchange; ``None`` if the sampler gives it no span.

    Args:
        exchange: as it is now.
        rules: what the settings hide.
        before: the description so far, of which what is new in the request is kept.
    """
    begin = exchange.begin
    if not begin.identity.sampled:
        return None
    agent, _, _ = read_caller(begin.headers)
    hides = exchange.hides_inputs or rules.hides_bodies
    model = None if hides else exchange.model
    what = None if before is None else before.what
    if what is None and not hides and exchange.request is not None:
        what = _find_new(exchange.request, exchange, rules)
    return OpenCall(
        span_id=begin.identity.span_id,
        trace_id=begin.identity.trace_id,
        start_ns=begin.at_ns,
        api=get_api(begin.endpoint).name,
        upstream=begin.upstream,
        model=None if model is None else _mask(model, exchange, rules)[:MAX_MODEL_CHARS],
        what=what,
        client=None if agent is None else find_client(_mask(agent, exchange, rules)),
        launch=begin.launch or None,
        http_status=exchange.status,
        chunks=exchange.reads,
    )


def _mask(text: str, exchange: OpenExchange, rules: SpanRules) -> str:
    masked = exchange.credentials.redact(text)
    return masked if rules.redaction is None else rules.redaction.redact_text(masked)


def _find_new(request: Asked, exchange: OpenExchange, rules: SpanRules) -> str | None:
    """Find what is new in a request, in a line: the user's words, or which tools answered."""
    api = get_api(exchange.begin.endpoint)
    in_body = find_body_credentials(request.body, exchange.body)
    mask = rules.mask_open(api, exchange.credentials.without(request.model).joined(in_body))
    if api.content is not Content.MESSAGES:
        text = None
        if (name := FIRST_TEXTS.get(api.content)) is not None:
            first = request.read_query() or next(iter(request.read_texts()), None)
            text = fold_first(name, mask.attributes(clean_attributes([(name, first)])[0]).get)
        return describe_work(api.noun, text, None, _get_nothing, mask) if api.noun else text
    messages = request.read_messages()
    if not messages:
        return api.noun or None
    get = _ShownMessages(messages, mask)
    parsed = read_observations(messages)
    words = find_user_text(messages, parsed, get, fold_words)
    if api.noun:
        return describe_work(api.noun, words.shown, None, get, mask)
    purpose = find_purpose(request, None, messages)
    if purpose is None and words.is_new:
        return words.shown
    has_text_tools = parsed is not messages
    step = describe_step(purpose, parsed, None, get, mask, has_text_tools=has_text_tools)
    return step or words.shown


def _get_nothing(_: str) -> None:
    """Return no attribute: nothing of an answer has come."""


class _ShownMessages:
    """The attributes of messages as a span will show them, made when one is asked for."""

    def __init__(self, messages: Sequence[Message], mask: Mask) -> None:
        self._messages = messages
        self._mask = mask
        self._made: dict[int, dict[str, Any]] = {}

    def __call__(self, name: str) -> Any:
        """Return the value of an attribute; ``None`` if there is none, or it is hidden."""
        at = int(name.removeprefix(_MESSAGES).partition(".")[0])
        if (made := self._made.get(at)) is None:
            made = self._made[at] = self._make(at)
        return made.get(name)

    def _make(self, at: int) -> dict[str, Any]:
        message = self._messages[at]
        if _measure(message) > MAX_SHOWN_CHARS:
            return {}
        pairs = build_message_attributes(f"{_MESSAGES}{at}", message, Flattening())
        return {**self._mask.attributes(clean_attributes(pairs)[0])}


def _measure(message: Message) -> int:
    """Count the characters of a message's texts and calls."""
    chars = 0
    for part in message.parts:
        if isinstance(part, (Text, Refusal)):
            chars += len(part.text)
        elif isinstance(part, str):
            chars += len(part)
    return chars + sum(len(call.arguments) for call in message.tool_calls)
