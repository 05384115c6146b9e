"""Who is observed, what of a head is copied, and what the upstream is told."""

from __future__ import annotations

import pytest

from telemetry.conversation_position import ConversationForm
from telemetry.frames.frame import Begin
from telemetry.observing.exchange import Outcome
from telemetry.spans.keep_rules import KeepReason
from tests.proxy.harness import ANSWER, relaying, request_bytes
from tests.proxy.raw_client import ask
from tests.telemetry.exchanges import build_exchange_attributes

UNSAMPLED = b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00\r\n"


async def test_an_unsampled_call_is_relayed_and_not_observed() -> None:
    """``docs/contract/spans.md#sampling``: the caller's decision is followed, and passed on."""
    async with relaying() as (upstream, proxy):
        seen = await ask(proxy.address, request_bytes(head=UNSAMPLED))
        assert seen.body == ANSWER
        value = upstream.last.field(b"traceparent")
        assert value is not None
        assert value.endswith(b"-00")
        assert not proxy.sink.frames


async def test_with_keep_rules_an_unsampled_call_is_observed() -> None:
    """Only its end can tell; what the upstream is told stays "not sampled"."""
    async with relaying(keep=frozenset({KeepReason.ERRORS})) as (upstream, proxy):
        await ask(proxy.address, request_bytes(head=UNSAMPLED))
        exchange = await proxy.sink.wait_for(1)
        assert not exchange.identity.sampled
        value = upstream.last.field(b"traceparent")
        assert value is not None
        assert value == exchange.identity.traceparent.encode()
        assert value.endswith(b"-00")


@pytest.mark.parametrize(
    ("head", "form", "is_observed"),
    [
        (b"", ConversationForm.RUNS, True),
        (b"", ConversationForm.OFF, False),
        (UNSAMPLED, ConversationForm.RUNS, False),
    ],
)
async def test_with_a_ratio_calls_are_observed_for_their_conversations(
    monkeypatch: pytest.MonkeyPatch, head: bytes, form: ConversationForm, *, is_observed: bool
) -> None:
    """C14: they may go on from one that is recorded; where a caller decided, that stands."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "1e-15")
    async with relaying(conversations_as=form) as (upstream, proxy):
        await ask(proxy.address, request_bytes(head=head))
        value = upstream.last.field(b"traceparent")
        assert value is not None
        assert value.endswith((b"-00", b"-02"))
        if is_observed:
            await proxy.sink.wait_for(1)
        assert bool(proxy.sink.frames) is is_observed


async def test_headers_of_the_map_reach_the_observer_and_the_upstream() -> None:
    """All but ours go on, in their place; nothing else of the head is copied (R7)."""
    head = (
        b"X-Session-Id: s-1\r\nX-Chat: c\r\nX-Spantap-User-Id: u-1\r\n"
        b"Helicone-Property-App: a\r\nAuthorization: Bearer sk-secret\r\nX-Other: o\r\n"
    )
    async with relaying(headers={"x-chat": "metadata.chat"}) as (upstream, proxy):
        await ask(proxy.address, request_bytes(head=head))
        exchange = await proxy.sink.wait_for(1)
        begin = proxy.sink.frames[0]
    assert isinstance(begin, Begin)
    relayed = [name for name, _ in upstream.last.fields]
    for name in (b"X-Session-Id", b"X-Chat", b"Helicone-Property-App", b"X-Other"):
        assert name in relayed
    assert b"X-Spantap-User-Id" not in relayed
    assert dict(begin.headers).keys() == {
        "content-type",
        "x-session-id",
        "x-chat",
        "x-spantap-user-id",
        "helicone-property-app",
    }
    # The harness's observer has the default map.
    assert (exchange.context.session_id, exchange.context.user_id) == ("s-1", "u-1")
    assert exchange.context.metadata == {"app": "a"}


async def test_who_called_reaches_the_observer_and_the_upstream() -> None:
    """The program, its attempt, and the path without our own prefix and without the query."""
    head = b"User-Agent: OpenAI/Python 2.8.0\r\nX-Stainless-Retry-Count: 2\r\n"
    target = b"/~run/app~~1/v1/chat/completions?key=k-0123456789"
    async with relaying() as (upstream, proxy):
        await ask(proxy.address, request_bytes(head=head, target=target))
        exchange = await proxy.sink.wait_for(1)
        assert upstream.last.field(b"user-agent") == b"OpenAI/Python 2.8.0"
        assert upstream.last.field(b"x-stainless-retry-count") == b"2"
    assert (exchange.user_agent, exchange.client_retry) == ("OpenAI/Python 2.8.0", 2)
    attributes = build_exchange_attributes(exchange)
    assert attributes["user_agent.original"] == "OpenAI/Python 2.8.0"
    assert attributes["url.path"] == "/v1/chat/completions"


async def test_a_prefix_of_the_map_copies_no_credential() -> None:
    """R7: not even into this process' memory."""
    head = b"X-Api-Key: sk-1\r\nX-Auth-Token: t\r\nX-Team: blue\r\nX-Portkey-Virtual-Key: v\r\n"
    async with relaying(headers={"x-*": "metadata.*"}) as (_, proxy):
        await ask(proxy.address, request_bytes(head=head))
        await proxy.sink.wait_for(1)
        begin = proxy.sink.frames[0]
    assert isinstance(begin, Begin)
    assert [name for name, _ in begin.headers] == ["content-type", "x-team"]


async def test_an_embedding_call_is_observed_and_never_rewritten() -> None:
    """There is no usage option to ask for (``docs/contract/spans.md#usage-policy``)."""
    body = b'{"model":"e","input":"hi","stream":true}'

    async with relaying(
        lambda c: c.answer(b'{"data":[{"index":0,"embedding":[1]}],"model":"e-1"}')
    ) as (upstream, proxy):
        await ask(proxy.address, request_bytes(body, target=b"/v1/embeddings"))
        exchange = await proxy.sink.wait_for(1)
    assert upstream.last.body == body
    assert exchange.endpoint == "embeddings"
    assert exchange.outcome is Outcome.COMPLETED
    assert exchange.anomalies == ("no_usage",)


@pytest.mark.parametrize("name", ["x-ratelimit-limit-tokens", "Retry-After", "RateLimit-Policy"])
async def test_rate_limit_headers_are_observed(name: str) -> None:
    """And nothing that is none."""
    async with relaying(
        lambda c: c.answer(ANSWER, head=f"{name}: 7\r\nSet-Cookie: s\r\n".encode())
    ) as (_, proxy):
        await ask(proxy.address, request_bytes())
        exchange = await proxy.sink.wait_for(1)
    assert exchange.rate_limits == {name.lower(): "7"}
