"""``telemetry.export.suspicion``: whether it is a span, rather than the backend, that fails."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from telemetry.export.suspicion import MAX_STRIKES, Blame, Suspicion, Trial
from telemetry.store.rows import PendingSpan

MAX_SPANS = 64

MAX_FAILED_IN_A_ROW = 1 + MAX_SPANS.bit_length() + 2
"""The oldest, a part and its halves, and what is beside them."""


def spans(count: int) -> list[PendingSpan]:
    """So many spans; each is its number."""
    return [PendingSpan(seq=seq, span_id="", span=b"") for seq in range(count)]


def roused(draws: int = MAX_STRIKES) -> Suspicion:
    """A suspicion after so many failed tries."""
    suspicion = Suspicion(MAX_SPANS)
    for _ in range(draws):
        trial = suspicion.begin(spans(2), 0.0)
        while (blame := fail(suspicion, trial)) is not Blame.BACKEND:
            assert blame is Blame.OPEN
    return suspicion


def fail(suspicion: Suspicion, trial: Trial, *, suspect: bool = True) -> Blame:
    """The next part fails."""
    part = trial.parts.pop()
    blame = trial.judge(part, suspect=suspect)
    suspicion.note_blame(blame, len(part), suspect=suspect)
    return blame


def take(trial: Trial) -> list[int]:
    """The next part is taken; the spans that it held."""
    trial.note_answer()
    return [span.seq for span in trial.parts.pop()]


def to_send(trial: Trial) -> list[list[int]]:
    """The parts as they are to be sent."""
    return [[span.seq for span in part] for part in reversed(trial.parts)]


def test_suspicion_arises_after_some_tries() -> None:
    """Until then a batch goes as it is, and a failure is the backend's."""
    for failed in range(MAX_STRIKES):
        assert to_send(roused(failed).begin(spans(3), 0.0)) == [[0, 1, 2]]
    assert to_send(roused().begin(spans(3), 0.0)) == [[0], [1, 2]]


def test_other_failures_rouse_none() -> None:
    """A backend that cannot be reached is no sign, however long."""
    suspicion = Suspicion(MAX_SPANS)
    for _ in range(100):
        assert fail(suspicion, suspicion.begin(spans(3), 0.0), suspect=False) is Blame.BACKEND
    assert to_send(suspicion.begin(spans(3), 0.0)) == [[0, 1, 2]]


def test_what_goes_through_ends_it() -> None:
    """A whole batch that is taken begins the count anew, roused or not."""
    for suspicion in (roused(), roused(MAX_STRIKES - 1)):
        suspicion.note_success()
        fail(suspicion, suspicion.begin(spans(3), 0.0))
        assert to_send(suspicion.begin(spans(3), 0.0)) == [[0, 1, 2]]


def test_the_oldest_then_one_by_lot() -> None:
    """Both fail: that is all for this try. One alone has no other to compare with."""
    suspicion = roused()
    for draw, other in ((0.0, 1), (0.5, 5), (0.99, 9), (1.0, 9)):
        trial = suspicion.begin(spans(10), draw)
        assert to_send(trial)[0] == [0]
        assert fail(suspicion, trial) is Blame.OPEN
        assert to_send(trial)[0] == [other]
        assert fail(suspicion, trial) is Blame.BACKEND
    assert fail(suspicion, suspicion.begin(spans(1), 0.5)) is Blame.BACKEND


def test_halving_finds_the_span_in_order() -> None:
    """Once one was taken: the halves, the older first, down to the one that fails alone."""
    suspicion = roused()
    trial = suspicion.begin(spans(9), 0.0)
    assert take(trial) == [0]
    assert fail(suspicion, trial) is Blame.PART  # 1 to 8
    assert take(trial) == [1, 2, 3, 4]
    assert fail(suspicion, trial) is Blame.PART  # 5 to 8
    assert take(trial) == [5, 6]
    assert fail(suspicion, trial) is Blame.PART
    assert fail(suspicion, trial) is Blame.SPAN  # 7
    assert take(trial) == [8]
    assert trial.parts == []
    assert trial.failed


def test_the_second_in_a_row_is_the_backend() -> None:
    """Two that fail by themselves with nothing taken between them end the try."""
    suspicion = roused()
    trial = suspicion.begin(spans(3), 0.0)
    take(trial)
    blames = [fail(suspicion, trial) for _ in range(3)]
    assert blames == [Blame.PART, Blame.SPAN, Blame.BACKEND]


