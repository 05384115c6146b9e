"""How an exchange ended, judged from its frames and its content."""

from __future__ import annotations

from typing import Any

import pytest

from telemetry.frames.ending import EndKind
from telemetry.observing.exchange import Outcome
from tests.telemetry import tap_frames
from tests.telemetry.observed import observe
from tests.telemetry.tap_frames import (
    ANSWER,
    ASKED_STREAM,
    DONE,
    HEL,
    LO,
    MS,
    ROLE,
    START_NS,
    STOP,
    USAGE,
    WHOLE_STREAM,
    event,
    exchange_frames,
)

_Row = tuple[Outcome, str | None]
OK: _Row = (Outcome.COMPLETED, None)
LEFT: _Row = (Outcome.CLIENT_DISCONNECTED, None)
CUT: _Row = (Outcome.TRUNCATED, "stream_truncated")
WHOLE = [*WHOLE_STREAM]
BROKEN = {"kind": EndKind.UPSTREAM_BROKEN}
STREAM = {"asked": ASKED_STREAM}
OVERLOADED = b'data: {"error":{"message":"m","type":"overloaded"}}\n\n'
UNAVAILABLE = b'[{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]'


def gone(undelivered_reads: int = 0) -> dict[str, Any]:
    """The client closes before these last reads have reached it."""
    return {"kind": EndKind.CLIENT_GONE, "undelivered_reads": undelivered_reads}


ENDINGS: dict[str, tuple[_Row, list[bytes], dict[str, Any]]] = {
    "[DONE], then RST": (OK, WHOLE, BROKEN),
    "finish reason and usage, then the client closes": (OK, [ROLE, HEL, LO, STOP, USAGE], gone()),
    "[DONE] alone was not delivered": (OK, WHOLE, gone(1)),
    "the usage was not delivered": (LEFT, WHOLE, gone(2)),
    "what came behind [DONE] was drained": (OK, [*WHOLE, b": bye\n\n", b": bye\n\n"], gone(2)),
    "another choice began after all others had finished, and was not delivered": (
        LEFT,
        [HEL, STOP, USAGE, event('"content":"x"', index=1), event(finish="stop", index=1)],
        gone(1),
    ),
    "a stream was asked for and nothing came": (CUT, [b"\n"], STREAM),
    "nothing came, and no stream was asked for": (CUT, [], {}),
    "a stream was asked for and it is to come later": (OK, [], STREAM | {"status": 202}),
    "a stream was asked for and there is none": (OK, [], STREAM | {"status": 204}),
    "a stream was asked for and a redirect came": (OK, [], STREAM | {"status": 307}),
    "a stream was asked for and a plain answer came": (OK, [ANSWER], STREAM),
    "a plain answer is broken off": (CUT, [ANSWER[:-20]], BROKEN),
    "a plain answer is whole, and then the client closes": (OK, [ANSWER], gone()),
    "an error inside, [DONE] or not": (
        (Outcome.STREAM_ERROR, "overloaded"),
        [HEL, OVERLOADED, DONE],
        STREAM,
    ),
    "a Google front end's list": ((Outcome.STREAM_ERROR, "UNAVAILABLE"), [UNAVAILABLE], STREAM),
}


@pytest.mark.parametrize(("expected", "data", "members"), ENDINGS.values(), ids=ENDINGS)
def test_the_ending_is_judged_from_frames_and_content(
    expected: _Row, data: list[bytes], members: dict[str, Any]
) -> None:
    """What the observer hands to the judge is what section 6 speaks of."""
    exchange = observe(exchange_frames(*data, **members))
    assert (exchange.outcome, exchange.error_type) == expected


def test_a_plain_answer_that_broke_off_is_kept_as_text() -> None:
    """``docs/contract/promises.md#endings``: partial output is kept, and is not called JSON."""
    exchange = observe(exchange_frames(ANSWER[:90], kind=EndKind.UPSTREAM_BROKEN))
    assert exchange.outcome is Outcome.TRUNCATED
    assert exchange.response is None
    assert exchange.undecoded_body == ANSWER[:90].decode()


@pytest.mark.parametrize(
    "kind", [EndKind.CLIENT_GONE, EndKind.UPSTREAM_BROKEN, EndKind.DRAIN_DEADLINE]
)
def test_what_an_early_end_lacks_is_no_anomaly(kind: EndKind) -> None:
    """Usage and finish reason are missing because of the end, which is told already."""
    exchange = observe(exchange_frames(ROLE, HEL, asked=ASKED_STREAM, kind=kind))
    assert exchange.outcome is not Outcome.COMPLETED
    assert exchange.anomalies == ()


@pytest.mark.parametrize("data", [(), (b" ",)], ids=["none", "blank"])
def test_an_answer_without_a_byte_broke_off(data: tuple[bytes, ...]) -> None:
    """Its framing makes it whole, and nothing makes it an answer."""
    exchange = observe(exchange_frames(*data))
    assert (exchange.outcome, exchange.error_type) == CUT
    assert exchange.error_message == "the answer has no byte"


@pytest.mark.parametrize("status", [202, 204, 307])
def test_what_is_to_have_no_answer_lacks_none(status: int) -> None:
    """Neither a redirect nor an answer without content is told to be unreadable."""
    assert observe(exchange_frames(status=status)).anomalies == ()


