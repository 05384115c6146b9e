"""The table of calls: its columns on terminals of any width, and through a pipe."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from datetime import UTC
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from rich.cells import cell_len
from rich.text import Text

from proxy.commands.amounts import format_duration
from proxy.commands.console import open_console
from proxy.commands.table import make_drawer, print_table
from telemetry.fact import TerminalColumn
from telemetry.facts import FACTS, ID_DIGITS, NO_COLUMNS
from telemetry.observing.exchange import Outcome
from tests.proxy.recorded_calls import make_exchange, make_failed_exchange, read_call, span_id_of
from tests.proxy.terminals import terminal

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.reading.call import RecordedCall
    from telemetry.fact import Fact


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where a test's store goes."""
    return tmp_path / "traces.db"


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> RecordedCall:
    """A call that went well."""
    return read_call(tmp_path_factory.mktemp("call") / "traces.db", make_exchange())


def tabulate(*calls: RecordedCall) -> list[list[str]]:
    """The table through a pipe, as words."""
    out = io.StringIO()
    print_table(open_console(out), [call.summary for call in calls], zone=UTC)
    return [line.split() for line in out.getvalue().splitlines()]


def lay_out(width: int, *calls: RecordedCall) -> tuple[list[str], list[str]]:
    """The table on a terminal: the titles of its columns, and its lines."""
    console, out = terminal(width)
    titles = print_table(console, [call.summary for call in calls], zone=UTC)
    return [*titles], Text.from_ansi(out.getvalue()).plain.splitlines()


def with_columns(call: RecordedCall, **columns: Any) -> RecordedCall:
    """The call with other values in its columns."""
    told = msgspec.structs.replace(call.summary.columns, **columns)
    return replace(call, summary=replace(call.summary, columns=told))


def test_table_has_a_row_per_call(store: Path) -> None:
    """From the time and the id to the outcome and the delivery."""
    columns = "time id model client api what in out cached ttft took cost outcome state"
    row = f"11-20 14:04:06 {span_id_of(1)} gpt-demo openai chat.completions Hello there"
    row += " 7 2 3 131 ms 342 ms"
    call = read_call(store, make_exchange(user_agent="OpenAI/Python 1.2"))
    call = with_columns(call, cost_usd=0.000125)
    assert tabulate(call) == [columns.split(), [*row.split(), "$0.000125", "completed", "kept"]]


def test_table_marks_what_is_absent(store: Path) -> None:
    """What is not known is a dash, and an error says its type beside the outcome (R6)."""
    _, row = tabulate(read_call(store, make_failed_exchange()))
    assert row[4:] == [
        "-",
        "chat.completions",
        "Hello",
        "there",
        "-",
        "-",
        "-",
        "-",
        "342",
        "ms",
        "-",
        "upstream_error",
        "429",
        "kept",
    ]
    call = read_call(store.with_name("other.db"), make_exchange())
    old = replace(call, summary=replace(call.summary, columns=NO_COLUMNS))
    _, row = tabulate(old)
    assert row[4:] == ["-", "-", "-", "7", "2", "-", "-", "342", "ms", "-", "completed", "kept"]


def test_error_type_that_repeats_the_outcome_is_not_said_twice(store: Path) -> None:
    """``timeout timeout`` would be odd."""
    exchange = make_failed_exchange()
    exchange = msgspec.structs.replace(exchange, outcome=Outcome.TIMEOUT, error_type="timeout")
    _, row = tabulate(read_call(store, exchange))
    assert row[-3:] == ["-", "timeout", "kept"]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.name)
def test_any_fact_may_have_a_column(fact: Fact, call: RecordedCall) -> None:
    """A row of the table of facts is enough, also where a call lacks the fact."""
    summary = replace(call.summary, columns=NO_COLUMNS)
    draw = make_drawer(fact, TerminalColumn("any", 5))
    assert draw(summary, UTC).plain
    if fact.get(summary) is None:
        assert draw(summary, UTC).plain == "-"


@pytest.mark.parametrize(
    "fact",
    [fact for fact in FACTS if fact.path and fact.form.value_type is str],
    ids=lambda fact: fact.name,
)
def test_no_fact_controls_the_terminal(fact: Fact, call: RecordedCall) -> None:
    """What a client or a provider sent is escaped, an id too."""
    call = with_columns(call, **{fact.name: "req\x1b[31mx"})
    draw = make_drawer(fact, TerminalColumn("any", 5))
    assert draw(call.summary, UTC).plain == r"req\x1b[31mx"


