"""``telemetry.store.parts``: what calls of a conversation repeat is stored once."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from telemetry.facts import CallColumns
from telemetry.reading.stored_calls import open_calls
from telemetry.store.checksum import DAMAGED_WORDS
from telemetry.store.parts import cutting, families, sweeping
from telemetry.store.parts.families import MIN_SPAN_BYTES
from telemetry.store.parts.recipe import (
    FAMILY_BITS,
    MAX_FAMILY_SPANS,
    read_recipe,
    read_sizes,
    read_streak,
)
from telemetry.store.rows import Retention
from telemetry.store.store import Store
from tests.telemetry.damage import damage_page, fold, forget_pages, make_older, pages_of
from tests.telemetry.due_spans import FOREVER_NS
from tests.telemetry.reading.asking import connection_of
from tests.telemetry.span_rows import make_row, make_rows
from tests.telemetry.store.test_deletion import delete_all, files_of, numbers
from tests.telemetry.turns import make_turn, make_turns, make_words

if TYPE_CHECKING:
    from pathlib import Path

    from telemetry.store.rows import SpanRow

CANARY = "Zebra-Canary"

ALL_BYTES = 1 << 40


def read_spans(path: Path) -> dict[int, bytes]:
    """The bytes of all spans by number, as a reader gets them; empty where one is damaged."""
    with open_calls(path) as reader:
        return {one.summary.seq: one.span for one in reader.with_bytes(reader.after(0))}


def read_parts(path: Path) -> dict[int, tuple[tuple[int, ...], bytes]]:
    """The sizes of the pieces and the bytes of each part."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT id, sizes, data FROM parts").fetchall()
    return {number: (read_sizes(sizes) or (), data) for number, sizes, data in rows}


def read_own_parts(path: Path) -> dict[int, int | None]:
    """``spans.part`` by number."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT seq, part FROM spans"))


def read_named(path: Path) -> set[tuple[int, int]]:
    """All pieces that a recipe names, as part and number."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT part, span FROM spans JOIN span_bytes USING (seq) WHERE part IS NOT NULL"
        ).fetchall()
    named = set()
    for part, recipe in rows:
        for own, first, end in map(read_streak, read_recipe(recipe) or ()):
            number = part >> FAMILY_BITS << FAMILY_BITS | own
            named |= {(number, piece) for piece in range(first, end)}
    return named


def check_stored(path: Path) -> None:
    """Exactly those pieces are stored that some recipe names."""
    stored = set()
    live = {*read_own_parts(path).values()}
    for number, (sizes, data) in read_parts(path).items():
        assert sum(sizes) == len(data)
        pieces = {(number, piece) for piece, size in enumerate(sizes) if size}
        assert pieces or number in live, "a part without pieces goes"
        stored |= pieces
    assert stored == read_named(path)


