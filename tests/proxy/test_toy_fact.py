"""A fact of a call is one row of the table, and all the house knows it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import codec
import proxy
import telemetry
from codec.text.jsontext import decode_json
from telemetry.store.schema import MIGRATIONS
from telemetry.store.store import Store
from tests.docs.blocks import ROOT
from tests.proxy.recorded_calls import make_exchange, make_store, span_id_of

TOY = f"""
    toy_bytes: Annotated[
        int | None,
        Fact(
            "what the toy weighs",
            form=Form.COUNT,
            schema={len(MIGRATIONS) + 1},
            found=OfExchange("request_size_bytes"),
            keys=(FilterKey("weight>10", also=("heavy",)),),
            terminal=TerminalColumn("toy", 5),
            page=PageColumn("Toy", note="its weight"),
            aggregation=Aggregation.SUM,
            order="heavy",
        ),
    ] = None
    toy_lent_ns: Annotated[
        int | None,
        Fact(
            "how long the toy was lent",
            form=Form.DURATION,
            schema={len(MIGRATIONS) + 1},
            found=OfExchange("client_retry"),
            aggregation=Aggregation.RANK,
        ),
    ] = None
    toy_owner: Annotated[
        str | None,
        Fact(
            "whose toy it is",
            schema={len(MIGRATIONS) + 1},
            found=OfExchange("kept_by"),
            keys=(FilterKey("owner:NAME"),),
            terminal=TerminalColumn("owner", 5),
            page=PageColumn("Owner"),
            group="owner",
        ),
    ] = None
"""
"""The rows: a count, a duration and a text of the exchange, which nobody has shown before."""

END = "\n\n\nCOLUMN_NAMES: Final"
"""What follows the last row."""

RECORD = """
import sys
from pathlib import Path
from tests.proxy.recorded_calls import make_exchange, make_store

light = make_exchange(1, request_size_bytes=7, client_retry=3_000_000)
heavy = make_exchange(2, request_size_bytes=41, client_retry=9_000_000, kept_by="ann")
make_store(Path(sys.argv[1]), light, heavy)
"""

SHOW_PAGE = """
import asyncio, json, sys
from pathlib import Path
from tests.proxy.page.pages import open_page

async def show():
    async with open_page(Path(sys.argv[1])) as page:
        for path in ("columns", "calls", "calls?filter=weight:41"):
            async with page.session.get(f"{page.url}/api/{path}") as answer:
                print(json.dumps(await answer.json()))

asyncio.run(show())
"""


class House:
    """A copy of the product with the toy's rows, and a store that it wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "toy.db"

    def run(self, *words: str, status: int = 0) -> str:
        """What Python says in that house; its errors, if status 2 is wanted: wrong usage."""
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": f"{self.folder}{os.pathsep}{ROOT}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stderr
        return done.stderr if status == 2 else done.stdout

    def trace(self, *words: str, status: int = 0) -> str:
        """What ``spantap traces`` says of the store."""
        return self.run("-m", "proxy", "traces", *words, "--store", str(self.store), status=status)

    def sums(self, *words: str) -> list[Any]:
        """What ``spantap stats --json`` says of the store, a row for each group and one of all."""
        said = self.run("-m", "proxy", "stats", "--json", *words, "--store", str(self.store))
        return [decode_json(line.encode()) for line in said.splitlines()]

    def list(self, *words: str) -> list[Any]:
        """The weights of the calls that it lists."""
        lines = self.trace("--json", *words).splitlines()
        return [decode_json(line.encode())["toy_bytes"] for line in lines]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    """The copy, with two calls of different weight."""
    folder = tmp_path_factory.mktemp("house")
    for package in (codec, telemetry, proxy):
        source = Path(str(package.__file__)).parent
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    facts = folder / "telemetry/facts.py"
    text = facts.read_text(encoding="utf-8")
    assert text.count(END) == 1
    facts.write_text(text.replace(END, f"{TOY.rstrip()}{END}"), encoding="utf-8")
    house = House(folder)
    house.run("-c", RECORD, str(house.store))
    return house


