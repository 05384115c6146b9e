"""Keys of our own: read, compared, asked for, and never passed on (R7)."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from proxy.configuration_error import ConfigurationError
from proxy.inbound_keys import (
    MAX_FILE_BYTES,
    MAX_KEYS,
    InboundKeys,
    explain_exposed_keys,
    hash_keys,
    read_inbound_keys,
)
from proxy.routes import UpstreamConfig
from proxy.settings import Settings, load_settings
from telemetry.frames import Begin
from tests.proxy.harness import ANSWER, Connection, ScriptedUpstream, ask, request_bytes
from tests.proxy.listener import running_listener

if TYPE_CHECKING:
    from pathlib import Path

KEY = "inbound-canary-0123456789"
OTHER = "another-canary-0123456789"
DIGEST = hashlib.sha256(KEY.encode()).hexdigest()
HASHED = f"sha256:{DIGEST}"
OWN = b"sk-the-clients-own"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPANTAP_CONFIG", "SPANTAP_INBOUND_KEYS", "SPANTAP_INBOUND_KEYS_FILE"):
        monkeypatch.delenv(name, raising=False)


def read(**settings: Any) -> InboundKeys:
    keys = read_inbound_keys(Settings(**settings))
    assert keys is not None
    return keys


def opens(keys: InboundKeys, key: str) -> bool:
    return bool(keys.find_carriers(((b"x-spantap-key", key.encode()),)))


# Reading them


def test_without_keys_everybody_is_let_in() -> None:
    """The default: there is nothing to check against."""
    assert read_inbound_keys(Settings()) is None


@pytest.mark.parametrize("entry", [KEY, HASHED, f"sha256:{DIGEST.upper()}", f"  {KEY} "])
def test_a_key_may_be_given_plain_or_hashed(entry: str) -> None:
    """Rule 1; either way the same digest is kept, and reading it again changes nothing."""
    settings = Settings(inbound_keys=(entry,))
    assert settings.inbound_keys == (HASHED,)
    assert hash_keys(settings.inbound_keys) == settings.inbound_keys
    assert opens(read(inbound_keys=[entry]), KEY)


def test_keys_of_the_environment_are_a_comma_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """``SPANTAP_INBOUND_KEYS``."""
    monkeypatch.setenv("SPANTAP_INBOUND_KEYS", f"{KEY}, {OTHER},")
    keys = read_inbound_keys(load_settings())
    assert keys is not None
    assert opens(keys, KEY)
    assert opens(keys, OTHER)


def test_keys_of_a_file_stand_beside_them(tmp_path: Path) -> None:
    """One a line, comments and blank lines left out; all of them open."""
    file = tmp_path / "keys"
    file.write_text(f"# of the team\n\n{OTHER}\n  {HASHED}  \n")
    keys = read(inbound_keys=["a-third-key-0123456789"], inbound_keys_file=file)
    assert len(keys.digests) == 3
    assert all(opens(keys, key) for key in (KEY, OTHER, "a-third-key-0123456789"))


BAD_ENTRIES = {
    "short-canary": "at least 16",
    "": "at least 16",
    "a canary with white space": "printable ASCII",
    "canary-\u00e9-0123456789": "printable ASCII",
    "sha256:canary": "64 hexadecimal digits",
    f"sha256:{DIGEST}0": "64 hexadecimal digits",
}


@pytest.mark.parametrize(("entry", "words"), BAD_ENTRIES.items())
def test_a_wrong_key_is_told_by_its_number_alone(entry: str, words: str, tmp_path: Path) -> None:
    """Rule 4: neither the sentence nor what it was made of quotes the key."""
    config = tmp_path / "spantap.toml"
    config.write_text(f'inbound_keys = ["{KEY}", "{entry}"]', encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load_settings(config=str(config))
    assert str(caught.value).startswith("setting 'inbound_keys': entry 2 ")
    assert words in str(caught.value)
    assert "canary" not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.parametrize(
    "text",
    ["inbound_keys = 7", "inbound_keys = [7]", 'inbound_keys = ","', "inbound_keys = []"],
)
def test_what_is_no_list_of_keys_is_refused(text: str, tmp_path: Path) -> None:
    """Rule 5 among them: a variable or list that is there and holds no key."""
    config = tmp_path / "spantap.toml"
    config.write_text(text)
    with pytest.raises(ConfigurationError, match="setting 'inbound_keys'"):
        load_settings(config=str(config))


def test_an_empty_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 5: somebody meant to ask for a key, and nobody would be asked."""
    monkeypatch.setenv("SPANTAP_INBOUND_KEYS", "")
    with pytest.raises(ConfigurationError, match="let everybody in"):
        load_settings()


