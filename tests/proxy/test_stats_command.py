"""``spantap stats``: tables on terminals of any width, and JSON."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from rich.text import Text

from codec.text.jsontext import decode_json_object
from proxy.__main__ import main
from proxy.commands.stats import StatsOptions, run_stats
from telemetry.facts import CallColumns
from telemetry.pricing.price_table import Price, PriceTable
from telemetry.store.store import Store
from tests.proxy.recorded_calls import START_NS, make_exchange, make_failed_exchange, make_row
from tests.proxy.traces_runs import Terminal

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = ("upstream", "calls", "id")
"""The last columns of limits."""

PRICES = PriceTable([Price(model="house", input=1_000.0, output=10_000.0)])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three calls of two clients, one of them failed, two with a cost."""
    path = tmp_path / "traces.db"
    rows = [make_row(make_exchange(1)), make_row(make_exchange(2))]
    columns = [
        CallColumns(client="codex", cost_usd=0.25, cached_tokens=3, ttft_ns=200_000_000),
        CallColumns(client="openai", cost_usd=0.5, upstream="groq"),
    ]
    with Store.open(path) as owner:
        owner.add([replace(row, columns=of) for row, of in zip(rows, columns, strict=True)])
        owner.add([make_row(make_failed_exchange(3))])
    return path


class Ran:
    """What one run of the command gave."""

    def __init__(
        self, store: Path, *words: str, out: io.StringIO | None = None, **options: Any
    ) -> None:
        self._out, self._err = out or io.StringIO(), io.StringIO()
        self.status = run_stats(
            store,
            StatsOptions(words=words, **options),
            prices=lambda: PRICES,
            out=self._out,
            err=self._err,
            now_ns=lambda: START_NS + 5_000_000_000,
        )
        self.out, self.err = self._out.getvalue(), self._err.getvalue()
        self.rows = [line.split() for line in self.out.splitlines()]


def test_all_calls_are_one_row(store: Path) -> None:
    """Without a question what they have in common."""
    ran = Ran(store)
    assert (ran.status, ran.err) == (0, "")
    titles, row = ran.rows
    assert titles[:3] == ["calls", "errors", "in"]
    assert row[:3] == ["all", "3", "1"]
    assert row[-2:] == ["0", "$0.75"], "a call that failed has no price to miss"


def test_as_many_calls_lack_a_price_as_the_filter_finds(store: Path) -> None:
    """Whether the sums of minutes are enough or rows are read; a star says that some do."""
    rows = [
        replace(make_row(make_exchange(number)), columns=CallColumns(client="codex", cost_gap=gap))
        for number, gap in ((7, "unknown_model"), (8, "no_usage"), (9, None))
    ]
    with Store.open(store) as owner:
        owner.add(rows)
    found = decode_json_object(Ran(store, "unpriced:*", as_json=True).out)
    assert found["calls"] == 2
    for by in ("", "model", "client", "run"):
        ran = Ran(store, by=by)
        assert ran.rows[-1][-2:] == ["2", "$0.75*"]
        *_, total = map(decode_json_object, Ran(store, by=by, as_json=True).out.splitlines())
        assert (total["calls"], total["priced"], total["unpriced"]) == (6, 2, 2)


def test_groups_have_most_calls_first_and_all_of_them_last(store: Path) -> None:
    """What is not known has a dash."""
    ran = Ran(store, by="client")
    assert [row[:3] for row in ran.rows] == [
        ["client", "calls", "errors"],
        ["-", "1", "1"],
        ["codex", "1", "0"],
        ["openai", "1", "0"],
        ["all", "3", "1"],
    ]
    assert Ran(store, by="hour").rows[1][2] == "3"


def test_a_filter_chooses_calls(store: Path) -> None:
    """As that of ``traces``, with ``--since``."""
    assert Ran(store, "client:codex").rows[1][:2] == ["all", "1"]
    assert Ran(store, "-status:error", since="1h").rows[1][:2] == ["all", "2"]
    none = Ran(store, "model:none", by="model")
    assert (none.status, none.out) == (0, "")
    assert none.err.startswith("spantap stats: no call that fits model:none is recorded in ")


def test_what_cannot_be_followed_is_told(store: Path, tmp_path: Path) -> None:
    """Status 2 for a question, 1 for a store that is not there."""
    ran = Ran(store, "modle:x")
    assert ran.status == 2
    assert ran.err.startswith("spantap stats: unknown key `modle`; did you mean `model`?")
    ran = Ran(store, "some text")
    assert (ran.status, ran.out) == (2, "")
    assert "texts are for `spantap traces`" in ran.err
    assert Ran(store, price_as="nobody's").status == 2
    ran = Ran(tmp_path / "none.db")
    assert (ran.status, ran.err.startswith("spantap stats: there is no store at")) == (1, True)
    (tmp_path / "bad.db").write_bytes(b"no database" * 99)
    assert Ran(tmp_path / "bad.db").status == 1


def test_groups_that_are_left_out_are_told(store: Path) -> None:
    """Never a silent cap."""
    ran = Ran(store, by="client", limit=1)
    assert [row[0] for row in ran.rows] == ["client", "-", "all"]
    assert ran.err == "spantap stats: 2 more by client; --limit N shows more.\n"


