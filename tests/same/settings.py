"""The settings under which all recorded traffic is told as spans."""

from __future__ import annotations

import json

__all__ = ("SETTINGS",)

_HIDDEN = (
    *("INPUTS", "OUTPUTS", "INPUT_MESSAGES", "OUTPUT_MESSAGES", "INPUT_TEXT", "OUTPUT_TEXT"),
    *("INPUT_IMAGES", "LLM_TOOLS", "LLM_INVOCATION_PARAMETERS", "PROMPTS", "CHOICES"),
    *("RETRIEVAL_DOCUMENTS", "EMBEDDINGS_TEXT", "EMBEDDINGS_VECTORS"),
)
_UNLINKED = {"SPANTAP_CONVERSATIONS_AS": "off"}
"""Beside what is hidden: links depend on what was sent, and take a pause between two calls."""

_CAPTURES = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

_DIGITS = "[ ,:$][0-9]{3,}"
"""Digits outside of ids, which are random: masking would find other digits in each version."""

SETTINGS: dict[str, dict[str, str]] = {
    "default": {},
    "names of GenAI": {"SPANTAP_SPAN_NAME": "genai", _CAPTURES: "SPAN_ONLY"},
    "bodies as values": {"SPANTAP_VALUES": "json", "SPANTAP_ANSWER_IDS": "true", **_UNLINKED},
    "links": {"SPANTAP_CONVERSATIONS_AS": "links", "SPANTAP_USAGE": "if-absent"},
    "no conversations": {"SPANTAP_USAGE": "never", **_UNLINKED},
    "cut": {"SPANTAP_MAX_VALUE_BYTES": "2000", "SPANTAP_MAX_SPAN_BYTES": "65536", **_UNLINKED},
    "no content": {"SPANTAP_CONTENT": "false"},
    "patterns": {
        "SPANTAP_REDACT": "email,card,api_key",
        "SPANTAP_REDACT_PATTERNS": json.dumps({"weather": "[Ww]eather", "digits": _DIGITS}),
    },
    **{f"hidden: {name}": {f"OPENINFERENCE_HIDE_{name}": "true", **_UNLINKED} for name in _HIDDEN},
    "hidden, names of GenAI": {
        "SPANTAP_SPAN_NAME": "genai",
        _CAPTURES: "SPAN_ONLY",
        "OPENINFERENCE_HIDE_INPUT_TEXT": "true",
        "OPENINFERENCE_HIDE_OUTPUT_TEXT": "true",
        **_UNLINKED,
    },
    "vectors": {"OPENINFERENCE_HIDE_EMBEDDINGS_VECTORS": "false", **_UNLINKED},
}