@pytest.mark.parametrize("entries", [[], (), "", " , "])
def test_rule_5_a_list_without_a_key_is_refused(entries: object) -> None:
    """Wherever it comes from."""
    with pytest.raises(ValueError, match="let everybody in"):
        Settings.model_validate({"inbound_keys": entries})


@pytest.mark.parametrize("settings", [{}, {"inbound_keys": [KEY]}])
def test_what_is_handed_from_process_to_process_means_the_same(settings: dict[str, Any]) -> None:
    """That there are no keys, too, and is not taken for an empty list."""
    first = Settings(**settings)
    second = Settings.model_validate_json(first.model_dump_json())
    assert second.inbound_keys == first.inbound_keys
    assert read_inbound_keys(second) == read_inbound_keys(first)


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_a_file_of_keys_that_is_no_regular_file_is_refused(kind: str, tmp_path: Path) -> None:
    """The start would wait for somebody who writes into the FIFO."""
    file = tmp_path / "keys"
    if kind == "fifo":
        os.mkfifo(file)
    else:
        file.mkdir()
    with pytest.raises(ConfigurationError) as caught:
        read(inbound_keys_file=file)
    assert str(caught.value) == f"setting 'inbound_keys_file': {file} is no regular file"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no key"),
        (b"# only words\n\n", "holds no key"),
        (b"# one\nshort-canary\n", "line 2 must be a key of at least 16"),
        (b"canary-\xff-0123456789", "line 1 must be printable ASCII"),
        (b"sha256:canary", "line 1 begins with 'sha256:'"),
        (b"#" * (MAX_FILE_BYTES + 1), "is larger than"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_wrong_file_is_told_by_its_line_alone(
    content: bytes | None, words: str, tmp_path: Path
) -> None:
    """Rules 4 and 5."""
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        read(inbound_keys_file=file)
    assert str(caught.value).startswith(f"setting 'inbound_keys_file': {file}")
    assert words in str(caught.value)
    assert "canary" not in str(caught.value)


def test_too_many_keys_are_refused() -> None:
    """Every request is compared with all of them (R5)."""
    entries = [f"{KEY}-{number}" for number in range(MAX_KEYS + 1)]
    assert len(read(inbound_keys=entries[1:]).digests) == MAX_KEYS
    with pytest.raises(ConfigurationError, match=f"more than {MAX_KEYS}"):
        read(inbound_keys=entries)


def test_neither_keys_nor_digests_are_shown() -> None:
    """Rule 1: in no representation, and a plain key nowhere at all."""
    settings = Settings(inbound_keys=(KEY,))
    shown = f"{settings!r} {settings!s} {read_inbound_keys(settings)!r}"
    assert KEY not in shown
    assert DIGEST not in shown
    assert KEY not in settings.model_dump_json()


# Comparing


def test_every_digest_is_compared_whether_one_fits_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rule 2: always by ``hmac.compare_digest``, and always all."""
    compared: list[bytes] = []

    def compare(digest: bytes, known: bytes) -> bool:
        compared.append(known)
        return digest == known

    monkeypatch.setattr("proxy.inbound_keys.hmac.compare_digest", compare)
    keys = read(inbound_keys=[KEY, OTHER, "a-third-key-0123456789"])
    for key in (KEY, OTHER, "none of them at all"):
        compared.clear()
        assert opens(keys, key) is (key in {KEY, OTHER})
        assert compared == list(keys.digests)


@pytest.mark.parametrize(
    ("headers", "carriers"),
    [
        ([(b"X-Spantap-Key", KEY)], {b"x-spantap-key"}),
        ([(b"authorization", f"Bearer {KEY}")], {b"authorization"}),
        ([(b"Authorization", f"bEARER   {KEY}")], {b"authorization"}),
        ([(b"API-Key", KEY)], {b"api-key"}),
        ([(b"x-api-key", OTHER)], {b"x-api-key"}),
        ([(b"x-api-key", KEY), (b"Authorization", f"Bearer {KEY}")],
         {b"x-api-key", b"authorization"}),
        ([(b"x-spantap-key", KEY), (b"Authorization", "Bearer own")], {b"x-spantap-key"}),
        ([(b"x-spantap-key", "wrong"), (b"api-key", KEY)], {b"api-key"}),
        ([(b"api-key", "wrong"), (b"api-key", KEY)], {b"api-key"}),
        ([], set()),
        ([(b"Authorization", KEY)], set()),
        ([(b"Authorization", f"Basic {KEY}")], set()),
        ([(b"Authorization", f"Bearer{KEY}")], set()),
        ([(b"Authorization", "Bearer")], set()),
        ([(b"x-spantap-key", f"Bearer {KEY}")], set()),
        ([(b"x-spantap-key", KEY[:-1])], set()),
        ([(b"x-spantap-key", f"{KEY}0")], set()),
        ([(b"x-spantap-key", HASHED)], set()),
        ([(b"x-spantap-key", DIGEST)], set()),
        ([(b"x-spantap-key", "")], set()),
        ([(b"x-goog-api-key", KEY)], set()),
        ([(b"Cookie", KEY)], set()),
    ],
)  # fmt: skip
def test_a_key_is_found_where_clients_send_keys(
    headers: list[tuple[bytes, str]], carriers: set[bytes]
) -> None:
    """Rule 3; every field that holds one is told. A digest opens nothing."""
    keys = read(inbound_keys=[KEY, OTHER])
    assert keys.find_carriers(tuple((n, v.encode()) for n, v in headers)) == carriers


# Asking for them


async def answer_whole(connection: Connection) -> None:
    """A script that answers."""
    await connection.answer()


def carried(name: str, key: str = KEY) -> bytes:
    value = f"Bearer {key}" if name == "Authorization" else key
    return f"{name}: {value}\r\n".encode()


REFUSED = {
    "no key": b"",
    "a wrong key": carried("Authorization", OTHER),
    "a wrong key of ours": carried("x-spantap-key", OTHER),
    "no bearer": b"Authorization: " + KEY.encode() + b"\r\n",
}
PATHS = [
    (b"POST", b"/v1/chat/completions"),
    (b"GET", b"/v1/models"),
    (b"OPTIONS", b"*"),
    (b"DELETE", b"/healthz?key=" + KEY.encode()),
]


@pytest.mark.parametrize("head", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize(("method", "target"), PATHS)
async def test_without_a_key_nothing_reaches_the_upstream(
    head: bytes, method: bytes, target: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """On every path: 401 in OpenAI's shape, counted, told in one line without the key."""
    caplog.set_level(logging.DEBUG, "spantap")
    async with ScriptedUpstream(answer_whole) as upstream:
        async with running_listener(upstream.url, inbound_keys=[KEY]) as running:
            for _ in range(3):
                request = request_bytes(b"", head=head, target=target, method=method)
                answer = await ask(running.address, request)
                assert answer.status == 401
                assert answer.clean
                assert answer.field(b"www-authenticate") == b"Bearer"
                assert answer.field(b"connection") == b"close"
                assert answer.error["code"] == "invalid_api_key"
                assert answer.error["type"] == "invalid_request_error"
                assert b"canary" not in answer.raw
            assert running.server.refused_count == 3
        assert upstream.connections == 0
    [record] = caplog.records
    assert record.getMessage() == "refused a request: no inbound key, or an unknown one"
    assert running.sink.frames == []


async def test_the_refusal_of_head_has_no_body() -> None:
    """RFC 9110 section 9.3.2."""
    async with running_listener("http://127.0.0.1:9", inbound_keys=[KEY]) as running:
        answer = await ask(running.address, request_bytes(b"", method=b"HEAD", target=b"/x"))
    assert answer.status == 401
    assert answer.body == b""


@pytest.mark.parametrize("head", [b"", b"Expect: 100-continue\r\n"])
async def test_a_large_body_is_not_waited_for(head: bytes) -> None:
    """The answer comes at once, no 100 before it, and it is not lost to what is still sent."""
    async with running_listener("http://127.0.0.1:9", inbound_keys=[KEY]) as running:
        reader, writer = await asyncio.open_connection(*running.address)
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: c\r\n%b"
            b"Content-Length: 1000000000\r\n\r\n{" % head
        )
        async with asyncio.timeout(5):
            status = await reader.readline()
            for _ in range(20):
                writer.write(b"x" * 100_000)
                await writer.drain()
            rest = await reader.read()
        writer.transport.abort()
    assert status == b"HTTP/1.1 401 Unauthorized\r\n"
    assert rest.endswith(b"}")


