"""A canary in every place where a request or the settings carry a credential, and where it is seen.

The upstream gets what is its own, and quotes all of it. Nothing that is recorded, logged or
answered by spantap itself holds any of it (R7).
"""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from codec.text.jsontext import encode_json
from proxy.settings.settings import Settings
from proxy.settings.tables import UpstreamConfig
from telemetry.frames.frame import RequestBody
from telemetry.privacy.json_strings import REDACTED
from tests.proxy.harness import Connection, ScriptedUpstream, request_bytes, running_proxy
from tests.proxy.raw_client import ask
from tests.proxy.recorded_calls import tell_span

CANARY = re.compile(r"c4n4ry-([a-z]+)-")


def plant(name: str) -> str:
    """A key that is found again."""
    return f"c4n4ry-{name}-0123456789"


HEADERS = {
    "Authorization": "Bearer " + plant("authorization"),
    "api-key": plant("apikey"),
    "X-Api-Key": plant("xapikey"),
    "x-goog-api-key": plant("google"),
    "Cookie": f"theme=dark; session={plant('cookie')}",
    "Proxy-Authorization": "Basic " + plant("proxy"),
    "X-Amz-Security-Token": plant("amazon"),
    "x-pass": plant("pass"),
    "x-pwd": plant("pwd"),
    "x-sig": plant("sig"),
    "x-acme": plant("unheardof"),
    "x-portkey-config": f'{{"provider": "openai", "api_key": "{plant("gateway")}"}}',
    "x-spantap-metadata": f'{{"api_key": "{plant("metadata")}"}}',
    "OpenAI-Session-Secret": plant("secret"),
    "cf-aig-authorization": "Bearer " + plant("cloudflare"),
}
QUERY = "&".join(
    [
        "api-version=2024-10-21",
        *(f"key={plant('querykey')}", f"api_key={plant('queryapikey')}"),
        *(f"access_token={plant('querytoken')}", f"sig={plant('querysignature')}"),
        *(f"code={plant('querycode')}", f"X-Amz-Signature={plant('queryamazon')}"),
        f"subscription-key={plant('querysubscription')}&x={plant('queryother')}",
    ]
)
BODY: dict[str, Any] = {
    "model": "m-1",
    "messages": [{"role": "user", "content": "hi"}],
    "data_sources": [
        {
            "type": "azure_search",
            "parameters": {
                "endpoint": "https://search.example",
                "authentication": {"type": "api_key", "key": plant("azure")},
                "embedding_dependency": {"authentication": {"api_key": plant("azureembedding")}},
            },
        }
    ],
    "tools": [
        {
            "type": "mcp",
            "server_label": "acme",
            "server_url": f"https://user:{plant('mcpuser')}@mcp.example/?api_key={plant('mcpquery')}",
            "authorization": plant("mcpauthorization"),
            "headers": {"Authorization": f"Bearer {plant('mcpheader')}", "X-Acme": plant("mcpown")},
        },
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
    ],
    "api_key": plant("bodykey"),
}
OF_BODY = set(CANARY.findall(encode_json(BODY)))
INBOUND, HELD = plant("inbound"), plant("held")


def head_of(**more: str) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in {**HEADERS, **more}.items()).encode()


async def quote(connection: Connection) -> None:
    """An upstream that refuses, and quotes all that it was sent."""
    quoted = connection.head.decode("latin-1") + connection.body.decode()
    answer = encode_json({"error": {"message": quoted, "type": "x", "param": quoted}})
    await connection.answer(answer.encode(), status=b"401 Unauthorized")


def found(text: object) -> set[str]:
    return set(CANARY.findall(str(text)))


