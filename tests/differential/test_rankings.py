"""The proxy's span of a ranking says what the client's own instrumentation says.

The real ``cohere`` SDK with OpenInference's real instrumentation ranks what was recorded, and what
is drawn by chance, through the proxy.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import random
from typing import TYPE_CHECKING, Any

import cohere
import httpx
import pytest
from cohere.core.api_error import ApiError
from openinference.instrumentation.cohere import CohereInstrumentor

from tests.corpus.oracle import parse_json
from tests.corpus.recordings import NEEDS_RECORDINGS, Recording, load_all, load_rankings
from tests.differential.comparison import ABSENT
from tests.differential.recorded import (
    OF_ALL,
    Allowed,
    RecordedPair,
    count_noticed,
    find_faults,
    find_needed,
    is_extra,
)
from tests.differential.sdk_stage import Sdk, run_recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.differential.comparison import Difference

pytestmark = [*NEEDS_RECORDINGS, pytest.mark.timeout(240)]

CALLS = 15
"""Of the recordings: all of them, other providers' too."""

DRAWN = 60
"""Calls that are drawn by chance."""

MAX_DOCUMENTS = 100
_PARAMETERS = frozenset(inspect.signature(cohere.ClientV2.rerank).parameters)


@contextlib.contextmanager
def _open_client(url: str) -> Iterator[cohere.ClientV2]:
    with httpx.Client(trust_env=False) as client:
        yield cohere.ClientV2("k", base_url=url, httpx_client=client, max_retries=0)


def _make(client: cohere.ClientV2, recording: Recording) -> None:
    asked = parse_json(recording.request)
    known: dict[str, Any] = {name: asked[name] for name in asked if name in _PARAMETERS}
    client.rerank(**known)


SDK = Sdk(
    provider="cohere",
    instrumentor=CohereInstrumentor,
    open_client=_open_client,
    make=_make,
    errors=(ApiError, ValueError),
)


def _is_text(_: RecordedPair, difference: Difference) -> bool:
    theirs = parse_json(str(difference.theirs))
    ours = parse_json(str(difference.ours)) or difference.ours
    return isinstance(theirs, dict) and ours in (theirs, theirs.get("text"))


def _is_beyond(_: RecordedPair, difference: Difference) -> bool:
    return difference.ours is ABSENT and int(difference.path.split(".")[2]) >= MAX_DOCUMENTS


def _was_passed_over(pair: RecordedPair, difference: Difference) -> bool:
    """A result in Voyage's form, or of a document that nobody sent."""
    asked, body = parse_json(pair.recording.request), parse_json(pair.recording.text)
    indexes = [one["index"] for one in body.get("results", ())]
    is_odd = "data" in body or max(indexes) >= len(asked["documents"])
    return is_extra(pair, difference) and is_odd


_DOCUMENT = r"reranker\.(in|out)put_documents\.\d+\.document"

ALLOWED = (
    *OF_ALL,
    Allowed("the SDK's method is not on the wire", "docs/contract/apis.md#span-names", "name"),
    Allowed("parameters, which it does not tell", "docs/contract/apis.md#rankings",
            r"llm\.invocation_parameters", is_extra),
    Allowed("tokens, which it does not tell", "docs/contract/apis.md#counts",
            r"llm\.token_count\..*", is_extra),
    Allowed("a null of the request", "docs/contract/apis.md#rankings",
            r"input\.value/max_tokens_per_doc", is_extra),
    Allowed("the text of a document, or its JSON without white space",
            "docs/contract/apis.md#rankings", rf"{_DOCUMENT}\.content", _is_text),
    Allowed("the index in the request", "docs/contract/apis.md#rankings",
            rf"{_DOCUMENT}\.id", is_extra),
    Allowed("the model of the answer", "docs/contract/apis.md#rankings", r"reranker\.model_name"),
    Allowed("results that it passes over", "docs/contract/apis.md#rankings",
            rf"{_DOCUMENT}\.(content|score)", _was_passed_over),
    Allowed("documents beyond the first hundred", "docs/contract/apis.md#rankings",
            rf"{_DOCUMENT}\.(content|score)", _is_beyond),
)  # fmt: skip


@pytest.fixture(scope="module", name="pairs")
def _pairs() -> list[RecordedPair]:
    return run_recorded(SDK, [*load_all(load_rankings), *_draw_rankings(DRAWN)])


_WORDS = ("ahoy", " ", "🌊", "é", "\n", '"quoted"', "\\", "{}", "日本")


def _draw_rankings(count: int) -> Iterator[Recording]:
    """So many rankings by chance, the same in every run."""
    dice = random.Random(count)
    for number in range(count):
        documents = [_draw_text(dice) for _ in range(dice.randrange(1, 120))]
        asked: dict[str, Any] = {"model": "m-1", "query": _draw_text(dice), "documents": documents}
        if dice.random() < 0.5:
            asked["top_n"] = dice.randrange(1, len(documents) + 1)
        ranked = dice.sample(range(len(documents)), k=asked.get("top_n", len(documents)))
        results = [{"index": index, "relevance_score": dice.random()} for index in ranked]
        meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1.0}}
        yield Recording(
            id=f"chance {number}",
            target=b"/v2/rerank",
            request=json.dumps(asked).encode(),
            head=((b"content-type", b"application/json"),),
            body=json.dumps({"id": "r-1", "results": results, "meta": meta}).encode(),
        )


def _draw_text(dice: random.Random) -> str:
    return "".join(dice.choices(_WORDS, k=dice.randrange(1, 5)))


def test_a_ranking_has_the_span_of_the_instrumentation(pairs: list[RecordedPair]) -> None:
    """All recordings, and those that are drawn."""
    assert find_faults(pairs, ALLOWED) == []
    assert len(pairs) == CALLS + DRAWN
    assert {pair.ours.status for pair in pairs} == {"OK", "ERROR"}


def test_every_allowance_is_needed(pairs: list[RecordedPair]) -> None:
    """Some difference has no other reason, or the list is too long."""
    assert {one.name for one in ALLOWED} == find_needed(pairs, ALLOWED)


def test_nothing_may_be_missing_or_another(pairs: list[RecordedPair]) -> None:
    """Whatever the instrumentation says is looked for: changed, it is a fault."""
    samples = [pair for pair in pairs if pair.ours.status == "OK"]
    assert count_noticed(samples[::9], ALLOWED, besides=r"metadata|reranker\.model_name") > 200
