"""The events of every recorded stream, beside the observer's answer and openai-python's events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.chat.stream import ChatStream
from codec.events import ChatEventStream
from codec.text.jsontext import decode_json
from codec.text.sse import SseDecoder
from tests.codec.events.test_stream_sdk import ours, theirs, without_parsed
from tests.codec.events.told_events import short, sums, values
from tests.corpus.oracle import is_stream
from tests.corpus.recordings import NEEDS_RECORDINGS, Recording, load_all, load_chats, load_dynamo

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

pytestmark = NEEDS_RECORDINGS

_STREAMS = [
    one for one in load_all(load_chats, load_dynamo) if one.status < 400 and is_stream(one.body)
]

DIFFERENCES = {
    "anthropic-openai-compat/ai__anthropic-fallback-tool-call": "fails: calls begin at index 1",
    "azure-openai/dd-trace-py__azure_chat_completion_streamed": "fails: a choice without delta",
    "cerebras/ai__cererebras-structured-output-tools": "two answers in one stream: text after the "
    "finish reason is done with its first piece, and the name of a second call appended",
    "mistral/ai__mistral-tool-call": "fails: a call without index",
    "mistral/pydantic-ai__test_mistral_model_thinking_part_iter": "content that is a list is no "
    "text there, and yet a delta",
    "mistral/rig__mistral-tool_lifecycle_matrix-streaming_mistral_small_parallel": "the last call "
    "comes with the finish reason, and is never done",
    "openai/rig__openai-refusal_matrix-chat_streaming_agent": "an empty refusal has a delta",
    "openrouter/llm__test_tools_streaming_variant_a.yaml#0": "a name comes twice, and is appended",
    "openrouter/logfire__test_openrouter_streaming_reasoning": "fails: reasoning without index",
    "openrouter/pydantic-ai__test_openrouter_stream_error": "has no event for an error",
    "snowflake/pydantic-ai__test_snowflake_thinking_streaming": "an empty refusal has a delta",
    "together/openllmetry-js__should-set-function_call-attributes-in-span-for-stream-completion-"
    "when-multiple-tools-cal": "a call after the finish reason is done with its first piece",
}
"""Recordings, by how their names begin, and what openai-python does with them."""


@pytest.mark.parametrize("recording", _STREAMS, ids=lambda one: one.id)
def test_the_events_are_the_answer(recording: Recording) -> None:
    """The deltas together are the observer's answer, and nothing is done twice."""
    stream = ChatEventStream()
    events = stream.feed_bytes(recording.body) + stream.finish()
    observed = ChatStream()
    observed.feed(recording.body)
    response = observed.finish()
    assert stream.response() == response
    assert sums(events) == values(response)
    dones = [
        (short(event), getattr(event, "choice_index", None), getattr(event, "call_id", None))
        for event in events
        if ".done" in event.type
    ]
    assert len(set(dones)) == len(dones)


@pytest.mark.parametrize("recording", _STREAMS, ids=lambda one: one.id)
def test_the_events_are_openai_pythons(recording: Recording) -> None:
    """In its order, but for the recordings that are named (``docs/contract/sources.md#s1-13``)."""
    chunks = _chunks(recording.body)
    try:
        same = without_parsed(ours(chunks)) == without_parsed(theirs(chunks))
    except Exception:  # noqa: BLE001 - whatever it fails with
        same = False
    assert same is not any(recording.id.startswith(name) for name in DIFFERENCES)


def _chunks(body: bytes) -> list[JsonObject]:
    """The chunks that openai-python does not skip."""
    decoder = SseDecoder()
    events = [*decoder.feed(body), decoder.finish()]
    values: list[Any] = [
        decode_json(event.data)
        for event in events
        if event is not None and event.data and event.data.startswith(b"{")
    ]
    return [value for value in values if value.get("object") == "chat.completion.chunk"]