@pytest.mark.parametrize(
    ("whole", "anomalies"), [((ROLE, HEL), ()), ((HEL, STOP, USAGE), ("event_cut_off",))]
)
def test_a_stream_that_is_cut_in_an_event_has_no_event_of_bad_json(
    whole: tuple[bytes, ...], anomalies: tuple[str, ...]
) -> None:
    """The cut is told by the outcome, or, behind all that makes an answer, by a word of its own."""
    exchange = observe(exchange_frames(*whole, LO[:40], asked=ASKED_STREAM))
    assert (exchange.outcome is Outcome.COMPLETED, exchange.anomalies) == (
        bool(anomalies),
        anomalies,
    )


def test_what_a_complete_stream_lacks_is_an_anomaly() -> None:
    """``[DONE]`` without any finish reason or usage."""
    exchange = observe(exchange_frames(ROLE, HEL, DONE, asked=ASKED_STREAM))
    assert exchange.outcome is Outcome.COMPLETED
    assert exchange.anomalies == ("no_finish_reason", "no_usage")


def _asked_for(count: str) -> bytes:
    return ASKED_STREAM[:-1] + b',"n":' + count.encode() + b"}"


@pytest.mark.parametrize(
    ("count", "outcome"),
    [
        ("2", Outcome.TRUNCATED),
        ("128", Outcome.TRUNCATED),
        ("1", Outcome.COMPLETED),
        ("0", Outcome.COMPLETED),
        ("-2", Outcome.COMPLETED),
        ("129", Outcome.COMPLETED),
        ("2.0", Outcome.COMPLETED),
        ("true", Outcome.COMPLETED),
        ('"2"', Outcome.COMPLETED),
    ],
)
def test_as_many_choices_as_were_asked_for_make_an_answer_complete(
    count: str, outcome: Outcome
) -> None:
    """Usage came with the first choice; one that has not begun is missing all the same.

    What ``n`` is no number of choices for counts as one.
    """
    finished = STOP.replace(b"}]}", b'}],"usage":{"completion_tokens":1}}')
    frames = exchange_frames(HEL, finished, asked=_asked_for(count), kind=EndKind.UPSTREAM_BROKEN)
    assert observe(frames).outcome is outcome


def test_completion_of_the_last_choice_decides_what_reached_the_client() -> None:
    """With two choices asked for, the first one's end is not yet the answer's."""
    reads = (
        HEL,
        STOP.replace(b"}]}", b'}],"usage":{"completion_tokens":1}}'),
        event('"content":"x"', index=1),
        event(finish="stop", index=1),
    )
    members: dict[str, Any] = {"asked": _asked_for("2"), "kind": EndKind.CLIENT_GONE}
    assert observe(exchange_frames(*reads, **members)).outcome is Outcome.COMPLETED
    exchange = observe(exchange_frames(*reads, undelivered_reads=1, **members))
    assert exchange.outcome is Outcome.CLIENT_DISCONNECTED


def test_a_server_that_gives_fewer_choices_ends_well() -> None:
    """Some ignore ``n``: a clean end is one."""
    exchange = observe(exchange_frames(HEL, STOP, USAGE, asked=_asked_for("2")))
    assert exchange.outcome is Outcome.COMPLETED


_PROMPTS = b'{"model":"m-1","stream":true,"prompt":["One?","Two?"]'


@pytest.mark.parametrize(
    ("asked", "outcome"),
    [
        (_PROMPTS + b"}", Outcome.COMPLETED),
        (_PROMPTS + b',"n":2}', Outcome.TRUNCATED),
        (_PROMPTS.replace(b'["One?","Two?"]', b"[5,6,7]") + b',"n":2}', Outcome.COMPLETED),
    ],
)
def test_every_prompt_asks_for_its_choices(asked: bytes, outcome: Outcome) -> None:
    """``n`` choices for each prompt of a legacy completion make the answer complete."""
    texts = [
        b'data: {"choices":[{"index":%d,"text":"x","finish_reason":"stop"}]%b}\n\n' % (index, usage)
        for index, usage in enumerate((b"", b',"usage":{"completion_tokens":2}'))
    ]
    _, *frames = exchange_frames(*texts, asked=asked, kind=EndKind.UPSTREAM_BROKEN)
    frames = [tap_frames.begin(endpoint="completions"), *frames]
    assert observe(frames).outcome is outcome


UNFRAMED = {"kind": EndKind.UPSTREAM_UNFRAMED_END}

ENDS_MS: dict[str, tuple[int, list[bytes], dict[str, Any]]] = {
    "a stream that ended": (160, [*WHOLE_STREAM[:-1], b"", DONE], STREAM),
    "an answer that the connection's end ended": (100, [ANSWER], UNFRAMED),
    "an answer without a body": (110, [], {"status": 204}),
    "an answer that broke off": (110, [ANSWER[:9]], BROKEN),
    "a client that went": (110, [HEL], gone()),
    "a client that did not take all": (120, [HEL, LO], {"undelivered_reads": 1}),
    "reads that telemetry did not get": (110, [HEL], {"shed_bytes": 7}),
    "an end that came long after the last byte": (150, [ANSWER], {"at_ns": START_NS + 150 * MS}),
    "a clock that was set back": (99, [ANSWER], {"at_ns": START_NS + 99 * MS}),
}


@pytest.mark.parametrize(("ms", "data", "members"), ENDS_MS.values(), ids=ENDS_MS)
def test_a_clean_end_is_at_the_last_byte_and_any_other_is_at_its_event(
    ms: int, data: list[bytes], members: dict[str, Any]
) -> None:
    """A clean end is told when its span has ended (``docs/contract/spans.md#span-times``)."""
    told_ns = START_NS + (110 + 10 * max(len(data) - 1, 0)) * MS
    exchange = observe(exchange_frames(*data, **{"at_ns": told_ns, **members}))
    assert exchange.end_ns == START_NS + ms * MS
