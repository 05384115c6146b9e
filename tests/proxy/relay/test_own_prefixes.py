"""Spantap's own prefixes of paths, over real sockets: whose launch a call is, and where it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.settings.settings import Settings
from proxy.settings.tables import UpstreamConfig
from proxy.upstream.owners import Owner
from proxy.upstream.passes import write_pass
from telemetry.launch_labels import MAX_NAME_CHARS, build_label
from telemetry.observing.encryption import KEY_BYTES, OWN_CIPHER, Cipher
from tests.proxy.canary_keys import KEY
from tests.proxy.harness import ScriptedUpstream, relaying, request_bytes
from tests.proxy.own_providers import providers
from tests.proxy.raw_client import ask
from tests.proxy.recorded_calls import tell_span

if TYPE_CHECKING:
    from tests.proxy.harness import RunningProxy

RUN = b"/~run/app~~1"


def give_pass(url: str) -> bytes:
    """The prefix that leads to a base URL."""
    return b"/~to/" + write_pass(url, OWN_CIPHER).encode()


async def tags_of(running: RunningProxy) -> tuple[str, ...]:
    """The tags of the one call that was observed."""
    return (await running.sink.wait_for()).context.tags


@pytest.mark.parametrize(
    "target",
    [
        b"/v1/chat/completions",
        b"/v1/chat/completions?a=%2F&b=/~run/x",
        b"//v1//chat/completions",
        b"/v1/%7Erun/../chat/completions",
    ],
)
async def test_the_upstream_gets_the_request_as_without_a_prefix(target: bytes) -> None:
    """Byte for byte (R1), and so does the record."""
    heard = []
    for prefix in (b"", RUN, b"/~run/a%20b", b"/~run/"):
        async with relaying(propagate=False) as (upstream, running):
            await ask(running.address, request_bytes(target=prefix + target))
            exchange = await running.sink.wait_for()
            fields = [field for field in upstream.last.fields if field[0].lower() != b"host"]
            line, body = upstream.last.request_line, upstream.last.body
            heard.append((line, fields, body, exchange.path, exchange.endpoint))
    assert heard[0][0].split(b" ")[1] == target
    assert heard == heard[:1] * 4


@pytest.mark.parametrize(
    ("segment", "tags", "label"),
    [
        (b"app", ("app",), "app"),
        (b"app~~4f2a", ("app",), "app~~4f2a"),
        (b"my%20job", ("my job",), "my~20job"),
        (b"..", ("..",), "~2E."),
        (b"%2e%2e%2fetc", ("../etc",), "~2E.~2Fetc"),
        (b"%00%1b[2J", ("\x00\x1b[2J",), "~00~1B~5B2J"),
        (b"%ff%C3", ("\ufffd\ufffd",), "~EF~BF~BD~EF~BF~BD"),
        (b"", (), ""),
        (b"~~7", (), ""),
        (b"x" * 20_000, ("x" * MAX_NAME_CHARS,), "x" * MAX_NAME_CHARS),
    ],
)
async def test_a_hostile_name_is_a_tag_and_nothing_else(
    segment: bytes, tags: tuple[str, ...], label: str
) -> None:
    """Bounded, and the label has no character that means anything to anybody."""
    async with relaying() as (upstream, running):
        target = b"/~run/%b/v1/chat/completions" % segment
        assert (await ask(running.address, request_bytes(target=target))).status == 200
        exchange = await running.sink.wait_for()
    assert upstream.last.request_line == b"POST /v1/chat/completions HTTP/1.1"
    assert (exchange.context.tags, exchange.launch) == (tags, label)
    assert "~run" not in tell_span(exchange)


@pytest.mark.parametrize("target", [b"/~run", b"/~run?x", b"/~RUN/app/v1", b"/v1/~run/app", b"/~"])
async def test_what_only_looks_like_a_prefix_is_the_upstreams(target: bytes) -> None:
    """As it is."""
    async with relaying() as (upstream, running):
        await ask(running.address, request_bytes(target=target))
    assert upstream.last.request_line.split(b" ")[1] == target


async def test_a_bare_prefix_is_the_root() -> None:
    """Claude Code asks for its base URL itself."""
    async with relaying() as (upstream, running):
        await ask(running.address, request_bytes(b"", target=RUN + b"?x=1", method=b"HEAD"))
    assert upstream.last.request_line == b"HEAD /?x=1 HTTP/1.1"


async def test_a_header_s_tags_stand_behind_the_run() -> None:
    """All of them are the call's."""
    async with relaying() as (_, running):
        head = b"x-spantap-tags: a, b\r\n"
        target = RUN + b"/v1/chat/completions"
        await ask(running.address, request_bytes(target=target, head=head))
        assert await tags_of(running) == ("app", "a", "b")


