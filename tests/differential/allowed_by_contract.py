"""Differences that the contract wants: what only the proxy writes, and what it writes otherwise."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codec.apis.embeddings.route import EMBEDDINGS
from tests.corpus.oracle import parse_json
from tests.differential.allowance import Allowance, is_extra, matches
from tests.differential.comparison import ABSENT
from tests.differential.reading import expect_end, find_objects, find_said, in_events

if TYPE_CHECKING:
    from tests.differential.comparison import Difference
    from tests.differential.stage import Pair

__all__ = ("EXTRA_KEYS", "WANTED")

_MESSAGE = r"llm\.output_messages\.\d+\.message"
_COUNTS = r"llm\.token_count\..+"
_END = ("status", "status description", "events/exception")


def _allow_key(pattern: str, name: str, source: str) -> Allowance:
    return Allowance(
        name=f"only the proxy writes {name}",
        source=source,
        explains=lambda _, difference: is_extra(difference, pattern),
    )


EXTRA_KEYS = (
    _allow_key(r"metadata", "metadata", "docs/contract/spans.md#metadata"),
    _allow_key(r"session\.id", "the session", "docs/contract/spans.md#client-context"),
    _allow_key(r"user\.id", "the user", "docs/contract/spans.md#client-context"),
    _allow_key(r"tag\.tags", "tags", "docs/contract/spans.md#client-context"),
    _allow_key(
        r"llm\.provider",
        "a provider that the client's host does not tell",
        "docs/contract/spans.md#provider",
    ),
    _allow_key(
        r"llm\.(request|response)\.model_name",
        "both models where they differ",
        "docs/contract/spans.md#model-name",
    ),
    _allow_key(
        r"llm\.tools\.\d+\.tool\.(name|description)",
        "what titles a tool's card",
        "docs/contract/spans.md#tools",
    ),
    _allow_key(r"llm\.cost\..+", "the cost", "docs/contract/spans.md#cost"),
    _allow_key(
        r"gen_ai\..+", "the GenAI conventions' names", "docs/contract/spans.md#opentelemetry"
    ),
    _allow_key(
        r"openai\..+",
        "the GenAI conventions' names for OpenAI",
        "docs/contract/spans.md#opentelemetry",
    ),
    _allow_key(
        r"http\.response\.status_code", "the HTTP status", "docs/contract/spans.md#http-names"
    ),
    _allow_key(
        r"server\.(address|port)", "the upstream's address", "docs/contract/spans.md#http-names"
    ),
    _allow_key(
        r"url\.path|user_agent\.original",
        "who called, and where",
        "docs/contract/spans.md#http-names",
    ),
    _allow_key(r"error\.type", "the class of an error", "docs/contract/spans.md#endings"),
)
"""The keys that only the proxy writes."""


def _is_unasked_count(pair: Pair, difference: Difference) -> bool:
    call = pair.call
    return call.streams and not call.asks_usage and is_extra(difference, _COUNTS)


def _is_reasoned(pair: Pair, difference: Difference) -> bool:
    found = re.fullmatch(rf"({_MESSAGE})\.content(s\..+)?", difference.path)
    prefix = f"{found[1] if found is not None else ''}.contents"
    ours = pair.ours.attributes
    if ours.get(f"{prefix}.0.message_content.type") != "reasoning":
        return False
    text = ours.get(f"{prefix}.1.message_content.text")
    return difference.theirs is ABSENT or bool(difference.theirs == text)


def _is_refusal(pair: Pair, difference: Difference) -> bool:
    said = [*find_said(pair.call), *pair.call.body.get("messages", ())]
    refusal = "".join(one.get("refusal") or "" for one in said if isinstance(one, dict))
    is_content = is_extra(difference, r"llm\.(in|out)put_messages\.\d+\.message\.content")
    return is_content and bool(refusal) and difference.ours in refusal


def _is_object_of_whole(pair: Pair, difference: Difference) -> bool:
    is_object = in_events(pair.call) and matches(difference, r"output\.value/object")
    return is_object and bool(difference.theirs == f"{difference.ours}.chunk")


def _is_part_of_other_kind(pair: Pair, difference: Difference) -> bool:
    found = re.match(r"llm\.input_messages\.(\d+)\.message\.contents\.(\d+)\.", difference.path)
    if found is None or difference.theirs is not ABSENT or "messages" not in pair.call.body:
        return False
    part = pair.call.body["messages"][int(found[1])]["content"][int(found[2])]
    return part["type"] not in {"text", "image_url"}


def _is_model_asked_for(pair: Pair, difference: Difference) -> bool:
    told = any(value.get("model") for value in find_objects(pair.call))
    is_name = is_extra(difference, r"(llm|embedding)\.model_name")
    return is_name and not told and bool(difference.ours == pair.call.body["model"])


def _is_wording_of_failure(pair: Pair, difference: Difference) -> bool:
    if {pair.theirs.status, pair.ours.status} != {"ERROR"}:
        return False
    if difference.path == "exception/exception.type" and pair.call.status >= 400:
        return bool(difference.theirs == f"openai.{difference.ours}")
    words = ("status description", r"exception/exception\.(type|message|stacktrace)")
    return matches(difference, *words)


def _is_failure_unseen(pair: Pair, difference: Difference) -> bool:
    if expect_end(pair.call) == "completed" or pair.theirs.status != "OK":
        return False
    # Where the error is all that came, the SDK takes it for the first chunk.
    is_alone = len(find_objects(pair.call)) == 1 and difference.ours is ABSENT
    first = ("events/First Token Stream Event",) if is_alone else ()
    return matches(difference, *_END, *first)


def _is_argument_text(_: Pair, difference: Difference) -> bool:
    key = r"llm\.(in|out)put_messages\.\d+\.message\.function_call_arguments_json"
    is_missing = difference.ours is ABSENT and matches(difference, key)
    return is_missing and parse_json(difference.theirs) is None


def _is_system_of_embedding(pair: Pair, difference: Difference) -> bool:
    is_embedding = pair.call.api is EMBEDDINGS
    return is_embedding and difference.ours is ABSENT and matches(difference, r"llm\.system")


def _is_total_too_small(pair: Pair, difference: Difference) -> bool:
    if difference.path != "llm.token_count.total" or difference.ours is not ABSENT:
        return False
    ours = pair.ours.attributes
    parts = ours["llm.token_count.prompt"] + ours["llm.token_count.completion"]
    return bool(difference.theirs < parts)


WANTED = (
    Allowance(
        name="counts that the proxy asked for and the client did not",
        source="docs/contract/spans.md#usage-policy",
        explains=_is_unasked_count,
    ),
    Allowance(
        name="reasoning makes a message of parts, without message.content",
        source="docs/contract/spans.md#reasoning",
        explains=_is_reasoned,
    ),
    Allowance(
        name="a stream put together is no chunk",
        source="docs/contract/spans.md#accumulated-object",
        explains=_is_object_of_whole,
    ),
    Allowance(
        name="a refusal is content, where there is no other",
        source="docs/contract/spans.md#refusal",
        explains=_is_refusal,
    ),
    Allowance(
        name="parts of a request that are neither text nor image",
        source="docs/contract/spans.md#message-content",
        explains=_is_part_of_other_kind,
    ),
    Allowance(
        name="where the answer names no model, the one that was asked for",
        source="docs/contract/spans.md#model-name",
        explains=_is_model_asked_for,
    ),
    Allowance(
        name="a failure is told in words of its own, and has no stack",
        source="docs/contract/spans.md#endings",
        explains=_is_wording_of_failure,
    ),
    Allowance(
        name="a failure that the SDK takes for an answer: a stream without end, an error of a form"
        " that it does not know",
        source="docs/contract/spans.md#endings",
        explains=_is_failure_unseen,
    ),
    Allowance(
        name="arguments of a function call that are not JSON are in the values only",
        source="docs/contract/spans.md#tool-arguments",
        explains=_is_argument_text,
    ),
    Allowance(
        name="the system of an embedding, which the specification excludes",
        source="docs/contract/spans.md#llm-system",
        explains=_is_system_of_embedding,
    ),
    Allowance(
        name="a total that is less than its parts is left out",
        source="docs/contract/spans.md#total",
        explains=_is_total_too_small,
    ),
)
"""Where its rule is not the instrumentation's."""
