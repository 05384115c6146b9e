"""Differences of the Responses API.

See ``docs/contract/apis.md#responses`` and ``docs/contract/apis.md#differences``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from codec.apis.responses.route import RESPONSES
from tests.corpus.oracle import parse_json
from tests.differential.allowance import Allowance, is_extra, matches
from tests.differential.comparison import ABSENT
from tests.differential.reading import at, find_objects, in_events, read_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.differential.comparison import Difference
    from tests.differential.stage import Pair

__all__ = ("OF_RESPONSES",)

_MESSAGE = r"llm\.(in|out)put_messages\.(\d+)\.message"
_PART = rf"{_MESSAGE}\.contents\.\d+\.message_content"
_CALL = rf"{_MESSAGE}\.tool_calls\.0\.tool_call"
_ANSWER = (r"llm\.output_messages\..+", r"llm\.token_count\..+", r"output\..+", r"llm\.model_name")
_LISTS_OF_TOOLS = r"(input\.value/tools/|output\.value/tools/|llm\.tools\.)"
_LONGEST_KEY = 4_096
_REDACTED = "__REDACTED__"

_ASKED = "docs/contract/apis.md#responses-request"
_STREAMED = "docs/contract/apis.md#responses-stream"
_ANSWERED = "docs/contract/apis.md#responses-answer"
_DIFFERENCES = "docs/contract/apis.md#differences"

_OWN_CALLS = {"web_search_call", "file_search_call", "computer_call"}
_READ = {
    *("message", "reasoning", "function_call", "function_call_output", "custom_tool_call"),
    *("custom_tool_call_output", "computer_call_output", *_OWN_CALLS),
}
"""Items that the instrumentation reads."""


def _kind_of_item(pair: Pair, difference: Difference) -> str | None:
    """The type of the item that a message is made of; ``None`` for what is no message."""
    found = re.match(_MESSAGE, difference.path)
    if found is None:
        return None
    if found[1] == "out":
        items = read_response(pair.call).get("output") or []
    else:
        given = pair.call.body.get("input")
        items = given if isinstance(given, list) else [{}]
        items = [{}, *items] if pair.call.body.get("instructions") else items
    place = int(found[2])
    return str(items[place].get("type", "message")) if place < len(items) else None


def _is_unread(pair: Pair, difference: Difference) -> bool:
    kind = _kind_of_item(pair, difference)
    return kind is not None and kind not in _READ and is_extra(difference, rf"{_MESSAGE}\..+")


def _is_asked_of_own(pair: Pair, difference: Difference) -> bool:
    is_own = _kind_of_item(pair, difference) in _OWN_CALLS
    return is_own and is_extra(difference, rf"{_CALL}\.function\.arguments")


def _is_of_computer(pair: Pair, difference: Difference) -> bool:
    kind = _kind_of_item(pair, difference)
    if difference.ours is ABSENT:
        mistake = rf"{_MESSAGE}\.tool_calls\.0\.message\.(role|tool_call_id)"
        return kind == "computer_call" and matches(difference, mistake)
    said = (rf"{_CALL}\.(id|function\.name)", rf"{_MESSAGE}\.content")
    return kind in {"computer_call", "computer_call_output"} and is_extra(difference, *said)


def _is_of_reasoning(pair: Pair, difference: Difference) -> bool:
    if difference.ours is ABSENT:
        is_key = matches(difference, rf"{_PART}\.encrypted_content")
        return is_key and len(difference.theirs) > _LONGEST_KEY
    is_reasoning = _kind_of_item(pair, difference) == "reasoning"
    return is_reasoning and is_extra(difference, rf"{_PART}\.(id|text)")


def _is_of_media(pair: Pair, difference: Difference) -> bool:
    found = re.match(_PART, difference.path)
    if found is None or difference.theirs is not ABSENT:
        return False
    return pair.ours.attributes.get(f"{found[0]}.type") in {"image", "audio", "document"}


def _is_same_json(_: Pair, difference: Difference) -> bool:
    if not matches(difference, rf"{_CALL}\.function\.arguments", rf"{_MESSAGE}\.content"):
        return False
    values = [parse_json(str(side)) for side in (difference.theirs, difference.ours)]
    return values[0] is not None and values[0] == values[1]


def _is_unseen_end(pair: Pair, difference: Difference) -> bool:
    ended = any(value.get("type") == "response.completed" for value in find_objects(pair.call))
    return in_events(pair.call) and not ended and matches(difference, *_ANSWER)


def _is_unrepeated(pair: Pair, difference: Difference) -> bool:
    ends = [one for one in find_objects(pair.call) if one.get("type") == "response.completed"]
    told = at(ends[-1], "response", "output") if ends else None
    return told == [] and is_extra(
        difference, r"output\.value/output.*", r"llm\.output_messages\..+"
    )


def _is_tool_as_sent(pair: Pair, difference: Difference) -> bool:
    found = re.fullmatch(r"llm\.tools\.(\d+)\.tool\.json_schema(.*)", difference.path)
    if found is None:
        return False
    given = pair.call.body.get("input")
    brought = [
        item.get("tools") or []
        for item in (given if isinstance(given, list) else [])
        if item.get("type") == "additional_tools"
    ]
    sent: Any = [tool for some in (pair.call.body.get("tools") or [], *brought) for tool in some]
    for name in (found[1], *found[2].split("/")[1:]):
        members = {str(at): one for at, one in enumerate(sent)} if isinstance(sent, list) else sent
        sent = members.get(name, ABSENT) if isinstance(members, dict) else ABSENT
    return bool(sent == difference.ours)


def _is_image(pair: Pair, difference: Difference) -> bool:
    images = [item.get("result") for item in read_response(pair.call).get("output") or ()]
    if not matches(difference, r"output\.images\.\d+\.image\.url"):
        return False
    return difference.theirs == _REDACTED or difference.theirs.partition("base64,")[2] in images


def _is_schema(pair: Pair, difference: Difference) -> bool:
    schema = at(read_response(pair.call), "text", "format", "schema")
    is_schema = matches(difference, r"output\.value/text/format/schema_?")
    return is_schema and schema in (difference.theirs, difference.ours)


def _is_empty(pair: Pair, difference: Difference) -> bool:
    if matches(difference, r"llm\.input_messages\.-1\.message\.(role|content)"):
        return pair.call.body.get("instructions") == ""
    is_text = matches(difference, rf"{_PART}\.text", rf"{_MESSAGE}\.content")
    return is_text and difference.theirs == "" and difference.ours is ABSENT


def _is_credential(_: Pair, difference: Difference) -> bool:
    is_secret = matches(difference, rf"{_LISTS_OF_TOOLS}\d+.*/(authorization|headers/.+)")
    return is_secret and bool(difference.ours == _REDACTED)


def _is_long_base64(_: Pair, difference: Difference) -> bool:
    is_output = matches(difference, r"output\.value/.+")
    return is_output and difference.ours == f"<{len(str(difference.theirs))} base64 characters>"


def _allow(name: str, source: str, explains: Callable[[Pair, Difference], bool]) -> Allowance:
    return Allowance(
        name=name,
        source=source,
        explains=lambda pair, one: pair.call.api is RESPONSES and explains(pair, one),
    )


OF_RESPONSES = (
    _allow("items that the instrumentation does not read", _ANSWERED, _is_unread),
    _allow("what was asked of the provider's own tools", _ANSWERED, _is_asked_of_own),
    _allow("calls of a computer, which the instrumentation mistakes", _ANSWERED, _is_of_computer),
    _allow(
        "a reasoning's id, its text without a summary, its long key", _ANSWERED, _is_of_reasoning
    ),
    _allow("parts that are files, sounds, or pictures without a URL", _ASKED, _is_of_media),
    _allow("JSON in other white space", _ASKED, _is_same_json),
    _allow(
        "a response that ends otherwise than completed, or never",
        f"{_STREAMED}; {_DIFFERENCES}",
        _is_unseen_end,
    ),
    _allow("items that streamed and that the end does not repeat", _STREAMED, _is_unrepeated),
    _allow("tools as they were sent, not as the answer repeats them", _ANSWERED, _is_tool_as_sent),
    _allow("a picture is a part of its message", _ANSWERED, _is_image),
    _allow("a schema, which the SDK calls schema_", _ANSWERED, _is_schema),
    _allow("instructions and texts that are empty are left out", _ASKED, _is_empty),
    _allow(
        "credentials of servers that have tools",
        "docs/contract/apis.md#credentials-in-bodies",
        _is_credential,
    ),
    _allow("base64 that is long", "docs/contract/apis.md#long-base64", _is_long_base64),
    _allow(
        "arguments that are an empty object",
        _ASKED,
        lambda _, one: is_extra(one, rf"{_CALL}\.function\.arguments") and one.ours == "{}",
    ),
    _allow(
        "the finish reason, of which the instrumentation has none",
        f"{_ANSWERED}; {_DIFFERENCES}",
        lambda _, one: is_extra(one, r"llm\.finish_reason"),
    ),
)
"""Where spantap sees more, or says it at another place."""
