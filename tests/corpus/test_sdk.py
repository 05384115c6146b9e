"""Every recorded answer, folded by the codec and by the openai SDK: equal, or for a named reason.

The SDK reads the same bytes with its own event decoder and its own accumulation. Where the two
differ, one of :data:`REASONS` says why; it names the fields that may differ and is looked for in
the traffic itself. A difference without a reason fails, and so does a reason that nothing needs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from openai.types.chat import ChatCompletionMessage

from codec.chat.completion import build_completion
from codec.chat.response import decode_response
from codec.chat.stream import ChatStream
from tests.corpus.oracle import is_stream
from tests.corpus.recordings import NEEDS_RECORDINGS, Recording, load_all, load_chats, load_dynamo
from tests.corpus.sdk import fold_plain, fold_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codec.chat.answer import ChatResponse, Choice

pytestmark = NEEDS_RECORDINGS

_ANSWERED = [one for one in load_all(load_chats, load_dynamo) if one.status < 400]
_STREAMS = [one for one in _ANSWERED if is_stream(one.body)]
_WITH_CALLS = [one for one in _ANSWERED if b'"tool_calls"' in one.body]
_PLAIN = [one for one in _ANSWERED if not is_stream(one.body)]

ALL = frozenset({
    "id", "model", "created", "system_fingerprint", "service_tier", "usage", "choices", "role",
    "content", "refusal", "finish_reason", "tool_calls", "function_call", "logprobs",
})  # fmt: skip
"""The fields that are compared. A reason for all of them is one that ends the SDK's fold early."""


@dataclass(frozen=True)
class Reason:
    """Why the SDK's fold of a stream differs.

    Attributes:
        name: what the SDK does.
        fields: what may differ for it.
        applies: whether the chunks of a stream give occasion.
    """

    name: str
    fields: frozenset[str]
    applies: Callable[[list[Any]], bool]


def _objects(chunks: list[Any]) -> Iterator[dict[str, Any]]:
    return (chunk for chunk in chunks if isinstance(chunk, dict))


def _choices(chunks: list[Any]) -> Iterator[dict[str, Any]]:
    for chunk in _objects(chunks):
        yield from chunk.get("choices") or ()


def _deltas(chunks: list[Any]) -> Iterator[dict[str, Any]]:
    return (choice.get("delta") or {} for choice in _choices(chunks))


def _entries(chunks: list[Any]) -> Iterator[dict[str, Any]]:
    for delta in _deltas(chunks):
        yield from delta.get("tool_calls") or ()


def _repeats_role(chunks: list[Any]) -> bool:
    return sum(1 for delta in _deltas(chunks) if delta.get("role")) > 1


def _has_other_objects(chunks: list[Any]) -> bool:
    return any(chunk.get("object") != "chat.completion.chunk" for chunk in _objects(chunks))


def _changes(chunks: list[Any], member: str) -> bool:
    return len({json.dumps(chunk.get(member)) for chunk in _objects(chunks)}) > 1


def _drops_usage(chunks: list[Any]) -> bool:
    *_, last = [{}, *_objects(chunks)]
    return any(chunk.get("usage") for chunk in _objects(chunks)) and not last.get("usage")


def _hides_usage(chunks: list[Any]) -> bool:
    groq = any((chunk.get("x_groq") or {}).get("usage") for chunk in _objects(chunks))
    return groq or any(choice.get("usage") for choice in _choices(chunks))


def _counts_per_choice(chunks: list[Any]) -> bool:
    alone = [c for c in _objects(chunks) if c.get("choices") == [] and c.get("usage")]
    return len(alone) > 1


def _repeats_call_members(chunks: list[Any]) -> bool:
    seen: set[tuple[Any, ...]] = set()
    for entry in _entries(chunks):
        function = entry.get("function") or {}
        for member, value in (("id", entry.get("id")), ("name", function.get("name"))):
            if value and (entry.get("index"), member) in seen:
                return True
            seen.add((entry.get("index"), member if value else None))
    return False


def _begins_late(chunks: list[Any]) -> bool:
    first = next(_entries(chunks), {"index": 0})
    return first.get("index") not in {0, None}


REASONS = (
    Reason(
        "it appends a role that is repeated: 'assistantassistant'",
        frozenset({"role"}),
        _repeats_role,
    ),
    Reason(
        "it skips chunks whose object is missing, empty or another word",
        ALL,
        _has_other_objects,
    ),
    Reason(
        "it keeps the service tier of the first chunk, also where that had none",
        frozenset({"service_tier"}),
        lambda chunks: _changes(chunks, "service_tier"),
    ),
    Reason(
        "it takes the fingerprint of the last chunk, also where that has none",
        frozenset({"system_fingerprint"}),
        lambda chunks: _changes(chunks, "system_fingerprint"),
    ),
    Reason(
        "it takes the usage of the last chunk, so that null erases numbers",
        frozenset({"usage"}),
        _drops_usage,
    ),
    Reason(
        "it knows no usage in x_groq or in a choice (docs/contract/wire.md#places-of-usage)",
        frozenset({"usage"}),
        _hides_usage,
    ),
    Reason(
        "it takes the last of llama.cpp's one usage per choice for all"
        " (docs/contract/wire.md#usage-of-each-choice)",
        frozenset({"usage"}),
        _counts_per_choice,
    ),
    Reason(
        "it appends an id or name that comes again at an index, be it another call's"
        " (docs/contract/wire.md#call-at-an-index; docs/contract/wire.md#call-ids-repeat)",
        frozenset({"tool_calls"}),
        _repeats_call_members,
    ),
    Reason(
        "it raises where the first call has another index than 0"
        " (docs/contract/wire.md#call-order)",
        ALL,
        _begins_late,
    ),
    Reason(
        "it raises where a call has no index (docs/contract/wire.md#call-without-index)",
        ALL,
        lambda chunks: any("index" not in entry for entry in _entries(chunks)),
    ),
    Reason(
        "it raises where content is a list of parts (docs/contract/wire.md#dialects, Mistral), or"
        " reasoning details have no index",
        ALL,
        lambda chunks: any(_has_unnumbered_parts(delta) for delta in _deltas(chunks)),
    ),
    Reason(
        "it raises what an error frame says, and stops there",
        ALL,
        lambda chunks: any(chunk.get("error") for chunk in _objects(chunks)),
    ),
)


