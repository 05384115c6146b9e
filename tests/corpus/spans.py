"""What the span of a fold must say, and what a span says, in OpenInference's own keys.

Written with literal keys (``docs/contract/spans.md#messages``); nothing of the telemetry is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.corpus.oracle import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("expected_attributes", "select_attributes")

_COUNT_KEYS = {
    "prompt": "prompt",
    "completion": "completion",
    "total": "total",
    "cache_read": "prompt_details.cache_read",
    "cache_write": "prompt_details.cache_write",
    "prompt_audio": "prompt_details.audio",
    "reasoning": "completion_details.reasoning",
    "completion_audio": "completion_details.audio",
}
_PREFIXES = (
    *("llm.output_messages.", "llm.choices.", "llm.token_count.", "llm.finish_reason"),
    *("reranker.", "embedding.embeddings.", "embedding.model_name"),
)


def select_attributes(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """The attributes of a span that :func:`expected_attributes` is about."""
    return {key: value for key, value in (attributes or {}).items() if key.startswith(_PREFIXES)}


def expected_attributes(fold: dict[str, Any], *, legacy: bool = False) -> dict[str, Any]:
    """The output messages (or texts), token counts and finish reason that follow from a fold."""
    counts = fold.get("usage", {})
    expected = {f"llm.token_count.{_COUNT_KEYS[name]}": count for name, count in counts.items()}
    for index, choice in fold.get("choices", {}).items():
        if not legacy:
            expected |= _message(f"llm.output_messages.{index}.message", choice)
        elif text := choice.get("content"):
            expected[f"llm.choices.{index}.completion.text"] = text
    if reason := fold.get("choices", {}).get("0", {}).get("finish_reason"):
        expected["llm.finish_reason"] = reason
    return expected


def _message(prefix: str, choice: dict[str, Any]) -> dict[str, Any]:
    content, refusal = choice.get("content"), choice.get("refusal")
    said = {"role": choice.get("role"), "content": content or refusal}
    if choice.get("reasoning") or (content and refusal):
        del said["content"]
        parts = [("reasoning", choice.get("reasoning")), ("text", content), ("text", refusal)]
        for position, (kind, text) in enumerate(part for part in parts if part[1]):
            said[f"contents.{position}.message_content.type"] = kind
            said[f"contents.{position}.message_content.text"] = text
    for position, (call_id, name, arguments) in enumerate(choice.get("tool_calls", ())):
        call = f"tool_calls.{position}.tool_call"
        said |= {f"{call}.id": call_id, f"{call}.function.name": name}
        said[f"{call}.function.arguments"] = arguments
    name, arguments = choice.get("function_call", (None, ""))
    said["function_call_name"] = name
    if parse_json(arguments) is not None:  # Phoenix parses it without a guard
        said["function_call_arguments_json"] = arguments
    return {f"{prefix}.{key}": value for key, value in said.items() if value}
