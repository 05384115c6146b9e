"""The provider, told from the upstream's host."""

from __future__ import annotations

import pytest

from telemetry.provider import (
    find_genai_provider,
    find_provider,
    infer_provider,
    is_paid_by_subscription,
)


@pytest.mark.parametrize(
    ("host", "provider"),
    [
        ("api.openai.com", "openai"),
        ("eu.api.openai.com", "openai"),
        ("API.OpenAI.com.", "openai"),
        ("mine.openai.azure.com", "azure"),
        ("mine.services.ai.azure.com", "azure"),
        ("bedrock-runtime.us-east-1.amazonaws.com", "aws"),
        ("bedrock-runtime.cn-north-1.amazonaws.com.cn", "aws"),
        ("bedrock-runtime.eusc-de-east-1.amazonaws.eu", "aws"),
        ("bedrock-mantle.us-east-1.api.aws", "aws"),
        ("bedrock-runtime.us-east-1.api.aws", "aws"),
        ("my-api.aws", None),
        ("api.mistral.ai", "mistralai"),
        ("api.x.ai", "xai"),
        ("api.deepseek.com", "deepseek"),
        ("api.z.ai", "zai"),
        ("europe-west4-aiplatform.googleapis.com", "google"),
        ("inference.generativeai.eu-frankfurt-1.oci.oraclecloud.com", "oracle"),
        ("ollama.com", "ollama"),
        ("smollama.com", None),
        ("api.openai.com.evil.example", None),
        ("openai.com", None),
        ("chatgpt.com", "openai"),
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


@pytest.mark.parametrize(
    ("named", "host", "wanted"),
    [
        (None, "api.openai.com", "openai"),
        (None, "me.openai.azure.com", "azure.ai.openai"),
        (None, "me.services.ai.azure.com", "azure.ai.inference"),
        (None, "generativelanguage.googleapis.com", "gcp.gemini"),
        (None, "us-central1-aiplatform.googleapis.com", "gcp.vertex_ai"),
        (None, "eu.aiplatform.googleapis.com", "gcp.vertex_ai"),
        (None, "bedrock-runtime.us-east-1.amazonaws.com", "aws.bedrock"),
        (None, "bedrock-mantle.us-east-1.api.aws", "aws.bedrock"),
        (None, "api.x.ai", "x_ai"),
        (None, "api.groq.com", "groq"),
        (None, "api.together.ai", "together"),
        (None, "127.0.0.1", "openai_compatible"),
        (None, None, "openai_compatible"),
        ("google", "generativelanguage.googleapis.com", "gcp.gemini"),
        ("google", "127.0.0.1", "gcp.gen_ai"),
        ("openai", "generativelanguage.googleapis.com", "openai"),
        ("my own", "127.0.0.1", "my own"),
    ],
)
def test_genai_provider(named: str | None, host: str | None, wanted: str) -> None:
    """The other spelling, and always one (``docs/contract/spans.md#provider``)."""
    assert find_genai_provider(named, host) == wanted


def test_what_the_settings_name_wins() -> None:
    """Over what the host tells."""
    assert find_provider("mine", "api.openai.com") == "mine"
    assert find_provider(None, "api.openai.com") == "openai"


@pytest.mark.parametrize(
    ("host", "betas", "pays"),
    [
        ("chatgpt.com", "", True),
        ("api.githubcopilot.com", "", True),
        ("api.business.githubcopilot.com.", "", True),
        ("api.anthropic.com", "claude-code-20250219, oauth-2025-04-20", True),
        ("gateway.internal", "oauth-2025-04-20", True),
        ("api.anthropic.com", "claude-code-20250219", False),
        ("api.anthropic.com", "no-oauth-2025", False),
        ("api.openai.com", "", False),
        ("notchatgpt.com", "", False),
        (None, "", False),
    ],
)
def test_a_login_is_known_by_its_host_or_its_beta(host: str | None, betas: str, pays: bool) -> None:
    """Nobody looks at the key."""
    assert is_paid_by_subscription(host, betas) is pays
