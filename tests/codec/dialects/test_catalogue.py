"""The dialects by name."""

from __future__ import annotations

import pytest

from codec.dialects import DIALECTS, find_dialect

ROWS = {
    "openai", "azure", "copilot", "deepseek", "qwen", "vllm", "sglang", "tgi", "ollama",
    "llama.cpp", "nim", "openrouter", "vercel", "mistral", "groq", "together", "fireworks",
    "gemini", "anthropic", "xai", "moonshot", "zai", "perplexity", "databricks", "cerebras",
    "cloudflare", "huggingface", "snowflake", "bedrock-mantle", "writer", "cohere",
}  # fmt: skip
"""The table in ``dialects.md`` section 3."""

MORE = {"qwen-cumulative", "avian", "venice", "doubleword", "crusoe", "gpustack"}


def test_every_row_of_the_table_is_there() -> None:
    """And a few that the table leaves to the text below it; each is known by its own name."""
    assert set(DIALECTS) == ROWS | MORE
    assert all(name == dialect.name for name, dialect in DIALECTS.items())
    assert find_dialect("deepseek") is DIALECTS["deepseek"]


def test_an_unknown_dialect_is_told_the_known_ones() -> None:
    """The message lists all names."""
    with pytest.raises(ValueError, match=r"unknown dialect 'klingon': there is openai") as caught:
        find_dialect("klingon")
    assert all(name in str(caught.value) for name in DIALECTS)
