"""One call of each kind, shown by a real Jaeger as it was sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from codec.text.jsontext import decode_json_object
from tests.e2e.api_calls import CALLS, have_calls
from tests.e2e.jaeger import PROGRAM
from tests.e2e.outbox import wait_for_delivery
from tests.e2e.spantap import running_proxy
from tests.e2e.test_apis import BEFORE, NAMES
from tests.e2e.test_jaeger import STATUS_TAGS, assert_same, show_attributes

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

    from tests.e2e.jaeger import Jaeger, ShownSpan

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        not PROGRAM.exists(), reason="Jaeger is not there: install_jaeger.sh needs Go >= 1.26"
    ),
]

SERVICE = "apis"
OPERATIONS = {
    "Message": "chat",
    "GenerateContentStream": "generate_content",
    "CreateEmbeddings": "embeddings",
    "Chat": "chat",
    "Generate": "text_completion",
    "Rerank": "rerank",
    "ModerationCreateResponse": "apply_guardrail",
    "CountTokens": None,
    "Completion": "text_completion",
    "GenerateContent": "generate_content",
    "ImagesResponse": "image_generation",
    "AudioSpeech": "speech",
    "Transcription": "transcription",
    "Translation": "translation",
}
"""The GenAI conventions' word for each name, and the conventions' custom ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What was sent by span id, and what Jaeger shows by the name of the call."""

    sent: dict[str, ResourceSpans]
    spans: dict[str, ShownSpan]


@pytest.fixture(name="told", scope="module")
def _told(jaeger: Jaeger, upstream_port: int, tmp_path_factory: pytest.TempPathFactory) -> Told:
    count = len(CALLS) + BEFORE
    with running_proxy(
        tmp_path_factory.mktemp(SERVICE),
        upstream_port=upstream_port,
        project=SERVICE,
        endpoint=jaeger.http_url,
        protocol="http/protobuf",
        environment={"OTEL_SERVICE_NAME": SERVICE},
    ) as proxy:
        have_calls(proxy.base_url.removesuffix("/v1"))
        sent = wait_for_delivery(proxy.store, count)
    spans = jaeger.wait_for_spans(SERVICE, count)
    assert len(spans) == count
    return Told(
        sent=sent,
        spans={decode_json_object(span.tags["metadata"])["call"]: span for span in spans},
    )


@pytest.mark.parametrize("name", CALLS)
def test_span_is_shown_as_it_was_sent(told: Told, name: str) -> None:
    """Nothing is lost: every attribute has its value and type, the name and the status are told."""
    span = told.spans[name]
    sent = told.sent[span.span_id].scope_spans[0].spans[0]
    found = {key: value for key, value in span.tags.items() if key not in STATUS_TAGS}
    shown = {key: value for key, value in found.items() if not key.startswith(("otel.", "span."))}
    assert_same(shown, show_attributes(sent.attributes))
    assert (span.operation, span.tags["span.kind"]) == (sent.name, "client")
    assert (sent.name, found["openinference.span.kind"].lower()) == NAMES[name]
    assert found.get("gen_ai.operation.name") == OPERATIONS[sent.name]
    status = "ERROR" if name == "failed message" else "OK"
    assert span.tags["otel.status_code"] == status
    assert not span.warnings
