"""Differences in dialects that are not OpenAI's, where the proxy follows the contract.

See ``docs/contract/wire.md#chats-on-the-wire``.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from codec.apis.completions import COMPLETIONS
from tests.corpus.oracle import fold_answer
from tests.differential.allowance import Allowance, is_extra, matches
from tests.differential.comparison import ABSENT
from tests.differential.reading import (
    at,
    find_calls,
    find_choices,
    find_objects,
    find_said,
    find_usages,
    in_events,
    read_by_call,
)

if TYPE_CHECKING:
    from tests.differential.comparison import Difference
    from tests.differential.stage import Pair

__all__ = ("DIALECTS",)

_MESSAGE = r"llm\.output_messages\.\d+\.message"
_OUTPUT = r"output\.value/choices/\d+"
_COUNTS = r"llm\.token_count\..+"


_CALLS = (rf"{_MESSAGE}\.tool_calls\..+", rf"{_OUTPUT}/message/tool_calls(/.+)?")
_OPENAI_COUNTS = {
    "prompt": ("prompt_tokens",),
    "completion": ("completion_tokens",),
    "total": ("total_tokens",),
    "prompt_details.cache_read": ("prompt_tokens_details", "cached_tokens"),
    "prompt_details.cache_write": ("prompt_tokens_details", "cache_write_tokens"),
    "prompt_details.audio": ("prompt_tokens_details", "audio_tokens"),
    "completion_details.reasoning": ("completion_tokens_details", "reasoning_tokens"),
    "completion_details.audio": ("completion_tokens_details", "audio_tokens"),
}


def _is_count_elsewhere(pair: Pair, difference: Difference) -> bool:
    if not is_extra(difference, _COUNTS):
        return False
    path = _OPENAI_COUNTS[difference.path.removeprefix("llm.token_count.")]
    return all(at(usage, *path) is None for usage in find_usages(pair.call))


def _is_reasoning_beside(pair: Pair, difference: Difference) -> bool:
    if not (
        matches(difference, r"llm\.token_count\.completion") and difference.theirs is not ABSENT
    ):
        return False
    path = _OPENAI_COUNTS["completion_details.reasoning"]
    thought = [at(usage, *path) or 0 for usage in find_usages(pair.call)]
    return difference.ours in [difference.theirs + count for count in thought]


def _is_larger_than_its_whole(pair: Pair, difference: Difference) -> bool:
    found = re.fullmatch(r"llm\.token_count\.(\w+)_details\.\w+", difference.path)
    if found is None or difference.ours is not ABSENT:
        return False
    whole = pair.theirs.attributes.get(f"llm.token_count.{found[1]}")
    return isinstance(whole, int) and bool(whole < difference.theirs)


def _is_sum(pair: Pair, difference: Difference) -> bool:
    if not matches(difference, _COUNTS) or len(find_usages(pair.call)) < 2:
        return False
    counts = fold_answer(pair.call.answer or b"").get("usage", {})
    return bool(counts.get(difference.path.removeprefix("llm.token_count.")) == difference.ours)


def _lacks_call_index(pair: Pair, difference: Difference) -> bool:
    lacking = any("index" not in call for call in find_calls(pair.call))
    return lacking and in_events(pair.call) and is_extra(difference, *_CALLS)


def _repeats_id(pair: Pair, difference: Difference) -> bool:
    ids = read_by_call(pair.call, lambda entry: entry.get("id"))
    repeats = any(sum(1 for one in told if one) > 1 for told in ids)
    return repeats and in_events(pair.call) and matches(difference, *_CALLS)


def _loses_name(pair: Pair, difference: Difference) -> bool:
    names = read_by_call(pair.call, lambda entry: at(entry, "function", "name"))
    loses = any("" in told[1:] and any(told) for told in names)
    paths = (
        rf"{_MESSAGE}\.tool_calls\.\d+\.tool_call\.function\.name",
        rf"{_OUTPUT}/message/tool_calls/\d+/function/name",
    )
    return loses and difference.theirs in ("", ABSENT) and matches(difference, *paths)


def _is_empty_word(_: Pair, difference: Difference) -> bool:
    is_left_out = (difference.theirs, difference.ours) == ("", ABSENT)
    reasons = (r"llm\.finish_reason", rf"{_OUTPUT}/finish_reason")
    call_id = rf"{_MESSAGE}\.tool_calls\.\d+\.tool_call\.id"
    return is_left_out and matches(difference, *reasons, call_id)


def _is_content_in_parts(pair: Pair, difference: Difference) -> bool:
    in_parts = any(isinstance(said.get("content"), list) for said in find_said(pair.call))
    paths = (rf"{_MESSAGE}\.contents?(\..+)?", rf"{_OUTPUT}/message/content")
    return in_parts and matches(difference, *paths)


def _is_cumulative(pair: Pair, difference: Difference) -> bool:
    texts = [str(text) for said in find_said(pair.call) if (text := said.get("content"))]
    grows = len(texts) > 3 and all(longer.startswith(text) for text, longer in pairwise(texts))
    return grows and matches(difference, rf"{_MESSAGE}\.content")


def _is_repeated_list(pair: Pair, difference: Difference) -> bool:
    found = re.match(r"output\.value/(\w+)/\d+", difference.path)
    if found is None or found[1] == "choices" or not in_events(pair.call):
        return False
    lists = [one for one in find_objects(pair.call) if isinstance(one.get(found[1]), list)]
    return len(lists) > 1


def _is_beside_content(pair: Pair, difference: Difference) -> bool:
    beside = any(said.get(name) for said in find_said(pair.call) for name in ("audio", "images"))
    return beside and matches(difference, rf"{_MESSAGE}\.contents?(\..+)?")


def _is_joined_reasoning(pair: Pair, difference: Difference) -> bool:
    pieces = [text for said in find_said(pair.call) if (text := said.get("reasoning_text"))]
    is_joined = pieces[-1:] == [difference.theirs] and "".join(pieces) == difference.ours
    return is_joined and matches(difference, rf"{_OUTPUT}/message/reasoning_text")


def _is_text_beside_delta(pair: Pair, difference: Difference) -> bool:
    both = any({"text", "delta"} <= choice.keys() for choice in find_choices(pair.call))
    is_legacy = pair.call.api is COMPLETIONS
    return is_legacy and both and matches(difference, rf"{_OUTPUT}/(text|message|delta)")


def _is_bare_value(pair: Pair, difference: Difference) -> bool:
    bare = any("value" in value and "choices" not in value for value in find_objects(pair.call))
    return bare and is_extra(difference, r"llm\.choices\..+", r"output\.value/choices")


def _lacks_choice_index(pair: Pair, difference: Difference) -> bool:
    lacking = any("index" not in choice for choice in find_choices(pair.call))
    return lacking and is_extra(difference, r"llm\.choices\..+")


def _is_delta_in_body(pair: Pair, difference: Difference) -> bool:
    choices = find_choices(pair.call)
    has_delta = any("delta" in choice and "message" not in choice for choice in choices)
    return has_delta and not in_events(pair.call) and is_extra(difference, rf"{_MESSAGE}\..+")


DIALECTS = (
    Allowance(
        name="counts under other names, and in other places, than OpenAI's",
        source="docs/contract/wire.md#places-of-usage",
        explains=_is_count_elsewhere,
    ),
    Allowance(
        name="reasoning beside the completion, by the total: it is in the completion here",
        source="docs/apis.md#chat-completions; docs/contract/wire.md#counts, xAI",
        explains=_is_reasoning_beside,
    ),
    Allowance(
        name="a count that is larger than the one it is a part of: it is left out",
        source="docs/apis.md#chat-completions",
        explains=_is_larger_than_its_whole,
    ),
    Allowance(
        name="counts of single choices, and of single prompts, are summed",
        source="docs/contract/wire.md#usage-of-each-choice, llama.cpp and TGI",
        explains=_is_sum,
    ),
    Allowance(
        name="streamed calls without index, which the instrumentation ignores",
        source="docs/contract/spans.md#accumulated-object;"
        " docs/contract/wire.md#call-without-index",
        explains=_lacks_call_index,
    ),
    Allowance(
        name="an id that comes again at an index, which the instrumentation appends",
        source="docs/contract/spans.md#accumulated-object;"
        " docs/contract/wire.md#call-at-an-index; docs/contract/wire.md#call-ids-repeat",
        explains=_repeats_id,
    ),
    Allowance(
        name="an empty name behind a name, by which the instrumentation replaces it",
        source="docs/contract/spans.md#accumulated-object; docs/contract/wire.md#call-ids-repeat",
        explains=_loses_name,
    ),
    Allowance(
        name="an empty finish reason is none, and so is the empty id of a call",
        source="docs/contract/wire.md#finish-reasons; docs/contract/wire.md#call-ids-repeat",
        explains=_is_empty_word,
    ),
    Allowance(
        name="content in parts, which the instrumentation writes as they are or ignores",
        source="docs/contract/spans.md#messages",
        explains=_is_content_in_parts,
    ),
    Allowance(
        name="content that repeats itself is told once",
        source="docs/contract/wire.md#text-so-far, Qwen",
        explains=_is_cumulative,
    ),
    Allowance(
        name="sound and images of a chat, which the instrumentation does not tell",
        source="docs/apis.md#chat-completions",
        explains=_is_beside_content,
    ),
    Allowance(
        name="reasoning_text in pieces, of which the instrumentation keeps the last",
        source="docs/contract/wire.md#dialects, GitHub Copilot",
        explains=_is_joined_reasoning,
    ),
    Allowance(
        name="a list that comes with every chunk: the last one; the instrumentation joins them",
        source="docs/contract/spans.md#accumulated-object",
        explains=_is_repeated_list,
    ),
    Allowance(
        name="a legacy completion in the chunks of a chat: output.value is a chat's",
        source="docs/contract/wire.md#dialects, Together",
        explains=_is_text_beside_delta,
    ),
    Allowance(
        name="a legacy completion of bare values",
        source="docs/contract/wire.md#dialects, Writer",
        explains=_is_bare_value,
    ),
    Allowance(
        name="a choice of a legacy completion without index, which the instrumentation ignores",
        source="docs/contract/wire.md#choices-by-index",
        explains=_lacks_choice_index,
    ),
    Allowance(
        name="a whole answer that has a delta for a message",
        source="docs/contract/wire.md#dialects, TGI",
        explains=_is_delta_in_body,
    ),
)
"""Where the instrumentation knows OpenAI's form only."""
