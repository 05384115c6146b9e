"""A ranking of documents as OpenInference wants it (``docs/contract/apis.md#rankings``).

Rules:

1. At most :data:`telemetry.spans.flattening.MAX_FLATTENED_DOCUMENTS` a side.
2. A ranked document stands at its place in the answer. Its id is its index in the request, and its
   text the request's, else what the answer repeats.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from openinference.semconv.trace import DocumentAttributes, RerankerAttributes

from telemetry.spans.flattening import MAX_FLATTENED_DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.rankings import Ranked
    from telemetry.attribute_values import AttributePairs
    from telemetry.observing.exchange import Exchange
    from telemetry.spans.flattening import Flattening

_INPUTS: Final = RerankerAttributes.RERANKER_INPUT_DOCUMENTS
_OUTPUTS: Final = RerankerAttributes.RERANKER_OUTPUT_DOCUMENTS


def build_query_attributes(exchange: Exchange, flattening: Flattening) -> AttributePairs:
    """``reranker.input_documents.<i>.*`` and ``reranker.query``: what was asked."""
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
    """``reranker.output_documents.<rank>.*``: the answer, the best document first."""
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
    """The text of a ranked document (rule 2)."""
    index = ranked.index
    content = asked[index] if index is not None and index < len(asked) else None
    return ranked.content if content is None else content
