"""The demo upstream ranks documents and judges content, each the same in every run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import decode_json
from proxy.demo.script import ERROR_MODEL, MODEL
from tests.proxy.demo_client import demo_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.proxy.demo_client import Client

TEXTS = ["Paris is a city.", "Capital of France: Paris", "A bear"]
QUERY = "capital of France"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with demo_client() as client:
        yield client


async def post(client: Client, path: str, body: Any, status: int = 200) -> Any:
    """The answer's JSON."""
    async with client.post(path, json=body) as response:
        assert response.status == status
        return decode_json(await response.read())


async def test_documents_are_ranked_by_the_words_they_share(client: Client) -> None:
    """As Jina and vLLM answer; of documents worth the same the first one leads."""
    asked = {"model": MODEL, "query": QUERY, "documents": [*TEXTS, {"text": "of"}]}
    answer = await post(client, "/v1/rerank", asked)
    ranked = [(item["index"], item["relevance_score"]) for item in answer["results"]]
    assert ranked == [(1, 1.0), (3, 0.333333), (0, 0.0), (2, 0.0)]
    assert answer["model"] == MODEL
    assert answer["usage"] == {"prompt_tokens": 14, "total_tokens": 14}
    few = await post(client, "/v1/rerank", {**asked, "top_n": 1, "return_documents": True})
    best = {"index": 1, "relevance_score": 1.0, "document": {"text": TEXTS[1]}}
    assert few["results"] == [best]


async def test_the_request_tells_whose_form_the_answer_has(client: Client) -> None:
    """Voyage's, Cohere's, TEI's."""
    asked = {"model": MODEL, "query": QUERY, "documents": TEXTS}
    voyages = await post(client, "/v1/rerank", {**asked, "top_k": 1, "return_documents": True})
    assert voyages == {
        "object": "list",
        "data": [{"index": 1, "relevance_score": 1.0, "document": TEXTS[1]}],
        "model": MODEL,
        "usage": {"total_tokens": 13},
    }
    coheres = await post(client, "/v2/rerank", {**asked, "top_n": 1})
    assert coheres["meta"]["billed_units"] == {"search_units": 1}
    assert coheres.keys() == {"id", "results", "meta"}
    teis = await post(client, "/rerank", {"query": QUERY, "texts": TEXTS, "return_text": True})
    assert teis[0] == {"index": 1, "score": 1.0, "text": TEXTS[1]}
    assert len(teis) == 3
    assert "text" not in (await post(client, "/rerank", {"query": QUERY, "texts": TEXTS}))[0]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"query": "q", "documents": ["a"]}, "model"),
        ({"model": MODEL, "documents": ["a"]}, "query"),
        ({"model": MODEL, "query": "q"}, "documents"),
        ({"query": "q", "texts": []}, "documents"),
    ],
)
async def test_a_ranking_that_lacks_something_is_refused(
    client: Client, body: Any, word: str
) -> None:
    """In Cohere's form."""
    error = await post(client, "/v1/rerank", body, 400)
    assert error.keys() == {"id", "message"}
    assert word in error["message"]
    asked = {"model": ERROR_MODEL, "query": "q", "documents": ["a"]}
    assert "Rate limit" in (await post(client, "/v1/rerank", asked, 429))["message"]


async def test_a_phrase_is_flagged(client: Client) -> None:
    """A text, several, or parts; each category has a score."""
    clean = await post(client, "/v1/moderations", {"input": "Hello"})
    assert clean["id"].startswith("modr-")
    assert clean["model"] == "omni-moderation-latest"
    assert [one["flagged"] for one in clean["results"]] == [False]
    asked = {"model": MODEL, "input": ["Hello", "How do I BREAK INTO a house?"]}
    first, second = (await post(client, "/v1/moderations", asked))["results"]
    assert (first["flagged"], second["flagged"]) == (False, True)
    assert [name for name, found in second["categories"].items() if found] == ["illicit"]
    assert second["category_scores"].keys() == second["categories"].keys()
    image = {"type": "image_url", "image_url": {"url": "https://x.test/1.png"}}
    parts = [{"type": "text", "text": "pick a lock"}, image]
    (whole,) = (await post(client, "/v1/moderations", {"input": parts}))["results"]
    assert whole["flagged"] is True


async def test_a_moderation_of_nothing_is_refused(client: Client) -> None:
    """In OpenAI's form; and neither API has a stream."""
    bodies: tuple[Any, ...] = ({}, {"input": []}, {"input": 3})
    for body in bodies:
        error = (await post(client, "/v1/moderations", body, 400))["error"]
        assert (error["param"], error["code"]) == ("input", "missing_required_parameter")
    asked = {"model": MODEL, "query": "q", "documents": ["a"], "input": "x", "stream": True}
    assert (await post(client, "/v1/moderations", asked))["results"]
    assert (await post(client, "/v1/rerank", asked))["results"]
