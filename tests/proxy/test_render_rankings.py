"""Rankings, moderations and other calls without messages, on a terminal and through a pipe."""

from __future__ import annotations

import io
from datetime import UTC
from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.table import get_api
from codec.text.jsontext import encode_json
from proxy.commands.message_lines import MAX_DOCUMENT_CHARACTERS
from proxy.commands.render import open_console, print_call
from tests.proxy.recorded_calls import make_exchange, read_call

if TYPE_CHECKING:
    from pathlib import Path


def show(folder: Path, endpoint: str, asked: dict[str, Any], answered: Any) -> list[str]:
    """The lines of a recorded call in full."""
    response = get_api(endpoint).read_said(encode_json(answered).encode())
    exchange = make_exchange(
        endpoint=endpoint,
        request_json=asked,
        response=response,
        streamed=False,
        first_chunk_ns=None,
    )
    out = io.StringIO()
    print_call(open_console(out), read_call(folder / "traces.db", exchange), zone=UTC)
    return out.getvalue().splitlines()


def said(lines: list[str], title: str = "request") -> list[str]:
    """What was asked and answered, from a title to the facts about the call."""
    return lines[lines.index(title) : lines.index("call") - 1]


def test_a_ranking_in_full(tmp_path: Path) -> None:
    """The query, a line for each document, and the ranking with scores; no reason to end."""
    long = "z" * (MAX_DOCUMENT_CHARACTERS + 50)
    asked = {"model": "r-1", "query": "Who?", "documents": ["Ann\n\x1b[2J", long], "top_n": 2}
    results = [{"index": 1, "relevance_score": 0.98765432}, {"index": 0, "relevance_score": -4.5}]
    answered = {"model": "r-1", "results": results, "usage": {"total_tokens": 9}}
    lines = show(tmp_path, "rerank", asked, answered)
    cut = "z" * MAX_DOCUMENT_CHARACTERS + f"... ({len(long)} characters)"
    assert said(lines) == [
        "request",
        "  query",
        "    Who?",
        "  document 0  Ann\\n\\x1b[2J",
        f"  document 1  {cut}",
        "",
        "answer",
        f"  document 1  0.9877  {cut}",
        "  document 0  -4.5  Ann\\n\\x1b[2J",
    ]
    assert lines[0].startswith("Rerank r-1  completed")
    assert not any("finish" in line for line in lines)
    assert any("9 in, 9 total" in line for line in lines)


def test_a_ranking_without_scores_or_texts(tmp_path: Path) -> None:
    """What is not known is not told."""
    lines = show(tmp_path, "rerank", {"query": "Q?", "texts": []}, [{"index": 3}, {"score": 1}])
    assert said(lines, "answer") == ["answer", "  document 3", "  document  1"]
    lines = show(tmp_path / "x", "rerank", {"query": "Q?"}, [])
    assert said(lines, "answer") == ["answer", "  []"]


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ([{"flagged": False, "categories": {"hate": False}}], "not flagged"),
        ([{"flagged": True, "categories": {"hate": True, "x": True}}], "flagged: hate, x"),
        ([{"categories": {"pii": True}}], "found: pii"),
        ([], '{"model": "o-1", "results": []}'),
    ],
)
def test_a_moderation_in_full(tmp_path: Path, results: Any, words: str) -> None:
    """What it was about, and the verdict in words; the answer where there is none."""
    asked = {"input": "harsh words"}
    lines = show(tmp_path, "moderations", asked, {"model": "o-1", "results": results})
    assert said(lines) == ["request", '  {"input": "harsh words"}', "", "answer", f"  {words}"]
    assert lines[0].startswith("ModerationCreateResponse o-1  completed")


def test_a_count_of_tokens_in_full(tmp_path: Path) -> None:
    """Its bodies stand where a chat has messages."""
    asked = {"model": "m-1", "messages": []}
    lines = show(tmp_path, "count_tokens", asked, {"input_tokens": 14})
    body = '  {"model": "m-1", "messages": []}'
    assert said(lines) == ["request", body, "", "answer", '  {"input_tokens": 14}']
