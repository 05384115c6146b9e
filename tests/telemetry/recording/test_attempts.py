"""``telemetry.recording.attempts``: what a retry is a retry of."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.observing.exchange import Exchange, Outcome
from telemetry.recording import attempts as attempts_module
from telemetry.recording.attempts import MAX_ATTEMPTS, MAX_WAIT_NS, Attempts
from tests.telemetry.exchanges import END_NS, START_NS, make_exchange
from tests.telemetry.tap_frames import identity

SECOND_NS = 1_000_000_000


def attempt(number: int, retry: int = 0, **members: Any) -> Exchange:
    """An attempt that failed; each begins a second behind the end of the one before it."""
    defaults: dict[str, Any] = {
        "identity": identity(number),
        "client_retry": retry,
        "error_type": "500",
        "start_ns": START_NS + number * 10 * SECOND_NS,
        "end_ns": START_NS + number * 10 * SECOND_NS + 9 * SECOND_NS,
    }
    return make_exchange(**{**defaults, **members})


def ids(number: int) -> tuple[str, str]:
    """The ids of that attempt."""
    return identity(number).trace_id, identity(number).span_id


def run(attempts: Attempts, *exchanges: Exchange) -> list[tuple[str, str] | None]:
    """What each is linked to, one after the other."""
    found = []
    for exchange in exchanges:
        linked = attempts.with_attempt_before(exchange)
        found.append(linked.attempt_before)
        attempts.note(linked)
    return found


def test_a_chain_of_retries() -> None:
    """Each is linked to the one before, the last one too, which succeeds."""
    success = attempt(3, 2, error_type=None)
    assert run(Attempts(), attempt(1), attempt(2, 1), success) == [None, ids(1), ids(2)]


def test_a_call_that_its_client_left_is_tried_again() -> None:
    """An SDK's own timeout is no error of the upstream's."""
    left = attempt(1, error_type=None, outcome=Outcome.CLIENT_DISCONNECTED)
    assert run(Attempts(), left, attempt(2, 1)) == [None, ids(1)]


@pytest.mark.parametrize(
    "other",
    [
        {"request_body": b'{"model":"other"}'},
        {"path": "/v1/responses"},
        {"upstream": "other"},
        {"user_agent": "other"},
        {"client_retry": 2},
        {"client_retry": 0},
        {"start_ns": START_NS + 18 * SECOND_NS},
        {"start_ns": START_NS + 19 * SECOND_NS + MAX_WAIT_NS + 1},
    ],
)
def test_another_call_is_no_retry_of_it(other: dict[str, Any]) -> None:
    """Of another body, path, upstream or program, two attempts later, beside it, or long after."""
    assert run(Attempts(), attempt(1), attempt(2, 1, **other)) == [None, None]


def test_what_succeeded_is_not_tried_again() -> None:
    """Nor is it remembered."""
    attempts = Attempts()
    assert run(attempts, attempt(1, error_type=None), attempt(2, 1)) == [None, None]
    assert len(attempts) == 1


def test_where_two_calls_could_be_it_none_is() -> None:
    """Until one of the two is too old; and one call is retried once."""
    attempts = Attempts()
    assert run(attempts, attempt(1), attempt(2), attempt(3, 1)) == [None, None, None]
    start_ns = attempt(1).end_ns + MAX_WAIT_NS + 1
    late = attempt(4, 1, start_ns=start_ns, end_ns=start_ns)
    assert run(attempts, late, late) == [ids(2), None]


def test_the_oldest_go_first() -> None:
    """However many fail."""
    attempts = Attempts()
    for number in range(1, MAX_ATTEMPTS + 2):
        attempts.note(attempt(number, path=f"/{number}", end_ns=END_NS))
    assert len(attempts) == MAX_ATTEMPTS
    later = END_NS + SECOND_NS
    found = [
        attempts.with_attempt_before(attempt(9_999, 1, path=f"/{n}", start_ns=later))
        for n in (1, 2)
    ]
    assert [exchange.attempt_before for exchange in found] == [None, ids(2)]


def test_nothing_of_a_body_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no large one is compared, nor one that was not captured."""
    monkeypatch.setattr(attempts_module, "MAX_BODY_BYTES", 10)
    attempts = Attempts()
    run(attempts, attempt(1, request_body=b"c4n4ry"))
    assert len(attempts) == 1
    assert b"c4n4ry" not in repr(vars(attempts)).encode()
    run(attempts, attempt(2, request_body=b"x" * 11), attempt(3, request_body=None))
    assert len(attempts) == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["500", None])), max_size=30))
def test_what_is_remembered_and_by_what_are_the_same(calls: list[tuple[int, str | None]]) -> None:
    """Whatever comes; no attempt is linked to twice."""
    attempts = Attempts()
    found = run(attempts, *(attempt(n, r, error_type=e) for n, (r, e) in enumerate(calls, 1)))
    linked = [ids for ids in found if ids is not None]
    assert len(linked) == len(set(linked))
    assert len(attempts) == sum(map(len, attempts._alike.values()))
    assert all(attempts._alike.values())
