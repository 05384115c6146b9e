"""Every recorded chat completion, from a local server through the running proxy (R1, R3, R6).

Reads of 1 byte, of 7, anywhere and whole; with usage asked for by the client and without.
"""

from __future__ import annotations

import hashlib
import os
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from codec.chat.stream import ChatStream
from tests.corpus.oracle import fold_answer, is_stream, without_usage_events
from tests.corpus.recordings import (
    FOLDER,
    VARIABLE,
    Recording,
    count_lines,
    explain_absence,
    load_all,
    load_chats,
    load_completions,
    load_dynamo,
    load_dynamo_expectations,
)
from tests.corpus.replay import (
    CUTS,
    Bench,
    Replay,
    filter_cut,
    find_faults,
    observe_cut,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.corpus

CHAT_EXCHANGES = 284
LEGACY_EXCHANGES = 15
"""What the recordings held when this was written: fewer would be a loss nobody noticed."""

MAX_FINELY_CUT_BYTES = 4_000
"""Of an answer that is cut into single bytes as a whole; two of three are shorter."""

_RECORDINGS = load_all(load_chats, load_completions, load_dynamo, partial(load_dynamo, legacy=True))


@pytest.fixture(name="folder")
def _folder() -> Path:
    if FOLDER is None:
        pytest.skip(explain_absence())
    return FOLDER


def test_a_folder_that_is_named_is_there() -> None:
    """Recordings that the environment promises and that are missing are a failure, no skip."""
    if FOLDER is None and not os.environ.get(VARIABLE):
        pytest.skip(explain_absence())
    assert FOLDER is not None, explain_absence()


def test_every_exchange_of_the_file_is_replayed(folder: Path) -> None:
    """None is left out on the way from the file to the replays."""
    replayed = {one.id for one in _RECORDINGS if not one.id.startswith("dynamo/")}
    assert count_lines(folder, "chat.completions") == CHAT_EXCHANGES
    assert count_lines(folder, "completions") == LEGACY_EXCHANGES
    assert len(replayed) == CHAT_EXCHANGES + LEGACY_EXCHANGES


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("recording", _RECORDINGS, ids=lambda one: one.id)
async def test_a_replay_is_transparent_and_gives_one_true_record(
    bench: Bench, recording: Recording
) -> None:
    """However the upstream's bytes come, and whether or not the client asks for usage itself."""
    for asks_usage in (False, True) if recording.asks_stream else (False,):
        request = recording.request_with(asks_usage=asks_usage)
        for cut in CUTS:
            replay = await bench.replay(recording, request, cut)
            assert not find_faults(replay), (cut, asks_usage)
            assert replay.read_count >= len(replay.pieces)
    if len(recording.body) <= MAX_FINELY_CUT_BYTES:
        _check_finely_cut(await bench.replay(recording, recording.request))


def _check_finely_cut(replay: Replay) -> None:
    """Bytes that come one by one give the same record and pass the same filter."""
    exchange = observe_cut(replay, 1)
    assert exchange is not None
    assert exchange.response == replay.exchanges[0].response
    assert exchange.outcome is replay.exchanges[0].outcome
    body = replay.recording.body
    if is_stream(body):
        assert filter_cut(body, 1) == without_usage_events(body)


def test_the_dynamo_streams_fold_as_their_list_of_expectations_says(folder: Path) -> None:
    """A third opinion besides the codec's and the oracle's (``docs/contract/sources.md#s0-13``)."""
    recordings = {one.id.removeprefix("dynamo/"): one for one in _RECORDINGS}
    expectations = [
        entry
        for legacy in (False, True)
        for entry in load_dynamo_expectations(folder, legacy=legacy)
    ]
    assert len(expectations) == 17
    for expectation in expectations:
        body = recordings[expectation["file"]].body
        stream = ChatStream()
        stream.feed(body)
        response = stream.finish()
        events = expectation["json_events"] + expectation["non_json_events"]
        assert response.event_count == events, expectation["file"]
        assert response.done is bool(expectation["done_sentinel"])
        assert _describe_choices(fold_answer(body)) == [
            {key: value for key, value in choice.items() if key != "logprob_tokens"}
            for choice in expectation["choices"]
        ]


def _describe_choices(fold: dict[str, Any]) -> list[dict[str, Any]]:
    """The choices of a fold in the words of ``expected.json``."""
    return [
        {
            "index": int(index),
            "finish_reason": choice.get("finish_reason"),
            "content_chars": len(choice.get("content", "")),
            "content_sha256": hashlib.sha256(choice.get("content", "").encode()).hexdigest(),
            "reasoning_chars": len(choice.get("reasoning", "")),
            "tool_calls": choice.get("tool_calls", []),
        }
        for index, choice in fold.get("choices", {}).items()
    ]