async def test_tables_work_behind_the_prefix() -> None:
    """The longest prefix wins there, too."""
    async with ScriptedUpstream(lambda it: it.answer()) as other:
        tables = (UpstreamConfig(name="other", url=f"{other.url}/x", prefix="/other"),)
        async with relaying(upstreams=tables) as (upstream, running):
            target = RUN + b"/other/v1/chat/completions"
            await ask(running.address, request_bytes(target=target))
            assert await tags_of(running) == ("app",)
    assert other.last.request_line.split(b" ")[1] == b"/x/v1/chat/completions"
    assert not upstream.requests


@pytest.mark.parametrize(
    ("target", "head", "heard"),
    [
        ("/v1/messages", "", (Owner.ANTHROPIC, "/v1/messages")),
        ("/messages?beta=true", "anthropic-version: 1\r\n", (Owner.ANTHROPIC, "/v1/messages")),
        ("/messages", "", (Owner.OPENAI, "/messages")),
        ("/api/chat", "", (Owner.OLLAMA, "/api/chat")),
    ],
)
async def test_owners_work_behind_the_prefix(
    target: str, head: str, heard: tuple[Owner, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Vercel AI SDK's clients of Anthropic's leave ``/v1`` out of the path."""
    async with providers(monkeypatch) as (running, calls):
        request = request_bytes(b"{}", target=RUN + target.encode(), head=head.encode())
        await ask(running.address, request)
    [(owner, path, _)] = calls
    assert (owner, path.partition("?")[0]) == heard


@pytest.mark.parametrize("place", ["", "key"])
async def test_inbound_keys_open_behind_the_prefix(place: str) -> None:
    """And nothing opens without; a wrong pass tells no more than that."""
    query = f"?key={KEY}" if place == "key" else ""
    head = b"" if place == "key" else b"x-api-key: %b\r\n" % KEY.encode()
    async with relaying(inbound_keys=(KEY,)) as (upstream, running):
        target = RUN + f"/v1/chat/completions{query}".encode()
        answer = await ask(running.address, request_bytes(target=target, head=head))
        assert (answer.status, await tags_of(running)) == (200, ("app",))
        assert KEY.encode() not in upstream.last.head
        for wrong in (RUN, b"/~to/x", RUN + give_pass(upstream.url)):
            answer = await ask(running.address, request_bytes(target=wrong + b"/v1/models"))
            assert answer.status == 401
    assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    ("base", "target", "there"),
    [
        ("", b"/v1/messages", b"/v1/messages"),
        ("/openai/v1", b"/chat/completions?x=%2F", b"/openai/v1/chat/completions?x=%2F"),
        ("/v1", b"/v1/chat/completions", b"/v1/v1/chat/completions"),
        ("/v1/", b"/chat/completions", b"/v1/chat/completions"),
    ],
)
@pytest.mark.parametrize("run", [b"", RUN])
async def test_a_pass_leads_to_its_base_url_and_what_follows_is_appended(
    base: str, target: bytes, there: bytes, run: bytes
) -> None:
    """As if the client had had it (R1): nothing is joined, whatever the settings' upstream."""
    async with (
        ScriptedUpstream(lambda it: it.answer()) as other,
        relaying() as (upstream, running),
    ):
        target = run + give_pass(other.url + base) + target
        assert (await ask(running.address, request_bytes(target=target))).status == 200
        exchange = await running.sink.wait_for()
    assert other.last.request_line.split(b" ")[1] == there
    assert other.last.field(b"host") == other.url.removeprefix("http://").encode()
    assert not upstream.requests
    assert exchange.server_port == other.address[1]
    assert "~to" not in tell_span(exchange)


async def test_a_pass_that_was_not_written_here_leads_nowhere() -> None:
    """No request can name where it goes: not by another key, nor by a changed letter."""
    async with (
        ScriptedUpstream(lambda it: it.answer()) as other,
        relaying() as (upstream, running),
    ):
        good = give_pass(other.url)
        foreign = write_pass(other.url, Cipher(b"k" * KEY_BYTES)).encode()
        frame = OWN_CIPHER.encrypt(other.url.encode()).hex().encode()
        changed = good[:-3] + bytes([good[-3] ^ 1]) + good[-2:]
        for wrong in (b"/~to/" + foreign, changed, b"/~to/", b"/~to/%2F", b"/~to/" + frame):
            answer = await ask(running.address, request_bytes(target=wrong + b"/v1/models"))
            assert (answer.status, b"unknown_base_url" in answer.body) == (404, True)
        assert other.requests + upstream.requests == []


@pytest.mark.parametrize("prefix", ["/~run/x", "/~to/x"])
def test_no_table_takes_a_prefix_of_spantaps_own(prefix: str) -> None:
    """It could never be reached."""
    with pytest.raises(ValueError, match="begins like spantap's own prefixes"):
        Settings(upstreams=(UpstreamConfig(name="a", url="http://h", prefix=prefix),))


def test_a_long_name_leaves_room_in_a_head() -> None:
    """The label of any name is a small part of the longest target that is taken."""
    assert len(build_label("\U0001f600" * 10_000, "1" * 16)) < 1024
