"""What people read of costs: the meaning of amounts, what is saved, and why one is unknown."""

from __future__ import annotations

import contextlib
import io
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.resources import Resource
from rich.text import Text

from codec.text.jsontext import decode_json_object
from codec.usage import Usage
from proxy.commands.check.costs import check_costs
from proxy.commands.launch_summary import print_summary
from proxy.commands.no_call import NoCall
from proxy.commands.stats import StatsOptions, run_stats
from proxy.reading.costs import MAX_GAPS, count_days, describe_list, explain_gap, explain_gaps
from proxy.settings.settings import Settings
from telemetry.facts import COST_GAPS, CallColumns
from telemetry.launch_labels import build_label
from telemetry.pricing.price_table import Price, PriceTable
from telemetry.pricing.pricing import Pricing
from telemetry.recording import span_row
from telemetry.spans.columns import build_columns
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from telemetry.store.schema import MIGRATIONS
from telemetry.store.store import Store
from tests.proxy.page.serving import serve_api
from tests.proxy.recorded_calls import make_exchange, make_failed_exchange, make_row, span_id_of
from tests.proxy.traces_runs import Ran

if TYPE_CHECKING:
    from pathlib import Path

    from telemetry.store.rows import SpanRow

LAUNCH = ("my agent", "0a1b2c3d")

UNKNOWN = (
    'the list of prices has no model "of-our-own"; write a [[price]] table with'
    ' model = "of-our-own", input and output in dollars per million tokens into the settings'
    "' file."
)


def call(number: int, **columns: Any) -> SpanRow:
    """A call of a launch with these columns."""
    row = make_row(make_exchange(number))
    known = {"upstream": "default", **columns}
    row = replace(row, launch=build_label(*LAUNCH), columns=CallColumns(**known))
    return replace(row, model="of-our-own") if "cost_gap" in columns else row


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Calls that were paid, that a subscription pays, that have no price, that failed; a tool."""
    failed = make_row(make_failed_exchange(5))
    tool = make_row(make_exchange(6))
    with Store.open(tmp_path / "traces.db", delivers=False) as owner:
        owner.add(
            [
                call(1, cost_usd=0.25, saved_usd=0.125, cached_tokens=3),
                call(2, cost_usd=0.5, cost_basis="list"),
                call(3, cost_gap="unknown_model"),
                call(4, cost_gap="no_usage"),
                replace(failed, launch=build_label(*LAUNCH)),
                replace(
                    tool,
                    status="ERROR",
                    prompt_tokens=None,
                    completion_tokens=None,
                    launch=build_label(*LAUNCH),
                    columns=CallColumns(kind="TOOL"),
                ),
            ]
        )
    return tmp_path / "traces.db"


def price(number: int, *prices: Price, model: str = "gpt-4o-mini", **members: Any) -> SpanRow:
    """The row of a call that the bundled list prices, or does not."""
    exchange = make_exchange(number, server_address="api.openai.com", **members)
    assert exchange.response is not None
    usage = Usage(prompt=1000, completion=200, cache_read=400)
    response = replace(exchange.response, model=model, usage=usage)
    exchange = replace(exchange, response=response)
    rules = SpanRules(pricing=Pricing(PriceTable(prices)))
    recorder = SpanRecorder(Resource({"service.name": "spantap"}), build_span_limits(), rules)
    span = recorder.record(exchange)
    assert span is not None
    return span_row.make_row(exchange, span, build_columns(exchange, span), exchange.end_ns)


@pytest.mark.parametrize("gap", COST_GAPS)
def test_each_reason_has_words_and_most_what_to_write(gap: str) -> None:
    """Names are written as in the settings' file, so that nothing breaks out of them."""
    found = explain_gap(gap, 'a"b\nc', "groq")
    assert gap not in found.why
    if gap == "no_usage":
        assert found.mend == ""
    else:
        assert r'[[price]] table with model = "a\"b\nc", input and output' in found.mend
    unknown = explain_gap("unknown_provider", None, "gate")
    assert "gate" in unknown.why
    assert 'its [[upstream]] table, such as provider = "anthropic"' in unknown.mend
    assert "into an [[upstream]] table" in explain_gap("unknown_provider", None, "default").mend
    assert explain_gap("of the future", None, None) == ("of the future", "")
    assert explain_gap("of the future", None, None).words == "of the future"


