"""``spantap traces`` with a filter, in an order, and searching for texts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from rich.text import Text

from telemetry.facts import ID_DIGITS, CallColumns
from telemetry.reading.calls import Calls
from telemetry.reading.sqlite import searching
from telemetry.store.store import Store
from tests.proxy.recorded_calls import (
    START_NS,
    make_exchange,
    make_failed_exchange,
    make_row,
    make_store,
    make_tools_exchange,
    span_id_of,
)
from tests.proxy.traces_runs import Ran, Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from telemetry.reading.engine import SearchStep
    from telemetry.store.rows import SpanSummary

SECOND_NS = 1_000_000_000

NOW_NS = START_NS + 5 * SECOND_NS


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of three calls, which began a second apart; the last one has failed."""
    exchanges = (make_exchange(1), make_tools_exchange(2), make_failed_exchange(3))
    return make_store(tmp_path / "traces.db", *exchanges)


def ids(*numbers: int) -> list[str]:
    """The span ids of these calls."""
    return [span_id_of(number) for number in numbers]


def listed(store: Path, *words: str, **options: Any) -> list[str]:
    """The span ids of what fits a filter, in the order in which they are listed."""
    ran = Ran(store, words=words, as_json=True, now_ns=NOW_NS, **options)
    assert ran.status == 0, ran.err
    return ran.span_ids


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (("status:error",), (3,)),
        (("-status:error",), (1, 2)),
        (("model:gpt-*", "http:429"), (3,)),
        (("tool:get_weather",), (2,)),
        (("in>5", "ttft<1s"), (1,)),
        (("since:3s",), (2, 3)),
        (("until:3s", "api:chat"), (1,)),
        (("client:codex",), ()),
        (("status:ok tool:get_weather",), (2,)),
    ],
)
def test_the_calls_that_fit_are_listed(
    words: Sequence[str], numbers: Sequence[int], store: Path
) -> None:
    """All words must hold; the newest is the last, as in a list of all."""
    assert listed(store, *words) == ids(*numbers)


def test_since_is_a_word_of_the_filter(store: Path) -> None:
    """Beside others."""
    assert listed(store, since="3s") == ids(2, 3)
    assert listed(store, "status:ok", since="3s") == ids(2)
    assert Ran(store, since="soon").err.splitlines()[1:] == ["  since:soon", "        ^"]


def test_a_wrong_filter_is_marked_where_it_goes_wrong(store: Path, tmp_path: Path) -> None:
    """Status 2, and what would be right, also where there is no store."""
    for path in (store, tmp_path / "none.db"):
        ran = Ran(path, words=("status:error", "modle:gpt"))
        assert (ran.status, ran.out) == (2, "")
        problem, text, mark = ran.err.splitlines()
        assert problem.startswith(
            "spantap traces: unknown key `modle`; did you mean `model`? (at character 14"
        )
        assert (text, mark) == ("  status:error modle:gpt", "               ^")


def test_a_long_wrong_filter_is_shown_in_part(store: Path) -> None:
    """The mark is where the mistake is, and nothing of it steers a terminal."""
    ran = Ran(store, words=("x" * 300, "\x1b[1m語", "dur:fast", "y" * 300))
    _, text, mark = ran.err.splitlines()
    assert text.startswith("  …xxx")
    assert text.endswith("yyy…")
    assert "\x1b" not in text
    assert len(text) < 90
    assert text[: len(mark) - 2].endswith("dur:"), "the character takes two columns"


def test_orders(tmp_path: Path) -> None:
    """The largest first, as many as asked for."""
    rows = [make_row(make_exchange(number)) for number in (1, 2, 3)]
    with Store.open(tmp_path / "t.db") as owner:
        owner.add(
            [
                replace(rows[0], columns=CallColumns(cost_usd=0.5)),
                replace(rows[1], end_ns=rows[1].end_ns + SECOND_NS, total_tokens=None),
                replace(rows[2], total_tokens=99),
            ]
        )
    assert listed(tmp_path / "t.db", sort="slow") == ids(2, 3, 1)
    assert listed(tmp_path / "t.db", sort="cost", limit=2) == ids(1, 3)
    assert listed(tmp_path / "t.db", "-id:0a00000000000003", sort="tokens") == ids(1, 2)


