"""The provider, told from the upstream's host."""

from __future__ import annotations

import pytest

from telemetry.provider import infer_provider


@pytest.mark.parametrize(
    ("host", "provider"),
    [
        ("api.openai.com", "openai"),
        ("eu.api.openai.com", "openai"),
        ("API.OpenAI.com.", "openai"),
        ("mine.openai.azure.com", "azure"),
        ("mine.services.ai.azure.com", "azure"),
        ("bedrock-runtime.us-east-1.amazonaws.com", "aws"),
        ("api.mistral.ai", "mistralai"),
        ("api.x.ai", "xai"),
        ("api.deepseek.com", "deepseek"),
        ("api.z.ai", "zai"),
        ("inference.generativeai.eu-frankfurt-1.oci.oraclecloud.com", "oracle"),
        ("ollama.com", "ollama"),
        ("smollama.com", None),
        ("api.openai.com.evil.example", None),
        ("openai.com", None),
        ("localhost", None),
        ("127.0.0.1", None),
        ("::1", None),
        ("", None),
        (None, None),
    ],
)
def test_infer_provider(host: str | None, provider: str | None) -> None:
    """Known hosts by suffix at the boundary of a label; unknown ones and loopback have none."""
    assert infer_provider(host) == provider