@pytest.mark.parametrize("script", [quote, Connection.answer])
@pytest.mark.parametrize("guarded", [False, True], ids=["open", "guarded"])
async def test_no_credential_is_recorded_or_logged(
    script: Any, guarded: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In no frame but that of the body itself, no span, no line; what is relayed has them all."""
    monkeypatch.setenv("HELD_KEY", HELD)
    caplog.set_level(logging.DEBUG)
    more = {"X-Spantap-Key": INBOUND} if guarded else {}
    settings: dict[str, Any] = {"inbound_keys": (INBOUND,)} if guarded else {}
    async with ScriptedUpstream(script) as upstream:
        if guarded:
            table = UpstreamConfig(name="held", url=upstream.url, api_key_env="HELD_KEY")
            settings["upstreams"] = (table,)
        async with running_proxy(upstream.url, **settings) as running:
            target = f"/v1/chat/completions?{QUERY}".encode()
            body = encode_json(BODY).encode()
            answer = await ask(
                running.address, request_bytes(body, target=target, head=head_of(**more))
            )
            exchange = await running.sink.wait_for()
        sent = upstream.last
    # What is the upstream's reached it, and what it said of that the client.
    assert found(sent.body.decode()) == OF_BODY
    expected = found(head_of().decode()) - {"proxy", "metadata"}  # which are not the upstream's
    if guarded:
        expected = expected - {"authorization", "apikey", "xapikey", "google"} | {"held"}
    assert found(sent.head.decode()) == expected | found(QUERY)
    if script is quote:
        assert found(answer.body.decode()) == expected | found(QUERY) | OF_BODY
        assert REDACTED in str(exchange.error_body)
    # What is recorded holds none of it.
    for frame in running.sink.frames:
        if not isinstance(frame, RequestBody):
            assert found(frame) <= OF_BODY  # masked when the span is made
    assert found(tell_span(exchange)) == set()
    assert found(caplog.text) == set()


NOT_RECORDED = {
    "Set-Cookie": f"session={plant('cookie')}",
    "OpenAI-Organization": plant("organization"),
    "OpenAI-Project": plant("project"),
    "anthropic-organization-id": plant("organizationid"),
    "X-Forwarded-For": plant("address"),
    "Via": plant("via"),
    "x-codex-turn-state": plant("state"),
    "X-Acme": plant("unheardof"),
}
"""Fields of either head that are on no list."""


@pytest.mark.parametrize("setting", ["default", "none", "x-team"])
async def test_fields_of_heads_hold_no_secret(
    setting: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither one that is on no list, nor a key that a listed one quotes, repeats or looks like."""
    caplog.set_level(logging.DEBUG)
    key = plant("authorization")
    others = "".join(f"{name}: {value}\r\n" for name, value in NOT_RECORDED.items())
    looks_like = f"sk-{plant('form')}"
    listed = f"X-Request-Id: r-{key}\r\nX-Request-Id: {looks_like}\r\n" * 20
    listed += f"User-Agent: \xe9 {looks_like}\r\nServer-Timing: a;desc=\xfc{key}\r\n"
    said = (others + listed).encode("latin-1")

    async with (
        ScriptedUpstream(lambda one: one.answer(head=said)) as upstream,
        running_proxy(upstream.url, record_headers=(setting,)) as running,
    ):
        head = f"Authorization: Bearer {key}\r\n".encode() + said
        answer = await ask(running.address, request_bytes(head=head))
        exchange = await running.sink.wait_for()
    assert answer.status == 200
    assert found(answer.raw.decode("latin-1")) >= found(others), "it is relayed as it came"
    assert found(exchange.heads) == found(caplog.text) == set()
    # The program and the id of the call are shown as they came, unless a pattern finds something.
    assert found(tell_span(exchange)) <= {"form"}


async def test_our_own_errors_hold_no_credential(caplog: pytest.LogCaptureFixture) -> None:
    """Refused for its key, for its form, or for want of an upstream."""
    caplog.set_level(logging.DEBUG)
    target = f"/v1/chat/completions?{QUERY}".encode()
    good = head_of(**{"X-Spantap-Key": INBOUND})
    wrong = head_of(**{"X-Spantap-Key": plant("wrong")})
    async with ScriptedUpstream(Connection.answer) as upstream:
        unreachable = upstream.url
    async with running_proxy(unreachable, inbound_keys=(INBOUND,)) as running:
        for status, request in (
            (502, request_bytes(encode_json(BODY).encode(), target=target, head=good)),
            (401, request_bytes(encode_json(BODY).encode(), target=target, head=wrong)),
            (400, request_bytes(target=target, head=good + b"X-A : 1\r\n")),
            (400, request_bytes(target=b"http://h" + target, head=good)),
        ):
            answer = await ask(running.address, request)
            assert answer.status == status
            assert found(answer.raw) == set()
            assert answer.error["message"]
    [exchange] = running.sink.exchanges
    assert found(tell_span(exchange)) == set()
    assert found(caplog.text) == set()


def test_settings_show_no_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither when they are shown, nor when a URL with a user is refused."""
    monkeypatch.setenv("HELD_KEY", HELD)
    table = UpstreamConfig(name="held", url="https://h", api_key_env="HELD_KEY")
    settings = Settings(upstreams=(table,), inbound_keys=(INBOUND,))
    assert found(f"{settings!r} {settings} {settings.model_dump_json()}") == set()
    with pytest.raises(ValueError, match="api_key_env") as caught:
        Settings(upstream=f"https://user:{plant('userinfo')}@h")
    assert found(caught.value) == set()