async def test_a_pipelined_request_after_a_refused_one_is_not_served() -> None:
    """The connection ends, even for the right key."""
    first = request_bytes(close=False)
    second = request_bytes(head=carried("api-key"))
    async with ScriptedUpstream(answer_whole) as upstream:
        async with running_listener(upstream.url, inbound_keys=[KEY]) as running:
            answer = await ask(running.address, first + second)
        assert upstream.connections == 0
    assert answer.raw.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("name", ["x-spantap-key", "Authorization", "api-key", "X-Api-Key"])
@pytest.mark.parametrize("target", [b"/v1/chat/completions", b"/v1/models"])
async def test_an_inbound_key_opens_and_goes_no_further(name: str, target: bytes) -> None:
    """Neither to the upstream nor into a frame; all other fields stay, in their order."""
    head = b"X-A: 1\r\n" + carried(name) + b"X-B: 2\r\n"
    async with ScriptedUpstream(answer_whole) as upstream:
        async with running_listener(upstream.url, inbound_keys=[KEY]) as running:
            answer = await ask(running.address, request_bytes(head=head, target=target))
            assert running.server.refused_count == 0
        sent = upstream.last
    assert (answer.status, answer.body) == (200, ANSWER)
    assert KEY.encode() not in sent.head + sent.body
    names = [field.lower() for field, _ in sent.fields]
    assert names.index(b"x-b") == names.index(b"x-a") + 1
    assert KEY not in repr(running.sink.frames)


