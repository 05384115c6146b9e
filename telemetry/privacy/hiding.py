"""Hiding: applies the switches to each attribute.

The user is promised these rules (``docs/contract/spans.md#privacy``, with the reference's leaks
closed):

1. A rule belongs to a namespace, and covers all names in it, so those of later conventions are
   hidden with the rest. The longest namespace that has a rule decides; a name without one stays.
2. Hidden inputs: ``input.value`` is redacted. Its MIME type, the messages, tools, parameters and
   the prompt template are left out. Prompts are redacted. Hidden outputs are treated alike.
3. Hidden messages and hidden text also hide the raw value, and the words in the parameters, where a
   legacy completion has its suffix and a chat its prediction. Hidden text leaves roles, ids, names
   and part types of messages. Everything else is redacted, or left out if a reader would parse or
   load it: images, and arguments of the deprecated function call.
4. Hidden images are left out, and redacted in all other attributes of the request.
5. Hidden tools are also redacted in ``input.value``. With hidden parameters, only the model and the
   content of the called API stay in it: in some APIs a prompt is a parameter. A member that holds
   tools in one API is hidden in all APIs, because gateways accept more members than their API has.
   A value that is not a JSON object is then redacted whole. Tools in items of a request or an
   answer are hidden with them; in messages and in the raw answer the builder hides them, as it
   leaves out vectors there.
6. Hidden prompts and choices of a legacy completion are hidden text of the request and of the
   answer. The switches for embeddings and for documents act like hidden text on an embedding and on
   a ranking. Ranked documents lose their text with either side, because it is the request's; rank,
   index and score go only with hidden outputs. The categories that a moderation found are words of
   the answer.
7. The provider's raw usage keeps only its numbers if an answer is hidden in any way.
8. GenAI names follow their OpenInference twins.
9. Counts, times, status, finish reason, models, kinds, ids of users and sessions, tags and the
   other metadata always stay.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from openinference.semconv.trace import (
    DocumentAttributes,
    EmbeddingAttributes,
    MessageAttributes,
    MessageContentAttributes,
    RerankerAttributes,
    SpanAttributes,
    ToolCallAttributes,
)

from codec.apis.table import APIS, ENCLOSED_REQUESTS, TOOL_LISTS
from codec.text.jsontext import decode_json, decode_json_object
from telemetry.attribute_values import json_text
from telemetry.privacy.images import may_hold_image, redact_image_parts, redact_images
from telemetry.privacy.json_strings import MAX_JSON_DEPTH, REDACTED
from telemetry.semconv import MetadataMember

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from telemetry.attribute_values import AttributeValue
    from telemetry.privacy.switches import PrivacySwitches

    Rule = Callable[[str, AttributeValue], AttributeValue | None]
    """Takes an attribute's name and value; returns the value that may be shown, or ``None``."""

_GENAI_INPUT = ("gen_ai.input.messages", "gen_ai.system_instructions")
_GENAI_OUTPUT = "gen_ai.output.messages"
_GENAI_TOOLS = "gen_ai.tool.definitions"
_PARAMETERS = (
    SpanAttributes.LLM_INVOCATION_PARAMETERS,
    SpanAttributes.EMBEDDING_INVOCATION_PARAMETERS,
)
_SINGLE_PARAMETERS = ("gen_ai.request", "openai.request")
_KEPT_PARAMETERS = ("gen_ai.request.model", "gen_ai.request.stream")
_PROMPT_TEMPLATE = "llm.prompt_template"

_QUERY = RerankerAttributes.RERANKER_QUERY
_DOCUMENTS = RerankerAttributes.RERANKER_INPUT_DOCUMENTS
_RANKING = RerankerAttributes.RERANKER_OUTPUT_DOCUMENTS

_REQUEST_TEXTS = (
    *_GENAI_INPUT,
    _GENAI_TOOLS,
    *_PARAMETERS,
    _PROMPT_TEMPLATE,
    SpanAttributes.LLM_PROMPTS,
    SpanAttributes.LLM_TOOLS,
    _QUERY,
    _DOCUMENTS,
    _RANKING,
)
"""Attributes of a request besides its messages and the raw value."""

