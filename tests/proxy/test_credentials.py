"""Keys that providers quote are kept out of what is recorded (R7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.credentials import MASK, find_credentials, mask_credentials
from proxy.settings import UpstreamConfig
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


def mask(text: bytes, *credentials: bytes, is_whole: bool = True) -> bytes:
    return mask_credentials(text, credentials, is_whole=is_whole)


SIGNS = b"sk-SECRET/abc+def="
ESCAPED = {
    "as it stands": SIGNS,
    "slashes": rb"sk-SECRET\/abc+def=",
    "code points": rb"sk-SECRET/abc\u002bdef\u003D",
    "all code points": b"".join(rb"\u%04x" % byte for byte in SIGNS),
    "of a URL": b"sk-SECRET%2Fabc%2bdef%3D",
    "mixed": rb"sk-SECRET\/abc%2Bdef\u003d",
    "in a text in a text": rb"sk-SECRET\\\/abc\\\\u002bdef=",
    "of a URL in JSON": rb"sk-SECRET\%2Fabc+def=",
}


@pytest.mark.parametrize("quoted", ESCAPED.values(), ids=ESCAPED)
def test_rule_1_a_credential_is_masked_with_its_escapes(quoted: bytes) -> None:
    """Whether it came with escapes itself or not; what stands around it stays, byte by byte."""
    text = rb'{"a\/b": "C:\\d %%s\n'
    for credential in (SIGNS, b"sk-SECRET%2Fabc%2Bdef%3D", rb"sk-SECRET\/abc+def="):
        found = mask(text + quoted + rb'\"\u002f%41."}', credential)
        assert found == text + MASK + rb'\"\u002f%41."}'


@pytest.mark.parametrize(
    ("text", "credential"),
    [
        (b"100%abcdef0123456789", b"abcdef0123456789"),
        (rb"\nnot-so-short", b"not-so-short"),
        (b"ends in backslash\\\\", b"backslash\\"),
        (b"ends in backslash\\", b"backslash\\"),
    ],
)
def test_rule_1_what_only_looks_like_an_escape_hides_none(text: bytes, credential: bytes) -> None:
    """A sign before a credential may seem to take some of it."""
    masked = mask(text, credential)
    assert MASK in masked
    assert credential.rstrip(b"\\") not in masked


def test_rule_1_what_has_no_eight_bytes_without_escapes_is_no_credential() -> None:
    """``%41%41%41`` is no key, and ``AAA`` stands in many a text."""
    assert mask(b"AAA, %41%41%41", b"%41%41%41") == b"AAA, " + MASK
    assert mask(b"nothing \\\\ here", b"\\" * 9) == b"nothing \\\\ here"


def test_rule_2_nothing_is_left_of_credentials_that_overlap() -> None:
    """One in another, one that begins as another does, one that begins within another."""
    found = mask(b"<abcdefghIJKLMNOP> <abcdefgh>", b"abcdefgh", b"abcdefghIJKLMNOP")
    assert found == b"<" + MASK + b"> <" + MASK + b">"
    assert mask(b"<abcdefghIJKL>", b"efghIJKL", b"abcdefgh") == b"<" + MASK + b">"
    assert mask(KEY + KEY, KEY) == MASK


@given(st.integers(0, 200), st.sampled_from([*ESCAPED.values()]))
def test_rule_3_of_a_text_that_is_cut_no_part_of_a_credential_is_left(
    end: int, quoted: bytes
) -> None:
    """Wherever it is cut, within an escape too."""
    text = b"the key <" + quoted + b"> is wrong, and so is <" + quoted + b">, says the server"
    masked = mask(text[:end], SIGNS, KEY, is_whole=False)
    assert (b"the key <" + MASK + b"> is wrong, and so is <" + MASK + b">, sa").startswith(masked)


@given(
    st.text("\\u0a2f%/", max_size=60).map(str.encode),
    st.lists(st.text("\\u0a2f%/", min_size=8, max_size=12).map(str.encode), max_size=3),
    st.booleans(),
)
def test_whatever_comes_nothing_is_raised_and_none_is_left(
    text: bytes, credentials: list[bytes], is_whole: bool
) -> None:
    """A mask is no credential, so neither is what is around it."""
    masked = mask(text, *credentials, is_whole=is_whole)
    for part in masked.split(MASK):
        assert not any(value in part for value in credentials)


def test_rule_4_backslashes_without_end_are_passed_over_once() -> None:
    """A pattern that went back would take minutes for them."""
    text = b"\\" * 1_000_000
    assert mask(text, KEY) == text
    assert mask(text + KEY, KEY) == MASK
    assert mask(text, KEY, is_whole=False) == b""


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
