"""The names on spans: ours are ours alone, all others are the installed packages'."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import openinference.semconv.trace as openinference
import pytest

from codec.chat.answer import ChatMessage, ToolCall
from codec.usage import Usage
from telemetry import semconv
from tests.telemetry.exchanges import build_exchange_attributes, make_exchange, make_response

OPENTELEMETRY_SUBJECTS = (
    *(f"attributes.{name}" for name in ("error", "exception", "http", "server", "service")),
    *(f"attributes.{name}" for name in ("url", "user_agent")),
    *(f"_incubating.attributes.{name}" for name in ("gen_ai", "openai")),
)


def constants_of(owner: object) -> set[str]:
    """The string constants of a module or class."""
    return {
        value for name, value in vars(owner).items() if name.isupper() and isinstance(value, str)
    }


def package_names() -> set[str]:
    """Every attribute name that the installed packages define."""
    names: set[str] = set()
    for owner in vars(openinference).values():
        if isinstance(owner, type) and owner.__name__.endswith("Attributes"):
            names |= constants_of(owner)
    for module in OPENTELEMETRY_SUBJECTS:
        names |= constants_of(import_module(f"opentelemetry.semconv.{module}_attributes"))
    return names


def test_own_names_are_in_no_package() -> None:
    """What we spell out ourselves is no attribute name that a package defines."""
    assert package_names().isdisjoint(constants_of(semconv))


PARTS: list[dict[str, Any]] = [
    {"type": "text", "text": "t"},
    {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}},
    {
        "type": "file",
        "file": {"file_data": "data:application/pdf;base64,QQ==", "filename": "a", "file_id": "f"},
    },
]


def rich_keys() -> list[str]:
    """The keys of an exchange that has one of everything."""
    call = {"name": "f", "arguments": "{}"}
    request = {
        "model": "m",
        "messages": [
            {"role": "user", "name": "n", "content": PARTS},
            {"role": "assistant", "function_call": call},
            {"role": "assistant", "tool_calls": [{"id": "c", "function": call}]},
            {"role": "tool", "tool_call_id": "c", "content": "r"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "description": "d"}}],
    }
    answer = ChatMessage(
        role="assistant",
        content="t",
        reasoning="r",
        tool_calls=(ToolCall(id="c", name="f", arguments="{}"),),
        function_call=ToolCall(name="f", arguments="{}"),
    )
    usage = Usage(
        prompt=1,
        completion=1,
        total=2,
        cache_read=0,
        cache_write=0,
        prompt_audio=0,
        reasoning=0,
        completion_audio=0,
    )
    exchange = make_exchange(
        request,
        response=make_response(answer, usage=usage, body={"id": "x"}),
        provider="openai",
        server_address="api.openai.com",
        server_port=443,
        user_agent="OpenAI/Python 2.8.0",
        response_status=200,
        resend_count=1,
        error_type="stream_error",
    )
    return list(build_exchange_attributes(exchange))


@pytest.mark.parametrize("key", rich_keys())
def test_every_key_is_made_of_package_names(key: str) -> None:
    """Taken apart at its indexes, every key we write consists of names that a package defines."""
    names = package_names()
    # message_content.image.image.url is two names without an index between them.
    nested = {f"{outer}.{inner}" for outer in names for inner in names}
    for part in re.split(r"\.\d+\.", key):
        assert part in names or part in nested