_KEPT_IN_MESSAGES: Final = tuple(
    f".{name}"
    for name in (
        MessageAttributes.MESSAGE_ROLE,
        MessageAttributes.MESSAGE_NAME,
        MessageAttributes.MESSAGE_TOOL_CALL_ID,
        MessageAttributes.MESSAGE_FUNCTION_CALL_NAME,
        ToolCallAttributes.TOOL_CALL_ID,
        ToolCallAttributes.TOOL_CALL_FUNCTION_NAME,
        MessageContentAttributes.MESSAGE_CONTENT_TYPE,
        DocumentAttributes.DOCUMENT_ID,
    )
)
"""Ends of the names that hidden text leaves."""

_MODEL: Final = frozenset({"model"})

_KEPT_IN_RANKINGS: Final = tuple(
    f".{name}" for name in (DocumentAttributes.DOCUMENT_ID, DocumentAttributes.DOCUMENT_SCORE)
)

_TOOL_MEMBERS: Final = frozenset[str]().union(*(api.asked.tool_members for api in APIS))
"""Members of a request that hold tools or their names."""

_MEMBER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
"""A name as programs use them: text would have white space."""


def hide_attributes(
    attributes: Mapping[str, AttributeValue],
    switches: PrivacySwitches,
    content_members: frozenset[str] = frozenset(),
) -> dict[str, AttributeValue]:
    """Return the attributes of a span that the switches leave, in their order.

    Args:
        attributes: those of a call of any API.
        switches: those for its content (:meth:`PrivacySwitches.for_content`).
        content_members: the members of its request that are not parameters. The documents of a
            ranking are content, those of a chat a parameter.
    """
    rules = _build_rules(switches, content_members)
    namespaces = tuple(rules)  # one comparison finds most names that stay
    kept: dict[str, AttributeValue] = {}
    for key, value in attributes.items():
        rule = _find_rule(rules, key) if key.startswith(namespaces) else _keep
        if (shown := rule(key, value)) is not None:
            kept[key] = shown
    return kept


def _find_rule(rules: Mapping[str, Rule], key: str) -> Rule:
    namespace = key
    while namespace:
        if (rule := rules.get(namespace)) is not None:
            return rule
        namespace = namespace.rpartition(".")[0]
    return _keep


@lru_cache(maxsize=64)
def _build_rules(switches: PrivacySwitches, content_members: frozenset[str]) -> Mapping[str, Rule]:
    """Build the rules, by namespace."""
    rules: dict[str, Rule] = {
        SpanAttributes.EMBEDDING_EMBEDDINGS: partial(_embedding, switches=switches),
        **_input_rules(switches, content_members | _MODEL),
        **_output_rules(switches),
    }
    if switches.hide_input_images:  # the client's metadata belongs to the request, too
        rules[SpanAttributes.METADATA] = partial(
            _metadata_without_images, then=rules.get(SpanAttributes.METADATA, _keep)
        )
    return rules