def test_reasons_are_given_once_and_a_few() -> None:
    """However many calls have them."""
    rows = [make_row(make_exchange(n)) for n in range(1, 9)]
    unpriced = CallColumns(cost_gap="unknown_model")
    same = [replace(row, model="m", columns=unpriced) for row in rows]
    assert len(explain_gaps(same)) == 1  # type: ignore[arg-type]
    different = [replace(row, model=str(n), columns=unpriced) for n, row in enumerate(rows)]
    assert len(explain_gaps(different)) == MAX_GAPS  # type: ignore[arg-type]


def test_a_list_is_old_after_90_days() -> None:
    """Counted at the time of the call; a day that is none is never old."""
    day_ns = 86_400_000_000_000
    at_ns = 1_793_880_000_000_000_000  # 2026-11-05
    assert describe_list("2026-11-01", at_ns) == "list of 2026-11-01"
    assert describe_list("2026-11-01", at_ns + 90 * day_ns) == "list of 2026-11-01, 94 days old"
    assert count_days("no day", at_ns) is None
    assert count_days("2026-11-01", 10**40) is None


def test_show_says_where_a_cost_comes_from_and_what_it_means(tmp_path: Path) -> None:
    """Source, day of the list, list price, what was saved."""
    path = tmp_path / "t.db"
    with Store.open(path, delivers=False) as owner:
        owner.add([price(1), price(2, is_subscription=True), price(3, model="of-our-own")])
    shown = [Ran(path, call_id=span_id_of(n)).out for n in (1, 2, 3)]
    assert "cost        $0.00024 (genai-prices, list of 2026-" in shown[0]
    assert "list price" not in shown[0]
    assert "saved       $0.00003 by the provider's cache" in shown[0]
    assert "): the list price; a subscription pays\n" in shown[1]
    assert "saved " not in shown[1], "nobody saves what nobody pays"
    assert 'cost        unknown: the list of prices has no model "of-our-own"\n' in shown[2]
    assert '[[price]] table with model = "of-our-own"' in shown[2]
    said = Ran(path, call_id=span_id_of(2), as_json=True).out
    record = decode_json_object(said.encode())
    assert record["cost_basis"] == "list"
    assert record.get("saved_usd") is None
    assert said.count("cost_basis") == 2, "as metadata of the span, too"


def test_a_list_says_once_why_costs_are_unknown(store: Path) -> None:
    """On standard error; not for calls without tokens, and not to programs."""
    ran = Ran(store)
    assert ran.err == f"spantap traces: a cost is unknown: {UNKNOWN}\n"
    assert [word for word in ran.out.split() if word.startswith("$")] == ["$0.25", "$0.5"]
    assert "$0.5 list" in ran.out
    assert Ran(store, as_json=True).err == ""
    assert Ran(store, words=("basis:list",)).out.count(" completed ") == 1
    assert Ran(store, words=("unpriced:unknown_model",)).out.count(" completed ") == 1
    assert Ran(store, words=("saved>0.1",)).out.count(" completed ") == 1


def sum_up(store: Path, **options: Any) -> tuple[str, str]:
    """What ``stats`` says, and what it complains of."""
    out, err = io.StringIO(), io.StringIO()
    run_stats(store, StatsOptions(**options), prices=PriceTable, out=out, err=err)
    return out.getvalue(), err.getvalue()


@pytest.mark.parametrize("by", ["", "model", "client"])
def test_sums_keep_list_prices_apart(store: Path, by: str) -> None:
    """Made of the sums by minute, and of rows. With what is saved, and how many lack a price."""
    told, complaints = sum_up(store, by=by)
    titles, *_, total = told.splitlines()
    assert titles.split()[-3:] == ["saved", "unpriced", "cost"]
    assert total.split()[-6:] == ["$0.125", "2", "$0.25", "+", "$0.5", "list*"]
    assert complaints == f"spantap stats: a cost is unknown: {UNKNOWN}\n"
    told, complaints = sum_up(store, by=by, as_json=True)
    record = decode_json_object(told.splitlines()[-1].encode())
    sums = [record[name] for name in ("cost_usd", "list_usd", "saved_usd", "calls", "priced")]
    assert sums == [0.75, 0.5, 0.125, 5, 2]
    assert complaints == ""


