"""What each switch does to each attribute."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.api import Content
from codec.apis.table import get_api
from codec.text.jsontext import decode_json
from telemetry.privacy.hiding import hide_attributes
from telemetry.privacy.json_strings import REDACTED
from telemetry.privacy.switches import PrivacySwitches
from tests.telemetry.privacy.masks import DROPPED, Changes, changes, dropped
from tests.telemetry.privacy.spans import (
    ALWAYS_KEPT,
    CHAT,
    COMPLETION,
    EMBEDDING,
    IMAGE,
    INPUT,
    INPUT_MESSAGES,
    METADATA,
    MODERATION,
    OUTPUT,
    OUTPUT_MESSAGES,
    PARAMETERS,
    RANKING,
    REQUEST,
    SAMPLES,
    TOOLS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from telemetry.attribute_values import AttributeValue

FIGURES = {
    "model": "m-1",
    "temperature": 0.5,
    "stream": True,
}
USAGE_FIGURES = {"prompt_tokens": 12, "details": {"audio_tokens": 0}}


def without_words(messages: Mapping[str, AttributeValue]) -> Changes:
    """What hidden text makes of messages, by the ends of their names."""
    kept = {"role", "name", "tool_call_id", "function_call_name", "id", "type"}
    gone = ("image.url", "function_call_arguments_json")
    return {
        key: DROPPED if key.endswith(gone) else REDACTED
        for key in messages
        if key.rpartition(".")[2] not in kept or "document.name" in key
    }


def with_metadata(**members: Any) -> Changes:
    return {"metadata": json.dumps(METADATA | members)}


INPUT_TEXT = {
    **without_words(INPUT_MESSAGES),
    **dropped(
        "llm.prompt_template.template",
        "llm.prompt_template.variables",
        "gen_ai.request.stop_sequences",
        "openai.request.service_tier",
        "gen_ai.input.messages",
        "gen_ai.system_instructions",
        "input.mime_type",
        "input.images.0.image.url",
    ),
    "llm.invocation_parameters": json.dumps(FIGURES),
    "input.value": REDACTED,
}
OUTPUT_TEXT = {
    **without_words(OUTPUT_MESSAGES),
    **dropped("gen_ai.output.messages", "output.mime_type"),
    "output.value": REDACTED,
    **with_metadata(usage_raw=USAGE_FIGURES),
}
PARAMETER_KEYS = dropped(
    "llm.invocation_parameters",
    "gen_ai.request.temperature",
    "gen_ai.request.stop_sequences",
    "openai.request.service_tier",
)
IMAGE_KEY = "llm.input_messages.1.message.contents.1.message_content.image.image.url"

EXPECTED: dict[str, Changes] = {
    "hide_inputs": {
        **INPUT_TEXT,
        **dropped(*INPUT_MESSAGES, *TOOLS),
        **PARAMETER_KEYS,
    },
    "hide_input_messages": {**INPUT_TEXT, **dropped(*INPUT_MESSAGES)},
    "hide_input_text": INPUT_TEXT,
    "hide_input_images": {
        **dropped(IMAGE_KEY, "input.images.0.image.url"),
        "input.value": json.dumps(REQUEST).replace(IMAGE, REDACTED),
    },
    "hide_llm_tools": {
        **dropped(*TOOLS),
        "input.value": json.dumps(REQUEST | {"tools": REDACTED, "functions": REDACTED}),
    },
    "hide_llm_invocation_parameters": {
        **PARAMETER_KEYS,
        "input.value": json.dumps(
            {name: REQUEST[name] for name in ("model", "messages", "tools", "functions")}
        ),
    },
    "hide_prompts": {},
    "hide_outputs": {**OUTPUT_TEXT, **dropped(*OUTPUT_MESSAGES)},
    "hide_output_messages": {**OUTPUT_TEXT, **dropped(*OUTPUT_MESSAGES)},
    "hide_output_text": OUTPUT_TEXT,
    "hide_choices": with_metadata(usage_raw=USAGE_FIGURES),
    "hide_embeddings_vectors": {},
    "hide_embeddings_text": {},
    "hide_retrieval_documents": {},
}


@pytest.mark.parametrize("switch", EXPECTED)
def test_what_a_switch_changes_in_a_chat(switch: str) -> None:
    """Each switch alone changes just this, in the order as it was."""
    assert changes(CHAT, switch) == EXPECTED[switch]


PROMPT_HIDDEN: Changes = {
    "llm.prompts.0.prompt.text": REDACTED,
    "llm.invocation_parameters": '{"model": "m-1", "n": 1}',
    **dropped("gen_ai.input.messages", "input.mime_type"),
    "input.value": REDACTED,
}
CHOICE_HIDDEN: Changes = {
    "llm.choices.0.completion.text": REDACTED,
    **dropped("gen_ai.output.messages", "output.mime_type"),
    "output.value": REDACTED,
    **with_metadata(usage_raw=USAGE_FIGURES),
}


@pytest.mark.parametrize(
    ("switch", "expected"),
    [
        ("hide_prompts", PROMPT_HIDDEN),
        ("hide_input_text", PROMPT_HIDDEN),
        ("hide_input_messages", PROMPT_HIDDEN),
        ("hide_inputs", {**PROMPT_HIDDEN, "llm.invocation_parameters": DROPPED}),
        ("hide_choices", CHOICE_HIDDEN),
        ("hide_output_text", CHOICE_HIDDEN),
        ("hide_output_messages", CHOICE_HIDDEN),
        ("hide_outputs", CHOICE_HIDDEN),
    ],
)
def test_what_a_switch_changes_in_a_legacy_completion(switch: str, expected: Changes) -> None:
    """Prompts and choices are the text of a legacy completion."""
    assert changes(COMPLETION, switch, content=Content.TEXTS) == expected


EMBEDDED_HIDDEN: Changes = {
    "embedding.embeddings.0.embedding.text": REDACTED,
    "embedding.embeddings.0.embedding.of_some_later_convention": REDACTED,
    "embedding.invocation_parameters": '{"model": "small", "dimensions": 2}',
    "input.value": REDACTED,
    **dropped("input.mime_type"),
}
VECTOR_HIDDEN: Changes = {"embedding.embeddings.0.embedding.vector": REDACTED}
ANSWER_HIDDEN: Changes = {
    **VECTOR_HIDDEN,
    "output.value": REDACTED,
    **dropped("output.mime_type"),
    **with_metadata(usage_raw=USAGE_FIGURES),
}


@pytest.mark.parametrize(
    ("switch", "expected"),
    [
        ("hide_embeddings_text", EMBEDDED_HIDDEN),
        ("hide_input_text", EMBEDDED_HIDDEN),
        ("hide_input_messages", EMBEDDED_HIDDEN),
        ("hide_inputs", {**EMBEDDED_HIDDEN, **dropped("embedding.invocation_parameters")}),
        ("hide_embeddings_vectors", VECTOR_HIDDEN),
        ("hide_output_text", ANSWER_HIDDEN),
        ("hide_outputs", ANSWER_HIDDEN),
        (
            "hide_llm_invocation_parameters",
            {
                **dropped("embedding.invocation_parameters"),
                "input.value": '{"model": "small", "input": ["one"]}',
            },
        ),
        ("hide_prompts", {}),
        ("hide_choices", with_metadata(usage_raw=USAGE_FIGURES)),
        ("hide_input_images", {}),
        ("hide_llm_tools", {}),
    ],
)
def test_what_a_switch_changes_in_an_embedding(switch: str, expected: Changes) -> None:
    """What is embedded is text of the request, a vector is the answer."""
    assert changes(EMBEDDING, switch, content=Content.VECTORS) == expected


QUERY_HIDDEN: Changes = {
    "reranker.input_documents.0.document.content": REDACTED,
    "reranker.input_documents.1.document.of_some_later_convention": REDACTED,
    "reranker.query": REDACTED,
    "reranker.output_documents.0.document.content": REDACTED,
    "llm.invocation_parameters": '{"model": "small", "top_n": 2}',
    "input.value": REDACTED,
    **dropped("input.mime_type"),
}
GONE = dropped(*(key for key in RANKING if key.startswith("reranker.input_documents")))
RANKING_HIDDEN: Changes = {
    "reranker.output_documents.0.document.content": REDACTED,
    "output.value": REDACTED,
    **dropped("output.mime_type"),
    **with_metadata(usage_raw=USAGE_FIGURES),
}
RANKING_GONE = {
    **RANKING_HIDDEN,
    **dropped(*(key for key in RANKING if key.startswith("reranker.output_documents"))),
}


@pytest.mark.parametrize(
    ("switch", "expected"),
    [
        ("hide_retrieval_documents", {**QUERY_HIDDEN, **RANKING_HIDDEN}),
        ("hide_input_text", QUERY_HIDDEN),
        ("hide_input_messages", {**QUERY_HIDDEN, **GONE}),
        ("hide_inputs", {**QUERY_HIDDEN, **GONE, **dropped("llm.invocation_parameters")}),
        ("hide_output_text", RANKING_HIDDEN),
        ("hide_output_messages", RANKING_GONE),
        ("hide_outputs", RANKING_GONE),
        (
            "hide_llm_invocation_parameters",
            {
                **dropped("llm.invocation_parameters"),
                "input.value": '{"model": "small", "query": "Where?", "documents": ["Here."]}',
            },
        ),
        ("hide_prompts", {}),
        ("hide_embeddings_text", {}),
        ("hide_input_images", {}),
        ("hide_llm_tools", {}),
    ],
)
def test_what_a_switch_changes_in_a_ranking(switch: str, expected: Changes) -> None:
    """A ranked document loses its text with either side, its place with the answer."""
    assert changes(RANKING, switch, content=Content.RANKING) == expected


def test_documents_of_a_chat_are_parameters() -> None:
    """What is content of one API is none of another."""
    value = '{"messages": [], "documents": ["Here."], "query": "Where?", "texts": ["There."]}'
    switches = PrivacySwitches(hide_llm_invocation_parameters=True)
    members = get_api("chat.completions").asked.content_members
    hidden = hide_attributes({"input.value": value}, switches, members)
    assert hidden == {"input.value": '{"messages": []}'}


def test_what_was_found_is_hidden_with_the_answer() -> None:
    """Whether something was found is told all the same."""
    found = METADATA | {"flagged": True, "flagged_categories": ["hate"]}
    attributes = {**MODERATION, "metadata": json.dumps(found)}
    hidden = changes(attributes, "hide_output_text", content=Content.BODIES)["metadata"]
    assert decode_json(hidden) == METADATA | {"flagged": True, "usage_raw": USAGE_FIGURES}


@pytest.mark.parametrize("first", EXPECTED)
@pytest.mark.parametrize("content", SAMPLES)
def test_two_switches_hide_what_either_hides(first: str, content: Content) -> None:
    """No switch brings back what another one hides."""
    attributes = SAMPLES[content]
    for second in EXPECTED:
        both = changes(attributes, first, second, content=content)
        for switch in (first, second):
            alone = changes(attributes, switch, content=content)
            assert alone.keys() <= both.keys()
            gone = {key for key, value in alone.items() if value in {DROPPED, REDACTED}}
            assert all(both[key] in {DROPPED, REDACTED} for key in gone)


@pytest.mark.parametrize("content", SAMPLES)
def test_what_always_stays(content: Content) -> None:
    """With all switches on, who, when, how much and how it ended are still there."""
    attributes = SAMPLES[content]
    hidden = hide_attributes(attributes, PrivacySwitches.everything().for_content(content))
    kept = {key: value for key, value in hidden.items() if key in ALWAYS_KEPT}
    assert kept == {key: attributes[key] for key in ALWAYS_KEPT}
    assert decode_json(str(hidden["metadata"])) == METADATA | {"usage_raw": USAGE_FIGURES}
    shown = hidden.keys() - ALWAYS_KEPT.keys()
    shown -= {"metadata", "llm.prompt_template.version", "embedding.model_name"}
    shown -= {"reranker.model_name", "reranker.top_k"}
    assert all(hidden[key] == REDACTED for key in shown)


def test_expectations_cover_all_that_is_hidden() -> None:
    """The tables above leave out no key of the sample but those that always stay."""
    hidden = set().union(*EXPECTED.values())
    assert hidden >= {*INPUT_MESSAGES, *TOOLS, *OUTPUT_MESSAGES, *OUTPUT} - {
        key for key in CHAT if key in ALWAYS_KEPT
    }
    assert hidden >= INPUT.keys() - {"llm.prompt_template.version"}
    assert decode_json(str(CHAT["llm.invocation_parameters"])) == PARAMETERS