def test_a_list_that_is_cut_by_itself_says_so(tmp_path: Path) -> None:
    """On standard error; where a limit was asked for, it is the limit."""
    path = make_store(tmp_path / "t.db", *(make_exchange(number) for number in range(1, 22)))
    ran = Ran(path)
    assert len(ran.out.splitlines()) == 1 + 20
    assert ran.err == "spantap traces: these are the newest 20; --limit N lists more.\n"
    assert "these are the first 20" in Ran(path, sort="slow", as_json=True).err
    assert Ran(path, limit=20).err == ""
    assert Ran(path, limit=21).err == ""
    assert Ran(path, words=["-id:0a00000000000003"]).err == ""


def test_a_filter_that_nothing_fits_is_told(store: Path) -> None:
    """In its own words, with status 0."""
    ran = Ran(store, words=["model:gpt-6*", "out>9k"])
    assert (ran.status, ran.out) == (0, "")
    assert "no call that fits model:gpt-6* out>9000 is recorded" in ran.err
    ran = Ran(store, words=["status:ok"], launch="app")
    assert "no call of a run named 'app' that fits status:ok is recorded" in ran.err


def test_a_text_is_searched_for_newest_first(store: Path) -> None:
    """In requests and answers, in either case; how far back is told at the end."""
    ran = Ran(store, words=["hello THERE"], as_json=True, now_ns=NOW_NS)
    assert ran.span_ids == ids(3, 1)
    assert re.fullmatch(
        r"spantap traces: searched back to \d\d:\d\d; these are all calls\.\n", ran.err
    )
    assert listed(store, "lisbon") == ids(2)
    assert listed(store, "status:ok", "hello") == ids(1)
    assert Ran(store, words=["hello"], launch="app").out == ""


def test_a_search_ends_at_the_limit(store: Path) -> None:
    """And says how far back it came, with the date of another day."""
    ran = Ran(store, words=["hello"], limit=1, as_json=True, now_ns=NOW_NS + 86_400 * SECOND_NS)
    assert ran.span_ids == ids(3)
    assert re.fullmatch(
        r"spantap traces: searched back to 2025-11-2\d \d\d:\d\d; found as many as --limit 1\.\n",
        ran.err,
    )


def test_a_search_without_a_hit_says_so(store: Path, tmp_path: Path) -> None:
    """Beside how far back it came."""
    back, none = Ran(store, words=["nowhere"]).err.splitlines()
    assert "these are all calls" in back
    assert "no call that fits nowhere is recorded" in none
    assert "searched" not in Ran(make_store(tmp_path / "empty.db"), words=["nowhere"]).err