def test_a_backend_that_goes_ends_the_try() -> None:
    """What cannot lie in the spans is not looked for there."""
    suspicion = roused()
    trial = suspicion.begin(spans(9), 0.0)
    take(trial)
    assert fail(suspicion, trial) is Blame.PART
    assert fail(suspicion, trial, suspect=False) is Blame.BACKEND


def test_parts_shrink_and_grow() -> None:
    """Half of what failed last, at least one; twice as large after each try without failure."""
    suspicion = roused()
    for size in (31, 15, 7, 3, 1):
        trial = suspicion.begin(spans(MAX_SPANS), 0.0)
        take(trial)
        fail(suspicion, trial)
        assert len(to_send(suspicion.begin(spans(MAX_SPANS), 0.0))[1]) == size
    for size in (2, 4, 8, 16, 32):
        suspicion.note_success()
        assert len(to_send(suspicion.begin(spans(MAX_SPANS), 0.0))[1]) == size
    suspicion.note_success()
    assert len(to_send(suspicion.begin(spans(MAX_SPANS), 0.0))[0]) == MAX_SPANS


def test_a_found_span_explains_what_failed() -> None:
    """After it was put aside the next parts are whole again."""
    suspicion = roused()
    trial = suspicion.begin(spans(3), 0.0)
    take(trial)
    assert fail(suspicion, trial) is Blame.PART
    assert fail(suspicion, trial) is Blame.SPAN
    assert to_send(suspicion.begin(spans(9), 0.0)) == [[0], list(range(1, 9))]


def test_the_oldest_may_be_what_takes_the_backend_down() -> None:
    """Where it was away right after, the next try begins with the other one, until it is found."""
    suspicion = roused()
    for _ in range(2):
        trial = suspicion.begin(spans(3), 0.0)
        assert fail(suspicion, trial) is Blame.OPEN
        assert fail(suspicion, trial, suspect=False) is Blame.BACKEND
        trial = suspicion.begin(spans(3), 0.0)
        assert take(trial) == [1]
        assert fail(suspicion, trial) is Blame.PART
        assert fail(suspicion, trial) is Blame.SPAN
        assert to_send(suspicion.begin(spans(3), 0.0))[0] == [0]


def test_a_backend_that_went_between_two_requests() -> None:
    """What looked like such a span is forgotten once a whole try went through."""
    suspicion = roused()
    trial = suspicion.begin(spans(3), 0.0)
    fail(suspicion, trial)
    fail(suspicion, trial, suspect=False)
    suspicion.note_success()
    for _ in range(MAX_STRIKES):
        fail(suspicion, suspicion.begin(spans(1), 0.0))
    assert to_send(suspicion.begin(spans(3), 0.0))[0] == [0]


@given(
    count=st.integers(1, MAX_SPANS),
    draw=st.floats(0, 1),
    tries=st.lists(st.lists(st.sampled_from(["taken", "fails", "away"]), max_size=40), max_size=8),
)
def test_any_answers(count: int, draw: float, tries: list[list[str]]) -> None:
    """Every span is sent at most once a part, none is forgotten, and failures in a row are few."""
    suspicion = roused()
    for answers in tries:
        trial = suspicion.begin(spans(count), draw)
        settled: list[int] = []
        in_a_row = 0
        for answer in answers:
            left = sorted(seq for part in to_send(trial) for seq in part)
            assert sorted(left + settled) == list(range(count))
            if not trial.parts:
                break
            if answer == "taken":
                settled += take(trial)
                in_a_row = 0
                continue
            (*_, part) = trial.parts
            in_a_row += 1
            assert in_a_row <= MAX_FAILED_IN_A_ROW
            blame = fail(suspicion, trial, suspect=answer == "fails")
            if blame is Blame.BACKEND:
                break
            if blame is Blame.SPAN:
                settled.append(part[0].seq)


def test_no_more_than_so_many_fail_in_a_row() -> None:
    """A backend that takes one span and then nothing."""
    for count in range(2, MAX_SPANS + 1):
        suspicion = roused()
        trial = suspicion.begin(spans(count), 0.0)
        assert fail(suspicion, trial) is Blame.OPEN
        take(trial)
        failed = 1
        while fail(suspicion, trial) is not Blame.BACKEND:
            failed += 1
            if not trial.parts:
                break
        assert failed < MAX_FAILED_IN_A_ROW
