"""``telemetry.recording.raw_answer``: of which calls the true bytes of an answer are kept."""

from __future__ import annotations

import base64
import gzip
import re
import zlib
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import brotli  # type: ignore[import-untyped]  # it has no stubs
import pytest
from opentelemetry.sdk.resources import Resource

from codec.text.jsontext import encode_json
from telemetry.frames.ending import EndKind
from telemetry.observing.encryption import OWN_CIPHER
from telemetry.observing.open_bodies import OpenBodies
from telemetry.privacy.redaction import Redaction
from telemetry.privacy.switches import PrivacySwitches
from telemetry.raw_answer import MAX_RAW_BYTES
from telemetry.reading.stored_calls import open_calls
from telemetry.service import TelemetryService
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import RawPolicy, SpanRules
from telemetry.store.store import Store
from tests.telemetry.tap_frames import (
    ANSWER,
    GZIP,
    MS,
    START_NS,
    WHOLE_STREAM,
    begin,
    event,
    exchange_frames,
    identity,
)

if TYPE_CHECKING:
    from pathlib import Path

    from telemetry.raw_answer import RawAnswer

KEY = "sk-Zebra4Canary0123456789"
LOST = "sk-lost"
MAIL = "zebra@canary.example"
REFUSED = b'{"error":{"message":"No such model.","type":"invalid_request_error"}}'
EVENTS = [("content-type", "text/event-stream")]


def rules_of(raw: RawPolicy = RawPolicy.ALL, **rules: Any) -> SpanRules:
    """Rules that keep the true bytes of answers."""
    return SpanRules(raw=raw, **rules)


def record(
    path: Path,
    *data: bytes,
    rules: SpanRules | None = None,
    key: str = "",
    bodies: OpenBodies | None = None,
    **frames: Any,
) -> RawAnswer | None:
    """Record a call with these reads, and return what is kept of its answer."""
    rules = rules or rules_of()
    with Store.open(path) as store:
        service = TelemetryService(
            SpanRecorder(Resource.get_empty(), build_span_limits(), rules),
            store,
            rules=rules,
            now_ns=lambda: START_NS,
        )
        if bodies is not None:
            service._bodies = bodies
            service._own = service.open_source()
        members = {
            name: frames.pop(name)
            for name in ("endpoint", "path", "headers_asked")
            if name in frames
        }
        encrypted = OWN_CIPHER.encrypt(f"authorization:Bearer {key}".encode()) if key else b""
        if key == LOST:  # as after a restart: the key to decrypt it with is gone
            encrypted = b"\0" * 64
        first = begin(headers=members.pop("headers_asked", ()), encrypted=encrypted, **members)
        for frame in (first, *exchange_frames(*data, **frames)[1:]):
            service.feed(frame)
        service.commit()
        assert store.counts().pending == 1
        assert service.counts.failed == 0
        assert service.held_bytes == 0
    with open_calls(path) as calls:
        stored = calls.one(identity().span_id)
        assert stored is not None
        return calls.raw_answer(stored.summary.seq)


def test_a_stream_is_kept_byte_for_byte_with_the_time_of_each_read(path: Path) -> None:
    """Reads came 10 ms apart; their ends need not be those of events."""
    reads = (WHOLE_STREAM[0] + WHOLE_STREAM[1][:9], WHOLE_STREAM[1][9:], *WHOLE_STREAM[2:])
    raw = record(path, *reads, headers=EVENTS)
    assert raw is not None
    assert raw.body == b"".join(WHOLE_STREAM)
    assert raw.sizes_bytes == tuple(map(len, reads))
    assert raw.first_ns == START_NS + 100 * MS
    assert raw.waits_ns == (0, *[10 * MS] * (len(reads) - 1))
    assert (raw.content_type, raw.content_encoding, raw.left_bytes) == ("text/event-stream", "", 0)


@pytest.mark.parametrize(
    ("coding", "encode"), [("gzip", gzip.compress), ("br", brotli.compress)], ids=["gzip", "br"]
)
def test_the_content_coding_stays_as_it_came(path: Path, coding: str, encode: Any) -> None:
    """The bytes are not those that it decodes to."""
    sent = encode(b"".join(WHOLE_STREAM))
    raw = record(path, sent[:40], sent[40:], headers=[*EVENTS, ("content-encoding", coding)])
    assert raw is not None
    assert (raw.body, raw.content_encoding) == (sent, coding)


