"""Differences for what the SDK and its instrumentation do not see, or give up at."""

from __future__ import annotations

import math
import re
import struct
from base64 import b64decode
from typing import TYPE_CHECKING

from codec.apis.embeddings.route import EMBEDDINGS
from tests.differential.allowance import Allowance, is_extra, matches
from tests.differential.comparison import ABSENT
from tests.differential.reading import find_calls, in_events

if TYPE_CHECKING:
    from tests.differential.comparison import Difference
    from tests.differential.stage import Pair

__all__ = ("UNSEEN",)

_MESSAGE = r"llm\.output_messages\.\d+\.message"
_COUNTS = r"llm\.token_count\..+"
_END = ("status", "status description", "events/exception")


def _is_extra_body(pair: Pair, difference: Difference) -> bool:
    key, _, name = difference.path.partition("/")
    extra = pair.call.extra_body
    keys = ("input.value", "llm.invocation_parameters", "embedding.invocation_parameters")
    is_missing = key in keys and name in extra and difference.theirs is ABSENT
    return is_missing and bool(difference.ours == extra[name])


def _raises_midway(pair: Pair) -> bool:
    """Whether an event made the SDK raise: an error, or no JSON."""
    is_answer = in_events(pair.call) and pair.call.status < 400
    return is_answer and pair.theirs.status == "ERROR"


def _is_behind_raise(pair: Pair, difference: Difference) -> bool:
    is_answer = is_extra(difference, r"llm\.finish_reason", _COUNTS, r"output\..+")
    return is_answer and _raises_midway(pair)


def _is_no_json(pair: Pair, difference: Difference) -> bool:
    raised = pair.theirs.status_message.startswith("JSONDecodeError")
    return raised and pair.ours.status == "OK" and matches(difference, *_END)


def _is_unexpected_body(pair: Pair, difference: Difference) -> bool:
    answer = (rf"{_MESSAGE}\..+", r"llm\.(model_name|finish_reason)", r"output\..+")
    is_whole = pair.call.streams and not in_events(pair.call)
    return is_whole and pair.theirs.status == "OK" and is_extra(difference, *answer)


def _is_lone_surrogate(pair: Pair, difference: Difference) -> bool:
    has_escape = re.search(rb"\\ud[89a-f]", pair.call.answer or b"") is not None
    if not has_escape or not matches(difference, rf"{_MESSAGE}\.content", r"output\..+"):
        return False
    # Where the model cannot be dumped, the instrumentation writes its representation.
    return difference.theirs is ABSENT or str(difference.theirs).startswith("ChatCompletion(")


def _is_part_without_text(pair: Pair, difference: Difference) -> bool:
    contents = (message.get("content") for message in pair.call.body.get("messages", ()))
    lists = (content for content in contents if isinstance(content, list))
    breaks = any(part == {"type": "text"} for parts in lists for part in parts)
    return breaks and is_extra(difference, r"llm\.input_messages\..+")


def _is_decoded_vector(pair: Pair, difference: Difference) -> bool:
    is_vector = matches(difference, r"output\.value/data/\d+/embedding")
    chosen = "encoding_format" in pair.call.body
    if chosen or not is_vector or not isinstance(difference.ours, str):
        return False
    data = b64decode(difference.ours)
    numbers = struct.unpack(f"<{len(data) // 4}f", data)
    # The SDK writes a number that is none as null.
    decoded = [None if math.isnan(number) else number for number in numbers]
    return bool(decoded == difference.theirs)


def _is_count_of_embedding(pair: Pair, difference: Difference) -> bool:
    is_embedding = pair.call.api is EMBEDDINGS
    return is_embedding and is_extra(difference, r"llm\.token_count\.completion")


def _is_custom_call(pair: Pair, difference: Difference) -> bool:
    asked = [
        call
        for message in pair.call.body.get("messages", ())
        for call in message.get("tool_calls") or ()
    ]
    is_custom = any(call.get("type") == "custom" for call in (*find_calls(pair.call), *asked))
    path = r"\.message\.tool_calls\.\d+\.tool_call\.function\..+"
    return is_custom and is_extra(difference, rf"llm\.(in|out)put_messages\.\d+{path}")


UNSEEN = (
    Allowance(
        name="members that the SDK has no parameter for: extra_body is added behind the"
        " instrumentation",
        source="docs/contract/spans.md#input-value",
        explains=_is_extra_body,
    ),
    Allowance(
        name="what comes with and behind an event at which the SDK raises",
        source="docs/contract/spans.md#endings",
        explains=_is_behind_raise,
    ),
    Allowance(
        name="an event that is not JSON, at which the SDK raises: an anomaly, no failure",
        source="docs/contract/spans.md#anomalies",
        explains=_is_no_json,
    ),
    Allowance(
        name="a whole answer to who asked for a stream: the SDK reads no chunk",
        source="docs/contract/wire.md#content-types",
        explains=_is_unexpected_body,
    ),
    Allowance(
        name="text with half a surrogate pair, which their exporter cannot encode",
        source="docs/contract/spans.md#messages",
        explains=_is_lone_surrogate,
    ),
    Allowance(
        name="a text part without text, at which the instrumentation gives the request up",
        source="docs/contract/spans.md#messages",
        explains=_is_part_without_text,
    ),
    Allowance(
        name="vectors that the SDK asked for as base64, and decoded",
        source="docs/contract/spans.md#embeddings",
        explains=_is_decoded_vector,
    ),
    Allowance(
        name="completion tokens of an embedding",
        source="docs/contract/spans.md#counts",
        explains=_is_count_of_embedding,
    ),
    Allowance(
        name="calls of custom tools, in an answer or in the history",
        source="docs/contract/spans.md#messages",
        explains=_is_custom_call,
    ),
)
"""Where the proxy sees more."""
