"""Credentials in request bodies: where they are found, and how they are masked (R7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.text.jsontext import encode_json
from telemetry.privacy.body_credentials import MAX_LOOKED_VALUES, find_body_credentials
from telemetry.privacy.credentials import MAX_CREDENTIALS, Credentials
from telemetry.privacy.json_strings import REDACTED
from telemetry.privacy.mask import Mask
from telemetry.privacy.switches import PrivacySwitches

if TYPE_CHECKING:
    from telemetry.attribute_values import AttributeValue

KEY = "canary/0123456789"


def find(members: dict[str, Any]) -> Credentials:
    return find_body_credentials(members, encode_json(members).encode())


def find_in_text(text: str) -> Credentials:
    return find_body_credentials(None, text.encode())


def hides(credentials: Credentials, word: str = KEY) -> bool:
    """Whether a text of a span is shown without the word."""
    return word not in credentials.redact(f"the upstream says: {word}!")


def azure(**authentication: str) -> dict[str, Any]:
    return {
        "data_sources": [{"type": "azure_search", "parameters": {"authentication": authentication}}]
    }


def tool(**members: Any) -> dict[str, Any]:
    return {"tools": [{"type": "mcp", "server_label": "deepwiki", **members}]}


FOUND: dict[str, dict[str, Any]] = {
    "Azure, API key": azure(type="api_key", key=KEY),
    "Azure, access token": azure(type="access_token", access_token=KEY),
    "Azure, encoded key": azure(type="encoded_api_key", encoded_api_key=KEY),
    "Azure, connection string": azure(type="connection_string", connection_string=KEY),
    "Azure, old spelling": {"dataSources": [{"parameters": {"apiKey": KEY, "endpoint": "h"}}]},
    "Azure, of the embedding": {
        "data_sources": [{"parameters": {"embedding_dependency": {"authentication": {"key": KEY}}}}]
    },
    "MCP, authorization": tool(authorization=KEY),
    "MCP, header": tool(headers={"Authorization": f"Bearer {KEY}"}),
    "MCP, header of their own": tool(headers={"X-Acme": KEY}),
    "MCP, extra headers": tool(extra_headers={"x-acme": KEY}),
    "MCP, headers in a list": tool(headers=[{"name": "X-Acme", "value": KEY}]),
    "MCP, nested": tool(mcp={"servers": [{"auth": {"token": KEY}}]}),
    "MCP, in the query": tool(server_url=f"https://mcp.example/sse?a=b&exaApiKey={KEY}"),
    "MCP, user of the URL": tool(server_url=f"https://me:{KEY.replace('/', '')}@mcp.example/"),
    "MCP, escaped in the query": tool(server_url="https://h/?token=canary%2F0123456789"),
    "servers of Anthropic": {"mcp_servers": [{"url": "https://h", "authorization_token": KEY}]},
    "connectors of Mistral": tool(authorization={"type": "oauth2-token", "value": KEY}),
    "connectors of Cohere": {"connectors": [{"id": "c", "user_access_token": KEY}]},
    "keys for Vercel's gateway": {
        "providerOptions": {"gateway": {"byok": {"anthropic": [{"apiKey": KEY}]}}}
    },
    "keys for Vertex AI": {
        "tools": [{"googleMaps": {"authConfig": {"apiKeyConfig": {"apiKeyString": KEY}}}}]
    },
    "MCP servers of Gemini": {
        "tools": [{"mcpServers": [{"streamableHttpTransport": {"headers": {"x-acme": KEY}}}]}]
    },
    "keys for LiteLLM": {"api_key": KEY},
    "a fallback of LiteLLM": {"fallbacks": [{"model": "m", "api_key": KEY}]},
    "secrets for LiteLLM": {"aws_secret_access_key": KEY},
    "headers in the body": {"extra_headers": {"Authorization": f"Bearer {KEY}"}},
    "a slip of an SDK": {"extra_body": {"api_key": KEY}},
}


@pytest.mark.parametrize("members", FOUND.values(), ids=FOUND)
def test_a_credential_is_found_where_a_provider_takes_it(members: dict[str, Any]) -> None:
    """With or without its scheme, escaped or not."""
    credentials = find({"model": "m", "messages": [{"content": "hi"}], **members})
    assert hides(credentials, KEY) or hides(credentials, KEY.replace("/", ""))


NOTHING: dict[str, dict[str, Any]] = {
    "a chat": {"messages": [{"role": "user", "content": f"api_key: {KEY}"}]},
    "a message with such a member": {"messages": [{"api_key": KEY, "content": "hi"}]},
    "an input": {"input": [{"key": KEY}]},
    "a function": {"tools": [{"type": "function", "function": {"name": KEY, "token": KEY}}]},
    "a flat function": {"tools": [{"name": "f", "parameters": {"properties": {"key": KEY}}}]},
    "functions of Gemini": {
        "tools": [
            {"functionDeclarations": [{"parameters": {"properties": {"headers": {"k": KEY}}}}]}
        ]
    },
    "tools that are none": {"tools": [KEY, None, {"type": "function", "key": KEY}]},
    "tools that are no list": {"tools": {"key": KEY}},
    "a cache key": {"prompt_cache_key": KEY},
    "metadata": {"metadata": {"key": KEY}, "user": KEY},
    "a kind": azure(type=KEY),
    "an id": azure(type="x", managed_identity_resource_id=KEY),
    "a harmless header": tool(headers={"User-Agent": KEY, "content-type": KEY}),
    "another query": tool(server_url=f"https://h/?monkey={KEY}&api-version={KEY}#key={KEY}"),
    "a name that only begins so": tool(key_of_something=KEY, token_type=KEY, keyboard=KEY),
    "what is no text": tool(authorization=1234567890, headers=None, key=[True, None]),
}


@pytest.mark.parametrize("members", NOTHING.values(), ids=NOTHING)
def test_what_is_content_or_no_credential_stays(members: dict[str, Any]) -> None:
    """The other side: masking words at random would help nobody."""
    credentials = find({"model": "m", **members})
    assert not credentials
    assert not hides(credentials)


def test_short_values_are_none() -> None:
    """They would garble words."""
    assert not find({"api_key": "EMPTY"})
    assert find({"api_key": "EMPTY-12"})


def test_what_is_found_is_masked_wherever_it_occurs() -> None:
    """In JSON whatever its escapes, in JSON in JSON, in words; the rest stays as it was."""
    credentials = find({"api_key": f"Bearer {KEY}"})
    text = r'{"a":"canary\/0123456789","b":"{\"c\":\"canary\\/0123456789\"}","n":1.0, "x":"\u00e9"}'
    assert credentials.redact(text) == (
        rf'{{"a":"{REDACTED}","b":"{{\"c\":\"{REDACTED}\"}}","n":1.0, "x":"\u00e9"}}'
    )
    assert credentials.redact(f"bad key {KEY}, {KEY}") == f"bad key {REDACTED}, {REDACTED}"
    same = '{"a": "nothing of it"}'
    assert credentials.redact(same) is same


def test_a_credential_in_another_one_leaves_nothing_of_that() -> None:
    """The longer one goes first."""
    members = {**tool(authorization=f"{KEY}-and-more"), "api_key": KEY}
    assert find(members).redact(f"{KEY}-and-more") == REDACTED


def test_a_request_of_too_many_credentials_is_masked_whole() -> None:
    """By their number, or by how much is to be looked at."""
    many = [{"key": f"{KEY}-{number}"} for number in range(MAX_CREDENTIALS + 1)]
    assert find({"data_sources": many[1:]}).redact("anything") == "anything"
    assert find({"data_sources": many}).redact("anything") == REDACTED
    large = [0] * MAX_LOOKED_VALUES
    assert not find({"data_sources": large[2:]})
    assert find({"data_sources": large}).redact("anything") == REDACTED


def test_a_deep_place_is_looked_into_without_recursion() -> None:
    """No nesting overflows the stack."""
    deep: Any = {"key": KEY}
    for _ in range(5_000):
        deep = [deep]
    assert hides(find_body_credentials({"data_sources": deep}, b""))


@pytest.mark.parametrize(
    "text",
    [
        f'{{"messages":[],"data_sources":[{{"key": "{KEY}"}}],}}',
        f'{{"api_key" : "{KEY}", "messages": [',
        '{"authorization":"Bearer canary\\/0123456789"',
        f'"password":"{KEY}"',
    ],
)
def test_in_a_body_that_is_no_json_names_alone_are_looked_for(text: str) -> None:
    """A comma too many must not record the key."""
    assert hides(find_in_text(text))


@pytest.mark.parametrize(
    "text", ["", "api_key", '"api_key":', '"api_key":"', '"key":"\\x"', "\ufeff"]
)
def test_a_body_that_is_no_json_and_holds_none_stays(text: str) -> None:
    """Whatever it is."""
    assert not find_in_text(text)


def test_a_text_of_too_many_credentials_is_masked_whole() -> None:
    """So it is for the credentials of a text that is not JSON."""
    text = ",".join(f'"key":"{KEY}-{number}"' for number in range(MAX_CREDENTIALS + 1))
    assert find_in_text(text).redact("anything") == REDACTED


def test_an_escape_that_is_none_is_taken_as_it_stands() -> None:
    """In text that is not JSON anything may be."""
    assert hides(find_in_text('"key":"\\x canary/0123456789"'))


def test_the_mask_hides_them_whatever_the_switches_say() -> None:
    """In every text but the names that are ours, and in a provider's words."""
    members = azure(type="api_key", key=KEY)
    text = encode_json(members)
    attributes: dict[str, AttributeValue] = {
        "input.value": text,
        "llm.tools.0.tool.json_schema": text,
        "tag.tags": (KEY, "other"),
        "llm.provider": "openai",
        "llm.token_count.total": 3,
    }
    mask = Mask(PrivacySwitches(), None, find(members))
    shown = mask.attributes(attributes)
    assert KEY not in repr(shown)
    assert shown["input.value"] == text.replace(KEY, REDACTED)
    assert shown["tag.tags"] == (REDACTED, "other")
    assert {k: v for k, v in shown.items() if k in {"llm.provider", "llm.token_count.total"}} == {
        "llm.provider": "openai",
        "llm.token_count.total": 3,
    }
    assert mask.provider_words(f"no such key: {KEY}") == f"no such key: {REDACTED}"
