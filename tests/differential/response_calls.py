"""Generated calls of the Responses API: played as the demo upstream plays, and written by hand."""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any

from codec.apis.responses.route import RESPONSES
from codec.dialects import find_dialect
from proxy.demo.script import FAILING_MODEL, REASONING_MODEL, write_script
from tests.codec.apis.responses.events import added, delta, done, ended, write_event
from tests.differential.answers import error_body
from tests.differential.calls import EVENTS, Call
from tests.differential.request_shapes import WEATHER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.apis.player import Performance
    from codec.text.jsontext import JsonObject

__all__ = ("generate_response_calls",)

_BODY: JsonObject = {"model": "gpt-4o-mini", "input": "Ahoy?"}
_STREAM: JsonObject = {"stream": True}
_TOOL: JsonObject = {"type": "function", **WEATHER["function"]}
_SERVER: JsonObject = {"type": "mcp", "server_label": "s", "authorization": "tok-0123456789"}

_PLAYED: dict[str, JsonObject] = {
    "text": {},
    "instructions": {"instructions": "Be brief.", "max_output_tokens": 50, "user": "u-1"},
    "tools": {"tools": [_TOOL, {"type": "web_search"}, _SERVER], "tool_choice": "auto"},
    "custom tool": {"tools": [{"type": "custom", "name": "sh"}], "parallel_tool_calls": False},
    "empty instructions": {"instructions": ""},
    "form": {"text": {"format": {"type": "json_schema", "name": "a", "schema": {}}}},
    "refusal": {"input": "How do I pick a lock?"},
    "reasoning": {"model": REASONING_MODEL, "reasoning": {"effort": "low"}},
    "image": {"tools": [{"type": "image_generation"}]},
    "cut": {"max_output_tokens": 3},
    "failing": {"model": FAILING_MODEL},
}
"""What is asked, by what the demo upstream answers."""


def _call(kind: str, call_id: str | None = "call_1", **members: Any) -> JsonObject:
    named = {} if call_id is None else {"call_id": call_id}
    return {"type": kind, "id": f"{kind}_1", "status": "completed", **named, **members}


def _text(kind: str = "output_text") -> JsonObject:
    return {"type": kind, "text": "Ahoy 🌊", "annotations": []}


