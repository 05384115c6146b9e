"""Attributes of calls that serve a search (embeddings and rankings), in OpenInference's form.

Vectors are left out, in the output value too, unless they are asked for
(``OPENINFERENCE_HIDE_EMBEDDINGS_VECTORS=false``): they are large, and nobody reads them. Vectors of
either encoding become numbers; a value that is not a vector is left out. Token ids are not text
(``docs/contract/spans.md#embeddings``, ``docs/contract/apis.md#rankings``).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from openinference.semconv.trace import (
    DocumentAttributes,
    EmbeddingAttributes,
    OpenInferenceMimeTypeValues,
    RerankerAttributes,
    SpanAttributes,
)

from telemetry.attribute_values import json_text
from telemetry.privacy.json_strings import REDACTED
from telemetry.spans.flattening import MAX_FLATTENED_DOCUMENTS, MAX_FLATTENED_PROMPTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.rankings import Ranked
    from telemetry.attribute_values import AttributePairs
    from telemetry.observing.exchange import Exchange
    from telemetry.spans.flattening import Flattening

MAX_BODY_DEPTH = 16
"""How deep an answer of embeddings is read: it has four levels, and deeper ones are hidden."""

_VECTOR_MEMBERS = frozenset({"embedding", "embeddings", "vector"})
"""Members that hold a vector in base64."""

_INPUTS: Final = RerankerAttributes.RERANKER_INPUT_DOCUMENTS
_OUTPUTS: Final = RerankerAttributes.RERANKER_OUTPUT_DOCUMENTS


def build_embedding_attributes(
    exchange: Exchange, flattening: Flattening, *, shows_vectors: bool
) -> AttributePairs:
    """``embedding.embeddings.<i>.*``: the texts, and the vectors if they are wanted."""
    texts = exchange.request.read_texts() if exchange.request is not None else ()
    found = exchange.response.vectors if shows_vectors and exchange.response is not None else ()
    vectors = {vector.index: vector for vector in found}
    # An answer may have more vectors than the request has texts, as many as may be flattened.
    count = min(max(vectors, default=-1) + 1, MAX_FLATTENED_PROMPTS)
    entries = [*texts, *(None for _ in range(count - len(texts)))]

    def build(index: int, text: object) -> AttributePairs:
        prefix = f"{SpanAttributes.EMBEDDING_EMBEDDINGS}.{index}"
        is_text = isinstance(text, str)
        yield f"{prefix}.{EmbeddingAttributes.EMBEDDING_TEXT}", text if is_text else None
        numbers = vectors[index].read() if index in vectors else None
        yield f"{prefix}.{EmbeddingAttributes.EMBEDDING_VECTOR}", numbers

    return flattening.flatten(
        SpanAttributes.EMBEDDING_EMBEDDINGS, entries, build, limit=MAX_FLATTENED_PROMPTS
    )


def build_embedding_output_attributes(exchange: Exchange, *, shows_vectors: bool) -> AttributePairs:
    """``output.*``: the answer as the client received it, without unwanted vectors."""
    response = exchange.response
    if exchange.undecoded_body:
        # It may be an answer that broke off, in the middle of a vector.
        yield SpanAttributes.OUTPUT_VALUE, exchange.undecoded_body if shows_vectors else REDACTED
    if response is None or (exchange.response_status or 0) >= 400:
        return
    body: Any = dict(response.body)
    text = json_text(body if shows_vectors else _without_vectors(body, MAX_BODY_DEPTH))
    if text is not None:
        yield SpanAttributes.OUTPUT_VALUE, text
        yield SpanAttributes.OUTPUT_MIME_TYPE, OpenInferenceMimeTypeValues.JSON.value


def _without_vectors(value: Any, depth: int) -> Any:
    """Return a body without lists of numbers, and without members with an embedding in any form."""
    if isinstance(value, list):
        if not depth or any(isinstance(item, int | float) for item in value):
            return REDACTED
        return [_without_vectors(item, depth - 1) for item in value]
    if isinstance(value, dict):
        if not depth:
            return REDACTED
        return {
            name: REDACTED
            if name in _VECTOR_MEMBERS and isinstance(item, str)
            else _without_vectors(item, depth - 1)
            for name, item in value.items()
        }
    return value


def build_query_attributes(exchange: Exchange, flattening: Flattening) -> AttributePairs:
    """``reranker.input_documents.<i>.*`` and ``reranker.query``: the request."""
    request = exchange.request
    if request is None:
        return iter(())

    def build(index: int, content: str | None) -> AttributePairs:
        yield f"{_INPUTS}.{index}.{DocumentAttributes.DOCUMENT_CONTENT}", content

    documents = flattening.flatten(
        _INPUTS, request.read_documents(), build, limit=MAX_FLATTENED_DOCUMENTS
    )
    query: tuple[str, object] = (RerankerAttributes.RERANKER_QUERY, request.read_query())
    return chain(documents, (query,))


def build_ranking_attributes(exchange: Exchange, flattening: Flattening) -> AttributePairs:
    """``reranker.output_documents.<rank>.*``: the answer, the best document first.

    A document's id is its index in the request.
    """
    response = exchange.response
    if response is None or (exchange.response_status or 0) >= 400:
        return iter(())
    asked = exchange.request.read_documents() if exchange.request is not None else ()

    def build(rank: int, ranked: Ranked) -> AttributePairs:
        prefix = f"{_OUTPUTS}.{rank}"
        yield f"{prefix}.{DocumentAttributes.DOCUMENT_ID}", ranked.index
        yield f"{prefix}.{DocumentAttributes.DOCUMENT_SCORE}", ranked.score
        yield f"{prefix}.{DocumentAttributes.DOCUMENT_CONTENT}", _find_content(ranked, asked)

    return flattening.flatten(_OUTPUTS, response.ranking, build, limit=MAX_FLATTENED_DOCUMENTS)


def _find_content(ranked: Ranked, asked: Sequence[str | None]) -> str | None:
    """Find the text of a ranked document: the request's, else the one that the answer repeats."""
    index = ranked.index
    content = asked[index] if index is not None and index < len(asked) else None
    return ranked.content if content is None else content
