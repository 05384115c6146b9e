"""What is private reaches no backend: canaries in chats, looked for in all that Phoenix has."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from proxy.demo.script import ERROR_MODEL, MODEL
from tests.e2e.calls import open_client
from tests.e2e.spantap import Upstream, running_proxy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from codec.text.jsontext import JsonObject
    from tests.e2e.calls import Call, Client
    from tests.e2e.phoenix import Phoenix, StoredSpan

pytestmark = pytest.mark.e2e

HIDE_ALL = {"OPENINFERENCE_HIDE_INPUTS": "true", "OPENINFERENCE_HIDE_OUTPUTS": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A chat with one canary in everything that is said.

    Attributes:
        canary: a word that stands nowhere else.
        stream: the answer, which repeats the canary.
        error: the refused call.
    """

    canary: str
    stream: Call
    error: Call


def test_canary_is_hidden_by_settings(phoenix: Phoenix, upstream_port: int, tmp_path: Path) -> None:
    """With ``OPENINFERENCE_HIDE_INPUTS`` and ``_OUTPUTS`` no word of a chat is in Phoenix."""
    project = "private-settings"
    with recorded_client(phoenix, upstream_port, tmp_path, project, HIDE_ALL) as client:
        chat = have_chat(client)
        spans = phoenix.wait_for_spans(project, 2)
    assert chat.canary not in phoenix.dump_project(project)
    check_essentials(chat, spans)
    assert chat.canary.encode() not in read_files(tmp_path)


def test_canary_is_hidden_by_header(phoenix: Phoenix, upstream_port: int, tmp_path: Path) -> None:
    """``x-spantap-content: off`` hides the words of that call, and of no other one."""
    project = "private-header"
    with recorded_client(phoenix, upstream_port, tmp_path, project) as client:
        private = have_chat(client, {"x-spantap-content": "off"})
        public = have_chat(client)
        spans = phoenix.wait_for_spans(project, 4)
    dump = phoenix.dump_project(project)
    assert private.canary not in dump
    assert public.canary in dump, "this test would find nothing"
    check_essentials(private, spans)
    assert find_span(private.stream, spans).attributes["metadata.content_hidden_by"] == "client"
    files = read_files(tmp_path)
    assert private.canary.encode() not in files
    assert public.canary.encode() in files, "this test would find nothing"


@contextmanager
def recorded_client(
    phoenix: Phoenix,
    upstream_port: int,
    folder: Path,
    project: str,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Client]:
    """A client of a proxy that has the spans of its calls in a project of Phoenix."""
    with (
        running_proxy(
            folder,
            upstream_port=upstream_port,
            project=project,
            endpoint=phoenix.url,
            protocol="http/protobuf",
            environment=environment,
        ) as proxy,
        open_client(proxy.base_url, Upstream(port=upstream_port).base_url) as client,
    ):
        yield client


def have_chat(client: Client, headers: dict[str, str] | None = None) -> Chat:
    """A stream that repeats its canary, and a refused call."""
    canary = f"canary{secrets.token_hex(8)}"
    call = {"id": canary, "type": "function", "function": {"name": canary, "arguments": canary}}
    messages: list[JsonObject] = [
        {"role": "system", "content": canary},
        {"role": "user", "name": canary, "content": [{"type": "text", "text": canary}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": canary, "content": canary},
    ]
    function = {"name": canary, "description": canary, "parameters": {"title": canary}}
    request: JsonObject = {
        "messages": messages,
        "tools": [{"type": "function", "function": function}],
        "stop": [canary],
        "user": canary,
        "metadata": {"session_id": canary, "purpose": canary},
        "prompt_cache_key": canary,
        "extra_headers": headers or {},
    }
    stream = client.stream(model=MODEL, **request)
    assert canary in stream.message["content"], "the upstream repeats it"
    return Chat(canary=canary, stream=stream, error=client.complete(model=ERROR_MODEL, **request))


def check_essentials(chat: Chat, spans: list[StoredSpan]) -> None:
    """What is no content is there: model, tokens, how it ended, how long it took."""
    span = find_span(chat.stream, spans)
    usage = chat.stream.usage
    assert usage is not None
    assert {
        "llm.model_name": MODEL,
        "llm.finish_reason": "stop",
        "llm.token_count.prompt": usage["prompt_tokens"],
        "llm.token_count.completion": usage["completion_tokens"],
        "input.value": "__REDACTED__",
        "output.value": "__REDACTED__",
        "metadata.outcome": "completed",
        "http.response.status_code": 200,
    }.items() <= span.attributes.items()
    assert span.attributes["metadata.ttft_ms"] > 0
    assert (span.status, span.status_message) == ("OK", "")
    assert not [key for key in span.attributes if key.startswith(("llm.input_", "llm.tools"))]
    failed = find_span(chat.error, spans)
    assert (failed.status, failed.status_message) == ("ERROR", "RateLimitError: __REDACTED__")
    assert failed.attributes["error.type"] == "429"


def read_files(folder: Path) -> bytes:
    """All that a proxy left: its store and its log."""
    return b"".join(path.read_bytes() for path in folder.iterdir())


def find_span(call: Call, spans: list[StoredSpan]) -> StoredSpan:
    """The one span of a call."""
    (span,) = (span for span in spans if span.request_id == call.request_id)
    return span
