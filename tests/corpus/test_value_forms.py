"""Spans of every recorded exchange with texts as values, and with bodies (``docs/spans.md``)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.resources import Resource

from codec.apis.table import APIS
from proxy.reading.flat_messages import find_request_body, find_response_body
from telemetry.spans.columns import build_columns
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from telemetry.spans.value_texts import ValueForm
from tests.corpus.recordings import NEEDS_RECORDINGS
from tests.corpus.replay import observe_recording
from tests.corpus.test_member_canaries import exchanges_of

if TYPE_CHECKING:
    from telemetry.observing.exchange import Exchange
    from telemetry.spans.otlp.writer import FinishedSpan

pytestmark = [*NEEDS_RECORDINGS, pytest.mark.timeout(240)]

FORMS = {
    "input.value": "spantap.request.body",
    "output.value": "spantap.response.body",
}
"""What stands apart, and where."""
OTHER = {*FORMS, *FORMS.values(), "input.mime_type", "output.mime_type"}

COUNTS = ("count_tokens", "gemini.count", "code_assist.count")

ASKED_WITHOUT = {*COUNTS, "moderations", "audio.transcriptions", "audio.translations"}
"""APIs whose requests have no messages or texts on the span: bodies alone, or sound."""

SAID_WITHOUT = {
    *(*COUNTS, "moderations", "embeddings", "gemini.embed", "ollama.embed", "rerank"),
    "audio.speech",
}
"""APIs whose answers are numbers, a verdict, vectors, a ranking, sound."""


def record(exchange: Exchange, form: ValueForm) -> FinishedSpan:
    """The span of an exchange."""
    recorder = SpanRecorder(Resource.get_empty(), build_span_limits(), SpanRules(values=form))
    span = recorder.record(exchange)
    assert span is not None
    return span


@pytest.mark.parametrize("api", [api.name for api in APIS])
def test_texts_change_nothing_else_and_lose_nothing(api: str) -> None:
    """Rules 3 to 5: the other attributes and columns are the same, and the bodies are there."""
    texts: Counter[str] = Counter()
    for recording in exchanges_of(api):
        exchange = observe_recording(recording, api)
        spans = [record(exchange, form) for form in (ValueForm.TEXT, ValueForm.JSON)]
        text, json = (dict(span.attributes or {}) for span in spans)
        rest = [{k: v for k, v in one.items() if k not in OTHER} for one in (text, json)]
        assert rest[0] == rest[1], recording.id
        assert [*rest[0]] == [*rest[1]], recording.id
        assert build_columns(exchange, spans[0]) == build_columns(exchange, spans[1])
        for name, body in FORMS.items():
            mime_type = name.replace("value", "mime_type")
            if body in text:
                assert text[body] == json[name], recording.id
                assert text[name] != json[name]
                assert text[name]
                assert mime_type not in text
                texts[name] += 1
            else:
                assert text.get(name) == json.get(name), recording.id
                assert text.get(mime_type) == json.get(mime_type)
        for find in (find_request_body, find_response_body):
            assert find(text, ()) == find(json, ())
    assert bool(texts["input.value"]) is (api not in ASKED_WITHOUT)
    assert bool(texts["output.value"]) is (api not in SAID_WITHOUT)
