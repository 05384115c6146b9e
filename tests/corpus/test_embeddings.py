"""Recorded embedding calls, observed: model, counts and texts beside a plain reading of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from telemetry.observing.exchange import Outcome
from tests.corpus.oracle import parse_json
from tests.corpus.recordings import (
    FOLDER,
    NEEDS_RECORDINGS,
    count_lines,
    load_all,
    load_embeddings,
)
from tests.corpus.replay import observe_recording
from tests.telemetry.exchanges import build_exchange_attributes

if TYPE_CHECKING:
    from tests.corpus.recordings import Recording

RECORDINGS = load_all(load_embeddings)

pytestmark = NEEDS_RECORDINGS


def test_all_of_them_are_here() -> None:
    """None is left out by the reader."""
    assert FOLDER is not None
    assert len(RECORDINGS) == count_lines(FOLDER, "embeddings") > 30


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.id)
def test_a_recorded_call_is_one_embedding_span(recording: Recording) -> None:
    """Who answered, what was counted, which texts; an error is an error.

    See ``docs/contract/spans.md#embeddings``.
    """
    exchange = observe_recording(recording, "embeddings")
    attributes = build_exchange_attributes(exchange)
    assert attributes["openinference.span.kind"] == "EMBEDDING"
    asked: dict[str, Any] = parse_json(recording.request)
    given = asked.get("input", [])  # Ollama's own form has a prompt instead
    texts = given if isinstance(given, list) else [given]
    for index, text in enumerate(texts):
        wanted = text if isinstance(text, str) else None
        assert attributes.get(f"embedding.embeddings.{index}.embedding.text") == wanted
    if recording.status >= 400:
        assert exchange.outcome is Outcome.UPSTREAM_ERROR
        assert attributes["embedding.model_name"] == asked["model"]
        return
    answered: dict[str, Any] = parse_json(recording.body)
    usage = answered.get("usage") or {}
    assert exchange.outcome is Outcome.COMPLETED
    assert not {"no_finish_reason", "response_undecodable"} & set(exchange.anomalies)
    assert attributes["embedding.model_name"] == answered.get("model", asked["model"])
    assert attributes.get("llm.token_count.prompt") == usage.get("prompt_tokens")