def _input_rules(switches: PrivacySwitches, shown_members: frozenset[str]) -> dict[str, Rule]:
    # From mild to strict: a later rule replaces an earlier one.
    rules: dict[str, Rule] = {}
    if switches.hide_input_images:
        rules |= dict.fromkeys((*_REQUEST_TEXTS, *_SINGLE_PARAMETERS), _without_images)
        rules[SpanAttributes.INPUT_IMAGES] = _drop
        rules[SpanAttributes.LLM_INPUT_MESSAGES] = _message_without_images
    if switches.hide_input_images or switches.hides_tools or switches.hides_parameters:
        rules[SpanAttributes.INPUT_VALUE] = partial(
            _reduce_request, switches=switches, shown_members=shown_members
        )
    if switches.hides_input_text:
        rules |= {
            "input": _drop,
            SpanAttributes.INPUT_VALUE: _redact,
            SpanAttributes.LLM_INPUT_MESSAGES: _message_without_words,
            **dict.fromkeys(_PARAMETERS, _parameters_without_words),
            **dict.fromkeys(_SINGLE_PARAMETERS, _number_only),
            **dict.fromkeys(_KEPT_PARAMETERS, _keep),
            **dict.fromkeys(_GENAI_INPUT, _drop),
            _QUERY: _redact,
            **dict.fromkeys((_DOCUMENTS, _RANKING), _document_without_words),
            _PROMPT_TEMPLATE: _drop,
            SpanAttributes.LLM_PROMPT_TEMPLATE_VERSION: _keep,
        }
    if switches.hides_input_messages:
        rules |= dict.fromkeys((SpanAttributes.LLM_INPUT_MESSAGES, _DOCUMENTS), _drop)
    if switches.hides_prompts:
        rules[SpanAttributes.LLM_PROMPTS] = _redact
    if switches.hides_tools:
        rules |= dict.fromkeys((SpanAttributes.LLM_TOOLS, _GENAI_TOOLS), _drop)
        rules |= {
            name: partial(_without_tools, then=rules.get(name, _keep)) for name in _PARAMETERS
        }
    if switches.hides_parameters:
        rules |= dict.fromkeys((*_PARAMETERS, *_SINGLE_PARAMETERS), _drop)
        rules |= dict.fromkeys(_KEPT_PARAMETERS, _keep)
    return rules


def _output_rules(switches: PrivacySwitches) -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    if switches.hides_output_text:
        rules |= {
            "output": _drop,
            SpanAttributes.OUTPUT_VALUE: _redact,
            SpanAttributes.LLM_OUTPUT_MESSAGES: _message_without_words,
            _RANKING: _document_without_words,
            _GENAI_OUTPUT: _drop,
        }
    if switches.hides_output_messages:
        rules |= dict.fromkeys((SpanAttributes.LLM_OUTPUT_MESSAGES, _RANKING), _drop)
    if switches.hides_choices:
        rules[SpanAttributes.LLM_CHOICES] = _redact
        rules[SpanAttributes.METADATA] = _metadata_without_words
    return rules


def _keep(_: str, value: AttributeValue) -> AttributeValue:
    return value


def _drop(_: str, __: AttributeValue) -> None:
    return None


def _redact(_: str, __: AttributeValue) -> str:
    return REDACTED


def _number_only(_: str, value: AttributeValue) -> AttributeValue | None:
    return None if isinstance(value, (str, tuple)) else value


def _without_images(_: str, value: AttributeValue) -> AttributeValue:
    if isinstance(value, tuple):
        texts = tuple(redact_images(text) for text in value if isinstance(text, str))
        return texts or value  # a vector has no text
    return redact_images(value) if isinstance(value, str) else value


def _metadata_without_images(key: str, value: AttributeValue, then: Rule) -> AttributeValue | None:
    return then(key, _without_images(key, value))


def _message_without_images(key: str, value: AttributeValue) -> AttributeValue | None:
    if _is_of_image(key):
        return None
    return _without_images(key, value)


def _message_without_words(key: str, value: AttributeValue) -> AttributeValue | None:
    if key.endswith(_KEPT_IN_MESSAGES):
        return value
    arguments = MessageAttributes.MESSAGE_FUNCTION_CALL_ARGUMENTS_JSON
    return None if _is_of_image(key) or key.endswith(arguments) else REDACTED


def _document_without_words(key: str, value: AttributeValue) -> AttributeValue:
    return value if key.endswith(_KEPT_IN_RANKINGS) else REDACTED


def _embedding(key: str, value: AttributeValue, switches: PrivacySwitches) -> AttributeValue:
    if key.endswith(f".{EmbeddingAttributes.EMBEDDING_VECTOR}"):
        return REDACTED if switches.hides_vectors else value
    if switches.hides_embedded_text:
        return REDACTED
    return _without_images(key, value) if switches.hide_input_images else value


def _is_of_image(key: str) -> bool:
    return f".{MessageContentAttributes.MESSAGE_CONTENT_IMAGE}." in key