def test_a_store_from_before_shows_what_it_has(store: Path) -> None:
    """Costs, while nobody has migrated it and after that; nothing is written anew.

    Its rows do not say why they have no cost; its minutes count all calls without one.
    """
    with contextlib.closing(sqlite3.connect(store)) as connection:
        for name in ("saved_usd", "cost_basis", "cost_gap"):
            connection.execute(f"ALTER TABLE spans DROP COLUMN {name}")
        for name in ("saved_usd", "list_usd", "unpriced", "input_usd"):
            connection.execute(f"ALTER TABLE minutes DROP COLUMN {name}")
        assert sum_up(store)[0].split()[-3:] == ["$0", "0", "$0.75"]
        before = [*connection.execute("SELECT cost_usd, priced FROM minutes")]
        for statement in (*MIGRATIONS[11], *MIGRATIONS[14], *MIGRATIONS[16]):
            connection.execute(statement)
        sums = "SELECT cost_usd, priced, saved_usd + list_usd FROM minutes"
        assert [*connection.execute(sums)] == [(*row, 0) for row in before]
        connection.commit()
    assert sum_up(store)[0].split()[-3:] == ["$0", "3", "$0.75*"]


def test_a_launch_ends_with_its_sums(store: Path) -> None:
    """Calls, errors, tokens, cost, what was saved, failed tools; and why a cost is unknown."""
    err = io.StringIO()
    print_summary(store, LAUNCH, None, err, NoCall(program="python"))
    lines = Text.from_ansi(err.getvalue()).plain.splitlines()
    assert [line for line in lines if line.startswith("  ")] == [
        "  calls   5, 1 failed",
        "  tokens  28 in (3 cached), 8 out",
        "  cost    $0.25 + $0.5 list, 2 calls have no price",
        "  saved   $0.125 by the provider's cache",
        "  tools   1, 1 failed",
        f"          a cost is unknown: {UNKNOWN}",
    ]


def test_check_names_the_list_and_calls_without_a_price(store: Path) -> None:
    """And says nothing of prices where no costs are wanted."""
    settings = Settings(store=store)
    dated, unknown = check_costs(settings)
    assert (dated.what, unknown.what) == ("cost", "cost")
    assert "the newest price in the list of genai-prices is of 20" in dated.words
    assert f"{unknown.words}; {unknown.mend}." == f"calls have no cost: {UNKNOWN}"
    (off,) = check_costs(Settings(store=store, cost=False))
    assert off.words == "no costs are recorded: SPANTAP_COST is false"
    assert len([*check_costs(Settings(store=store.with_name("none.db")))]) == 1


@pytest.mark.parametrize(
    ("day", "words"),
    [("2020-01-01", " days ago"), (None, "cannot be read"), ("2999-01-01", "is of")],
)
def test_check_marks_an_old_list(
    day: str | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what to update."""
    monkeypatch.setattr("proxy.commands.check.costs.find_list_date", lambda: day)
    (found,) = check_costs(Settings(store=tmp_path / "none.db"))
    assert words in found.words
    assert bool(found.mend) == (day != "2999-01-01")


async def test_the_page_has_all_of_it(store: Path, tmp_path: Path) -> None:
    """Of sums and of a call."""
    path = tmp_path / "t.db"
    with Store.open(path, delivers=False) as owner:
        owner.add([price(1, is_subscription=True), price(2, model="of-our-own")])
    async with serve_api(path) as api:
        listed, unknown = (
            await api.get(f"calls/{span_id_of(1)}"),
            await api.get(f"calls/{span_id_of(2)}"),
        )
    cost = listed["cost"]
    assert (cost["source"], cost["basis"], cost["list_is_old"]) == ("genai-prices", "list", False)
    assert cost["list_date"].startswith("2026-")
    assert any(f"the cost is unknown: {UNKNOWN}".startswith(note) for note in unknown["notes"])
    async with serve_api(store) as api:
        told = await api.get("stats")
    assert (told["totals"]["list_usd"], told["totals"]["saved_usd"]) == (0.5, 0.125)
    ((gap),) = told["unpriced"]
    assert f"{gap['why']}; {gap['mend']}." == UNKNOWN