def test_calls_are_reckoned_at_another_price(store: Path) -> None:
    """Those whose tokens are known."""
    ran = Ran(store, price_as="house", as_json=True)
    (record,) = map(decode_json_object, ran.out.splitlines())
    prompt, completion = record["prompt_tokens"], record["completion_tokens"]
    told = record["price_as"]
    assert told["name"] == "house"
    assert told["cost_usd"] == pytest.approx((prompt * 1_000 + completion * 10_000) / 1e6)
    assert told["priced"] == 2
    assert "as house" in Ran(store, price_as="house", by="model").out
    assert Ran(store, price_as="house", by="client").rows[1][-1] == "-", "it has no tokens"


def test_limits_show_how_near_they_came(store: Path) -> None:
    """The nearest first, with its reset and its call; also as JSON."""
    ran = Ran(store, by="limit")
    assert (ran.status, ran.out) == (0, "")
    assert ran.err.startswith("spantap stats: no call that says what is left of a limit is ")
    said = {"x-ratelimit-limit-tokens": "200", "x-ratelimit-remaining-tokens": "10"}
    said |= {"x-ratelimit-limit-requests": "50", "x-ratelimit-remaining-requests": "25"}
    said |= {"x-ratelimit-reset-tokens": "6m0s"}
    with Store.open(store) as owner:
        owner.add([make_row(make_exchange(4, heads={"response": said}))])
    ran = Ran(store, by="limit")
    assert ran.rows[0] == ["limit", "left", "remaining", "of", "reset", "when", "model", *COLUMNS]
    assert [row[:5] for row in ran.rows[1:]] == [
        ["tokens", "5%", "10", "200", "6m0s"],
        ["requests", "50%", "25", "50", "-"],
    ]
    ran = Ran(store, by="limit", as_json=True, limit=1)
    (record,) = map(decode_json_object, ran.out.splitlines())
    assert record["left"] == 0.05
    assert record.keys() > {"upstream", "model", "remaining", "reset", "time", "span_id"}
    assert ran.err == "spantap stats: 1 more by limit; --limit N shows more.\n"
    assert Ran(store, by="limit", price_as="house").status == 2


def test_limits_say_that_not_all_calls_were_read(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never a silent cap."""
    monkeypatch.setattr("proxy.commands.stats_limits.MAX_SECONDS", 0)
    assert "of the newest 0 calls" in Ran(store, by="limit").err


def test_json_has_every_number(store: Path) -> None:
    """A line for each group, and one of all calls, which has no key."""
    ran = Ran(store, by="client", as_json=True)
    records = [decode_json_object(line) for line in ran.out.splitlines()]
    assert [(record["by"], record["key"]) for record in records] == [
        ("client", None),
        ("client", "codex"),
        ("client", "openai"),
        (None, None),
    ]
    codex = records[1]
    assert (codex["cost_usd"], codex["priced"], records[0]["cost_usd"]) == (0.25, 1, None)
    assert codex["cached_share"] == pytest.approx(3 / codex["prompt_tokens"])
    assert codex["ttft_ms"] == {"calls": 1, "p50": 200.0, "p90": 200.0, "p99": 200.0}
    assert records[2]["ttft_ms"]["p50"] is None
    assert codex["output_tokens_per_second"] > 0
    hour = decode_json_object(Ran(store, by="hour", as_json=True).out.splitlines()[0])
    assert hour["key"].endswith(":00:00Z")


@pytest.mark.parametrize("width", [34, 80, 220])
def test_no_number_is_cut_on_any_terminal(
    store: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole columns are left out; those of a narrow one say most."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    ran = Ran(store, by="client", out=Terminal())
    assert "\x1b[3" not in ran.out, "no colour"
    lines = Text.from_ansi(ran.out).plain.splitlines()
    assert max(map(len, lines)) <= width
    piped = Ran(store, by="client").rows
    told = {cell for row in piped for cell in row} | {"p50", "took", "ttft"}
    assert {cell for line in lines for cell in line.split()} <= told
    titles = lines[0].split()
    assert {"calls", "errors"} <= set(titles)
    assert ("p99" in titles) == (width == 220)


def test_the_command_line_asks(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With flags before and behind the words."""
    flags = ["--store", str(store)]
    assert main(["stats", "--by", "model", "status:ok", *flags]) == 0
    assert capsys.readouterr().out.startswith("model")
    assert main(["stats", *flags, "--price-as", "gpt-5-mini", "--json"]) == 0
    assert decode_json_object(capsys.readouterr().out)["price_as"]["name"] == "openai/gpt-5-mini"


def test_prices_are_imported_where_they_are_asked_for_alone() -> None:
    """They take longer to import than the sums of a small store to make."""
    program = "import sys, proxy.commands.stats; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    imported = set(ended.stdout.decode().split())
    assert "telemetry.reading.sums" in imported
    assert imported.isdisjoint({"telemetry.pricing", "telemetry.pricing.repricing", "pydantic"})


def test_sums_say_that_most_of_the_cost_is_input(tmp_path: Path) -> None:
    """From four fifths on, by the sums of minutes and by rows; not to programs."""
    shares = {"mostly": 0.2425, "hardly": 0.1}
    for name, input_usd in shares.items():
        columns = CallColumns(client="codex", cost_usd=0.25, input_usd=input_usd)
        with Store.open(tmp_path / f"{name}.db") as owner:
            owner.add([replace(make_row(make_exchange(1)), columns=columns)])
    for by in ("", "client"):
        words = "spantap stats: of the cost, 97 % is input.\n"
        assert words in Ran(tmp_path / "mostly.db", by=by).err
        assert Ran(tmp_path / "hardly.db", by=by).err == ""
    assert Ran(tmp_path / "mostly.db", as_json=True).err == ""