def _reduce_request(
    _: str, value: AttributeValue, switches: PrivacySwitches, shown_members: frozenset[str]
) -> AttributeValue:
    """Return the raw request without hidden images, tools and parameters."""
    text = str(value)
    by_member = switches.hides_tools or switches.hides_parameters
    if not by_member and not may_hold_image(text):
        return text
    try:
        body = decode_json_object(text) if by_member else decode_json(text)
    except ValueError:
        return REDACTED
    reduced: Mapping[str, Any] = (
        _reduce_members(body, switches, shown_members) if by_member else body
    )
    if switches.hide_input_images and may_hold_image(text):
        reduced = redact_image_parts(reduced)
    return text if reduced is body else json_text(reduced) or REDACTED


def _reduce_members(
    body: Mapping[str, Any], switches: PrivacySwitches, shown_members: frozenset[str]
) -> Mapping[str, Any]:
    """Return a request without hidden tools and parameters, also those in an envelope."""
    reduced = body
    if switches.hides_parameters:
        shown = shown_members | ENCLOSED_REQUESTS
        reduced = {name: item for name, item in reduced.items() if name in shown}
    if switches.hides_tools:
        reduced = hide_item_tools(reduced)
        if tools := _TOOL_MEMBERS & reduced.keys():
            reduced = {**reduced, **dict.fromkeys(tools, REDACTED)}
    for name in ENCLOSED_REQUESTS & reduced.keys():
        inner = reduced[name]
        is_request = isinstance(inner, dict)
        known = _reduce_members(inner, switches, shown_members) if is_request else REDACTED
        reduced = {**reduced, name: known} if known is not inner else reduced
    return reduced


def hide_item_tools(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Hide the tools in items of a request or an answer; return the same body if it has none."""
    hidden = {
        member: [_hide_tools_of(item) for item in items]
        for member in TOOL_LISTS
        if isinstance(items := body.get(member), list) and any(map(_brings_tools, items))
    }
    return {**body, **hidden} if hidden else body


def _brings_tools(item: Any) -> bool:
    return isinstance(item, dict) and "tools" in item


def _hide_tools_of(item: Any) -> Any:
    return item | {"tools": REDACTED} if _brings_tools(item) else item


def _without_tools(key: str, value: AttributeValue, then: Rule) -> AttributeValue | None:
    """Hide the names of tools in parameters, and then apply another rule."""
    try:
        parameters = decode_json_object(str(value))
    except ValueError:
        return None
    if tools := _TOOL_MEMBERS & parameters.keys():
        value = json_text(parameters | dict.fromkeys(tools, REDACTED)) or REDACTED
    return then(key, value)


def _parameters_without_words(_: str, value: AttributeValue) -> str | None:
    try:
        parameters = decode_json_object(str(value))
    except ValueError:
        return None
    model = {name: item for name, item in parameters.items() if name == "model"}
    # Only the members themselves: below them, names may be words (a schema's properties).
    return json_text(model | _keep_numbers(parameters, 0))


def _metadata_without_words(_: str, value: AttributeValue) -> str | None:
    try:
        members = decode_json_object(str(value))
    except ValueError:
        return None
    members.pop(MetadataMember.FLAGGED_CATEGORIES.value, None)
    raw = members.pop(MetadataMember.USAGE_RAW.value, None)
    if isinstance(raw, dict):
        members[MetadataMember.USAGE_RAW.value] = _keep_numbers(raw, MAX_JSON_DEPTH)
    heard = members.pop(MetadataMember.TRANSCRIPTION_USAGE.value, None)
    if isinstance(heard, list):
        members[MetadataMember.TRANSCRIPTION_USAGE.value] = [
            _keep_numbers(usage, MAX_JSON_DEPTH) for usage in heard if isinstance(usage, dict)
        ]
    return json_text(members)


def _keep_numbers(members: dict[str, Any], depth: int) -> dict[str, Any]:
    """Return the numbers and truth values of an object and of the objects in it.

    Lists are left out, because they may be the token ids of a text.
    """
    kept: dict[str, Any] = {}
    for name, value in members.items():
        if not _MEMBER_NAME.fullmatch(name):
            continue
        if isinstance(value, (int, float)):
            kept[name] = value
        elif isinstance(value, dict) and depth and (inner := _keep_numbers(value, depth - 1)):
            kept[name] = inner
    return kept