def measure(path: Path) -> int:
    """The file, when all that is free was given back."""
    with Store.open(path) as store:
        while store.compact(gives_back=True).free_bytes:
            pass
    return path.stat().st_size


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans of some bytes go into families, in pieces of some bytes."""
    make_small(monkeypatch)


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "MIN_SPAN_BYTES", 1)
    monkeypatch.setattr(families, "BLOCK_PIECES", 3)
    monkeypatch.setattr(cutting, "MIN_PIECE_BYTES", 2)


# What is stored


def test_a_conversation_takes_little_more_than_its_last_call(tmp_path: Path) -> None:
    """At most three times as much; 200 turns of 475 KB are in ``docs/performance.md``."""
    rows = make_turns(60, 3_000)
    for name, some in (("all", rows), ("last", rows[-1:])):
        with Store.open(tmp_path / name, delivers=False) as store:
            for row in some:
                store.add([row])
    assert len(rows[-1].span) > 400_000
    assert measure(tmp_path / "all") < 3 * measure(tmp_path / "last")
    assert [*read_spans(tmp_path / "all").values()] == [row.span for row in rows]


def test_whoever_reads_gets_the_bytes_that_were_recorded(path: Path) -> None:
    """The exporter, of several and of one alone, and the reader; in one commit or in many."""
    rows = make_turns(12, 2_000)
    spans = [row.span for row in rows]
    with Store.open(path) as store:
        store.add(rows[:5])
        for row in rows[5:]:
            store.add([row])
        assert all(part is not None for part in read_own_parts(path).values())
        assert [span.span for span in store.read_due(100, ALL_BYTES, 0)] == spans
        fresh = store.read_fresh(100, ALL_BYTES)
        assert fresh is not None
        assert [span.span for span in fresh] == spans
        store.mark_failed_alone(7, 5, "no")
        alone = store.read_alone(10)
        assert alone is not None
        assert alone.span == spans[6]
        assert [*read_spans(path).values()] == spans
        with open_calls(path) as reader:
            assert [one.span for one in reader.find(rows[3].span_id)] == [spans[3]]
        check_stored(path)


def test_a_call_that_is_short_or_goes_on_from_none_is_stored_whole(path: Path) -> None:
    """And so is one of a kind that has no conversation."""
    long = make_turn(1, [{"role": "user", "content": "x" * MIN_SPAN_BYTES}])
    first = replace(long, columns=CallColumns(conversation=1))
    short = replace(make_row(2), columns=CallColumns(conversation=1, link_rule="state"))
    unknown = replace(make_row(3, padding_bytes=MIN_SPAN_BYTES), columns=CallColumns())
    rows = [first, short, unknown]
    with Store.open(path) as store:
        store.add(rows)
    assert read_own_parts(path) == {1: None, 2: None, 3: None}
    assert read_parts(path) == {}
    assert [*read_spans(path).values()] == [row.span for row in rows]


def test_a_span_that_is_known_is_left_alone(path: Path) -> None:
    """A replay adds no part, and later calls go on."""
    rows = make_turns(6, 1_000)
    with Store.open(path) as store:
        store.add(rows[:4])
        assert store.add(rows[2:]) == 2
    assert len(read_parts(path)) == 6
    check_stored(path)
    assert [*read_spans(path).values()] == [row.span for row in rows]


def test_conversations_have_families_of_their_own(path: Path) -> None:
    """What one call has of another conversation is stored again: they go apart."""
    rows = make_turns(4, 1_000)
    other = [
        replace(one, columns=CallColumns(conversation=2, link_rule="state"))
        for one in make_turns(4, 1_000, first=5)
    ]
    with Store.open(path) as store:
        for pair in zip(rows, other, strict=True):
            store.add(pair)
        assert {part >> FAMILY_BITS for part in read_parts(path)} == {1, 2}
        delete_all(store, [1, 3, 5, 7])
        check_stored(path)
        assert [*read_spans(path).values()] == [row.span for row in other]


@pytest.mark.usefixtures("small")
def test_a_family_ends_with_its_last_number(path: Path) -> None:
    """The next call begins another one, whole."""
    rows = make_turns(MAX_FAMILY_SPANS + 3, 1, start_bytes=500)
    with Store.open(path) as store:
        store.add(rows)
    parts = [*read_parts(path)]
    assert parts[MAX_FAMILY_SPANS - 1 : MAX_FAMILY_SPANS + 1] == [
        (2 << FAMILY_BITS) - 1,
        (MAX_FAMILY_SPANS + 1) << FAMILY_BITS,
    ]
    check_stored(path)
    assert [*read_spans(path).values()] == [row.span for row in rows]


def test_an_owner_that_opens_the_store_begins_new_families(path: Path) -> None:
    """A family that is read again knows no pieces."""
    rows = make_turns(4, 1_000)
    for row in rows:
        with Store.open(path) as store:
            store.add([row])
    assert [*read_parts(path)] == [number << FAMILY_BITS for number in (1, 2, 3, 4)]
    assert [*read_spans(path).values()] == [row.span for row in rows]


def test_what_is_remembered_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conversation that was heard of last stays; another one begins a family anew."""
    monkeypatch.setattr(families, "LIVELY_SPANS", 0)
    one, two = make_turns(4, 500), make_turns(4, 500, first=5, conversation=2)
    with Store.open(path) as store:
        store.add(one[:2])
        most = store._families._known + 20
        monkeypatch.setattr(families, "MAX_KNOWN_PIECES", most)
        store.add([*two[:2], *two[2:], *one[2:]])
        assert store._families._known <= most
    assert {part >> FAMILY_BITS for part in read_parts(path)} == {1, 3, 7}
    assert {*read_spans(path).values()} == {row.span for row in (*one, *two)}


