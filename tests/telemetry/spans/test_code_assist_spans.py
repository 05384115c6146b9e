"""Whole spans of Code Assist's calls, beside those of Gemini (``docs/apis.md#code-assist``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import encode_json
from telemetry.spans.rules import SpanRules
from tests.codec.apis.gemini.chunks import USAGE, chunk, write_events
from tests.telemetry.exchanges import build_exchange_attributes
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import begin, exchange_frames

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTENTS = [{"role": "user", "parts": [{"text": "Which way, project-of-somebody?"}]}]
TOOLS = [{"functionDeclarations": [{"name": "look", "parameters": {"type": "OBJECT"}}]}]
INNER = {"contents": CONTENTS, "tools": TOOLS, "generationConfig": {"temperature": 0.5}}
ENCLOSED = {
    "model": "gemini-3",
    "project": "project-of-somebody",
    "user_prompt_id": "prompt-1",
    "request": {**INNER, "session_id": "session-1"},
}
CHUNKS = [
    chunk({"text": "Left "}),
    chunk({"text": "here."}, reason="STOP") | {"usageMetadata": USAGE, "modelVersion": "gemini-3"},
]
OWN = {"input.value", "output.value", "metadata", "session.id", "gen_ai.conversation.id"}
"""Attributes in which the two differ."""


def span_of(api: str, path: str, asked: Mapping[str, Any], *pieces: bytes) -> dict[str, Any]:
    """The attributes of a call's span."""
    opened = begin(endpoint=api, path=path, server_address="cloudcode-pa.googleapis.com")
    body = encode_json(asked).encode()
    exchange = observe([opened, *exchange_frames(*pieces, asked=body)[1:]])
    return dict(build_exchange_attributes(exchange, SpanRules(shows_genai_content=True)))


def test_a_stream_in_envelopes_gives_the_span_that_it_gives_without() -> None:
    """Messages, tools, parameters, counts and the reason; the session and the prompt are known."""
    path = "/v1beta/models/gemini-3:streamGenerateContent"
    bare = span_of("gemini.stream", path, INNER, write_events(*CHUNKS))
    wrapped = [{"response": one, "traceId": "t-1"} for one in CHUNKS]
    path = "/v1internal:streamGenerateContent"
    span = span_of("code_assist.stream", path, ENCLOSED, write_events(*wrapped))
    for name in bare.keys() - OWN - {"url.path", "llm.invocation_parameters"}:
        if "project-of-somebody" not in str(bare[name]):
            assert span[name] == bare[name], name
    assert (span["session.id"], span["gen_ai.response.id"]) == ("session-1", "t-1")
    assert '"user_prompt_id": "prompt-1"' in span["metadata"]
    assert (span["llm.provider"], span["gen_ai.provider.name"]) == ("google", "gcp.gemini")


@pytest.mark.parametrize("inner", [{}, {"project": "project-of-others"}])
def test_the_project_is_masked_wherever_it_stands(inner: dict[str, str]) -> None:
    """It names the caller's account: in the request, its parameters, and where somebody says it."""
    answer = encode_json({"response": CHUNKS[1], "traceId": "project-of-somebody"}).encode()
    asked = {**ENCLOSED, "request": {**INNER, **inner}}
    span = span_of("code_assist.generate", "/v1internal:generateContent", asked, answer)
    assert "project-of-" not in str(span)
    assert "Which way" in span["input.value"]
