"""Calls of a ranking and of a moderation with a canary in every field.

See ``docs/contract/apis.md#rankings`` and ``docs/contract/apis.md#moderations``.
"""

from __future__ import annotations

from typing import Any

from tests.telemetry.canaries import IMAGE_URL, plant

__all__ = (
    "MODERATION_ANSWERED",
    "MODERATION_ASKED",
    "MODERATION_WORDS",
    "RANKING_ANSWERED",
    "RANKING_ASKED",
    "RANKING_WORDS",
    "TEI_ANSWERED",
    "TEI_ASKED",
)

RANKING_ASKED: dict[str, Any] = {
    "model": "m-1",
    "query": plant("query"),
    "documents": [
        plant("document"),
        {"text": plant("doctext")},
        {"title": plant("docfield")},
        {"image": IMAGE_URL},
    ],
    "top_n": 4,
    "return_documents": True,
    "rank_fields": [plant("stop")],
    "user": plant("user"),
    "metadata": {"k": plant("metadata"), "session_id": plant("session")},
    "unheard_of": {plant("oddkey"): plant("oddmember")},
}
RANKING_ANSWERED: dict[str, Any] = {
    "id": "rank-1",
    "model": "m-1",
    "results": [
        {"index": 3, "relevance_score": 0.9, "document": {"image": IMAGE_URL}},
        {"index": 1, "relevance_score": 0.8, "document": {"text": plant("doctext")}},
        {"index": 0, "relevance_score": 0.5, "document": plant("document")},
        {"index": 9, "relevance_score": 0.1, "unheard_of": plant("oddanswer")},
    ],
    "meta": {"warnings": [plant("refusal")], "billed_units": {"note": plant("usage")}},
    "unheard_of": plant("oddbody"),
}
RANKING_WORDS = {
    *("query", "document", "doctext", "docfield", "image", "stop", "user", "metadata", "session"),
    *("oddkey", "oddmember", "oddanswer", "refusal", "usage", "oddbody"),
}

TEI_ASKED = {"query": plant("query"), "texts": [plant("document")], "return_text": True}
TEI_ANSWERED = [{"index": 0, "score": 0.5, "text": plant("document"), "x": plant("oddanswer")}]

MODERATION_ASKED: dict[str, Any] = {
    "model": "m-1",
    "input": [
        {"type": "text", "text": plant("part")},
        {"type": "image_url", "image_url": {"url": IMAGE_URL}},
    ],
    "user": plant("user"),
    "unheard_of": {plant("oddkey"): plant("oddmember")},
}
MODERATION_ANSWERED: dict[str, Any] = {
    "id": "modr-1",
    "model": "m-1",
    "results": [
        {
            "flagged": True,
            "categories": {plant("content"): True, "hate": False},
            "category_scores": {plant("content"): 0.9, plant("token"): 0.1},
            "unheard_of": plant("oddanswer"),
        }
    ],
    "unheard_of": plant("oddbody"),
}
MODERATION_WORDS = {
    *("part", "image", "user", "oddkey", "oddmember"),
    *("content", "token", "oddanswer", "oddbody"),
}