def test_it_is_stored(house: House) -> None:
    """Each fact has a column."""
    with contextlib.closing(sqlite3.connect(house.store)) as connection:
        found = connection.execute("SELECT toy_bytes, toy_lent_ns, toy_owner FROM spans")
        assert sorted(found) == [(7, 3_000_000, None), (41, 9_000_000, "ann")]


def test_it_is_found(house: House) -> None:
    """By its key, of which an example is in the help."""
    assert house.list("weight>10") == [41]
    assert sorted(house.list("-weight>10")) == [7]
    assert "weight>10  " in house.run("-m", "proxy", "traces", "--help")
    assert "did you mean `weight`" in house.trace("heavy:1", status=2)
    assert house.list("owner:a*") == [41]
    assert house.list("-owner:*") == [7]


def test_it_is_shown_on_a_terminal(house: House) -> None:
    """Under its title, behind all others; a dash stands for what is not known."""
    titles, *rows = (line.split() for line in house.trace().splitlines())
    assert titles[-2:] == ["toy", "owner"]
    assert sorted(row[-2:] for row in rows) == [["41", "ann"], ["7", "-"]]


def test_it_is_in_json(house: House) -> None:
    """Of a list and of a call in full."""
    assert sorted(house.list()) == [7, 41]
    assert house.list("show", span_id_of(2)) == [41]


def test_it_is_summed_up(house: House) -> None:
    """A toy fact is summed up for all calls and for each group."""
    assert [one["toy_bytes"] for one in house.sums("--by", "user")] == [48, 48]


def test_it_is_ranked(house: House) -> None:
    """A duration has percentiles, in milliseconds."""
    (lent,) = [one["toy_lent_ms"] for one in house.sums()]
    assert lent == {"calls": 2, "p50": 3.0, "p90": 9.0, "p99": 9.0}


def test_calls_are_grouped_by_it(house: House) -> None:
    """Each owner's, those of nobody, and all."""
    sums = [(one["key"], one["toy_bytes"]) for one in house.sums("--by", "owner")]
    assert sums == [(None, 7), ("ann", 41), (None, 48)]


def test_calls_are_put_in_its_order(house: House) -> None:
    """The heaviest first."""
    assert house.list("--sort", "heavy") == [41, 7]


def test_it_is_on_the_page(house: House) -> None:
    """As a column, in each row, and by its key."""
    told = house.run("-c", SHOW_PAGE, str(house.store)).splitlines()
    columns, calls, found = (decode_json(line.encode()) for line in told)
    toy, owner = columns["columns"][-2:]
    assert toy == {
        "name": "toy_bytes",
        "title": "Toy",
        "note": "its weight",
        "member": "toy_bytes",
        "format": "count",
    }
    assert (owner["member"], owner["format"], owner["note"]) == ("toy_owner", "text", None)
    assert {call["toy_owner"] for call in calls["calls"]} == {None, "ann"}
    assert sorted(call["toy_bytes"] for call in calls["calls"]) == [7, 41]
    assert [call["toy_bytes"] for call in found["calls"]] == [41]


def test_the_documentation_lacks_it(house: House) -> None:
    """And the check of the pages says which lines."""
    said = house.run("-m", "tests.docs.facts", "--check", status=1)
    missing = [line for line in said.splitlines() if line.startswith("+")]
    assert "+| `weight>10` | what the toy weighs |" in missing
    assert any(line.endswith(", `toy`, `owner`") for line in missing)
    assert "+  toy_bytes: number | null;" in missing
    assert '+        "toy_bytes": {' in missing
    assert '+          "description": "What the toy weighs."' in missing


def test_a_store_from_before_gets_its_column(house: House, tmp_path: Path) -> None:
    """Where nobody has migrated it yet, nothing is known of any call; its owner adds the column."""
    house = House(house.folder)
    house.store = make_store(tmp_path / "older.db", make_exchange(1))
    assert house.list() == [None]
    assert house.list("weight>1") == []
    house.run("-c", RECORD, str(house.store))
    assert sorted(house.list("weight>1")) == [41]
    with pytest.raises(Exception, match="newer spantap"):
        Store.open(house.store)
