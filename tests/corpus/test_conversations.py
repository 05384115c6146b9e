"""Recorded conversations, interleaved: which call goes on from which (1.8).

Each file of recordings is a conversation, or a few: the calls of one caller. What is found within a
file is right, what is found across files is wrong.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from codec.apis.table import find_api
from codec.errors import CodecError
from codec.text.jsontext import decode_json
from telemetry.conversations.link import Link, Rule
from telemetry.conversations.linker import Linker
from telemetry.conversations.memory import Origin
from tests.corpus.recordings import FOLDER, NEEDS_RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.apis.api import Api
    from codec.call import Asked, Said

pytestmark = NEEDS_RECORDINGS

CHATS, OTHERS = "recordings", "recordings-apis"
WITH_MESSAGES = {
    *("chat.completions", "responses", "messages"),
    *("gemini.generate", "gemini.stream", "ollama.chat"),
}


class Recorded(NamedTuple):
    """A recorded call.

    Attributes:
        file: where it was recorded.
        folder: the provider that the recording is filed under.
    """

    id: str
    file: str
    folder: str
    asked: Asked
    said: Said | None


def read(name: str) -> list[Recorded]:
    """All calls of a file of recordings that have messages, in its order."""
    assert FOLDER is not None
    text = (FOLDER / name / "exchanges.jsonl").read_text(encoding="utf-8")
    return [*filter(None, map(read_exchange, map(decode_json, text.split("\n")[:-1])))]


def read_exchange(exchange: dict[str, Any]) -> Recorded | None:
    """Read a call; ``None`` where its request or its answer is missing, or is no text."""
    request, response = exchange["request"], exchange["response"]
    api = find_api("POST", request["path"])
    if exchange["api"] not in WITH_MESSAGES or api is None or not request["body"]:
        return None
    if not isinstance(request["body"], str) or not isinstance(response["body"], str):
        return None
    try:
        asked = api.decode_asked(request["body"].encode(), request["path"].partition("?")[0])
    except CodecError:
        return None
    said = None
    if response["status"] < 400:
        said = read_answer(api, response["body"].encode(), streams=exchange["streaming"])
    file = exchange["id"].rpartition("#")[0] or exchange["id"]
    return Recorded(exchange["id"], file, file.partition("/")[0], asked, said)


def read_answer(api: Api, body: bytes, *, streams: bool) -> Said | None:
    """The answer, ``None`` where it is none of its API."""
    if streams:
        stream = api.open_stream(choice_count=1, hides_usage=False, lend=lambda _: True)
        stream.feed(body)
        return stream.finish()
    try:
        return api.read_said(body)
    except CodecError:
        return None


def interleave(calls: list[Recorded]) -> Iterator[Recorded]:
    """The calls of all files in turn, each file's in its order."""
    files: dict[str, list[Recorded]] = {}
    for call in calls:
        files.setdefault(call.file, []).append(call)
    return filter(None, chain.from_iterable(zip_longest(*files.values())))


def link_all(calls: list[Recorded], scope: str) -> tuple[list[Link], list[tuple[Link, str, str]]]:
    """Link the calls, interleaved, within a scope; and what went across files."""
    linker = Linker(b"k" * 32)
    links: list[Link] = []
    wrong: list[tuple[Link, str, str]] = []
    by_number: dict[int, Recorded] = {}
    for number, call in enumerate(interleave(calls), 1):
        by_number[number] = call
        within = hashlib.blake2b(getattr(call, scope).encode(), digest_size=8).digest()
        failed = call.said is None
        link = linker.link(
            number,
            call.asked,
            call.said,
            origin=Origin("ab" * 16, f"{number:016x}"),
            scope=within,
            start_ns=2 * number,
            end_ns=2 * number + 1,
            failed=failed,
        )
        links.append(link)
        before = None if link.predecessor is None else by_number[link.predecessor]
        if before is not None and before.file != call.file:
            wrong.append((link, call.id, before.id))
    return links, wrong


def count_rules(links: list[Link]) -> Counter[Rule]:
    """How many links each rule found."""
    rules = Counter(link.rule for link in links)
    del rules[Rule.NEW]
    return rules


@pytest.fixture(scope="module")
def chats() -> list[Recorded]:
    """The recordings by which the rules were made."""
    return read(CHATS)


def test_every_recorded_turn_is_found(chats: list[Recorded]) -> None:
    """With callers told apart: all 74 of 1.4, and two retries."""
    links, wrong = link_all(chats, "file")
    assert wrong == []
    assert count_rules(links) == {
        Rule.STATE: 59,
        Rule.TOOL_ID: 6,
        Rule.PREFIX: 6,
        Rule.STATE_NO_IDS: 3,
        Rule.RETRY: 2,
    }


def test_callers_that_are_not_told_apart_are_not_mixed_up(chats: list[Recorded]) -> None:
    """All calls of a provider as one caller's: 73 of the 74, none of them wrong."""
    links, wrong = link_all(chats, "folder")
    assert wrong == []
    found = count_rules(links)
    assert found.total() - found[Rule.RETRY] >= 73


def test_other_recordings_are_linked_by_the_same_rules() -> None:
    """Recordings by which the rules were not made: none is wrong."""
    links, wrong = link_all(read(OTHERS), "file")
    assert wrong == []
    assert count_rules(links).total() >= 200
