"""Which requests are observed."""

from __future__ import annotations

import pytest

from codec.endpoint import Endpoint, calls_model_unobserved, find_endpoint


@pytest.mark.parametrize(
    "target",
    [
        "/v1/chat/completions",
        "/chat/completions",
        "/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21",
        "/api/paas/v4/chat/completions",
        "/api/v1/chat/completions?",
        "/v1//chat/completions",
        "http://host/v1/chat/completions",
    ],
)
def test_chat_completions_are_known_by_the_end_of_the_path(target: str) -> None:
    """Whatever comes before, and whatever query follows (design.md section 5)."""
    assert find_endpoint("POST", target) is Endpoint.CHAT_COMPLETIONS


@pytest.mark.parametrize(
    "target",
    [
        "/v1/completions",
        "/openai/deployments/davinci/completions?api-version=2024-10-21",
        "/completions",
        "/v1/notchat/completions",
    ],
)
def test_a_legacy_completion_is_known_by_the_end_of_its_path(target: str) -> None:
    """Whatever comes before it, but for a chat."""
    assert find_endpoint("POST", target) is Endpoint.COMPLETIONS


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/chat/completions"),
        ("OPTIONS", "/v1/chat/completions"),
        ("post", "/v1/chat/completions"),
        ("POST", "/v1/chat/completions/"),
        ("POST", "/v1/chat/completions/chatcmpl-1"),
        ("POST", "/v1/Chat/Completions"),
        ("GET", "/v1/completions"),
        ("POST", "/v1/completions/"),
        ("POST", "/v1/textcompletions"),
        ("POST", "/v1/responses"),
        ("GET", "/v1/embeddings"),
        ("POST", "/v1/multiembeddings"),
        ("POST", "/v1/models?next=/chat/completions"),
        ("POST", "/v1/chat%2Fcompletions"),
        ("POST", ""),
        ("POST", "*"),
    ],
)
def test_everything_else_is_other(method: str, target: str) -> None:
    """Another method, another path, or the words in a query only."""
    assert find_endpoint(method, target) is Endpoint.OTHER


def test_embeddings_are_known_by_the_end_of_the_path() -> None:
    """Azure puts a deployment before it."""
    for target in ("/v1/embeddings", "/openai/deployments/d/embeddings?api-version=1"):
        assert find_endpoint("POST", target) is Endpoint.EMBEDDINGS


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/v1/responses", True),
        ("/openai/responses?api-version=preview", True),
        ("/anthropic/v1/messages?beta=true", True),
        ("/v1beta/models/gemini:streamGenerateContent?alt=sse", True),
        ("/model/anthropic.claude/converse-stream", True),
        ("/api/chat", True),
        ("/v1/responses/resp_1/cancel", False),
        ("/v1/files?next=/v1/messages", False),
        ("/v1/chat/completions", False),
    ],
)
def test_other_apis_that_call_models_are_known_by_the_end_of_the_path(
    target: str, *, expected: bool
) -> None:
    """They are relayed, and people look for their spans in vain."""
    assert calls_model_unobserved(target) is expected


def test_the_name_is_what_spans_carry() -> None:
    """An endpoint is its own name."""
    assert str(Endpoint.CHAT_COMPLETIONS) == "chat.completions"
    assert str(Endpoint.COMPLETIONS) == "completions"
