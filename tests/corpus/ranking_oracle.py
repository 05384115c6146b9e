"""What spans of rankings and of moderations must say.

It is written from ``docs/contract/apis.md#rankings`` and
``docs/contract/apis.md#moderations``.

It shares nothing with the codec or the telemetry, so that neither can be wrong alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.corpus.oracle import parse_json

if TYPE_CHECKING:
    from tests.corpus.recordings import Recording

__all__ = ("expect_moderation_span", "expect_ranking_span")


def expect_ranking_span(recording: Recording) -> dict[str, Any]:
    """What the span of a ranking must say: what was asked, the ranking, what it took."""
    asked = parse_json(recording.request)
    documents = asked.get("documents") or asked.get("texts") or []
    said = {
        **_expect_ending(recording),
        "reranker.query": asked.get("query"),
        "reranker.top_k": asked.get("top_n") or asked.get("top_k"),
        **{
            f"reranker.input_documents.{index}.document.content": _read(document)
            for index, document in enumerate(documents)
        },
    }
    body = _read_answer(recording)
    members = body if isinstance(body, dict) else {}
    said["reranker.model_name"] = members.get("model") or asked.get("model")
    said["gen_ai.response.id"] = members.get("id")
    if recording.status < 400:
        items = body if isinstance(body, list) else members.get("results", members.get("data"))
        for rank, item in enumerate(items or []):
            prefix, index = f"reranker.output_documents.{rank}.document", item["index"]
            said[f"{prefix}.id"] = index
            said[f"{prefix}.score"] = item.get("relevance_score", item.get("score"))
            in_request = index < len(documents)
            said[f"{prefix}.content"] = _read(
                documents[index] if in_request else item.get("document") or item.get("text")
            )
    usage, meta = members.get("usage") or {}, members.get("meta") or {}
    total = usage.get("total_tokens")
    said["llm.token_count.total"] = total
    said["llm.token_count.prompt"] = usage.get("prompt_tokens", total)
    said["llm.token_count.completion"] = usage.get("completion_tokens")
    units = {"billed_units": meta["billed_units"]} if meta else {}
    said["metadata.usage_raw"] = units | usage or None
    return {key: value for key, value in said.items() if value is not None}


def expect_moderation_span(recording: Recording) -> dict[str, Any]:
    """What the span of a moderation must say: the model and what was found; no count."""
    body = _read_answer(recording) or {}
    results = body.get("results", []) if recording.status < 400 else []
    found = [name for one in results for name, is_it in one["categories"].items() if is_it]
    flags = [one["flagged"] for one in results if "flagged" in one]
    said = {
        **_expect_ending(recording),
        "gen_ai.response.id": body.get("id"),
        "metadata.model": body.get("model") or parse_json(recording.request).get("model"),
        "metadata.flagged": True in flags if flags else None,
        "metadata.flagged_categories": [*dict.fromkeys(found)] or None,
    }
    return {key: value for key, value in said.items() if value is not None}


def _read_answer(recording: Recording) -> Any:
    """The answer; nothing of one that broke off."""
    return parse_json(recording.text)


def _expect_ending(recording: Recording) -> dict[str, Any]:
    body = _read_answer(recording)
    failed = recording.status >= 400
    broken = recording.breaks_off and body is None
    text = recording.text.decode(errors="replace")
    return {
        "outcome": "upstream_error" if failed else "truncated" if broken else "completed",
        "status": "ERROR" if failed or broken else "OK",
        "error": _read_error(body) or text.strip() or None if failed else None,
        "lost": broken and not failed and bool(text),
        "output.value": "" if failed else text if body is None else body,
    }


def _read_error(body: Any) -> str | None:
    """What an error says, in the shapes of ``docs/contract/apis.md#shapes-of-errors``."""
    members = body if isinstance(body, dict) else {}
    told = members.get("error") or members.get("detail") or members
    said = told.get("message") if isinstance(told, dict) else told
    if isinstance(said, list):  # FastAPI's, of what it did not like
        return json.dumps(said, separators=(",", ":"))
    return said


def _read(document: Any) -> str | None:
    if not document or isinstance(document, str):
        return document or None
    return document.get("text") or json.dumps(document, separators=(",", ":"), ensure_ascii=False)