def test_tables_printed_one_after_the_other_stand_in_line(store: Path) -> None:
    """A row without a header has its columns where the table above has them."""
    out = io.StringIO()
    console = open_console(out)
    first = read_call(store, make_exchange())
    wide = with_columns(first, preview="a longer question " * 3)
    above = print_table(console, [wide.summary], zone=UTC)
    print_table(console, [first.summary], above=above, zone=UTC)
    header, *rows = out.getvalue().splitlines()
    assert len(rows) == 2
    places = {line.index(f" {word} ") for line, word in zip(
        (header, *rows), ("outcome", "completed", "completed"), strict=True
    )}  # fmt: skip
    assert len(places) == 1


def test_rows_with_other_columns_than_those_above_have_titles_of_their_own(store: Path) -> None:
    """A number that leaves no room for a column does not put others under its title."""
    console, out = terminal(80)
    call = read_call(store, make_exchange())
    above = print_table(console, [call.summary], zone=UTC)
    large = replace(call.summary, prompt_tokens=10**9)
    under = print_table(console, [large], above=above, zone=UTC)
    assert [*under] == [title for title in above if title != "took"]
    lines = [line.split() for line in Text.from_ansi(out.getvalue()).plain.splitlines()]
    assert lines[2] == ["time", "id", "model", "what", "in", "out", "outcome"]
    assert lines[3][-3:] == ["1000000000", "2", "completed"]


def large_numbers(call: RecordedCall) -> RecordedCall:
    """A long call of many tokens by a model with a long name, to a provider that said 429."""
    columns = msgspec.structs.replace(
        call.summary.columns,
        cached_tokens=1_234_000,
        cost_usd=12.3456,
        preview="Sum 123456 up, " * 7,
    )
    summary = replace(
        call.summary,
        model="gpt-4o-mini-2024-07-18",
        prompt_tokens=1_234_567,
        completion_tokens=18,
        end_ns=call.summary.start_ns + 754_000_000_000,
        columns=columns,
    )
    return replace(call, summary=summary)


def test_no_number_is_cut_on_any_terminal(store: Path) -> None:
    """Rows are one line, and what stands under the title of a number is that number."""
    call = read_call(store, make_exchange())
    large = large_numbers(read_call(store.with_name("other.db"), make_failed_exchange()))
    expected = {
        "in": ("7", "1234567"),
        "out": ("2", "18"),
        "cached": ("3", "1234000"),
        "ttft": ("131 ms", "-"),
        "took": ("342 ms", "12 min 34 s"),
        "cost": ("-", "$12.3456"),
    }
    numbers = {"7", "2", "3", "131", "342", "1234567", "18", "1234000", "12", "34", "429", "123456"}
    ids = {one.summary.span_id[:digits] for one in (call, large) for digits in (8, 16)}
    for width in range(20, 261):
        titles, (header, *rows) = lay_out(width, call, large)
        assert len(rows) == 2
        assert max(map(len, (header, *rows))) <= width
        assert header.split() == titles
        for title in expected.keys() & set(titles):
            end = next(re.finditer(rf"\b{title}\b", header)).end()
            for row, value in zip(rows, expected[title], strict=True):
                assert f" {row[:end]}".endswith(f" {value}"), (width, title, row)
        words = {*" ".join(rows).split()} - ids
        assert {word for word in words if word.isdecimal()} <= numbers
        models = {word for word in words if word.startswith("gpt-4")}
        assert models <= {f"gpt-4o-mini-2024-07-18{end}" for end in ("", "…")} | {
            f"gpt-4o-{more}…"
            for more in ("", "m", "mi", "min", "mini", "mini-", "mini-2024-", "mini-2024-07-")
        }


