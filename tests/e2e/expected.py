"""What a span must hold, told from what the client sent and saw (``span-contract.md`` 1.1-1.8).

Written against the contract and not with the product's own builders: the keys are spelled out. The
dictionaries are complete; an attribute that is not in them must not be in the span either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.jsontext import JsonObject
    from tests.e2e.calls import Call

__all__ = ("expected_attributes", "prune")


def expected_attributes(call: Call, *, upstream_port: int) -> JsonObject:
    """All attributes of a call's span but the two times in its metadata.

    Values of JSON are decoded, but for ``input.value``, which is the body as it went out. Of a
    stream's ``output.value`` null and empty members are left out, as by :func:`prune`.
    """
    pairs = {
        "openinference.span.kind": "LLM",
        "llm.system": "openai",
        "llm.model_name": call.request["model"],
        "server.address": "127.0.0.1",
        "server.port": upstream_port,
        "http.response.status_code": call.status,
        "input.value": call.request_text,
        "input.mime_type": "application/json",
        "llm.invocation_parameters": {
            name: value for name, value in call.request.items() if name not in {"messages", "tools"}
        },
        **dict(_input_messages(call)),
        **dict(_tools(call)),
        **{f"metadata.{name}": value for name, value in _metadata(call)},
    }
    if call.status >= 400:
        return pairs | {"error.type": str(call.status)}
    pairs |= dict(_output_messages(call)) | dict(_token_counts(call))
    pairs |= {"output.value": _output(call), "output.mime_type": "application/json"}
    if finish_reason := call.completion["choices"][0]["finish_reason"]:
        pairs["llm.finish_reason"] = finish_reason
    return pairs


def prune(value: Any) -> Any:
    """JSON without its null and empty members: whether they are written is the client's taste."""
    if isinstance(value, dict):
        members = {name: prune(member) for name, member in value.items()}
        return {name: member for name, member in members.items() if not _is_empty(member)}
    if isinstance(value, list):
        return [prune(member) for member in value]
    return value


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {})


def _input_messages(call: Call) -> Iterator[tuple[str, Any]]:
    for index, message in enumerate(call.request["messages"]):
        prefix = f"llm.input_messages.{index}.message"
        yield from _message(prefix, message)
        if "tool_call_id" in message:
            yield f"{prefix}.tool_call_id", message["tool_call_id"]


def _output_messages(call: Call) -> Iterator[tuple[str, Any]]:
    for choice in call.completion["choices"]:
        yield from _message(f"llm.output_messages.{choice['index']}.message", choice["message"])


def _message(prefix: str, message: JsonObject) -> Iterator[tuple[str, Any]]:
    yield f"{prefix}.role", message["role"]
    content = message["content"]
    if isinstance(content, str):
        yield f"{prefix}.content", content
    for position, part in enumerate(content if isinstance(content, list) else ()):
        part_prefix = f"{prefix}.contents.{position}.message_content"
        if part["type"] == "text":
            yield f"{part_prefix}.type", "text"
            yield f"{part_prefix}.text", part["text"]
        else:
            yield f"{part_prefix}.type", "image"
            yield f"{part_prefix}.image.image.url", part["image_url"]["url"]
    for position, tool_call in enumerate(message.get("tool_calls") or ()):
        call_prefix = f"{prefix}.tool_calls.{position}.tool_call"
        yield f"{call_prefix}.id", tool_call["id"]
        yield f"{call_prefix}.function.name", tool_call["function"]["name"]
        yield f"{call_prefix}.function.arguments", tool_call["function"]["arguments"]


def _tools(call: Call) -> Iterator[tuple[str, Any]]:
    for index, tool in enumerate(call.request.get("tools", ())):
        yield f"llm.tools.{index}.tool.json_schema", tool
        yield f"llm.tools.{index}.tool.name", tool["function"]["name"]
        yield f"llm.tools.{index}.tool.description", tool["function"]["description"]


def _token_counts(call: Call) -> Iterator[tuple[str, Any]]:
    if call.usage is None:
        return
    prompt, completion = (call.usage[f"{side}_tokens_details"] for side in ("prompt", "completion"))
    yield "llm.token_count.prompt", call.usage["prompt_tokens"]
    yield "llm.token_count.completion", call.usage["completion_tokens"]
    yield "llm.token_count.total", call.usage["total_tokens"]
    yield "llm.token_count.prompt_details.cache_read", prompt["cached_tokens"]
    yield "llm.token_count.prompt_details.audio", prompt["audio_tokens"]
    yield "llm.token_count.completion_details.reasoning", completion["reasoning_tokens"]
    yield "llm.token_count.completion_details.audio", completion["audio_tokens"]


def _output(call: Call) -> Any:
    if not call.request.get("stream"):
        return call.completion
    return prune(call.completion | {"object": "chat.completion.chunk"})


def _metadata(call: Call) -> Iterator[tuple[str, Any]]:
    yield "upstream", "default"
    yield "request_id", call.request_id
    if call.request.get("stream") and "stream_options" not in call.request:
        yield "proxy_rewrites", ["stream_options.include_usage"]
    if call.status >= 400:
        yield "outcome", "upstream_error"
    elif call.is_left:
        yield "outcome", "client_disconnected"
        yield "on_disconnect", "cancel"
    else:
        yield "outcome", "completed"
    yield "usage_source", "none" if call.usage is None else "provider"
    yield from _flatten("usage_raw", call.usage or {})


def _flatten(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """As Phoenix gives metadata back (contract 5.2)."""
    for name, member in value.items():
        if isinstance(member, dict):
            yield from _flatten(f"{prefix}.{name}", member)
        else:
            yield f"{prefix}.{name}", member
