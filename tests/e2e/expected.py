"""What a span must hold, by what the client sent and saw (``docs/contract/spans.md#the-span``).

Written against the contract and not with the product's own builders: the keys are spelled out. The
dictionaries are complete; an attribute that is not in them must not be in the span either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.text.jsontext import decode_json_object
from telemetry.pricing.catalogue import find_list_date

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from codec.text.jsontext import JsonObject
    from tests.e2e.calls import Call

__all__ = ("expected_attributes", "expected_cost", "expected_genai_attributes", "prune")

_DOLLARS = {"prompt": 0.15e-6, "cache_read": 0.075e-6, "completion": 0.6e-6}
"""What a token of gpt-4o-mini costs, by OpenAI's list; reasoning is billed as completion."""

_PROVIDERS = {"openai": "openai", "deepseek": "deepseek"}
"""Whose an upstream is said to be, by its name in the settings."""

_GENAI_PARAMETERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "model": ("gen_ai.request.model", str),
    "stream": ("gen_ai.request.stream", bool),
    "temperature": ("gen_ai.request.temperature", float),
    "max_tokens": ("gen_ai.request.max_tokens", int),
    "seed": ("gen_ai.request.seed", int),
    "n": ("gen_ai.request.choice.count", int),
    "stop": ("gen_ai.request.stop_sequences", list),
    "service_tier": ("openai.request.service_tier", str),
}
"""Of the request."""

_GENAI_COUNTS = {
    "llm.token_count.prompt": "gen_ai.usage.input_tokens",
    "llm.token_count.completion": "gen_ai.usage.output_tokens",
    "llm.token_count.prompt_details.cache_read": "gen_ai.usage.cache_read.input_tokens",
    "llm.token_count.completion_details.reasoning": "gen_ai.usage.reasoning.output_tokens",
}
"""The counts that have a name there too."""


def expected_attributes(call: Call, *, upstream_port: int) -> JsonObject:
    """All attributes of a call's span but the times.

    Values of JSON are decoded, but for ``input.value``, which is the body as it went out. Of a
    stream's ``output.value`` null and empty members are left out, as by :func:`prune`.
    """
    pairs = {
        "openinference.span.kind": "LLM",
        "llm.system": "openai",
        "llm.model_name": call.request["model"],
        "server.address": "127.0.0.1",
        "server.port": upstream_port,
        "url.path": call.path,
        "user_agent.original": call.headers["user-agent"],
        "http.response.status_code": call.status,
        "input.value": call.request_text,
        "input.mime_type": "application/json",
        "llm.invocation_parameters": {
            name: value for name, value in call.request.items() if name not in {"messages", "tools"}
        },
        **dict(_input_messages(call)),
        **dict(_tools(call)),
        **dict(_context(call)),
        **dict(expected_genai_attributes(call)),
        **{f"metadata.{name}": value for name, value in _metadata(call)},
    }
    if call.upstream in _PROVIDERS:
        pairs["llm.provider"] = _PROVIDERS[call.upstream]
    if call.status >= 400:
        return pairs | {"error.type": str(call.status)}
    if call.stream_error is not None:
        pairs["error.type"] = call.stream_error["type"]
    pairs |= dict(_output_messages(call)) | dict(_token_counts(call)) | expected_cost(call)
    pairs |= {"output.value": _output(call), "output.mime_type": "application/json"}
    if finish_reason := call.completion["choices"][0]["finish_reason"]:
        pairs["llm.finish_reason"] = finish_reason
    return pairs


def expected_genai_attributes(call: Call) -> Iterator[tuple[str, Any]]:
    """The same by ``docs/contract/spans.md#opentelemetry``, but for the time to the first chunk."""
    yield "gen_ai.operation.name", "chat"
    yield "gen_ai.provider.name", _PROVIDERS.get(call.upstream, "openai_compatible")
    yield "openai.api.type", "chat_completions"
    for name, (key, kind) in _GENAI_PARAMETERS.items():
        if name in call.request:
            yield key, kind(call.request[name])
    if session_id := _session_id(call):
        yield "gen_ai.conversation.id", session_id
    if call.status >= 400:
        return
    yield "gen_ai.response.id", call.completion["id"]
    yield "gen_ai.response.model", call.completion["model"]
    for name in ("service_tier", "system_fingerprint"):
        if call.completion.get(name):
            yield f"openai.response.{name}", call.completion[name]
    reasons = [choice["finish_reason"] for choice in call.completion["choices"]]
    if any(reasons):
        yield "gen_ai.response.finish_reasons", reasons
    for key, count in _token_counts(call):
        if key in _GENAI_COUNTS:
            yield _GENAI_COUNTS[key], count


