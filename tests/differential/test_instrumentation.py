"""The instrumentation of the SDK leaves nothing behind."""

from __future__ import annotations

import openai
from openinference.instrumentation.openai import OpenAIInstrumentor

from tests.differential.instrumentation import instrumented_sdk


def test_the_sdk_is_afterwards_as_before() -> None:
    """Twice, for the instrumentor is one for the whole process."""
    for _ in range(2):
        before = [dict(vars(client)) for client in (openai.OpenAI, openai.AsyncOpenAI)]
        with instrumented_sdk() as exporter:
            assert OpenAIInstrumentor().is_instrumented_by_opentelemetry
            assert "request" in vars(openai.OpenAI)
            assert exporter.get_finished_spans() == ()
        assert [dict(vars(client)) for client in (openai.OpenAI, openai.AsyncOpenAI)] == before
        assert not OpenAIInstrumentor().is_instrumented_by_opentelemetry
