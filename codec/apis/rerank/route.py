"""Rankings: one form under the names of several providers.

See ``docs/contract/apis.md#counts`` and ``docs/contract/apis.md#rankings``. In requests Cohere,
Jina, vLLM, llama.cpp, Together and OpenRouter have ``documents`` and ``top_n``, Voyage has
``top_k``, TEI has ``texts``. In answers the list is ``results``, Voyage's ``data``, or TEI's whole
body, and its order is the ranking. An item that is not a ranked document keeps its place and says
nothing.
"""

from __future__ import annotations

from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Final

from codec.apis.api import Api, Content, NoStream, SpanKind, load_player
from codec.asked import Asked, ReadList
from codec.bodies import decode_response_value
from codec.cost import decode_cost
from codec.error_objects import find_error
from codec.errors import MalformedResponse
from codec.members import object_of, text_of
from codec.rankings import Ranked
from codec.said import Ending, Said
from codec.text.integers import count_of, index_of
from codec.text.jsontext import compact_text
from codec.usage import COMPLETION_COUNTS, PROMPT_COUNTS, first_count, make_usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codec.text.jsontext import JsonObject
    from codec.usage import Usage

__all__ = ("RERANK", "read_content")


class RerankRequest(Asked, frozen=True, gc=False):
    """A request to rank documents."""

    content_members: ClassVar[frozenset[str]] = frozenset({"query", "documents", "texts"})

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request for a ranking; ``None`` if it is one."""
        if not isinstance(self.body.get("query"), str | dict):
            return "query is neither text nor an object"
        if self._documents is None:
            return "there is nothing to rank"
        return None

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters; Voyage's ``top_k`` is not the one that chats have, which samples."""
        return {name: value for name, value in self.body.items() if name != "top_k"}

    @property
    def rank_limit(self) -> int | None:
        """The most documents that the ranking is to have: ``top_n``, else ``top_k``."""
        limit = count_of(self.body.get("top_n"))
        return count_of(self.body.get("top_k")) if limit is None else limit

    def read_query(self) -> str | None:
        """Read the query: a text, or an object that models of images accept."""
        return read_content(self.body.get("query"))

    def read_documents(self) -> Sequence[str | None]:
        """Read the documents."""
        return ReadList(self._documents or (), read_content)

    @property
    def _documents(self) -> Sequence[Any] | None:
        """The documents as sent.

        vLLM also takes a single document, and an object whose ``content`` lists parts.
        """
        documents = self.body.get("documents")
        if isinstance(documents, str):
            return (documents,)
        if isinstance(documents, dict):
            documents = documents.get("content")
        for values in (documents, self.body.get("texts")):
            if isinstance(values, list):
                return values
        return None


def read_content(value: Any) -> str | None:
    """Read a document: a string, the ``text`` of an object, or the whole object as JSON."""
    if isinstance(value, str):
        return value
    text = object_of(value).get("text")
    if isinstance(text, str):
        return text
    return compact_text(value) if value else None


_BILLED: Final = ("billed_units", "tokens", "cached_tokens")
"""Members of Cohere's ``meta`` that are usage; the others are its version and warnings."""


class RerankAnswer(Said, frozen=True, kw_only=True):
    """A ranking.

    Attributes:
        items: the list as it came; ``None`` if the answer has no list.
        is_bare: the list is the whole body.
    """

    items: list[Any] | None = None
    is_bare: bool = False

    @property
    def ranking(self) -> Sequence[Ranked]:
        """The documents in their order, the best one first."""
        return ReadList(self.items or (), _read_ranked)

    def ending(self, *, streamed: bool) -> Ending:  # noqa: ARG002 - no ranking is streamed
        """Tell how far the answer came: it is complete with its list."""
        return Ending.STOPPED if self.items is None else Ending.COMPLETE

    def output(self, *, streamed: bool) -> Mapping[str, Any] | Sequence[Any]:
        """The body as it came."""
        if self.is_bare and self.items is not None:
            return self.items
        return super().output(streamed=streamed)


def _read_ranking(body: bytes) -> RerankAnswer:
    """Read the body of an answer, or of an error.

    Raises:
        MalformedResponse: it is neither a JSON object nor a list.
    """
    value = decode_response_value(body)
    if isinstance(value, list):
        return RerankAnswer(items=value, is_bare=True)
    if not isinstance(value, dict):
        raise MalformedResponse(f"response body: a JSON {type(value).__name__}, not a ranking")
    lists = (value.get(name) for name in ("results", "data"))
    items = next((one for one in lists if isinstance(one, list)), None)
    error = find_error(value)
    usage = _read_usage(value)
    return RerankAnswer(
        id=text_of(value.get("id")),
        model=text_of(value.get("model")),
        usage=usage,
        cost=decode_cost(object_of(value.get("usage")), value),
        error=error,
        anomalies=tuple(_find_anomalies(usage, is_answer=items is not None or error is not None)),
        body=value,
        items=items,
    )


def _find_anomalies(usage: Usage | None, *, is_answer: bool) -> Iterator[str]:
    if not is_answer:
        yield "foreign_chunk"
    if usage is not None:
        yield from usage.anomalies


def _read_ranked(item: Any) -> Ranked:
    members = object_of(item)
    document = members.get("document")
    return Ranked(
        index=index_of(members.get("index")),
        score=_read_score(members.get("relevance_score", members.get("score"))),
        content=read_content(members.get("text") if document is None else document),
    )


def _read_score(value: Any) -> float | None:
    """Read a finite number; models have scores of any sign and size."""
    if type(value) is not float and type(value) is not int:
        return None
    try:
        score = float(value)
    except OverflowError:  # an integer of hundreds of digits
        return None
    return score if isfinite(score) else None


def _read_usage(body: JsonObject) -> Usage | None:
    """Read an answer's counts of tokens; ``None`` if it reports none.

    Search units are not tokens. They stay in the raw usage, with all else that the answer says it
    is billed for.
    """
    counts, meta = object_of(body.get("usage")), object_of(body.get("meta"))
    raw = {name: meta[name] for name in _BILLED if meta.get(name) is not None} | counts
    if all(value is None for value in raw.values()):
        return None
    tokens = object_of(meta.get("tokens"))
    total = count_of(counts.get("total_tokens"))
    prompts = (count_of(tokens.get("input_tokens")), first_count(counts, PROMPT_COUNTS), total)
    answers = (count_of(tokens.get("output_tokens")), first_count(counts, COMPLETION_COUNTS))
    prompt = next((count for count in prompts if count is not None), None)
    completion = next((count for count in answers if count is not None), None)
    return make_usage(raw, prompt=prompt, completion=completion, total=total)


RERANK = Api(
    name="rerank",
    path_ends=("/rerank",),
    operation="rerank",
    span_name="Rerank",
    system=None,
    span_kind=SpanKind.RERANKER,
    noun="ranking",
    content=Content.RANKING,
    quoted_lists=frozenset({"results", "data", ""}),
    quoted_item_members=frozenset({"document", "text"}),
    asked=RerankRequest,
    open_stream=NoStream,
    read_said=_read_ranking,
    open_player=partial(load_player, "codec.apis.rerank.player", "PLAYER"),
)
"""Rankings. OpenTelemetry has no operation for them; span name and operation are Envoy's."""
