"""What an answer that is too large, badly encoded or hits a defect costs its record."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.text.jsontext import encode_json
from telemetry.frames.ending import EndKind
from telemetry.observing import answer_body, observation
from telemetry.observing.encryption import OWN_CIPHER
from telemetry.observing.exchange import Outcome
from telemetry.observing.judgement import judge
from telemetry.observing.observer import Observer
from telemetry.observing.open_bodies import OpenBodies
from tests.telemetry.observed import content, observe
from tests.telemetry.tap_frames import (
    ANSWER,
    ASKED_STREAM,
    GZIP,
    HEL,
    ROLE,
    WHOLE_STREAM,
    begin,
    exchange_frames,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

UNREAD: dict[str, tuple[str, list[bytes], dict[str, Any]]] = {
    "an unknown coding": (
        "response_undecodable",
        [*WHOLE_STREAM],
        {"headers": [("content-encoding", "sdch")]},
    ),
    "not encoded as it says": ("response_undecodable", [*WHOLE_STREAM], {"headers": GZIP}),
    "garbage after some of it": (
        "response_undecodable",
        [gzip.compress(ROLE + HEL), b"\x1f\x8b\x08 and no member", b"more of it"],
        {"headers": GZIP},
    ),
    "shed": ("observer_limit", [ROLE, HEL], {"shed_bytes": 1000}),
    "an event over the limit": (
        "observer_limit",
        [ROLE, HEL, b"data: " + b"x" * (9 << 20), *WHOLE_STREAM],
        {},
    ),
}


@pytest.mark.parametrize(("anomaly", "data", "members"), UNREAD.values(), ids=UNREAD)
def test_a_stream_that_was_not_read_whole_is_marked_and_not_called_truncated(
    anomaly: str, data: list[bytes], members: dict[str, Any]
) -> None:
    """Its clean end is all that is known of its rest (R6); what was read is kept."""
    exchange = observe(exchange_frames(*data, asked=ASKED_STREAM, **members))
    assert exchange.outcome is Outcome.COMPLETED
    assert anomaly in exchange.anomalies
    if exchange.response is not None:
        assert content(exchange) == "Hel"
    broken = {**members, "kind": EndKind.UPSTREAM_BROKEN}
    exchange = observe(exchange_frames(*data, asked=ASKED_STREAM, **broken))
    assert exchange.outcome is Outcome.TRUNCATED


def test_a_plain_answer_over_the_limit_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half an object says nothing; that there was more is marked."""
    monkeypatch.setattr(answer_body, "MAX_PLAIN_BYTES", len(ANSWER) - 1)
    exchange = observe(exchange_frames(ANSWER[:40], ANSWER[40:], ANSWER))
    assert exchange.response is None
    assert exchange.anomalies == ("observer_limit",)
    assert exchange.outcome is Outcome.COMPLETED
    monkeypatch.setattr(answer_body, "MAX_PLAIN_BYTES", len(ANSWER))
    assert content(observe(exchange_frames(ANSWER))) == "Hello"


@pytest.mark.parametrize(
    "defect", ["codec.apis.api.decode_request_object", "telemetry.observing.observation.judge"]
)
def test_after_a_defect_nothing_is_held(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no record can be made."""
    bodies = OpenBodies()
    monkeypatch.setattr(defect, lambda *_, **__: 1 // 0)
    observer = Observer(bodies=bodies)
    for frame in exchange_frames(ANSWER):
        observer.feed(frame)
    assert bodies.held_bytes == 0


def test_a_bomb_is_observed_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is marked."""
    monkeypatch.setattr(
        "telemetry.observing.content_decoding.MAX_DECODED_BYTES", len(ROLE + HEL) + 10
    )
    bomb = gzip.compress(ROLE + HEL + b": " + bytes(1 << 20))
    exchange = observe(exchange_frames(bomb, asked=ASKED_STREAM, headers=GZIP))
    assert content(exchange) == "Hel"
    assert exchange.anomalies[0] == "observer_limit"
    assert exchange.outcome is Outcome.COMPLETED


_BYTES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([*WHOLE_STREAM, ANSWER, b"data: [[[", b'data: {"choices":[7]}\n\n', b"{" * 99]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["choices", "delta", "usage", "error", "message", "tool_calls"]),
                inner,
                max_size=3,
            )
        ),
        max_leaves=8,
    ).map(lambda value: b"data: " + encode_json(value).encode() + b"\n\n"),
)
_CODING = st.sampled_from(["", "gzip", "br", "zstd", "deflate", "x", "gzip,gzip,gzip,gzip,gzip"])


