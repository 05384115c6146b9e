"""The route of legacy completions, and the names of their spans."""

from __future__ import annotations

from codec.apis.api import Api, Content

__all__ = ("COMPLETIONS",)

COMPLETIONS = Api(
    name="completions",
    path_end="/completions",
    operation="text_completion",
    span_name="Completion",
    content=Content.TEXTS,
    has_usage_option=True,
    answers_each_prompt=True,
)
"""The name of its spans is the one of OpenInference's instrumentor (contract section 1)."""
