"""The columns of a call: what a list shows of it, from its exchange and its span.

Rules (``docs/contract/page.md#columns``):

1. What is hidden on the span is in no column. A value is taken from the span's attributes where one
   of them has it, hidden, masked and cut as it is there; any other text of the client's or the
   provider's goes through the span's mask.
2. What came as nothing has no column (R6); ``streamed`` is always known.
3. Every text has a limit (R5): a list of a thousand rows is read at once.
4. Of the user's text what programs put into it is left out (:mod:`telemetry.spans.user_text`).
5. The row of a fact may say where it is (:class:`telemetry.fact.Fact`, ``found``). For each other
   fact there is a function here, whose name is ``_find_`` and the fact's.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from openinference.semconv.trace import (
    EmbeddingAttributes,
    PromptAttributes,
    RerankerAttributes,
    SpanAttributes,
)
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.semconv.attributes.user_agent_attributes import USER_AGENT_ORIGINAL

from codec.apis.api import Content
from codec.apis.table import get_api
from codec.compared_text import REMINDER_MARK, without_reminders
from telemetry.attribute_values import clean_text
from telemetry.fact import OfExchange, OfSpan
from telemetry.facts import COLUMN_FACTS, MAX_PREVIEW_CHARS, CallColumns
from telemetry.privacy.json_strings import REDACTED
from telemetry.spans.otlp.attributes import WrittenAttributes
from telemetry.spans.user_text import find_user_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from codec.parts import ToolCall
    from telemetry.fact import Fact
    from telemetry.observing.exchange import Exchange
    from telemetry.privacy.mask import Mask
    from telemetry.spans.otlp.writer import FinishedSpan
    from telemetry.spans.user_text import Get

MAX_TOOLS_CHARS: Final = 1_000
"""Names of all tools together: OpenAI's have 64 at most, and an answer calls a few."""

MAX_CLIENT_CHARS: Final = 40
"""Names of programs have ten to twenty."""

MAX_WORD_CHARS: Final = 256
"""Of any word of the provider's: finish reason, class of error, id. All of it is in the span."""

MAX_CACHED_APIS: Final = 64
"""All that there are."""

MAX_CACHED_AGENTS: Final = 256
"""Programs whose names are kept: a service has a handful of clients."""

_FOLDED_CHARS = 2 * MAX_PREVIEW_CHARS
_MOST_FOLDED_CHARS = 4_096
"""Characters of a text that are looked at for its beginning: more where much of it is white
space."""

_EMBEDDINGS = SpanAttributes.EMBEDDING_EMBEDDINGS
_FIRST_TEXTS: Final = {
    Content.TEXTS: f"{SpanAttributes.LLM_PROMPTS}.0.{PromptAttributes.PROMPT_TEXT}",
    Content.VECTORS: f"{_EMBEDDINGS}.0.{EmbeddingAttributes.EMBEDDING_TEXT}",
    Content.RANKING: RerankerAttributes.RERANKER_QUERY,
}
"""By what calls have instead of messages, the attribute with what they are about."""

