"""Recorded conversations, interleaved: which call continues which (1.8).

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
from telemetry.conversation_position import KeptCall
from telemetry.conversations.continuation import Continuation, Rule
from telemetry.conversations.continuation_finder import ContinuationFinder
from telemetry.conversations.keys import SCOPE_BYTES
from telemetry.conversations.memory import Memory, Origin
from telemetry.conversations.saved_calls import refill, save_call
from tests.corpus.recordings import FOLDER, NEEDS_RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.apis.api import Api
    from codec.asked import Asked
    from codec.said import Said

pytestmark = NEEDS_RECORDINGS

KEY = b"k" * 32
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


def link_all(
    calls: list[Recorded], scope: str
) -> tuple[list[Continuation], list[tuple[Continuation, str, str]]]:
    """Link the calls, interleaved, within a scope; and what went across files."""
    finder = ContinuationFinder(KEY)
    continuations: list[Continuation] = []
    wrong: list[tuple[Continuation, str, str]] = []
    by_number: dict[int, Recorded] = {}
    for number, call in enumerate(interleave(calls), 1):
        by_number[number] = call
        within = hashlib.blake2b(getattr(call, scope).encode(), digest_size=8).digest()
        failed = call.said is None
        continuation = finder.find(
            number,
            call.asked,
            call.said,
            origin=Origin("ab" * 16, f"{number:016x}"),
            scope=within,
            start_ns=2 * number,
            end_ns=2 * number + 1,
            failed=failed,
        )
        continuations.append(continuation)
        before = None if continuation.predecessor is None else by_number[continuation.predecessor]
        if before is not None and before.file != call.file:
            wrong.append((continuation, call.id, before.id))
    return continuations, wrong


class Recovery(NamedTuple):
    """What became of conversations that a restart cut, at each of some points.

    Attributes:
        cut: calls after it that continue calls before it, if nothing is restarted.
        found: those of them that are found to do so all the same.
        wrong: links to another call than without a restart.
        kept_bytes: what is kept of a call, on average.
    """

    cut: int
    found: int
    wrong: list[tuple[int, str]]
    kept_bytes: float


def link_over_restarts(calls: list[Recorded], scope: str, step: int) -> Recovery:
    """Link the calls, interleaved, with a restart after each `step` of them.

    A call that begins a conversation although it continues one is not wrong, but not found.
    """
    order = [*interleave(calls)]
    kept: list[KeptCall | None] = []
    whole = [
        continuation
        for continuation, _ in link_from(order, 0, ContinuationFinder(KEY), scope, kept)
    ]
    cut = found = 0
    wrong: list[tuple[int, str]] = []
    for at in range(step // 2, len(order), step):
        memory = Memory()
        refill(memory, filter(None, kept[:at]))
        for continuation, call in link_from(order, at, ContinuationFinder(KEY, memory), scope, []):
            right = whole[continuation.call - 1].predecessor
            if continuation.predecessor not in {right, None}:
                wrong.append((at, call.id))
            if right is not None and right <= at:
                cut += 1
                found += continuation.predecessor == right
    sizes = [len(continuation.data) for continuation in kept if continuation is not None]
    return Recovery(cut, found, wrong, sum(sizes) / len(sizes))


def link_from(
    order: list[Recorded],
    at: int,
    finder: ContinuationFinder,
    scope: str,
    kept: list[KeptCall | None],
) -> Iterator[tuple[Continuation, Recorded]]:
    """Link all calls behind the first `at`, and keep what is kept of each."""
    for number, call in enumerate(order[at:], at + 1):
        upstream = hashlib.blake2b(f"at {call.folder}".encode(), digest_size=SCOPE_BYTES).digest()
        continuation = finder.find(
            number,
            call.asked,
            call.said,
            origin=Origin("ab" * 16, f"{number:016x}"),
            scope=hashlib.blake2b(getattr(call, scope).encode(), digest_size=8).digest(),
            strangers=upstream,
            start_ns=2 * number,
            end_ns=2 * number + 1,
            failed=call.said is None,
        )
        remembered = finder.remembered
        data = None
        if remembered is not None and remembered.number == number:
            data = save_call(remembered, continuation.predecessor, upstream)
        session = continuation.origin.session
        span_id = f"{number:016x}"
        kept.append(None if data is None else KeptCall(span_id, "ab" * 16, session, data))
        yield continuation, call


def count_rules(continuations: list[Continuation]) -> Counter[Rule]:
    """How many links each rule found."""
    rules = Counter(continuation.rule for continuation in continuations)
    del rules[Rule.NEW]
    return rules


@pytest.fixture(scope="module")
def chats() -> list[Recorded]:
    """The recordings by which the rules were made."""
    return read(CHATS)


def test_every_recorded_turn_is_found(chats: list[Recorded]) -> None:
    """With callers told apart: all 74 of 1.4, and two retries."""
    continuations, wrong = link_all(chats, "file")
    assert wrong == []
    assert count_rules(continuations) == {
        Rule.STATE: 60,
        Rule.TOOL_ID: 5,
        Rule.PREFIX: 6,
        Rule.STATE_NO_IDS: 3,
        Rule.RETRY: 2,
    }


def test_callers_that_are_not_told_apart_are_not_mixed_up(chats: list[Recorded]) -> None:
    """All calls of a provider as one caller's: 73 of the 74, none of them wrong."""
    continuations, wrong = link_all(chats, "folder")
    assert wrong == []
    found = count_rules(continuations)
    assert found.total() - found[Rule.RETRY] >= 73


def test_other_recordings_are_linked_by_the_same_rules() -> None:
    """Recordings by which the rules were not made: none is wrong."""
    continuations, wrong = link_all(read(OTHERS), "file")
    assert wrong == []
    assert count_rules(continuations).total() >= 200


@pytest.mark.parametrize("scope", ["file", "folder"])
def test_a_restart_links_nothing_wrong(chats: list[Recorded], scope: str) -> None:
    """Whoever the callers are: 62 of 100 links that it cuts are found all the same.

    Their answers are short, as those of tests are: half of what is lost has less than 16 words.
    """
    recovery = link_over_restarts(chats, scope, step=23)
    assert recovery.wrong == []
    assert recovery.found >= 0.6 * recovery.cut > 250
    assert recovery.kept_bytes < 150


def test_a_restart_of_other_recordings_links_nothing_wrong() -> None:
    """Recordings by which the rules were not made, of shorter answers yet."""
    recovery = link_over_restarts(read(OTHERS), "file", step=151)
    assert recovery.wrong == []
    assert recovery.found >= 0.33 * recovery.cut > 100
    assert recovery.kept_bytes < 200