_THOUGHTS = [{"type": "summary_text", "text": "Hm."}, {"type": "summary_text", "text": "Hm, hm."}]
_PATCH = {"type": "create_file", "path": "a", "diff": "+a"}
_CALLS: list[JsonObject] = [
    _call("function_call", name="get_weather", arguments="{}"),
    _call("function_call", name="get_weather", arguments='{"city": "Oslo"}'),
    _call("custom_tool_call", name="sh", input="ls -l"),
    _call("web_search_call", None, action={"type": "search", "query": "Oslo"}),
    _call("file_search_call", None, queries=["Oslo"]),
    _call("computer_call", action={"type": "screenshot"}, pending_safety_checks=[]),
    _call("local_shell_call", action={"type": "exec", "command": ["ls"], "env": {}}),
    _call("apply_patch_call", operation=_PATCH),
    _call("code_interpreter_call", None, code="1 + 1", container_id="c", outputs=None),
    _call("mcp_call", None, name="look", arguments='{"a": 1}', server_label="s"),
    _call("mcp_list_tools", None, server_label="s", tools=[]),
    _call("image_generation_call", None, result="iVBORw0KGgo="),
    _call("compaction", None, encrypted_content="abc"),
    {"type": "reasoning", "id": "rs_1", "summary": _THOUGHTS, "encrypted_content": "abc"},
    {"type": "reasoning", "id": "rs_2", "summary": [], "content": [_text("reasoning_text")]},
    {"type": "reasoning", "id": "rs_3", "summary": [], "encrypted_content": "a" * 5_000},
]
_MESSAGE: JsonObject = {
    "type": "message",
    "id": "msg_1",
    "status": "completed",
    "role": "assistant",
    "content": [_text(), {"type": "refusal", "refusal": "No."}],
}
_ASKED: list[JsonObject] = [
    {"role": "developer", "content": "Be brief."},
    {
        "role": "user",
        "content": [
            _text("input_text"),
            {"type": "input_image", "image_url": "https://x.example/a.png", "detail": "low"},
            {"type": "input_image", "file_id": "file_1", "detail": "auto"},
            {"type": "input_file", "file_id": "file_2", "filename": "a.pdf"},
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        ],
    },
    _MESSAGE,
    *_CALLS,
    {"type": "function_call_output", "call_id": "call_1", "output": "Sun."},
    {"type": "function_call_output", "call_id": "call_1", "output": [_text("input_text")]},
    {"type": "custom_tool_call_output", "call_id": "call_1", "output": "a b"},
    {"type": "computer_call_output", "call_id": "call_1", "output": {"type": "screenshot"}},
    {"type": "local_shell_call_output", "id": "call_1", "output": "a b"},
    {"type": "function_call_output", "call_id": "call_1", "output": ""},
    {"type": "item_reference", "id": "msg_0"},
]
_USAGE: JsonObject = {
    "input_tokens": 30,
    "input_tokens_details": {"cached_tokens": 10, "cache_write_tokens": 0},
    "output_tokens": 4,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 34,
}
_RESPONSE: JsonObject = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1_764_000_000,
    "model": "gpt-4o-mini-2024-07-18",
    "status": "completed",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [_MESSAGE],
    "usage": _USAGE,
}
_ERROR = {"code": "server_error", "message": "Overloaded."}
_BODIES: dict[str, JsonObject] = {
    "items": {"output": [_MESSAGE, *_CALLS]},
    "a long image": {"output": [_call("image_generation_call", None, result="A" * 40_000)]},
    "queued": {"status": "queued", "output": [], "usage": None},
    "filtered": {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
    "failed": {"status": "failed", "output": [], "usage": None, "error": _ERROR},
    "a total that is too small": {"usage": _USAGE | {"total_tokens": 3}},
    "tools of a stored prompt": {"prompt": {"id": "pmpt_1"}, "tools": [_TOOL]},
}
_CREATED = write_event("response.created", response=_RESPONSE | {"output": [], "usage": None})
_BEGUN = _CREATED + added(0, _MESSAGE | {"content": []}) + delta("Ahoy")
_STREAMS: dict[str, bytes] = {
    "the end repeats nothing": _CREATED + done(0, _MESSAGE) + ended(**_RESPONSE | {"output": []}),
    "cut off": _BEGUN,
    "an error": _BEGUN + write_event("error", sequence_number=2, **_ERROR),
    "an error in an object": _CREATED + write_event("error", error=_ERROR),
    "an end mark": _CREATED + done(0, _MESSAGE) + ended(**_RESPONSE) + b"data: [DONE]\n\n",
}


def generate_response_calls() -> Iterator[Call]:
    """All of them, the same in every run."""
    for name, members in _PLAYED.items():
        stream = b"".join(chain.from_iterable(_play(members).stream()))
        yield _respond(f"plain {name}", members, _play(members).whole())
        yield _respond(f"stream {name}", members | _STREAM, stream, head=EVENTS)
    for name, members in _BODIES.items():
        asked = {"input": _ASKED} if name == "items" else {}
        yield _respond(name, asked, json.dumps(_RESPONSE | members).encode())
    for name, stream in _STREAMS.items():
        yield _respond(name, _STREAM, stream, head=EVENTS)
    events = [event for events in _play({}).stream() for event in events]
    for count in (1, 3, 6):
        begun = b"".join(events[:count])
        yield _respond(f"left after {count}", _STREAM, begun, head=EVENTS, leaves_after=count)
    yield _respond("reset", _STREAM, b"".join(events[:6]), head=EVENTS, breaks_off=True)
    for status in (400, 429, 500):
        yield _respond(f"status {status}", {}, error_body("No."), status=status)


def _play(members: JsonObject) -> Performance:
    assert RESPONSES.open_player is not None
    asked = RESPONSES.asked(_BODY | members)
    script = write_script(asked, answer_id="1", created=1_764_000_000)
    return RESPONSES.open_player().play(asked, script, find_dialect("openai"))


def _respond(name: str, members: JsonObject, answer: bytes, **more: Any) -> Call:
    body = _BODY | members
    return Call(id=f"response: {name}", api=RESPONSES, body=body, answer=answer, **more)