def test_nothing_is_kept_unless_the_setting_says_so(path: Path) -> None:
    """That is the default."""
    assert record(path, ANSWER, rules=SpanRules()) is None


@pytest.mark.parametrize(
    ("data", "frames", "is_kept"),
    [
        ((ANSWER,), {}, False),
        ((REFUSED,), {"status": 404}, True),
        (WHOLE_STREAM[:2], {"headers": EVENTS, "kind": EndKind.UPSTREAM_CLOSED}, True),
        (WHOLE_STREAM[:2], {"headers": EVENTS, "kind": EndKind.CLIENT_GONE}, False),
        ((b"<html>Sorry</html>",), {"headers": [("content-type", "text/html")]}, True),
    ],
    ids=["good", "refused", "broken off", "left", "a page"],
)
def test_errors_keeps_the_answers_of_failed_calls(
    path: Path, data: tuple[bytes, ...], frames: dict[str, Any], is_kept: bool
) -> None:
    """Those that ``status:error`` finds."""
    raw = record(path, *data, rules=rules_of(RawPolicy.ERRORS), **frames)
    assert (raw and raw.body) == (b"".join(data) if is_kept else None)


@pytest.mark.parametrize(
    "switch", [one.name for one in fields(PrivacySwitches) if one.name.startswith("hide_")]
)
def test_any_switch_that_hides_something_keeps_none(path: Path, switch: str) -> None:
    """Whichever side it is about."""
    privacy = PrivacySwitches(**{switch: True})
    assert record(path, *WHOLE_STREAM, rules=rules_of(privacy=privacy)) is None


def test_a_client_that_wants_no_content_gets_none_kept(path: Path) -> None:
    """For this call alone."""
    asked = (("x-spantap-content", "off"),)
    assert record(path, ANSWER, headers_asked=asked) is None


def spelled(word: str) -> tuple[bytes, ...]:
    """A stream that says a word letter by letter."""
    letters = [event(f'"content":{encode_json(letter)}') for letter in word]
    return (WHOLE_STREAM[0], *letters, *WHOLE_STREAM[3:])


def escapes(word: str) -> bytes:
    """A word in escapes of JSON."""
    return "".join(f"\\u{ord(one):04x}" for one in word).encode()


def base64_of(word: str) -> bytes:
    """Base64 of a file with a word in it."""
    return base64.b64encode(bytes(3_000) + word.encode() + bytes(99))


SECRETS: dict[str, Any] = {
    "plain": lambda word: (ANSWER.replace(b"Hello", word.encode()),),
    "in a member that nobody knows": lambda word: (
        ANSWER[:-1] + b',"more":"' + word.encode() + b'"}',
    ),
    "escaped": lambda word: (ANSWER.replace(b"Hello", escapes(word)),),
    "cut by reads": lambda word: (
        ANSWER.replace(b"Hello", word.encode())[:120],
        ANSWER.replace(b"Hello", word.encode())[120:],
    ),
    "a stream": lambda word: (WHOLE_STREAM[0], event(f'"content":"{word}"'), *WHOLE_STREAM[3:]),
    "a stream, by letters": spelled,
    "a comment of a stream": lambda word: (f": {word}\n\n".encode(), *WHOLE_STREAM),
    "no answer": lambda word: (f"<html>{word}</html>".encode(),),
    "an error": lambda word: (REFUSED.replace(b"model", word.encode()),),
    "in base64": lambda word: (ANSWER.replace(b"Hello", base64_of(word)),),
    "in base64 of many lines": lambda word: (
        ANSWER.replace(b"Hello", base64_of(word)[:2_000] + b"\\n" + base64_of(word)[2_000:]),
    ),
    "in base64, by events": lambda word: (
        WHOLE_STREAM[0],
        *[
            event(f'"content":"{piece}"')
            for piece in re.findall(".{1,300}", f"{base64_of(word)!r}"[2:-1])
        ],
        *WHOLE_STREAM[3:],
    ),
    "a stream, by letters, where nobody looks": lambda word: (
        *[b'data: {"choices":[],"new":{"s":%s}}\n\n' % encode_json(one).encode() for one in word],
        *WHOLE_STREAM,
    ),
    "escaped, in the first of two members": lambda word: (
        b'{"id":"' + escapes(word) + b'",' + ANSWER[1:],
    ),
    "escaped, in a comment": lambda word: (b": " + escapes(word) + b"\n\n", *WHOLE_STREAM),
    "in UTF-16": lambda word: (f"<html>{word}</html>".encode("utf-16"),),
}