def _has_unnumbered_parts(delta: dict[str, Any]) -> bool:
    lists = (delta.get(name) for name in ("content", "reasoning_details"))
    items = (item for value in lists if isinstance(value, list) for item in value)
    return any(isinstance(item, dict) and "index" not in item for item in items)


def _chunks(body: bytes) -> list[Any]:
    """The events' data, without any of the decoders under test; ``None`` for what is not JSON."""
    chunks = []
    for line in body.decode().splitlines():
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or data.startswith("[DONE]"):
            continue
        try:
            chunks.append(json.loads(data))  # noqa: TID251 - not by the codec's parser
        except ValueError:
            chunks.append(None)
    return chunks


def _describe(response: ChatResponse) -> dict[str, Any]:
    return {
        "id": response.id,
        "model": response.model,
        "created": response.created,
        "system_fingerprint": response.system_fingerprint,
        "service_tier": response.service_tier,
        "usage": dict(response.usage.raw) if response.usage else None,
        "choices": {choice.index: _describe_choice(choice) for choice in response.choices},
    }


def _describe_choice(choice: Choice) -> dict[str, Any]:
    message = choice.message
    call = message.function_call
    return {
        "role": message.role,
        "content": message.content,
        "refusal": message.refusal,
        "finish_reason": choice.finish_reason,
        "tool_calls": [(c.id, c.name, c.arguments, c.type) for c in message.tool_calls],
        "function_call": (call.name, call.arguments) if call else None,
        "logprobs": [
            (token["token"], token["logprob"])
            for token in (choice.logprobs or {}).get("content") or ()
        ],
    }


def _differences(theirs: dict[str, Any], ours: dict[str, Any]) -> set[str]:
    """The names of the fields that differ; choices are compared one by one."""
    if not theirs:
        return set(ALL)
    fields = {name for name in ours if name != "choices" and ours[name] != theirs[name]}
    if ours["choices"].keys() != theirs["choices"].keys():
        fields.add("choices")
    for index in ours["choices"].keys() & theirs["choices"].keys():
        own, other = ours["choices"][index], theirs["choices"][index]
        fields |= {name for name in own if own[name] != other[name]}
    return fields


def _compare(recording: Recording) -> set[str]:
    theirs, _ = fold_stream(recording.body)
    stream = ChatStream()
    stream.feed(recording.body)
    return _differences(theirs, _describe(stream.finish()))


@pytest.mark.parametrize("recording", _STREAMS, ids=lambda one: one.id)
def test_a_stream_folds_to_what_the_sdk_accumulates(recording: Recording) -> None:
    """Field by field, but for what a reason in the list explains."""
    chunks = _chunks(recording.body)
    explained = frozenset[str]().union(
        *(reason.fields for reason in REASONS if reason.applies(chunks))
    )
    assert _compare(recording) <= explained


@pytest.mark.parametrize("recording", _PLAIN, ids=lambda one: one.id)
def test_a_plain_answer_reads_as_the_sdk_reads_it(recording: Recording) -> None:
    """The same fields of the whole body; content that is a list of parts the SDK leaves a list."""
    response = decode_response(recording.body)
    messages = [choice.get("message") for choice in response.body.get("choices", ())]
    if response.error is not None or not messages or None in messages:
        pytest.skip("no completion, but an error, a foreign object or a chunk")
    in_parts = any(isinstance(message.get("content"), list) for message in messages)
    explained = {"content"} if in_parts else set()
    assert _differences(fold_plain(recording.body), _describe(response)) <= explained


@pytest.mark.parametrize("recording", _WITH_CALLS, ids=lambda one: one.id)
def test_calls_of_a_completion_are_what_the_sdks_own_model_takes(recording: Recording) -> None:
    """No required member of them is missing, whether it came or not."""
    stream = ChatStream()
    stream.feed(recording.body)
    response = stream.finish() if is_stream(recording.body) else decode_response(recording.body)
    for choice in build_completion(response)["choices"]:
        calls = choice["message"].get("tool_calls")
        ChatCompletionMessage.model_validate({"role": "assistant", "tool_calls": calls})


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.name)
def test_every_reason_is_needed(reason: Reason) -> None:
    """Some recording differs in a way that no other reason explains, or the list is too long."""
    others = [one for one in REASONS if one is not reason]
    for recording in _STREAMS:
        chunks = _chunks(recording.body)
        if reason.applies(chunks):
            explained = frozenset[str]().union(
                *(one.fields for one in others if one.applies(chunks))
            )
            if not _compare(recording) <= explained:
                return
    pytest.fail("every difference has another reason")
