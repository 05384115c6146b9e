"""Keys that providers quote are kept out of what is recorded (R7)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.credentials import (
    MASK,
    MAX_QUERY_CREDENTIALS,
    CredentialMask,
    find_credentials,
)
from proxy.routes import UpstreamConfig
from tests.proxy.harness import Connection, ScriptedUpstream, ask, request_bytes, running_proxy

KEY = b"sk-planted-canary"


@pytest.mark.parametrize(
    ("headers", "target", "found"),
    [
        (((b"Authorization", b"Bearer " + KEY),), "/", (b"Bearer " + KEY, KEY)),
        (((b"API-KEY", KEY), (b"X-Other", b"something long")), "/", (KEY,)),
        ((), "/v1?a=b&key=sk-planted%2Dcanary", (b"sk-planted%2Dcanary", KEY)),
        ((), "/v1?api_key=short", ()),
        ((), "/v1?monkey=sk-planted-canary&api-version=2024-10-21&keyword=something", ()),
        ((), "/v1?a=b&X-Amz-Security-Token=sk-planted-canary#x", (KEY,)),
        ((), "/v1?accessToken=sk-planted-canary&sig=AAAAAAAA", (KEY, b"AAAAAAAA")),
        (
            ((b"Cookie", b"a=b; session=" + KEY),),
            "/",
            (b"a=b; session=" + KEY, b"session=" + KEY, KEY),
        ),
    ],
)
def test_credentials_are_found_where_providers_take_them(
    headers: tuple[tuple[bytes, bytes], ...], target: str, found: tuple[bytes, ...]
) -> None:
    """In headers of known names and query members of known names, escaped or not."""
    assert find_credentials(headers, target) == found


def test_of_a_query_so_many_credentials_are_looked_for() -> None:
    """A hostile one has thousands, and each costs time in every read of an error (R5)."""
    query = "&".join(f"key=canary-{number:05}" for number in range(5_000))
    assert len(find_credentials(((b"Api-Key", KEY),), f"/?{query}")) == MAX_QUERY_CREDENTIALS + 1


@given(st.lists(st.integers(0, 60)))
def test_they_are_masked_however_the_body_is_cut(cuts: list[int]) -> None:
    """And nothing else is changed."""
    body = b"wrong key " + KEY + b" and again " + KEY + KEY + b"!"
    mask = CredentialMask((b"Bearer " + KEY, KEY))
    edges = [0, *sorted(cuts), len(body)]
    pieces = [mask.feed(body[a:b]) for a, b in pairwise(edges)]
    assert b"".join([*pieces, mask.finish()]) == body.replace(KEY, MASK)


@pytest.mark.parametrize("status", [b"401 Unauthorized", b"500 Oops"])
async def test_a_quoted_key_reaches_the_client_and_no_record(status: bytes) -> None:
    """The bytes are relayed as they are (R1); no frame holds the key."""
    body = b'{"error":{"message":"Incorrect API key provided: ' + KEY + b'","type":"x"}}'

    async def script(connection: Connection) -> None:
        await connection.answer(body, status=status)

    async with ScriptedUpstream(script) as upstream, running_proxy(upstream.url) as running:
        request = request_bytes(
            target=b"/v1/chat/completions?key=" + KEY,
            head=b"Authorization: Bearer " + KEY + b"\r\n",
        )
        answer = await ask(running.address, request)
        exchange = await running.sink.wait_for()
    assert answer.body == body
    assert exchange.error_message == "Incorrect API key provided: [credential]"
    assert KEY.decode() not in repr(running.sink.frames)
    assert KEY.decode() not in repr(exchange)


async def test_the_key_that_the_proxy_holds_replaces_the_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In its place, on observed and other paths; it is in no frame, even if the upstream quotes it.

    R1's closed list: ``Authorization`` when we hold the key.
    """
    monkeypatch.setenv("DEMO_KEY", KEY.decode())

    async def script(connection: Connection) -> None:
        await connection.answer(b"bad " + KEY, status=b"401 Unauthorized")

    async with ScriptedUpstream(script) as upstream:
        held = UpstreamConfig(name="held", url=upstream.url, api_key_env="DEMO_KEY")
        async with running_proxy(upstream.url, upstreams=(held,)) as running:
            for target in (b"/v1/chat/completions", b"/v1/models"):
                head = b"X-A: 1\r\nauthorization: Bearer client\r\nX-B: 2\r\n"
                await ask(running.address, request_bytes(target=target, head=head))
                names = [name for name, _ in upstream.last.fields]
                assert names.index(b"Authorization") == names.index(b"X-A") + 1
                assert upstream.last.field(b"authorization") == b"Bearer " + KEY
            await running.sink.wait_for()
    assert KEY.decode() not in repr(running.sink.frames)