async def test_the_clients_own_key_goes_on_beside_ours() -> None:
    """``x-spantap-key`` for us, ``Authorization`` for the provider."""
    head = carried("x-spantap-key") + b"Authorization: Bearer " + OWN + b"\r\n"
    async with ScriptedUpstream(answer_whole) as upstream:
        async with running_listener(upstream.url, inbound_keys=[KEY]) as running:
            assert (await ask(running.address, request_bytes(head=head))).status == 200
        assert upstream.last.field(b"authorization") == b"Bearer " + OWN
        assert KEY.encode() not in upstream.last.head


async def test_a_key_sent_twice_is_taken_out_twice() -> None:
    """As SDKs do that put their key into more than one field."""
    head = carried("Authorization") + carried("api-key") + carried("x-spantap-key")
    async with ScriptedUpstream(answer_whole) as upstream:
        async with running_listener(upstream.url, inbound_keys=[KEY]) as running:
            assert (await ask(running.address, request_bytes(head=head))).status == 200
        assert KEY.encode() not in upstream.last.head


@pytest.mark.parametrize("name", ["x-spantap-key", "Authorization", "api-key"])
@pytest.mark.parametrize("target", [b"/v1/chat/completions", b"/v1/models"])
async def test_the_key_that_the_proxy_holds_takes_the_place_of_ours(
    name: str, target: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its place where it came as ``Authorization``, else at the end; neither is in a frame."""
    held = "sk-held-canary"
    monkeypatch.setenv("HELD_KEY", held)

    async def script(connection: Connection) -> None:
        await connection.answer(f"bad {held}".encode(), status=b"401 Unauthorized")

    async with ScriptedUpstream(script) as upstream:
        table = UpstreamConfig(name="held", url=upstream.url, api_key_env="HELD_KEY")
        settings: dict[str, Any] = {"upstreams": (table,), "inbound_keys": [KEY]}
        async with running_listener(upstream.url, **settings) as running:
            head = b"X-A: 1\r\n" + carried(name) + b"X-B: 2\r\n"
            answer = await ask(running.address, request_bytes(head=head, target=target))
            assert answer.body == f"bad {held}".encode()  # the upstream's, not ours
        sent = upstream.last
    values = [value for field, value in sent.fields if field.lower() == b"authorization"]
    assert values == [f"Bearer {held}".encode()]
    assert KEY.encode() not in sent.head
    if name == "Authorization":
        names = [field for field, _ in sent.fields]
        assert names.index(b"Authorization") == names.index(b"X-A") + 1
    frames = repr(running.sink.frames)
    assert any(isinstance(frame, Begin) for frame in running.sink.frames) is (b"chat" in target)
    assert KEY not in frames
    assert held not in frames


# The warning at the start


@pytest.mark.parametrize(
    ("host", "held", "keys", "warns"),
    [
        ("0.0.0.0", True, None, True),
        ("::", True, None, True),
        ("10.1.2.3", True, None, True),
        ("proxy.internal", True, None, True),
        ("", True, None, True),
        ("127.0.0.1", True, None, False),
        ("127.9.9.9", True, None, False),
        ("::1", True, None, False),
        ("localhost", True, None, False),
        ("0.0.0.0", False, None, False),
        ("0.0.0.0", True, (KEY,), False),
    ],
)
def test_a_held_key_on_an_open_port_is_warned_of(
    host: str,
    held: bool,
    keys: tuple[str, ...] | None,
    warns: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only where all three are so: a held key, a host that others reach, nobody asked for a key."""
    monkeypatch.setenv("HELD_KEY", "sk-held-canary")
    tables = [UpstreamConfig(name="groq", url="http://h", api_key_env="HELD_KEY" if held else None)]
    settings = Settings(host=host, upstreams=tuple(tables), inbound_keys=keys)
    words = explain_exposed_keys(settings)
    assert (words is not None) is warns
    if words is not None:
        assert re.search(r"spends the key of 'groq'.*SPANTAP_INBOUND_KEYS", words)
        assert "canary" not in words


def test_a_file_of_keys_is_enough_against_the_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read when the port is opened."""
    monkeypatch.setenv("HELD_KEY", "sk-held-canary")
    tables = (UpstreamConfig(name="groq", url="http://h", api_key_env="HELD_KEY"),)
    settings = Settings(host="0.0.0.0", upstreams=tables, inbound_keys_file=tmp_path / "keys")
    assert explain_exposed_keys(settings) is None