def test_no_family_begins_where_others_go_on_and_need_the_room(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its calls are stored whole until one of the others has been silent for long."""
    monkeypatch.setattr(families, "LIVELY_SPANS", 5)
    turns = [make_turns(9, 500, first=1 + 10 * it, conversation=it) for it in range(2)]
    with Store.open(path) as store:
        store.add(turns[0][:1])
        monkeypatch.setattr(families, "MAX_KNOWN_PIECES", store._families._known + 60)
        store.add([*turns[1][:4], *turns[0][1:3], *turns[1][4:]])
    found = [part and part >> FAMILY_BITS for part in read_own_parts(path).values()]
    assert found == [1, *[None] * 4, 1, 1, *[None] * 4, 12]
    recorded = [turns[0][0], *turns[1][:4], *turns[0][1:3], *turns[1][4:]]
    assert [*read_spans(path).values()] == [row.span for row in recorded]


def test_what_was_not_committed_is_named_by_no_recipe(path: Path) -> None:
    """A value that SQLite does not take makes the whole commit fail; it is done again without."""
    rows = make_turns(6, 1_000)
    with Store.open(path) as store:
        store.add(rows[:2])
        store.add([*rows[2:4], replace(make_row(9), prompt_tokens=1 << 70)])
        store.add(rows[4:])
        assert [span.span for span in store.read_due(100, ALL_BYTES, 0)] == [
            row.span for row in (*rows, make_row(9))
        ]
    check_stored(path)


FRAGMENTS = st.lists(
    st.sampled_from(
        [b"aaaa", b"b\n", b'{"role":"x"},', b"}]", b"\\n", b"rr\n", b"Jx\nkk", b"z" * 9]
    )
    | st.binary(max_size=6),
    min_size=1,
    max_size=30,
).map(b"".join)

SPANS = st.lists(FRAGMENTS, min_size=1, max_size=5).flatmap(
    lambda texts: st.lists(
        st.lists(st.sampled_from(texts), min_size=1, max_size=12).map(b"".join),
        min_size=1,
        max_size=8,
    )
)
"""Spans of a conversation, of some texts each that come again."""


def make_bytes_rows(spans: list[bytes]) -> list[SpanRow]:
    """Rows of one conversation with these bytes."""
    columns = CallColumns(conversation=1, link_rule="state")
    return [
        replace(make_row(number), span=span, columns=columns)
        for number, span in enumerate(spans, 1)
    ]


@given(SPANS, st.lists(st.integers(0, 8), max_size=24))
@settings(deadline=None, max_examples=60)
def test_what_remains_is_what_was_recorded_and_no_piece_is_left_over(
    tmp_path_factory: pytest.TempPathFactory, spans: list[bytes], actions: list[int]
) -> None:
    """Any bytes, cut anywhere; a call is added (0) or deleted by its number, in any order."""
    rows = iter([*enumerate(make_bytes_rows(spans), 1)])
    told: dict[int, bytes] = {}
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        path = tmp_path_factory.mktemp("store") / "s.db"
        with Store.open(path) as store:
            for action in [0, 0, *actions, *[0] * len(spans), *range(1, len(spans) + 1)]:
                if action:
                    assert delete_all(store, [action]) == (told.pop(action, None) is not None)
                elif (pair := next(rows, None)) is not None:
                    store.add([pair[1]])
                    told[pair[0]] = pair[1].span
                check_stored(path)
                assert read_spans(path) == told
    assert read_parts(path) == {}


# What goes


def test_deleted_text_is_gone_from_the_files_and_what_others_repeat_stays(path: Path) -> None:
    """A call's own text goes with it, a message with the last that has it."""
    dice = random.Random(1)
    said = [make_words(dice, 3_000) for _ in range(6)]
    said[2] = f"{said[2]} {CANARY}-said {make_words(dice, 1_000)}"
    rows = [
        make_turn(
            number,
            [{"role": "user", "content": text} for text in ["x" * 20_000, *said[:number]]],
            own=f"{CANARY}-{number}-own",
        )
        for number in range(1, 6)
    ]
    with Store.open(path, delivers=False) as store:
        store.add(rows)
        fold(store)
        assert f"{CANARY}-3-own".encode() in files_of(path), "so there is something to see"
        delete_all(store, [3, 4])
        store.compact(gives_back=False)
        left = files_of(path)
        assert f"{CANARY}-3-own".encode() not in left
        assert f"{CANARY}-4-own".encode() not in left
        assert f"{CANARY}-said".encode() in left
        assert f"{CANARY}-2-own".encode() in left
        assert {*read_spans(path).values()} == {rows[at].span for at in (0, 1, 4)}
        delete_all(store, [5])
        store.compact(gives_back=False)
        assert f"{CANARY}-said".encode() not in files_of(path)
        check_stored(path)
        delete_all(store, [1, 2])
        store.compact(gives_back=False)
        assert CANARY.encode() not in files_of(path)
    assert read_parts(path) == {}


def test_calls_that_grow_old_go_and_later_ones_keep_what_they_repeat(path: Path) -> None:
    """The conversation goes on meanwhile, and names nothing that is gone."""
    rows = make_turns(20, 1_000)
    retention = Retention(max_age_ns=0)
    with Store.open(path, delivers=False, retention=retention) as store:
        for at, row in enumerate(rows):
            store.add([row])
            if at % 3 == 2:
                while store.prune(rows[at - 1].recorded_ns).more:
                    pass
                check_stored(path)
                told = [*read_spans(path).values()]
                assert told == [one.span for one in rows[at - 1 : at + 1]]
        assert len({part >> FAMILY_BITS for part in read_parts(path)}) == 1
        while store.prune(FOREVER_NS).more:
            pass
    assert read_parts(path) == {}


def test_a_store_at_its_limit_stays_within_it(path: Path) -> None:
    """Spans of conversations free less than they have: as many go as it takes, the oldest first."""
    limit = 2_500_000
    retention = Retention(max_bytes=limit)
    with Store.open(path, delivers=False, retention=retention) as store:
        now_ns = steps = 0
        newest: set[bytes] = set()
        for first in range(1, 2_000, 200):
            pair = [
                make_turns(25, 2_000, first=first + at, conversation=first + at) for at in (0, 100)
            ]
            newest = {row.span for turns in pair for row in turns}
            for turn in zip(*pair, strict=True):
                now_ns += 1
                store.add([replace(row, recorded_ns=now_ns) for row in turn])
                while store.prune(0).more:
                    steps += 1
                    assert steps < 1_000
        assert store.counts().size_bytes <= limit
        check_stored(path)
        left = [*read_spans(path).values()]
    assert newest <= {*left}
    assert len(left) > 100
    assert sum(map(len, left)) > 4 * limit


def test_a_step_sweeps_few_families(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Always one, and the others later."""
    monkeypatch.setattr(sweeping, "MAX_SWEPT", 7)
    many = [make_turns(3, 500, first=1 + 10 * it, conversation=it) for it in range(6)]
    with Store.open(path, delivers=False, retention=Retention(max_age_ns=0)) as store:
        for turn in zip(*many, strict=True):
            store.add(turn)
        step = store.delete([1, 2, 3, 4])
        assert (step.looked_at, step.deleted) == (2, 2)
        removed = []
        while (pruned := store.prune(FOREVER_NS)).removed:
            removed.append(pruned.removed)
        assert removed == [4, 6, 6]
    assert read_parts(path) == {}


# Damage


def change_part(path: Path, number: int, change: str = "zeroblob(length(data))") -> None:
    """Change the bytes of a part, as a failing disk does."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE parts SET data = {change} WHERE id = ?", (number,))


@pytest.mark.parametrize("change", ["zeroblob(length(data))", "x'00'", "substr(data, 2)", "'text'"])
def test_a_damaged_part_costs_the_spans_that_it_is_in(path: Path, change: str) -> None:
    """They are told, and nothing is sent of them; calls before that part are whole."""
    rows = make_turns(6, 2_000)
    with Store.open(path) as store:
        store.add(rows)
    change_part(path, (1 << FAMILY_BITS) + 3, change)
    with open_calls(path) as reader:
        told = [*reader.with_bytes(reader.after(0))]
    assert [one.span for one in told] == [*(row.span for row in rows[:3]), b"", b"", b""]
    assert [one.summary.last_error for one in told] == [None] * 3 + [DAMAGED_WORDS] * 3
    with Store.open(path) as store:
        assert [span.span for span in store.read_due(100, ALL_BYTES, 0)] == [
            row.span for row in rows[:3]
        ]
        assert (store.counts().damaged, store.counts().rejected) == (3, 3)
        delete_all(store, [4, 5, 6])
        check_stored(path)


def test_a_part_that_is_gone_costs_the_spans_that_it_is_in(path: Path) -> None:
    """And so does a recipe that is damaged."""
    rows = make_turns(4, 2_000)
    with Store.open(path) as store:
        store.add(rows)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM parts WHERE id = ?", ((1 << FAMILY_BITS) + 2,))
        connection.execute("UPDATE span_bytes SET span = x'0102' WHERE seq = 2")
    assert [*read_spans(path).values()] == [rows[0].span, b"", b"", b""]


def test_what_is_found_damaged_is_in_no_later_span(path: Path) -> None:
    """The conversation goes on in a family of its own."""
    rows = make_turns(6, 2_000)
    with Store.open(path) as store:
        store.add(rows[:3])
        store.compact(gives_back=False)
        forget_pages(store)
        change_part(path, (1 << FAMILY_BITS) + 1)
        assert [span.span for span in store.read_due(100, ALL_BYTES, 0)] == [rows[0].span]
        store.add(rows[3:])
    assert [*read_spans(path).values()][3:] == [row.span for row in rows[3:]]


def test_a_page_of_a_part_that_cannot_be_read_costs_its_spans_when_all_is_rescued(
    path: Path,
) -> None:
    """The others are carried over, and what they repeat is stored once in the new store, too."""
    rows = make_turns(30, 3_000, start_bytes=100_000)
    plain = make_rows(range(101, 105))
    with Store.open(path) as store:
        store.add([*rows, *plain])
        fold(store)
        damage_page(path, pages_of(path, "parts")[-1])
        forget_pages(store)
        store.read_due(100, ALL_BYTES, 0)
        left = {span.span for span in store.read_due(100, ALL_BYTES, 0)}
        recorded = {row.span for row in (*rows, *plain)}
        assert left < recorded
        assert len(left) > 10
        assert {row.span for row in plain} <= left
        assert store.counts().damaged == len(recorded) - len(left)
        check_stored(path)
    assert path.stat().st_size < 4 * max(map(len, left))


def test_a_reader_sees_recipe_and_parts_at_one_time(path: Path) -> None:
    """What the owner removes between the two is still there for it."""
    rows = make_turns(3, 2_000)
    with Store.open(path, delivers=False) as store, open_calls(path) as reader:
        store.add(rows)

        def delete(statement: str) -> None:
            if "FROM parts" in statement:
                store.delete([1, 2, 3])

        connection_of(reader).set_trace_callback(delete)
        told = [one.span for one in reader.with_bytes(reader.after(0))]
        assert told == [rows[0].span]  # the others were gone before they were read
        assert not numbers(path)


# Older stores


def test_an_older_store_keeps_its_spans_and_gets_parts(path: Path) -> None:
    """Read before it is migrated, too."""
    rows = make_turns(6, 2_000)
    plain = [replace(row, columns=CallColumns()) for row in rows[:3]]
    with Store.open(path) as store:
        store.add(plain)
    make_older(path)
    assert [*read_spans(path).values()] == [row.span for row in plain]
    with Store.open(path) as store:
        store.add(rows[3:])
    assert [part is None for part in read_own_parts(path).values()] == [True] * 3 + [False] * 3
    assert [*read_spans(path).values()] == [row.span for row in rows]
