"""The route of rankings, and the names of their spans."""

from __future__ import annotations

from functools import partial

from codec.apis.api import Api, Content, SpanKind, load_player
from codec.apis.no_stream import NoStream
from codec.apis.rerank.asked import RerankRequest
from codec.apis.rerank.said import read_ranking

__all__ = ("RERANK",)

RERANK = Api(
    name="rerank",
    path_ends=("/rerank",),
    operation="rerank",
    span_name="Rerank",
    system=None,
    span_kind=SpanKind.RERANKER,
    content=Content.RANKING,
    quoted_lists=frozenset({"results", "data", ""}),
    quoted_item_members=frozenset({"document", "text"}),
    asked=RerankRequest,
    open_stream=NoStream,
    read_said=read_ranking,
    open_player=partial(load_player, "codec.apis.rerank.player", "PLAYER"),
)
"""OpenTelemetry has no operation for it; span name and operation are those of Envoy's gateway."""