def expected_cost(call: Call) -> dict[str, float]:
    """``llm.cost.*`` of the one model that has a price (``docs/contract/spans.md#cost``)."""
    if call.usage is None or (call.upstream, call.request["model"]) != ("openai", "gpt-4o-mini"):
        return {}
    counts = dict(_token_counts(call))
    details = {
        f"llm.cost.{side}_details.{name}": count * _DOLLARS[name if name in _DOLLARS else side]
        for side in ("prompt", "completion")
        for name in ("cache_read", "reasoning", "audio")
        if (count := counts.get(f"llm.token_count.{side}_details.{name}")) is not None
    }
    cached = counts["llm.token_count.prompt_details.cache_read"]
    reasoning = counts["llm.token_count.completion_details.reasoning"]
    # Nothing is audio here.
    plain_input = (counts["llm.token_count.prompt"] - cached) * _DOLLARS["prompt"]
    plain_output = (counts["llm.token_count.completion"] - reasoning) * _DOLLARS["completion"]
    prompt = plain_input + cached * _DOLLARS["cache_read"]
    completion = plain_output + reasoning * _DOLLARS["completion"]
    return details | {
        "llm.cost.prompt_details.input": plain_input,
        "llm.cost.completion_details.output": plain_output,
        "llm.cost.prompt": prompt,
        "llm.cost.completion": completion,
        "llm.cost.total": prompt + completion,
    }


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
    content = message["content"] or message.get("refusal")
    if reasoning := message.get("reasoning_content"):
        content = [{"type": "reasoning", "text": reasoning}, {"type": "text", "text": content}]
    if isinstance(content, str):
        yield f"{prefix}.content", content
    for position, part in enumerate(content if isinstance(content, list) else ()):
        part_prefix = f"{prefix}.contents.{position}.message_content"
        if part["type"] in {"text", "reasoning"}:
            yield f"{part_prefix}.type", part["type"]
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
    for side, details in _COUNTED_DETAILS.items():
        yield f"llm.token_count.{side}", call.usage[f"{side}_tokens"]
        for member, name in details.items():
            count = call.usage[f"{side}_tokens_details"].get(member)
            if count is not None:
                yield f"llm.token_count.{side}_details.{name}", count
    yield "llm.token_count.total", call.usage["total_tokens"]


_COUNTED_DETAILS = {
    "prompt": {"cached_tokens": "cache_read", "audio_tokens": "audio"},
    "completion": {"reasoning_tokens": "reasoning", "audio_tokens": "audio"},
}


def _output(call: Call) -> Any:
    if not call.request.get("stream"):
        return call.completion
    error = {"error": call.stream_error} if call.stream_error is not None else {}
    return prune(call.completion | error | {"object": "chat.completion"})


def _context(call: Call) -> Iterator[tuple[str, Any]]:
    """Session, user and tags (``docs/contract/spans.md#client-context``)."""
    if session_id := _session_id(call):
        yield "session.id", session_id
    headers = call.headers
    user = headers.get("x-spantap-user-id") or headers.get("helicone-user-id")
    if user or "user" in call.request:
        yield "user.id", user or call.request["user"]
    if tags := headers.get("x-spantap-tags"):
        yield "tag.tags", [tag.strip() for tag in tags.split(",")]


def _session_id(call: Call) -> str | None:
    headers = call.headers
    in_header = headers.get("x-spantap-session-id") or headers.get("x-session-id")
    in_body: str | None = call.request.get("metadata", {}).get("session_id")
    return in_header or in_body


def _metadata(call: Call) -> Iterator[tuple[str, Any]]:
    yield from _client_metadata(call)
    yield "upstream", call.upstream
    yield "request_id", call.request_id
    for name in ("content-type", "user-agent"):
        yield f"headers.request.{name}", call.headers[name]
    yield "headers.response.content-type", call.answer_type
    yield "headers.response.x-request-id", call.request_id
    is_stream, asks_usage = "stream" in call.request, "stream_options" in call.request
    if is_stream and not asks_usage:
        yield "proxy_rewrites", ["stream_options.include_usage"]
    if is_stream and not call.is_left:
        yield "chunk_count", call.chunk_count
    yield "usage_source", "none" if call.usage is None else "provider"
    if call.status >= 400:
        yield "outcome", "upstream_error"
        return
    if call.stream_error is not None:
        yield "outcome", "stream_error"
    elif call.is_left:
        yield "outcome", "client_disconnected"
        yield "on_disconnect", "cancel"
    else:
        yield "outcome", "completed"
    if any(choice["message"].get("refusal") for choice in call.completion["choices"]):
        yield "refused_choices", [0]
    if expected_cost(call):
        yield "cost_source", "genai-prices"
        yield "cost_list_date", find_list_date()
    yield from _flatten("usage_raw", call.usage or {})


def _client_metadata(call: Call) -> Iterator[tuple[str, Any]]:
    for header, value in call.headers.items():
        for prefix in ("x-spantap-metadata-", "helicone-property-"):
            if header.startswith(prefix):
                yield header.removeprefix(prefix), value
    yield from decode_json_object(call.headers.get("x-spantap-metadata", "{}")).items()
    yield from call.request.get("metadata", {}).items()
    if "prompt_cache_key" in call.request:
        yield "prompt_cache_key", call.request["prompt_cache_key"]


def _flatten(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """As Phoenix gives metadata back (``docs/contract/spans.md#phoenix-metadata``)."""
    for name, member in value.items():
        if isinstance(member, dict):
            yield from _flatten(f"{prefix}.{name}", member)
        else:
            yield f"{prefix}.{name}", member