def test_an_interrupted_search_says_how_far_it_came(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it ends as any other program does."""

    def search(calls: Calls) -> Iterator[SearchStep]:
        yield next(find(calls))
        raise KeyboardInterrupt

    find = Calls.search
    monkeypatch.setattr(Calls, "search", search)
    err = Terminal()
    with pytest.raises(KeyboardInterrupt):
        Ran(store, words=["hello"], err=err)
    assert "; interrupted." not in err.getvalue(), "it had come to the end"
    monkeypatch.setattr(searching, "STEP_SPANS", 1)
    with pytest.raises(KeyboardInterrupt):
        Ran(store, words=["nowhere"], err=err)
    assert err.getvalue().endswith("; interrupted.\n")


def test_a_search_shows_on_a_terminal_how_far_it_is(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a line that goes before anything else is written; a dumb one is spared that."""
    monkeypatch.setattr(searching, "STEP_SPANS", 1)
    monkeypatch.setenv("TERM", "xterm")
    err = Terminal()
    Ran(store, words=["hello"], err=err, now_ns=NOW_NS)
    shown = re.sub(r"\d\d:\d\d", "T", err.getvalue())
    assert shown == (
        "\r\x1b[2Ksearched back to T\r\x1b[2Ksearched back to T\r\x1b[2K\r\x1b[2K"
        "spantap traces: searched back to T; these are all calls.\n"
    )
    monkeypatch.setenv("TERM", "dumb")
    err = Terminal()
    Ran(store, words=["hello"], err=err)
    assert "\x1b" not in err.getvalue()


@pytest.mark.parametrize("word", [span_id_of(2), "0202", "02" * 16, span_id_of(2).upper()])
def test_one_word_that_is_the_id_of_a_call_shows_it(word: str, store: Path) -> None:
    """The beginning of a span or trace id, from four digits on."""
    ran = Ran(store, words=[word])
    assert (ran.status, ran.err) == (0, "")
    assert f"  span        {span_id_of(2)}\n" in ran.out


@pytest.mark.parametrize("word", ["020", "cafe", '"0202"', "0202x"])
def test_another_word_is_a_text(word: str, store: Path) -> None:
    """It is too short, no call has it, or it is quoted, or it is none at all."""
    ran = Ran(store, words=[word])
    assert ran.status == 0
    assert "searched back to" in ran.err


def test_a_word_beside_others_is_a_text(store: Path) -> None:
    """An id is told by ``id:`` there."""
    assert listed(store, "0202", "status:ok") == []
    assert listed(store, "id:0202", "status:ok") == ids(2)


def test_an_id_of_several_calls_lists_them_with_whole_ids(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 2, and how the same is searched for as a text."""
    monkeypatch.setenv("COLUMNS", "34")
    monkeypatch.setenv("TERM", "xterm")
    err = Terminal()
    ran = Ran(store, words=["0a000000"], err=err)
    assert (ran.status, ran.out) == (2, "")
    assert "spantap traces '\"0a000000\"'" in ran.err
    assert all(span_id in Text.from_ansi(ran.err).plain for span_id in ids(1, 2, 3))


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ({"words": ["a text"], "sort": "slow"}, "--sort"),
        ({"words": ["text"], "follow": True}, "--follow"),
        ({"follow": True, "sort": "slow"}, "--sort"),
    ],
)
def test_what_does_not_go_together_is_refused(
    options: dict[str, Any], flag: str, store: Path
) -> None:
    """Status 2 and one sentence, before anything is listed."""
    ran = Ran(store, **options)
    assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert flag in ran.err


def test_follow_lists_what_fits(tmp_path: Path) -> None:
    """And looks at each call once."""
    path = tmp_path / "traces.db"
    asked: list[int] = []
    with Store.open(path) as owner:
        owner.add([make_row(make_failed_exchange(1)), make_row(make_exchange(2))])

        def wait(_: float) -> None:
            asked.append(owner.add([make_row(make_exchange(10 + len(asked)))]))
            if len(asked) == 2:
                owner.add([make_row(make_failed_exchange(3))])
            if len(asked) == 4:
                raise KeyboardInterrupt

        seen: list[int] = []
        since = Calls.since

        def look(reader: Calls, seq: int) -> Iterator[SpanSummary]:
            seen.append(seq)
            return since(reader, seq)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Calls, "since", look)
            ran = Ran(path, words=["status:error"], follow=True, as_json=True, wait=wait)
    assert (ran.status, ran.err) == (0, "")
    assert ran.span_ids == ids(1, 3)
    assert seen == [2, 3, 5]


@pytest.mark.parametrize("width", [34, 80, 220])
def test_a_list_on_a_terminal_has_its_width(
    width: int, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line a call, and the beginning of its id at the least; without colours the same text."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    Ran(store, out=out)
    lines = Text.from_ansi(out.getvalue()).plain.splitlines()
    assert len(lines) == 4
    assert all(len(line) <= width for line in lines)
    assert all(span_id_of(1)[:ID_DIGITS] in line for line in lines[1:])
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    Ran(store, out=plain)
    assert Text.from_ansi(plain.getvalue()).plain.splitlines() == lines


def test_without_a_terminal_nothing_is_cut(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ``COLUMNS`` says."""
    monkeypatch.setenv("COLUMNS", "34")
    lines = Ran(store).out.splitlines()
    assert "\x1b" not in "".join(lines)
    for number, line in enumerate(lines[1:], 1):
        assert span_id_of(number) in line
    assert "Hello there" in lines[1]
    assert "upstream_error 429" in lines[3]
