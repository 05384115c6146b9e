"""What the openai SDK makes of an answer's bytes: an accumulation that is not ours.

The bytes go through the SDK's own stream: its event decoder, its chunk models, its accumulated
snapshot. Nothing is taken from the codec.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

import httpx2
from openai import OpenAI, Stream
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject

__all__ = ("fold_plain", "fold_stream")

_CHUNK = "chat.completion.chunk"


def fold_stream(body: bytes) -> tuple[JsonObject, Exception | None]:
    """What the SDK accumulates of an event stream, and what it raised on the way, if anything."""
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    stream = Stream(cast_to=ChatCompletionChunk, response=_response(body), client=_client())
    raised: Exception | None = None
    snapshot: Any = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pydantic's, of content that is a list
        try:
            for chunk in stream:
                if chunk.object == _CHUNK:  # as its own stream helper does
                    state.handle_chunk(chunk)
                    snapshot = state.current_completion_snapshot
        except Exception as error:  # noqa: BLE001 - whatever it raises is what is asked about
            raised = error
        return (_describe(snapshot) if snapshot is not None else {}), raised


def fold_plain(body: bytes) -> JsonObject:
    """What the SDK reads from a plain answer."""
    response = _response(body, content_type="application/json")
    model = ChatCompletion.construct(**response.json())
    return _describe(model)


@cache
def _client() -> OpenAI:
    return OpenAI(api_key="none", base_url="http://localhost/v1")


def _response(body: bytes, content_type: str = "text/event-stream") -> httpx2.Response:
    request = httpx2.Request("POST", "http://localhost/v1/chat/completions")
    return httpx2.Response(
        200, content=body, headers={"content-type": content_type}, request=request
    )


def _describe(completion: Any) -> JsonObject:
    return {
        "id": completion.id or None,
        "model": completion.model or None,
        "created": completion.created or None,
        "system_fingerprint": getattr(completion, "system_fingerprint", None) or None,
        "service_tier": getattr(completion, "service_tier", None) or None,
        "usage": completion.usage.to_dict() if completion.usage else None,
        "choices": {choice.index: _choice(choice) for choice in completion.choices},
    }


def _choice(choice: Any) -> JsonObject:
    message = choice.message
    call = getattr(message, "function_call", None)
    return {
        "role": message.role or None,
        "content": message.content or None,
        "refusal": getattr(message, "refusal", None) or None,
        "finish_reason": choice.finish_reason or None,
        "tool_calls": [
            (call.id or None, call.function.name or None, call.function.arguments or "", call.type)
            for call in message.tool_calls or []
        ],
        "function_call": (call.name, call.arguments)
        if call and (call.name or call.arguments)
        else None,
        "logprobs": [
            (token.token, token.logprob)
            for token in (getattr(choice.logprobs, "content", None) or [])
        ],
    }
