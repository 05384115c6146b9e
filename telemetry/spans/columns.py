"""The columns of a call, which lists show: built from its exchange and its span.

Rules (``docs/contract/page.md#columns``):

1. Content that is hidden on the span is in no column. If an attribute of the span has the value, it
   is taken from there: hidden, masked and cut as it is on the span. Any other text of the client's
   or the provider's goes through the span's mask.
2. A value that did not come has no column (R6); ``streamed`` is always known.
3. Every text has a limit (R5): a list of a thousand rows is read at once.
4. What agents put around the user's words is left out (:mod:`telemetry.spans.wrappers`). Where the
   user did not speak, the step says what is new (:mod:`telemetry.spans.steps`).
5. The row of a fact may say where its value is (:class:`telemetry.fact.Fact`, ``found``).
   :func:`build_columns` finds all other values.
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
from telemetry.attribute_values import clean_text
from telemetry.fact import OfExchange, OfSpan
from telemetry.facts import COLUMN_FACTS, MAX_PREVIEW_CHARS, CallColumns
from telemetry.observing.purposes import find_purpose
from telemetry.pricing.span_cost import NOTHING_FOUND
from telemetry.privacy.json_strings import REDACTED
from telemetry.spans.otlp.attributes import WrittenAttributes
from telemetry.spans.steps import describe_step, describe_work
from telemetry.spans.user_text import find_user_text
from telemetry.spans.wrappers import drop_quotes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from codec.parts import ToolCall
    from codec.said import Said
    from telemetry.fact import Fact
    from telemetry.observing.exchange import Exchange
    from telemetry.privacy.mask import Mask
    from telemetry.spans.otlp.writer import FinishedSpan
    from telemetry.spans.user_text import Get

MAX_TOOLS_CHARS: Final = 1_000
"""The most characters of all tools' names together: OpenAI's names have at most 64, and an answer
calls a few tools."""

MAX_CLIENT_CHARS: Final = 40
"""The most characters of a program's name; real names have ten to twenty."""

MAX_WORD_CHARS: Final = 256
"""The most characters of a word of the provider's: finish reason, class of error, id. The span has
all of it."""

MAX_CACHED_APIS: Final = 64
"""All APIs that there are."""

MAX_CACHED_AGENTS: Final = 256
"""The number of programs whose names are kept: a service has a handful of clients."""

_FOLDED_CHARS = 2 * MAX_PREVIEW_CHARS
_MOST_FOLDED_CHARS = 4_096
"""Characters of a text that are read for its beginning: more if much of it is white space."""

_EMBEDDINGS = SpanAttributes.EMBEDDING_EMBEDDINGS
FIRST_TEXTS: Final = {
    Content.TEXTS: f"{SpanAttributes.LLM_PROMPTS}.0.{PromptAttributes.PROMPT_TEXT}",
    Content.VECTORS: f"{_EMBEDDINGS}.0.{EmbeddingAttributes.EMBEDDING_TEXT}",
    Content.RANKING: RerankerAttributes.RERANKER_QUERY,
}
"""For calls without messages: the attribute with the text that they are about, by the kind of
content."""

