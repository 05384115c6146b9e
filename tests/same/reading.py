"""All that a version says of a store that is there already, by its commands and on its page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlencode

from tests.same.filters import make_filters
from tests.same.traffic import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.same.launch import Server, Version

__all__ = ("read_store",)

_T = TypeVar("_T")

_GROUPS = ("model", "upstream", "client", "session", "user", "tool", "hour")
_SHOWN_BY_COMMAND = 12
_SHOWN_ON_PAGE = 150
_CONVERSATIONS = 60
_MOST_PAGES = 400


def read_store(version: Version, store: Path) -> Iterator[tuple[str, str]]:
    """Yield names of what was asked, and the answers."""
    where = ("--store", str(store))
    for words in _list_commands():
        yield f"command {' '.join(words)}", version.run(*words, *where)
    listed = version.run("traces", "--json", "--limit", "100000", *where)
    rows = [read_json(line) for line in listed.splitlines() if line.startswith("{")]
    ids = [row["span_id"] for row in rows]
    starts = [row["start_time"] for row in rows]
    times = f"from={min(starts)}&to={max(starts)}"  # else they end now
    for span_id in _thin_out(ids, _SHOWN_BY_COMMAND):
        yield f"show {span_id}", version.run("traces", "show", span_id, *where)
        yield f"show json {span_id}", version.run("traces", "--json", "show", span_id, *where)
    runs = sorted({row["run"] for row in rows if row.get("run") is not None})
    for run in _thin_out(runs, _SHOWN_BY_COMMAND):
        yield f"show run {run}", version.run("traces", "show", f"run:{run}", *where)
    with version.paging(store) as page:
        yield from _read_page(page, ids, times)


def _list_commands() -> Iterator[list[str]]:
    yield ["store", "export", "--format", "jsonl"]
    yield ["store", "export", "--format", "otlp"]
    yield ["traces", "--limit", "300"]
    yield ["traces", "--json", "--limit", "100000"]
    yield ["traces", "--json", "--full", "--limit", "300"]
    yield ["traces", "--runs", "--limit", "300"]
    yield ["traces", "--runs", "--json", "--limit", "300"]
    for order in ("slow", "cost", "tokens"):
        yield ["traces", "--sort", order, "--json", "--limit", "50"]
    yield ["stats"]
    yield ["stats", "--json"]
    yield ["stats", "--json", "--price-as", "gpt-5"]
    for group in _GROUPS:
        yield ["stats", "--by", group]
        yield ["stats", "--json", "--by", group, "status:ok"]


def _read_page(page: Server, ids: list[str], times: str) -> Iterator[tuple[str, str]]:
    yield from _ask(page, "calls?limit=300", "before")
    for words in make_filters():
        yield _search(page, "calls", words)
    for words in make_filters()[::5]:
        yield _search(page, "conversations", words)
    yield from _ask(page, f"stats?{times}", "")
    for words in make_filters()[::10]:
        yield from _ask(page, f"stats?{times}&{urlencode({'filter': words})}", "")
    for span_id in _thin_out(ids, _SHOWN_ON_PAGE):
        yield from _read_call(page, span_id)
    yield "conversations, lone ones too", "\n".join(_list(page, "conversations", lone="true"))
    found = _list(page, "conversations")
    yield "conversations", "\n".join(found)
    numbers = [read_json(one)["number"] for one in found if one.startswith("{")]
    for number in _thin_out(numbers, _CONVERSATIONS):
        for path in ("", "/transcript", "/context"):
            yield from _ask(page, f"conversations/{number}{path}", "after")


def _read_call(page: Server, span_id: str) -> Iterator[tuple[str, str]]:
    yield from _ask(page, f"calls/{span_id}", "")
    for part in ("request", "response", "span"):
        yield from _ask(page, f"calls/{span_id}/raw?part={part}", "")
    for form in ("curl", "python", "json"):
        yield from _ask(page, f"calls/{span_id}/copy?as={form}", "")
    yield from _ask(page, f"calls/{span_id}/diff", "")
    for path in ("messages/0", "messages/0?part=0", "messages/0?of=answer", "tools/0", "images/0"):
        yield from _ask(page, f"calls/{span_id}/{path}", "")


def _search(page: Server, path: str, words: str) -> tuple[str, str]:
    return f"search {path} {words}", "\n".join(_list(page, path, filter=words))


def _list(page: Server, path: str, **query: str) -> list[str]:
    """List to the end: how much of it each answer has is a matter of time.

    A search for texts may find a conversation on two pages.
    """
    found = list[str]()
    for _, told in _ask(page, f"{path}?{urlencode({**query, 'limit': 100})}", "before"):
        status, _, text = told.partition(" ")
        found += map(json.dumps, read_json(text)[path] if status == "200" else [told])
    return [*dict.fromkeys(found)] if path == "conversations" else found


def _ask(page: Server, path: str, turns_by: str) -> Iterator[tuple[str, str]]:
    """Ask for a path, and for the pages behind it."""
    asked = path
    for _ in range(_MOST_PAGES):
        status, told = page.get(quote(asked, safe="/?&=%+"))
        yield f"page {asked}", f"{status} {told.decode('utf-8', 'backslashreplace')}"
        following = read_json(told).get("next") if turns_by and status == 200 else None
        if following is None:
            return
        asked = f"{path}{'&' if '?' in path else '?'}{turns_by}={following}"


def _thin_out(things: list[_T], count: int) -> list[_T]:
    return things[:: max(1, len(things) // count)]
