"""``telemetry.store.parts.piece_search``: what is stored once is searched once."""

from __future__ import annotations

import contextlib
import json
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from telemetry.reading.sqlite.searching import search
from telemetry.store.opening import connect_reader
from telemetry.store.parts import piece_search
from telemetry.store.store import Store
from telemetry.store.wanted_text import WantedText
from tests.telemetry.span_rows import make_row
from tests.telemetry.store.parts.test_parts import make_bytes_rows, make_small
from tests.telemetry.turns import make_turn, make_turns, make_words

if TYPE_CHECKING:
    from pathlib import Path


def find(path: Path, *texts: str) -> list[int]:
    """Numbers of all spans that are found, oldest first."""
    with contextlib.closing(connect_reader(path)) as connection:
        return sorted(seq for step in search(connection, texts) for seq in step.hits)


def find_plainly(spans: list[bytes], *texts: str) -> list[int]:
    """Numbers of the spans that hold the texts, each looked at whole."""
    wanted = [WantedText(text) for text in texts]
    return [
        number
        for number, span in enumerate(spans, 1)
        if all(text.is_in(span.lower()) for text in wanted)
    ]


def test_a_text_of_any_message_is_found_in_all_calls_that_repeat_it(path: Path) -> None:
    """Also one of a single call, and one of a call that is stored whole."""
    dice = random.Random(1)
    said = [f"{make_words(dice, 9_000)} Marke-{at} {make_words(dice, 9_000)}" for at in range(5)]
    rows = [
        make_turn(
            number,
            [{"role": "user", "content": text} for text in said[:number]],
            own=f"Own-{number}",
        )
        for number in range(1, 6)
    ]
    with Store.open(path) as store:
        store.add([*rows, replace(make_row(6), span=make_row(6).span + b"marke-3 own-2")])
        assert find(path, "marke-0") == [1, 2, 3, 4, 5]
        assert find(path, "marke-3") == [4, 5, 6]
        assert find(path, "marke-3", "marke-0") == [4, 5]
        assert find(path, "OWN-2") == [2, 6]
        assert find(path, "marke-9") == []
        assert find(path, said[2]) == [3, 4, 5]


TEXTS = st.text(st.sampled_from('ab "\\\n/<éж😀'), min_size=1, max_size=6)


@given(
    st.lists(st.lists(TEXTS, min_size=1, max_size=12), min_size=1, max_size=6),
    st.lists(TEXTS, min_size=1, max_size=6),
    st.integers(0, 3),
    st.integers(1, 40),
)
@settings(deadline=None, max_examples=60)
def test_a_text_is_found_wherever_the_spans_are_cut(
    tmp_path_factory: pytest.TempPathFactory,
    calls: list[list[str]],
    texts: list[str],
    nested: int,
    most: int,
) -> None:
    """In any spelling, across any number of cuts: what is found is as in spans that are whole."""
    spans = []
    for said in calls:
        text = json.dumps({"said": said})
        for _ in range(nested):
            text = json.dumps(text)
        spans.append("\n".join([*said, text]).encode())
    texts = [*texts, calls[0][0], calls[-1][-1] + calls[-1][0]]
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        patch.setattr(piece_search, "MAX_KNOWN", most)
        path = tmp_path_factory.mktemp("store") / "s.db"
        with Store.open(path) as store:
            store.add(make_bytes_rows(spans))
            for text in texts:
                assert find(path, text) == find_plainly(spans, text)
                assert find(path, text, texts[0]) == find_plainly(spans, text, texts[0])


@pytest.mark.parametrize("count", [1, 14, 15, 16, 17, 40, 400])
def test_an_escape_with_many_backslashes_is_found_across_a_cut(
    path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """However many there are, and wherever the cut is."""
    make_small(monkeypatch)
    spans = [
        b"x" * at + b"\n}]" + b"q" * 30 + b"a" + b"\\" * count + b"nb" + b"q" * 30
        for at in range(12)
    ]
    with Store.open(path) as store:
        store.add(make_bytes_rows(spans))
        assert find(path, "a\nb") == [*range(1, 13)]


def test_what_is_stored_once_is_looked_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To search a conversation takes little more than to search its last call."""
    rows = make_turns(40, 2_000)
    looked_at = 0
    is_in = WantedText.is_in

    def count(self: WantedText, lowered: bytes) -> bool:
        nonlocal looked_at
        looked_at += len(lowered)
        return is_in(self, lowered)

    monkeypatch.setattr(WantedText, "is_in", count)
    with Store.open(path) as store:
        store.add(rows)
        assert find(path, "nowhere at all") == []
    assert looked_at < 3 * len(rows[-1].span)


def test_damaged_parts_are_not_found(path: Path) -> None:
    """Nobody could show the spans."""
    rows = make_turns(4, 2_000)
    with Store.open(path) as store:
        store.add(rows)
        with store._file.use() as writing:
            writing.execute("DELETE FROM parts WHERE id & 255 = 2")
            writing.execute("UPDATE span_bytes SET span = x'00' WHERE seq = 1")
        assert find(path, "messages") == [2]
