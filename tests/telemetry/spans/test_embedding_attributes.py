"""``telemetry.spans.search_attributes``: an embedding call on a span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.api import SpanKind
from codec.apis.table import APIS, get_api
from codec.text.jsontext import decode_json
from telemetry.spans.rules import SpanRules
from tests.telemetry.exchanges import build_exchange_attributes, make_exchange

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange

ASKED = {"model": "small", "input": ["one", "two"], "dimensions": 2}
ANSWER = (
    b'{"object":"list","data":[{"object":"embedding","index":1,"embedding":[0.5,-1]},'
    b'{"object":"embedding","index":0,"embedding":"AACAPwAAAEA="}],'
    b'"model":"small-2","usage":{"prompt_tokens":5,"total_tokens":5}}'
)
BARE = SpanRules()
WITH_VECTORS = SpanRules(shows_vectors=True)


def embedding(request: dict[str, Any] | None = None, **members: Any) -> Exchange:
    """An embedding call."""
    defaults = {
        "endpoint": "embeddings",
        "response": get_api("embeddings").read_said(ANSWER),
        "response_status": 200,
    }
    return make_exchange(request or ASKED, **{**defaults, **members})


def test_an_embedding_call() -> None:
    """Every attribute of it, no message among them (``docs/contract/spans.md#embeddings``)."""
    attributes = build_exchange_attributes(embedding(), BARE)
    for key in ("metadata", "input.value", "output.value", "embedding.invocation_parameters"):
        attributes[key] = decode_json(str(attributes[key]))
    wanted = {
        "embedding.embeddings.0.embedding.text": "one",
        "embedding.embeddings.1.embedding.text": "two",
        "openinference.span.kind": "EMBEDDING",
        "embedding.model_name": "small-2",
        "http.response.status_code": 200,
        "llm.token_count.prompt": 5,
        "llm.token_count.total": 5,
        "embedding.invocation_parameters": {"model": "small", "dimensions": 2},
        "input.value": ASKED,
        "input.mime_type": "application/json",
        "output.mime_type": "application/json",
    }
    assert attributes.items() >= wanted.items()
    assert not any(key.startswith(("llm.input_", "llm.output_", "llm.model")) for key in attributes)


@pytest.mark.parametrize("name", [api.name for api in APIS if api.span_kind is SpanKind.EMBEDDING])
def test_an_embedding_has_neither_system_nor_provider(name: str) -> None:
    """OpenInference's embedding spans do not use them; OpenTelemetry requires its provider."""
    exchange = embedding(endpoint=name, provider="mistralai", server_address="api.mistral.ai")
    attributes = build_exchange_attributes(exchange, BARE)
    assert attributes["openinference.span.kind"] == "EMBEDDING"
    assert not {"llm.system", "llm.provider"} & attributes.keys()
    assert attributes["gen_ai.provider.name"] == "mistral_ai"


def test_vectors_are_left_out_unless_asked_for() -> None:
    """In the output value something stands for them, and the rest of it is as it came."""
    attributes = build_exchange_attributes(embedding(), BARE)
    output = decode_json(str(attributes["output.value"]))
    assert [item["embedding"] for item in output["data"]] == ["__REDACTED__"] * 2
    assert output["model"] == "small-2"
    assert not any(key.endswith("vector") for key in attributes)


def test_vectors_that_are_asked_for_are_there() -> None:
    """Under the index of their own, and in the output value as they came."""
    attributes = build_exchange_attributes(embedding(), WITH_VECTORS)
    assert attributes["embedding.embeddings.0.embedding.vector"] == (1.0, 2.0)
    assert attributes["embedding.embeddings.1.embedding.vector"] == (0.5, -1.0)
    assert decode_json(str(attributes["output.value"])) == decode_json(ANSWER)


def test_an_empty_text_is_a_text() -> None:
    """The in-process instrumentation tells of it, too."""
    attributes = build_exchange_attributes(embedding({"model": "m", "input": ["", "b"]}), BARE)
    assert attributes["embedding.embeddings.0.embedding.text"] == ""


def test_vectors_without_a_text_are_there() -> None:
    """An answer of more vectors than texts; never more than are flattened, whatever the index."""
    response = get_api("embeddings").read_said(
        b'{"data":[{"index":2,"embedding":[1]},{"index":99999999,"embedding":[2]}]}'
    )
    attributes = build_exchange_attributes(embedding(response=response), WITH_VECTORS)
    assert attributes["embedding.embeddings.2.embedding.vector"] == (1.0,)
    assert not any("99999999" in key for key in attributes)


@pytest.mark.parametrize("value", [[1, 2], [[1], [2]], None, {"a": 1}])
def test_token_ids_are_no_text(value: Any) -> None:
    """They are in the input value only."""
    attributes = build_exchange_attributes(embedding({"model": "m", "input": value}), BARE)
    assert not any(key.endswith("embedding.text") for key in attributes)


def test_what_is_no_vector_is_left_out() -> None:
    """Broken base64, and items that are no objects."""
    response = get_api("embeddings").read_said(b'{"data":[{"embedding":"!"},7,{"embedding":[1]}]}')
    attributes = build_exchange_attributes(embedding(response=response), WITH_VECTORS)
    found = [key for key in attributes if key.endswith("vector")]
    assert found == ["embedding.embeddings.2.embedding.vector"]
    without = build_exchange_attributes(embedding(response=response), BARE)
    assert decode_json(str(without["output.value"]))["data"] == "__REDACTED__"


@pytest.mark.parametrize(
    "body",
    [
        b'{"embeddings":[[0.777,0.1]]}',
        b'{"data":[[0.777]]}',
        b'{"data":{"embedding":[0.777,1]}}',
        b'{"embedding":"0.777="}',
        b'{"data":[{"embedding":{"float":[0.777],"uint8":[1]}}],"x":{"y":[[[0.777]]]}}',
        b'{"a":' * 20 + b"[0.777]" + b"}" * 20,
    ],
)
def test_vectors_of_any_form_are_left_out(body: bytes) -> None:
    """Ollama's, Cohere's, and what nobody has seen yet."""
    attributes = build_exchange_attributes(
        embedding(response=get_api("embeddings").read_said(body)), BARE
    )
    assert "0.777" not in str(attributes["output.value"])


def test_of_an_answer_that_broke_off_nothing_is_shown() -> None:
    """It may have broken off in the middle of a vector; with vectors asked for it is as it came."""
    broken = embedding(response=None, undecoded_body='{"data":[{"embedding":[0.777,0.')
    assert build_exchange_attributes(broken, BARE)["output.value"] == "__REDACTED__"
    shown = build_exchange_attributes(broken, WITH_VECTORS)["output.value"]
    assert shown == broken.undecoded_body


def test_a_refused_embedding_has_no_output() -> None:
    """As a refused chat; text that nobody could decode is kept."""
    refused = build_exchange_attributes(embedding(response_status=401), BARE)
    assert "output.value" not in refused
    strange = embedding(response=get_api("embeddings").read_said(b'{"data":{}}'))
    assert build_exchange_attributes(strange, BARE)["output.value"] == '{"data": {}}'