_PRODUCT = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token of RFC 9110, section 5.6.2."""

_CLIENT_NAMES: Final = {
    "asyncanthropic": "anthropic",
    "asyncazureopenai": "azureopenai",
    "asynccerebras": "cerebras",
    "asyncgroq": "groq",
    "asyncopenai": "openai",
    "asynctogether": "together",
    "mistral-client-python": "mistralai",
    "mistral-client-typescript": "mistralai",
    "qwencode": "qwen-code",
}
"""Names of programs by what they call themselves: that of the package, where this is another one,
and one name for an SDK with and without ``async``."""


class _OfApi(NamedTuple):
    """The part of the columns that all calls of an API share.

    Attributes:
        noun: what a call is, if no model speaks in it.
        first_text: the attribute with the text that a call without messages is about.
    """

    name: str
    kind: str
    has_messages: bool
    noun: str
    first_text: str | None


def build_columns(exchange: Exchange, span: FinishedSpan) -> CallColumns:
    """Build the columns of an exchange, of which a recorder made `span`."""
    mask, attributes, messages = span.mask, span.attributes, span.messages
    if mask is None or attributes is None:
        raise TypeError("no recorder made this span")
    get: Get = (attributes.given if type(attributes) is WrittenAttributes else attributes).get
    api, context, response = _get_api(exchange.endpoint), exchange.context, exchange.response
    shows_all = mask.hides_nothing
    said: Said | None = None  # the answer, if what it says may be shown
    if (
        response is not None
        and (api.has_messages or api.noun)
        and (shows_all or not mask.hides_output_messages)
        and (exchange.response_status or 0) < 400  # ``docs/contract/spans.md#output-value``
    ):
        said = response
    calls = said.tool_calls if said is not None and api.has_messages else None
    first_ns, request_id = exchange.first_chunk_ns, exchange.request_id
    ttft_ns = None if first_ns is None else first_ns - exchange.start_ns
    error_type = None if exchange.error_type is None else _word(get(ERROR_TYPE))
    client = None if exchange.user_agent is None else find_client(get(USER_AGENT_ORIGINAL))
    session = None if context.session_id is None else _shown(get(SpanAttributes.SESSION_ID))
    user = None if context.user_id is None else _shown(get(SpanAttributes.USER_ID))
    if request_id is not None:
        if not (shows_all and mask.credentials is exchange.credentials):
            request_id = _word(mask.text(request_id))  # already without the head's credentials
        request_id = request_id and request_id[:MAX_WORD_CHARS]
    retry = exchange.client_retry or None
    streamed = 1 if exchange.streamed else 0
    anomalies = " ".join(exchange.anomalies) or None
    tools = _join_names(calls, mask) if calls else None
    tool_calls = None if calls is None else len([call for call in calls if call.type])
    shows_messages = api.has_messages and (shows_all or not mask.hides_input_messages)
    new_messages = len(messages) if shows_messages else None
    request, ids = exchange.request, exchange.agent_ids
    purpose = ids.purpose if ids is not None and api.has_messages else None
    step = None
    if messages:
        parsed = exchange.read_observations(messages)
        preview, is_new = find_user_text(messages, parsed, get, fold_words)
        if request is not None and (shows_all or not mask.hides_input_text):
            purpose = find_purpose(request, purpose, messages)  # what is hidden gives no sign
        if purpose is not None or not is_new:
            has_text_tools = parsed is not messages
            step = describe_step(purpose, parsed, said, get, mask, has_text_tools=has_text_tools)
    else:
        preview = fold_first(api.first_text, get)
        if purpose is not None:
            step = describe_step(purpose, (), said, get, mask, has_text_tools=False)
    if api.noun:
        step = describe_work(api.noun, preview, said, get, mask)
    price = span.price or NOTHING_FOUND
    cost = price.cost
    cost_basis = None if cost is None else cost.basis
    # If a subscription pays, nobody saves anything by the provider's cache.
    saved_usd = None if cost is None or cost_basis is not None else cost.saved
    cost_gap = price.gap
    # In the order of the table, without names: with them all of this would take a sixth longer.
    return _build(
        exchange,
        get,
        api.kind,
        ttft_ns,
        error_type,
        api.name,
        client,
        session,
        user,
        request_id,
        retry,
        streamed,
        anomalies,
        tools,
        tool_calls,
        new_messages,
        preview,
        step,
        purpose,
        saved_usd,
        cost_basis,
        cost_gap,
    )


def _write_builder(facts: Iterable[Fact]) -> str:
    """Write the function that finds the facts whose rows say where they are.

    It takes the other facts as arguments, in their order.
    """
    given = ", ".join(fact.name for fact in facts if fact.found is None)
    found = ", ".join(f"{fact.name}={_write_finder(fact)}" for fact in facts)
    return f"lambda exchange, get, {given}: CallColumns({found})"


def _write_finder(fact: Fact) -> str:
    """Write the expression that finds a fact."""
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
    return fact.name


@lru_cache(maxsize=MAX_CACHED_APIS)
def _get_api(endpoint: str) -> _OfApi:
    api = get_api(endpoint)
    has_messages = api.content is Content.MESSAGES
    return _OfApi(
        api.name, api.span_kind.value, has_messages, api.noun, FIRST_TEXTS.get(api.content)
    )


def _shown(text: Any) -> str | None:
    """Read a text of the span; ``None`` if it is hidden, or is not a text."""
    return None if type(text) is not str or text == REDACTED else clean_text(text)


def _word(text: Any) -> str | None:
    """Read a word of the span, within its limit."""
    return None if type(text) is not str or text == REDACTED else clean_text(text[:MAX_WORD_CHARS])


@lru_cache(maxsize=MAX_CACHED_AGENTS)
def find_client(agent: str | None) -> str | None:
    """Find the program in its ``User-Agent``: ``codex_cli_rs`` in ``codex_cli_rs/0.60 (…)``."""
    found = _PRODUCT.match(agent) if agent is not None else None
    if found is None or REDACTED in found[0]:
        return None
    name = found[0][:MAX_CLIENT_CHARS].lower()
    return _CLIENT_NAMES.get(name, name)


def _join_names(calls: Iterable[ToolCall], mask: Mask) -> str | None:
    """Join the names of called tools, each once and whole, as many as there is room for."""
    names: dict[str, None] = {}  # a set that keeps its order
    room = MAX_TOOLS_CHARS
    for call in calls:
        if not call.type:
            continue  # not a call, but in the place of one
        name = " ".join(mask.text(clean_text(call.name or "")).split())
        if name and name != REDACTED and name not in names:
            room -= len(name) + (1 if names else 0)
            if room < 0:
                break
            names[name] = None
    return "\n".join(names) or None


def fold_first(name: str | None, get: Get) -> str | None:
    """Return the beginning of the first text of a call without messages."""
    return None if name is None else fold_text(get(name) or "")


def fold_words(text: str) -> str | None:
    """Return the beginning of the user's words, as :func:`fold_text` does, without quotes."""
    return fold_text(drop_quotes(text))


def fold_text(text: str) -> str | None:
    """Return the beginning of a text in one line, with ``…`` where more follows.

    ``None`` if nothing of it is shown.
    """
    if text == REDACTED:
        return None
    head = text[:MAX_PREVIEW_CHARS]
    if head.isprintable() and "  " not in head and head[:1] != " ":  # most are folded already
        has_more = bool(text[MAX_PREVIEW_CHARS:_MOST_FOLDED_CHARS].strip())
        return _cut(head, has_more=has_more) or None
    read = _FOLDED_CHARS
    folded = " ".join(text[:read].split())
    if len(folded) < MAX_PREVIEW_CHARS and len(text) > read:
        read = _MOST_FOLDED_CHARS
        folded = " ".join(text[:read].split())
    has_more = len(folded) > MAX_PREVIEW_CHARS or len(text) > read
    return clean_text(_cut(folded[:MAX_PREVIEW_CHARS], has_more=has_more)) or None


def _cut(head: str, *, has_more: bool) -> str:
    """End the beginning of a text with ``…`` if more follows; within its limit."""
    head = head.rstrip()
    return head[: MAX_PREVIEW_CHARS - 1].rstrip() + "…" if has_more and head else head


_build: Callable[..., CallColumns] = eval(_write_builder(COLUMN_FACTS))  # noqa: S307 - ours
"""Builds the columns of a call. It is compiled once, from the rows."""