def frames_of(name: str, data: tuple[bytes, ...]) -> dict[str, Any]:
    """The members of frames that go with one of :data:`SECRETS`."""
    del data
    return {"status": 401 if name == "an error" else 200}


@pytest.mark.parametrize("encodes", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", SECRETS)
def test_an_answer_in_which_a_pattern_finds_something_is_not_kept(
    path: Path, tmp_path: Path, name: str, encodes: bool
) -> None:
    """However it is written, cut and encoded; an equal one without a find is."""
    rules = rules_of(redaction=Redaction({}, ready_made=["email"]))
    for word, is_kept in ((MAIL, False), ("zebra at canary", True)):
        data = SECRETS[name](word)
        headers = []
        if encodes:
            data, headers = (gzip.compress(b"".join(data)),), GZIP
        found = record(
            tmp_path / f"{is_kept}.db", *data, rules=rules, headers=headers, **frames_of(name, data)
        )
        assert (found is not None) == is_kept, word


@pytest.mark.parametrize("encodes", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", SECRETS)
def test_an_answer_with_a_credential_of_its_call_is_not_kept(
    path: Path, tmp_path: Path, name: str, encodes: bool
) -> None:
    """No setting is needed for that; another caller's answer is kept."""
    for key, is_kept in ((KEY, False), ("sk-Other4Canary0123456789", True)):
        data = SECRETS[name](KEY)
        headers = []
        if encodes:
            data, headers = (gzip.compress(b"".join(data)),), GZIP
        found = record(
            tmp_path / f"{is_kept}.db", *data, key=key, headers=headers, **frames_of(name, data)
        )
        assert (found is not None) == is_kept, key


def named_gzip(word: str) -> bytes:
    """An answer in gzip, with the word as the name of its file."""
    packed = gzip.compress(ANSWER)
    return packed[:3] + bytes([packed[3] | 8]) + packed[4:10] + word.encode() + b"\0" + packed[10:]


BESIDE: dict[str, Any] = {
    "the name of a file": ("gzip", named_gzip),
    "behind gzip": ("gzip", lambda word: gzip.compress(ANSWER) + word.encode()),
    "behind brotli": ("br", lambda word: brotli.compress(ANSWER) + word.encode()),
    "behind gzip, in brotli": (
        "gzip, br",
        lambda word: brotli.compress(gzip.compress(ANSWER) + word.encode()),
    ),
    "behind deflate": ("deflate", lambda word: zlib.compress(ANSWER) + word.encode()),
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_stands_beside_encoded_content_is_searched_too(
    path: Path, tmp_path: Path, name: str
) -> None:
    """No decoder shows it."""
    coding, build = BESIDE[name]
    for key, is_kept in ((KEY, False), ("sk-Other4Canary0123456789", True)):
        headers = [("content-encoding", coding)]
        found = record(tmp_path / f"{is_kept}.db", build(KEY), key=key, headers=headers)
        assert (found is not None) == is_kept, key


def test_compressed_content_that_does_not_say_so_is_not_kept(path: Path) -> None:
    """It cannot be searched."""
    assert record(path, gzip.compress(ANSWER), key=KEY) is None


def test_an_answer_with_a_credential_in_its_type_is_not_kept(path: Path) -> None:
    """The type is kept beside the bytes."""
    assert record(path, ANSWER, key=KEY, headers=[("content-type", f"text/{KEY}")]) is None


def test_an_answer_that_is_cut_within_a_credential_is_not_kept(path: Path) -> None:
    """Most of it stands at the end."""
    cut = f": {KEY}"[:-3].encode()
    data = (*WHOLE_STREAM[:2], cut)
    frames: dict[str, Any] = {"headers": EVENTS, "kind": EndKind.UPSTREAM_CLOSED}
    assert record(path, *data, key=KEY, **frames) is None


@pytest.mark.parametrize(
    "data",
    [b"\n" * 300_000, b'data: {"choices":[],"new":[' + b'"",' * 600_000 + b'""]}\n\n'],
    ids=["lines", "strings"],
)
def test_what_takes_long_to_search_is_not_kept(path: Path, data: bytes) -> None:
    """Telemetry has to go on."""
    headers = [*EVENTS, ("content-encoding", "gzip")]
    data = gzip.compress(data + b"".join(WHOLE_STREAM))
    assert record(path, data, key=KEY, headers=headers) is None


def test_an_error_in_which_the_relay_masked_a_credential_is_not_kept(path: Path) -> None:
    """Its bytes are not the true ones."""
    masked = REFUSED.replace(b"model", b"__REDACTED__")
    assert record(path, masked, key=KEY, status=401) is None


def test_where_credentials_are_not_known_none_is_kept(path: Path) -> None:
    """Nobody can tell whether they are in the answer."""
    assert record(path, ANSWER, key=LOST) is None


def test_what_was_not_observed_whole_is_not_kept(path: Path, tmp_path: Path) -> None:
    """A credential may be in the rest of the request, also if its head has none."""
    assert record(path, ANSWER, key=KEY, asked=None) is None
    assert record(tmp_path / "n.db", ANSWER, asked=None) is None
    assert record(tmp_path / "o.db", ANSWER, key=KEY) is not None


def test_what_cannot_be_searched_is_not_kept(path: Path, tmp_path: Path) -> None:
    """Of a call without any credential nothing has to be searched for."""
    coding = [("content-encoding", "rot13")]
    assert record(path, ANSWER, key=KEY, headers=coding) is None
    raw = record(tmp_path / "o.db", ANSWER, headers=coding)
    assert raw is not None
    assert raw.body == ANSWER


def test_the_users_limit_of_images_bounds_raw_answers_too(path: Path, tmp_path: Path) -> None:
    """Its default does not."""
    image = (
        "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(60_000)).decode()
    )
    answer = ANSWER.replace(b"Hello", image.encode())
    limited = PrivacySwitches(base64_image_max_length=50_000, limits_images=True)
    assert record(path, answer, rules=rules_of(privacy=limited)) is None
    assert record(tmp_path / "o.db", answer) is not None


def test_of_a_large_answer_the_first_mebibyte_is_kept(path: Path) -> None:
    """What is missing is counted."""
    piece = event('"content":"' + "x" * 50_000 + '"')
    data = (WHOLE_STREAM[0], *[piece] * 40, *WHOLE_STREAM[3:])
    raw = record(path, *data, headers=EVENTS)
    assert raw is not None
    assert raw.body == b"".join(data)[:MAX_RAW_BYTES]
    assert raw.left_bytes == len(b"".join(data)) - MAX_RAW_BYTES


def test_raw_bytes_take_only_room_that_nobody_needs(path: Path) -> None:
    """The span has its content all the same."""
    assert record(path, ANSWER, bodies=OpenBodies(3_000)) is None


def test_the_exported_span_is_as_it_was(path: Path, tmp_path: Path) -> None:
    """With and without raw bytes its bytes are the same."""
    spans = []
    for file, rules in ((path, rules_of()), (tmp_path / "o.db", SpanRules())):
        record(file, *WHOLE_STREAM, rules=rules)
        with Store.open(file) as store:
            spans += [one.span for one in store.read_due(1, 1 << 20, START_NS)]
    assert spans[0] == spans[1]


def test_frames_that_come_again_are_kept_once(path: Path) -> None:
    """As after a crash of telemetry."""
    first = record(path, *WHOLE_STREAM)
    assert record(path, *WHOLE_STREAM) == first
    with Store.open(path) as store, store._file.use() as connection:
        assert connection.execute("SELECT count(*) FROM raw_answers").fetchone() == (1,)
