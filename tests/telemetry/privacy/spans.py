"""Attributes of spans that say everything a span can say, for the tests of what is hidden."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from codec.apis.api import Content

if TYPE_CHECKING:
    from telemetry.attribute_values import AttributeValue

IMAGE = "https://images.test/cat.png"
PNG = "data:image/png;base64,iVBORw0KGgo="

REQUEST = {
    "model": "m-1",
    "temperature": 0.5,
    "user": "ann",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is it?"},
                {"type": "image_url", "image_url": {"url": IMAGE}},
            ],
        },
    ],
    "tools": [{"type": "function", "function": {"name": "look_up"}}],
    "functions": [{"name": "find"}],
}
PARAMETERS = {
    "model": "m-1",
    "temperature": 0.5,
    "stream": True,
    "stream_options": {"include_usage": True},
    "stop": ["Ann"],
    "prediction": {"type": "content", "content": "It is Ann."},
    "logit_bias": {"50256": -100},
}
METADATA = {
    "upstream": "default",
    "tenant": "north",
    "usage_raw": {"prompt_tokens": 12, "note": "Ann asked", "details": {"audio_tokens": 0}},
}

INPUT_MESSAGES: dict[str, AttributeValue] = {
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.content": "Be brief.",
    "llm.input_messages.0.message.name": "operator",
    "llm.input_messages.1.message.contents.0.message_content.type": "text",
    "llm.input_messages.1.message.contents.0.message_content.text": "What is it?",
    "llm.input_messages.1.message.contents.1.message_content.type": "image",
    "llm.input_messages.1.message.contents.1.message_content.image.image.url": IMAGE,
    "llm.input_messages.1.message.contents.2.message_content.audio.audio.url": "data:audio/wav,A",
    "llm.input_messages.1.message.contents.2.message_content.audio.audio.mime_type": "audio/wav",
    "llm.input_messages.1.message.contents.2.message_content.audio.audio.transcript": "Ann!",
    "llm.input_messages.1.message.contents.3.message_content.document.document.url": "data:,A",
    "llm.input_messages.1.message.contents.3.message_content.document.document.name": "ann.pdf",
    "llm.input_messages.1.message.contents.3.message_content.document.document.id": "file-1",
    "llm.input_messages.1.message.contents.4.message_content.data": "QW5u",
    "llm.input_messages.2.message.tool_calls.0.tool_call.id": "c1",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.name": "look_up",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments": '{"name": "Ann"}',
    "llm.input_messages.3.message.tool_call_id": "c1",
    "llm.input_messages.4.message.function_call_name": "find",
    "llm.input_messages.4.message.function_call_arguments_json": '{"name": "Ann"}',
    "llm.input_messages.5.message.of_some_later_convention": "Ann",
}
TOOLS: dict[str, AttributeValue] = {
    "llm.tools.0.tool.json_schema": '{"type": "function"}',
    "llm.tools.0.tool.name": "look_up",
    "llm.tools.0.tool.description": "Looks people up.",
    "gen_ai.tool.definitions": '[{"name": "look_up"}]',
}
OUTPUT_MESSAGES: dict[str, AttributeValue] = {
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.contents.0.message_content.type": "reasoning",
    "llm.output_messages.0.message.contents.0.message_content.text": "It looks like a cat.",
    "llm.output_messages.1.message.content": "A cat.",
    "llm.output_messages.1.message.tool_calls.0.tool_call.id": "c2",
    "llm.output_messages.1.message.tool_calls.0.tool_call.function.name": "look_up",
    "llm.output_messages.1.message.tool_calls.0.tool_call.function.arguments": '{"name": "Bo"}',
    "llm.output_messages.1.message.contents.1.message_content.image.image.url": PNG,
}
INPUT: dict[str, AttributeValue] = {
    "llm.prompt_template.template": "What is {it}?",
    "llm.prompt_template.variables": '{"it": "this"}',
    "llm.prompt_template.version": "v2",
    "llm.invocation_parameters": json.dumps(PARAMETERS),
    "gen_ai.request.temperature": 0.5,
    "gen_ai.request.stop_sequences": ("Ann",),
    "openai.request.service_tier": "flex",
    "gen_ai.input.messages": '[{"role": "user", "parts": []}]',
    "gen_ai.system_instructions": '[{"type": "text", "content": "Be brief."}]',
    "input.value": json.dumps(REQUEST),
    "input.mime_type": "application/json",
    "input.images.0.image.url": IMAGE,
}
OUTPUT: dict[str, AttributeValue] = {
    "gen_ai.output.messages": '[{"role": "assistant", "parts": []}]',
    "output.value": '{"choices": [{"message": {"content": "A cat."}}]}',
    "output.mime_type": "application/json",
}
ALWAYS_KEPT: dict[str, AttributeValue] = {
    "openinference.span.kind": "LLM",
    "llm.system": "openai",
    "llm.provider": "groq",
    "llm.model_name": "m-1-2026",
    "llm.request.model_name": "m-1",
    "llm.response.model_name": "m-1-2026",
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "groq",
    "gen_ai.request.model": "m-1",
    "gen_ai.request.stream": True,
    "gen_ai.response.model": "m-1-2026",
    "gen_ai.response.id": "chatcmpl-1",
    "gen_ai.response.finish_reasons": ("stop", "tool_calls"),
    "gen_ai.response.time_to_first_chunk": 0.25,
    "gen_ai.usage.input_tokens": 12,
    "gen_ai.output.type": "text",
    "gen_ai.conversation.id": "s1",
    "openai.api.type": "chat_completions",
    "openai.response.system_fingerprint": "fp_1",
    "llm.token_count.prompt": 12,
    "llm.cost.total": 0.001,
    "llm.finish_reason": "stop",
    "session.id": "s1",
    "user.id": "ann",
    "tag.tags": ("blue", "green"),
    "prompt.id": "p1",
    "server.address": "api.test",
    "server.port": 443,
    "url.path": "/v1/chat/completions",
    "user_agent.original": "OpenAI/Python 2.8.0",
    "http.response.status_code": 200,
    "http.request.resend_count": 1,
    "error.type": "500",
}
CHAT: dict[str, AttributeValue] = {
    **INPUT_MESSAGES,
    **TOOLS,
    **OUTPUT_MESSAGES,
    "metadata": json.dumps(METADATA),
    **ALWAYS_KEPT,
    **INPUT,
    **OUTPUT,
}
COMPLETION: dict[str, AttributeValue] = {
    "llm.prompts.0.prompt.text": "Once upon",
    "llm.choices.0.completion.text": " a time",
    "llm.invocation_parameters": '{"model": "m-1", "suffix": "The end.", "n": 1}',
    "metadata": json.dumps(METADATA),
    **ALWAYS_KEPT,
    "gen_ai.input.messages": "[]",
    "gen_ai.output.messages": "[]",
    "input.value": '{"model": "m-1", "prompt": "Once upon", "suffix": "The end."}',
    "input.mime_type": "application/json",
    "output.value": '{"choices": [{"text": " a time"}]}',
    "output.mime_type": "application/json",
}
EMBEDDING: dict[str, AttributeValue] = {
    "embedding.embeddings.0.embedding.text": "one",
    "embedding.embeddings.0.embedding.vector": (0.5, -1.0),
    "embedding.embeddings.0.embedding.of_some_later_convention": "one",
    "metadata": json.dumps(METADATA),
    **ALWAYS_KEPT,
    "openinference.span.kind": "EMBEDDING",
    "embedding.model_name": "small",
    "embedding.invocation_parameters": '{"model": "small", "dimensions": 2, "user": "ann"}',
    "input.value": '{"model": "small", "input": ["one"], "dimensions": 2}',
    "input.mime_type": "application/json",
    "output.value": '{"data": [{"index": 0}]}',
    "output.mime_type": "application/json",
}
RANKING: dict[str, AttributeValue] = {
    "reranker.input_documents.0.document.content": "Ann is late.",
    "reranker.input_documents.1.document.of_some_later_convention": "Ann is here.",
    "reranker.query": "Where is Ann?",
    "reranker.output_documents.0.document.id": 1,
    "reranker.output_documents.0.document.score": 0.5,
    "reranker.output_documents.0.document.content": "Ann is here.",
    "metadata": json.dumps(METADATA),
    **ALWAYS_KEPT,
    "openinference.span.kind": "RERANKER",
    "reranker.model_name": "small",
    "reranker.top_k": 2,
    "llm.invocation_parameters": '{"model": "small", "top_n": 2, "user": "ann"}',
    "input.value": '{"model": "small", "query": "Where?", "documents": ["Here."], "top_n": 2}',
    "input.mime_type": "application/json",
    "output.value": '{"results": [{"index": 1}]}',
    "output.mime_type": "application/json",
}
MODERATION: dict[str, AttributeValue] = {
    "metadata": json.dumps(METADATA),
    **ALWAYS_KEPT,
    "openinference.span.kind": "GUARDRAIL",
    "input.value": '{"model": "small", "input": "Ann", "user": "ann"}',
    "input.mime_type": "application/json",
    "output.value": '{"results": [{"flagged": false}]}',
    "output.mime_type": "application/json",
}
SAMPLES = {
    Content.MESSAGES: CHAT,
    Content.TEXTS: COMPLETION,
    Content.VECTORS: EMBEDDING,
    Content.RANKING: RANKING,
    Content.BODIES: MODERATION,
}