@settings(deadline=None)
@given(
    asked=st.none() | _BYTES,
    data=st.lists(_BYTES, max_size=6),
    status=st.none() | st.sampled_from([99, 200, 204, 302, 400, 999]),
    codings=st.tuples(_CODING, _CODING),
    kind=st.sampled_from(EndKind),
    undelivered_reads=st.integers(0, 3),
)
def test_no_content_makes_it_raise_or_fail(
    asked: bytes | None,
    data: list[bytes],
    status: int | None,
    codings: tuple[str, str],
    kind: EndKind,
    undelivered_reads: int,
) -> None:
    """Whatever is in the frames there is one record, and no defect shows."""
    failures: list[Exception] = []
    frames = exchange_frames(
        *data,
        asked=asked,
        status=status,
        request_headers=[("content-encoding", codings[0])],
        headers=[("content-encoding", codings[1])],
        kind=kind,
        undelivered_reads=undelivered_reads,
    )
    exchange = observe(frames, Observer(failures.append))
    assert failures == []
    assert "observer_failed" not in exchange.anomalies


@pytest.mark.parametrize(
    ("defect", "kept"),
    [
        ("codec.apis.api.decode_request_object", True),
        ("codec.chat.stream.ChatStream.feed", False),
        ("codec.chat.stream.ChatStream.finish", False),
    ],
)
def test_a_defect_costs_the_content_and_not_the_record(
    defect: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told once, with its error; the record is marked and has all that the relay saw."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(defect, fail)
    failures: list[Exception] = []
    frames = exchange_frames(*WHOLE_STREAM, asked=ASKED_STREAM, status=200)
    exchange = observe(frames, Observer(failures.append))
    assert [type(error) for error in failures] == [ZeroDivisionError]
    assert exchange.anomalies[0] == "observer_failed"
    assert (exchange.response_status, exchange.request_size_bytes) == (200, len(ASKED_STREAM))
    assert (exchange.response is not None) is kept
    assert exchange.outcome is Outcome.COMPLETED


def test_without_anybody_to_tell_a_defect_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is there."""
    monkeypatch.setattr("codec.bodies.decode_json", lambda _: 1 // 0)
    assert observe(exchange_frames(ANSWER)).anomalies == ("observer_failed",)


def test_a_defect_forgets_also_what_was_too_short_to_judge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing of the content remains."""
    monkeypatch.setattr("telemetry.observing.answer_body.PlainBody.feed", lambda *_: 1 // 0)
    exchange = observe(exchange_frames(b"dat"))
    assert exchange.anomalies == ("observer_failed",)
    assert exchange.undecoded_body is None


def test_a_defect_at_the_end_forgets_what_could_not_be_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The record that is made after it has nothing of the body."""
    frames = exchange_frames(b"<html>a page</html>")
    assert observe(frames).undecoded_body == "<html>a page</html>"
    judging: Iterator[Callable[..., Any]] = iter([lambda **_: 1 // 0, judge])

    def judge_in_turn(**known: Any) -> Any:
        return next(judging)(**known)

    monkeypatch.setattr(observation, "judge", judge_in_turn)
    exchange = observe(frames)
    assert "observer_failed" in exchange.anomalies
    assert exchange.undecoded_body is None


def test_a_defect_in_finding_credentials_costs_no_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the provider says is masked then, for nobody knows what to look for."""
    monkeypatch.setattr("telemetry.observing.observer.find_head_credentials", lambda _: 1 // 0)
    failures: list[Exception] = []
    encrypted = OWN_CIPHER.encrypt(b"authorization:Bearer sk-1234567890")
    said = b'{"error": {"message": "no such key: sk-1234567890"}}'
    frames = [begin(encrypted=encrypted), *exchange_frames(said, status=401)[1:]]
    exchange = observe(frames, Observer(failures.append))
    assert [type(error) for error in failures] == [ZeroDivisionError]
    assert exchange.outcome is not Outcome.COMPLETED
    assert "sk-1234567890" not in repr((exchange.error_message, exchange.error_body))