_PRODUCT = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token of RFC 9110, section 5.6.2."""


class _OfApi(NamedTuple):
    """What the columns of all calls of an API have alike.

    Attributes:
        first_text: the attribute with what a call without messages is about.
    """

    name: str
    kind: str
    has_messages: bool
    first_text: str | None


class _Call:
    """A call, and what several of its columns are made of.

    Attributes:
        get: from an attribute's name to its value on the span.
        calls: the calls of tools that the answer shows; ``None`` where there is none to show.
    """

    __slots__ = ("api", "calls", "exchange", "get", "mask", "messages", "shows_all")

    def __init__(self, exchange: Exchange, span: FinishedSpan) -> None:
        mask, attributes = span.mask, span.attributes
        if mask is None or attributes is None:
            raise TypeError("no recorder made this span")
        self.exchange = exchange
        self.mask = mask
        self.messages = span.messages
        self.get: Get = (
            attributes.given if type(attributes) is WrittenAttributes else attributes
        ).get
        self.api = api = _get_api(exchange.endpoint)
        self.shows_all = shows_all = mask.hides_nothing
        response = exchange.response
        self.calls: Sequence[ToolCall] | None = None
        if (
            response is not None
            and api.has_messages
            and (shows_all or not mask.hides_output_messages)
            and (exchange.response_status or 0) < 400  # ``docs/contract/spans.md#output-value``
        ):
            self.calls = response.tool_calls


def build_columns(exchange: Exchange, span: FinishedSpan) -> CallColumns:
    """Build the columns of an exchange, of which a recorder made `span`."""
    call = _Call(exchange, span)
    return _build(call, exchange, call.get)


def _write_builder(facts: Iterable[Fact]) -> str:
    """Write the function that finds all facts.

    One function for each of them would take half as long again.
    """
    found = ", ".join(f"{fact.name}={_write_finder(fact)}" for fact in facts)
    return f"lambda call, exchange, get: CallColumns({found})"


def _write_finder(fact: Fact) -> str:
    """Write what finds a fact: as its row says, or by the function here that has its name."""
    match fact.found:
        case OfSpan(attribute):
            written = f"get({attribute!r})"
            return f"_word({written})" if fact.form.value_type is str else written
        case OfExchange(path):
            value, *names = path.split(".")
            written = f"exchange.{value}"
            for name in names:
                written = f"None if (it := {written}) is None else it.{name}"
            return f"({written})"
    return f"_find_{fact.name}(call)"


def _find_kind(call: _Call) -> str:
    return call.api.kind


def _find_ttft_ns(call: _Call) -> int | None:
    first_ns = call.exchange.first_chunk_ns
    return None if first_ns is None else first_ns - call.exchange.start_ns


def _find_error_type(call: _Call) -> str | None:
    return None if call.exchange.error_type is None else _word(call.get(ERROR_TYPE))


def _find_api(call: _Call) -> str:
    return call.api.name


def _find_client(call: _Call) -> str | None:
    agent = None if call.exchange.user_agent is None else call.get(USER_AGENT_ORIGINAL)
    return find_client(agent)


def _find_session(call: _Call) -> str | None:
    session_id = call.exchange.context.session_id
    return None if session_id is None else _shown(call.get(SpanAttributes.SESSION_ID))


def _find_user(call: _Call) -> str | None:
    user_id = call.exchange.context.user_id
    return None if user_id is None else _shown(call.get(SpanAttributes.USER_ID))


def _find_request_id(call: _Call) -> str | None:
    request_id, mask = call.exchange.request_id, call.mask
    if request_id is None:
        return None
    if not (call.shows_all and mask.credentials is call.exchange.credentials):
        request_id = _word(mask.text(request_id))  # the observer has masked those of the head
    return None if request_id is None else request_id[:MAX_WORD_CHARS]


def _find_retry(call: _Call) -> int | None:
    return call.exchange.client_retry or None


def _find_streamed(call: _Call) -> int:
    return 1 if call.exchange.streamed else 0


def _find_anomalies(call: _Call) -> str | None:
    return " ".join(call.exchange.anomalies) or None


def _find_tools(call: _Call) -> str | None:
    return _join_names(call.calls, call.mask) if call.calls else None


def _find_tool_calls(call: _Call) -> int | None:
    calls = call.calls
    return None if calls is None else len([called for called in calls if called.type])


def _find_new_messages(call: _Call) -> int | None:
    is_shown = call.api.has_messages and (call.shows_all or not call.mask.hides_input_messages)
    return len(call.messages) if is_shown else None


def _find_preview(call: _Call) -> str | None:
    if call.messages:
        return find_user_text(call.messages, call.get, fold_text)
    return _fold_first(call.api.first_text, call.get)


@lru_cache(maxsize=MAX_CACHED_APIS)
def _get_api(endpoint: str) -> _OfApi:
    api = get_api(endpoint)
    has_messages = api.content is Content.MESSAGES
    return _OfApi(api.name, api.span_kind.value, has_messages, _FIRST_TEXTS.get(api.content))


def _shown(text: Any) -> str | None:
    """A text of the span's; ``None`` for one that is hidden, and for what is no text."""
    return None if type(text) is not str or text == REDACTED else clean_text(text)


def _word(text: Any) -> str | None:
    """A word of the span's, within its limit."""
    return None if type(text) is not str or text == REDACTED else clean_text(text[:MAX_WORD_CHARS])


@lru_cache(maxsize=MAX_CACHED_AGENTS)
def find_client(agent: str | None) -> str | None:
    """Find the program in what it calls itself: ``codex_cli_rs`` in ``codex_cli_rs/0.60 (…)``."""
    found = _PRODUCT.match(agent) if agent is not None else None
    if found is None or REDACTED in found[0]:
        return None
    return found[0][:MAX_CLIENT_CHARS].lower()


def _join_names(calls: Iterable[ToolCall], mask: Mask) -> str | None:
    """Join the names of what is called, each once and whole, as many as there is room for."""
    names: dict[str, None] = {}  # a set that keeps its order
    room = MAX_TOOLS_CHARS
    for call in calls:
        if not call.type:
            continue  # no call, in the place of one
        name = " ".join(mask.text(clean_text(call.name or "")).split())
        if name and name != REDACTED and name not in names:
            room -= len(name) + (1 if names else 0)
            if room < 0:
                break
            names[name] = None
    return "\n".join(names) or None


def _fold_first(name: str | None, get: Get) -> str | None:
    """The beginning of the first text of a call without messages."""
    return None if name is None else fold_text(get(name) or "")


def fold_text(text: str) -> str | None:
    """The beginning of a text in one line, ``None`` where nothing of it is shown."""
    if text == REDACTED:
        return None
    if text.find(REMINDER_MARK, 0, _MOST_FOLDED_CHARS) >= 0:
        text = without_reminders(text)
    head = text[:MAX_PREVIEW_CHARS]
    if head.isprintable() and "  " not in head and head[:1] != " ":  # most are folded already
        return head.rstrip() or None
    folded = " ".join(text[:_FOLDED_CHARS].split())
    if len(folded) < MAX_PREVIEW_CHARS and len(text) > _FOLDED_CHARS:
        folded = " ".join(text[:_MOST_FOLDED_CHARS].split())
    return clean_text(folded[:MAX_PREVIEW_CHARS].rstrip()) or None


_build: Callable[[_Call, Exchange, Get], CallColumns] = eval(_write_builder(COLUMN_FACTS))  # noqa: S307 - ours
"""Builds the columns of a call. It is compiled once, from the rows."""
