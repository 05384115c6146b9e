"""What of a head telemetry is told as what may be a credential (R7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.headers import Head
from proxy.relay.credentials import gather_fields
from proxy.settings.tables import UpstreamConfig
from telemetry.frames.frame import Begin
from telemetry.observing.encryption import OWN_CIPHER
from tests.proxy.harness import ScriptedUpstream, request_bytes, running_proxy
from tests.proxy.raw_client import ask

if TYPE_CHECKING:
    import pytest

KEY = b"sk-planted-canary"


def gather(*headers: tuple[bytes, bytes], target: str = "/", held: bytes = b"") -> bytes:
    ours = [(b"Authorization", held)] if held else []
    return gather_fields(Head(headers), target, ours, (frozenset({b"x-said"}), (b"x-say-",)))


def test_fields_that_are_neither_harmless_nor_recorded_are_gathered() -> None:
    """And those that a prefix would record but for their names, our own key, and the query."""
    assert (
        gather((b"Host", b"h"), (b"Accept", b"*/*"), (b"X-Said", b"1"), (b"X-Say-A", b"2")) == b""
    )
    assert gather((b"X-API-Key", KEY), (b"X-Acme", b"a:b"), (b"X-Say-Token", b"t")) == (
        b"x-api-key:%b\nx-acme:a:b\nx-say-token:t" % KEY
    )
    assert gather((b"Baggage", b"apikey=" + KEY)) == b"baggage:apikey=" + KEY
    assert gather(target="/v1?a=\udcff&b", held=KEY) == b"authorization:%b\n?:a=\xff&b" % KEY


async def test_the_key_that_the_proxy_holds_replaces_the_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In its place, on observed and other paths; it is in no frame, even if the upstream quotes it.

    R1's closed list: ``Authorization`` when we hold the key.
    """
    monkeypatch.setenv("DEMO_KEY", KEY.decode())

    async with ScriptedUpstream(
        lambda c: c.answer(b"bad " + KEY, status=b"401 Unauthorized")
    ) as upstream:
        held = UpstreamConfig(name="held", url=upstream.url, api_key_env="DEMO_KEY")
        async with running_proxy(upstream.url, upstreams=(held,)) as running:
            for target in (b"/v1/chat/completions", b"/v1/models"):
                head = b"X-A: 1\r\nauthorization: Bearer client\r\nX-B: 2\r\n"
                await ask(running.address, request_bytes(target=target, head=head))
                names = [name for name, _ in upstream.last.fields]
                assert names.index(b"Authorization") == names.index(b"X-A") + 1
                assert upstream.last.field(b"authorization") == b"Bearer " + KEY
            exchange = await running.sink.wait_for()
    assert KEY.decode() not in repr(running.sink.frames) + repr(exchange)
    begin = running.sink.frames[0]
    assert isinstance(begin, Begin)
    assert KEY in (OWN_CIPHER.decrypt(begin.encrypted) or b"")