def test_an_id_is_whole_or_its_first_digits(store: Path) -> None:
    """Whole where there is room, and where calls are to be told apart by it."""
    call = read_call(store, make_exchange())
    whole = call.summary.span_id
    for width in range(20, 261):
        titles, (_, row) = lay_out(width, call)
        assert row.split()[2 if "time" in titles else 0] in {whole, whole[:ID_DIGITS]}
    assert whole in lay_out(220, call)[1][1]
    console, out = terminal(34)
    print_table(console, [call.summary], whole_ids=True, zone=UTC)
    assert whole in Text.from_ansi(out.getvalue()).plain


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (34, "id model in outcome"),
        (80, "time id model what in out took outcome"),
        (100, "time id model what in out ttft took cost outcome"),
        (220, "time id model client api what in out cached ttft took cost outcome state"),
    ],
)
def test_columns_get_room_in_the_order_of_what_they_say(
    width: int, titles: str, store: Path
) -> None:
    """Each row is one line, and those that say least are left out first."""
    shown, lines = lay_out(width, read_call(store, make_exchange()))
    assert shown == titles.split()
    assert len(lines) == 2
    assert all(len(line) <= width for line in lines)


def test_a_wider_terminal_has_no_fewer_columns(store: Path) -> None:
    """The id, by which the rest can be asked for, is always there."""
    call = read_call(store, make_exchange())
    shown = [lay_out(width, call)[0] for width in range(8, 221)]
    assert shown[0] == ["id"]
    for narrow, wide in pairwise(shown):
        assert set(narrow) <= set(wide)


def test_the_question_takes_what_is_left(store: Path) -> None:
    """On a wide terminal all of what the store has of it; on a narrow one its beginning."""
    question = "why does " * 13 + "it"
    call = with_columns(read_call(store, make_exchange()), preview=question)
    assert question in lay_out(260, call)[1][1]
    row = lay_out(80, call)[1][1]
    assert "why does why does … " in row
    lengths = [len(lay_out(width, call)[1][1]) for width in range(150, 241)]
    assert lengths == [width - 1 for width in range(150, 241)], "`kept` has room for a letter more"


def test_short_words_are_whole_before_long_ones_grow(store: Path) -> None:
    """A client of a few letters more than usual is not cut beside a long question."""
    call = read_call(store, make_exchange())
    call = with_columns(call, client="claude-code-cli", preview="why does " * 13 + "it")
    for width in range(156, 241):
        assert " claude-code-cli " in lay_out(width, call)[1][1]


@pytest.mark.parametrize("width", [100, 120, 150])
def test_a_line_of_100_columns_has_room_for_a_step(width: int, store: Path) -> None:
    """The tool and its file; columns that say less come after that."""
    call = with_columns(read_call(store, make_exchange()), preview="Hi")
    row = lay_out(width, with_columns(call, step="Read ✓ → Edit notes.txt"))[1][1]
    assert " Read ✓ → Edit notes.txt " in row


def test_a_question_is_one_line(store: Path) -> None:
    """Whatever characters it has, also those that take two columns."""
    call = with_columns(read_call(store, make_exchange()), preview="a\nb\x1b[2J" + 20 * "語")
    for width in (34, 80, 220):
        _, lines = lay_out(width, call)
        assert len(lines) == 2
        assert all(cell_len(line) <= width for line in lines)


def test_no_color_leaves_words_and_lines_alone(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without colours a terminal shows the same text."""
    call = read_call(store, make_failed_exchange())
    _, coloured = lay_out(100, call)
    monkeypatch.setenv("NO_COLOR", "1")
    console, out = terminal(100)
    print_table(console, [call.summary], zone=UTC)
    assert not re.search(r"\x1b\[[\d;]*3[0-7]", out.getvalue())
    assert Text.from_ansi(out.getvalue()).plain.splitlines() == coloured


def test_pipe_is_not_affected_by_the_environment(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables that describe a terminal say nothing about a pipe."""
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = io.StringIO()
    print_table(open_console(out), [read_call(store, make_exchange()).summary], zone=UTC)
    assert "\x1b" not in out.getvalue()
    assert len(out.getvalue().splitlines()) == 2


@pytest.mark.parametrize(
    ("duration_ns", "expected"),
    [
        (0, "0 ms"),
        (999_400_000, "999 ms"),
        (999_600_000, "1.00 s"),
        (1_234_000_000, "1.23 s"),
        (59_996_000_000, "1 min 00 s"),
        (185_900_000_000, "3 min 05 s"),
    ],
)
def test_durations_have_a_fitting_precision(duration_ns: int, expected: str) -> None:
    """Milliseconds below a second, hundredths below a minute, then minutes and seconds."""
    assert format_duration(duration_ns) == expected
