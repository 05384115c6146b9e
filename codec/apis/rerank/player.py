"""The player of rankings: a document's score is how many words it shares with the query.

The same request always gets the same ranking; documents with equal scores keep their order. Errors
are Cohere's.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from codec.apis.faults import build_error
from codec.apis.player import PlainPerformance
from codec.apis.rerank.route import read_content

if TYPE_CHECKING:
    from codec.apis.player import Player, Script
    from codec.asked import Asked
    from codec.dialects import Dialect
    from codec.text.jsontext import JsonObject

__all__ = ("PLAYER",)

_WORD: Final = re.compile(r"\w+")


class _RerankPlayer:
    """Plays rankings."""

    def find_fault(self, body: JsonObject) -> JsonObject | None:
        """The first thing wrong with a request, ``None`` for a good one."""
        is_teis = "texts" in body
        if not is_teis and not isinstance(body.get("model"), str):
            return build_error("invalid request: model parameter is required")
        if not body.get("query") or read_content(body["query"]) is None:
            return build_error("invalid request: query must not be empty")
        documents = body["texts"] if is_teis else body.get("documents")
        if not (isinstance(documents, list) and documents):
            return build_error("invalid request: list of documents must not be empty")
        return None

    def write_error(self, error: JsonObject, dialect: Dialect) -> bytes:  # noqa: ARG002
        """Write the body of an error."""
        shaped = {"id": "00000000-0000-4000-8000-000000000000", "message": error["message"]}
        return json.dumps(shaped).encode()

    def play(self, asked: Asked, script: Script, _: Dialect) -> PlainPerformance:
        """Begin an answer."""
        answer = _build(asked, script)
        return PlainPerformance(json.dumps(answer, ensure_ascii=False).encode())


PLAYER: Final[Player] = _RerankPlayer()


def _build(asked: Asked, script: Script) -> Any:
    """Build the answer in the form that belongs to the request.

    ``texts`` asks for TEI's form, ``top_k`` for Voyage's, and a path with ``/v2/`` for Cohere's.
    Any other request gets the form that Jina, vLLM and others share.
    """
    body = asked.body
    ranked = _rank(asked)
    if "texts" in body:
        shows_text = body.get("return_text") is True
        return [
            {"index": index, "score": score} | ({"text": text} if shows_text else {})
            for index, score, text in ranked
        ]
    shows, is_voyages = body.get("return_documents") is True, "top_k" in body
    results = [
        {"index": index, "relevance_score": score}
        | ({"document": text if is_voyages else {"text": text}} if shows else {})
        for index, score, text in ranked
    ]
    counts = {"total_tokens": script.prompt_tokens}
    if is_voyages:
        return {"object": "list", "data": results, "model": asked.model, "usage": counts}
    if "/v2/" in asked.path:
        meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
        return {"id": script.answer_id, "results": results, "meta": meta}
    counts = {"prompt_tokens": script.prompt_tokens, **counts}
    head = {"id": f"rerank-{script.answer_id}", "model": asked.model}
    return {**head, "results": results, "usage": counts}


def _rank(asked: Asked) -> list[tuple[int, float, str]]:
    """The index, the score and the text of the documents, the best one first."""
    wanted = _words(asked.read_query())
    texts = [text or "" for text in asked.read_documents()]
    scores = [len(wanted & _words(text)) / (len(wanted) or 1) for text in texts]
    best_first = sorted(range(len(texts)), key=lambda index: (-scores[index], index))
    limit = asked.rank_limit or len(texts)
    return [(index, round(scores[index], 6), texts[index]) for index in best_first[:limit]]


def _words(text: str | None) -> set[str]:
    return {word.lower() for word in _WORD.findall(text or "")}
