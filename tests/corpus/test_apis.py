"""Every recorded exchange of the newer APIs, beside a second fold of the same bytes.

Where the recordings are thin, exchanges are built (:mod:`tests.corpus.built`).

From a local server through the running proxy (R1, R3, R6), and by the codec alone: however the
reads are cut, however lines end and the body is coded, and wherever the answer breaks off.
"""

from __future__ import annotations

import os
import random
import re
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.table import get_api
from codec.parts import Text, ToolCall
from telemetry.frames.ending import EndKind
from tests.corpus.built import as_array, build_calls
from tests.corpus.gemini_oracle import fold_answer as fold_gemini
from tests.corpus.media_oracle import fold_typed, is_events
from tests.corpus.media_recordings import (
    load_images,
    load_speech,
    load_transcriptions,
    load_translations,
)
from tests.corpus.message_oracle import fold_message
from tests.corpus.ollama_oracle import fold_lines, is_lines
from tests.corpus.oracle import is_stream
from tests.corpus.recordings import (
    FOLDER,
    FRAMINGS,
    NEEDS_RECORDINGS,
    load_all,
    load_counts,
    load_gemini,
    load_gemini_streams,
    load_messages,
    load_moderations,
    load_ollama_chats,
    load_ollama_embeddings,
    load_ollama_texts,
    load_rankings,
    load_responses,
)
from tests.corpus.replay import CUTS, Bench, find_answer_faults, find_faults, observe_recording
from tests.corpus.response_oracle import fold_response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codec.apis.api import Stream
    from codec.said import Said
    from tests.corpus.recordings import Recording


@dataclass(frozen=True)
class Case:
    """A recording of an API, with the second fold of its streams."""

    api: str
    recording: Recording
    fold: Callable[[bytes], dict[str, Any]]

    @property
    def is_stream(self) -> bool:
        """Whether the answer is one."""
        recording = self.recording
        if self.api == "images" or self.api.startswith("audio."):
            return recording.status < 400 and is_events(recording.body)
        is_json = self.api in {"gemini.stream", "code_assist.stream"} or is_lines(recording)
        return recording.status < 400 and (is_json or is_stream(recording.body))

    @property
    def id(self) -> str:
        """Names the case."""
        return f"{self.api} {self.recording.id}"

    def open(self) -> Stream:
        """The API's own fold."""
        return get_api(self.api).open_stream(choice_count=1, hides_usage=False, lend=_lend)


CASES = [
    *(Case("responses", one, fold_response) for one in load_all(load_responses)),
    *(Case("count_tokens", one, fold_message) for one in load_all(load_counts)),
    *(Case("messages", one, fold_message) for one in load_all(load_messages)),
    *(Case("rerank", one, fold_message) for one in load_all(load_rankings)),
    *(Case("moderations", one, fold_message) for one in load_all(load_moderations)),
    *(Case("ollama.chat", one, fold_lines) for one in load_all(load_ollama_chats)),
    *(Case("ollama.generate", one, fold_lines) for one in load_all(load_ollama_texts)),
    *(Case("ollama.embed", one, fold_lines) for one in load_all(load_ollama_embeddings)),
    *(Case("gemini.generate", one, fold_gemini) for one in load_all(load_gemini)),
    *(Case("gemini.stream", one, fold_gemini) for one in load_all(load_gemini_streams)),
    *(Case("images", one, fold_typed) for one in load_all(load_images)),
    *(Case("audio.speech", one, fold_typed) for one in load_all(load_speech)),
    *(Case("audio.transcriptions", one, fold_typed) for one in load_all(load_transcriptions)),
    *(Case("audio.translations", one, fold_typed) for one in load_all(load_translations)),
]
RECORDED = len(CASES)
_ENCLOSED = ("generate", "stream", "count")
FOLDS = {case.api: case.fold for case in CASES} | dict.fromkeys(
    (*("gemini.embed", "gemini.count"), *(f"code_assist.{one}" for one in _ENCLOSED)), fold_gemini
)
CASES += [Case(api, one, FOLDS[api]) for api, one in build_calls() if FOLDER is not None]
CASES += [
    Case("gemini.stream", array, fold_gemini)
    for one in load_all(load_gemini_streams)
    if (array := as_array(one)) is not None
]
"""Recorded, and then built: ``built`` is in the names of the latter."""

STREAMS = [case for case in CASES if case.is_stream]

FINELY_CUT_BYTES = 12_000
"""Of a stream that is read byte by byte as a whole."""

TRUNCATIONS = 12
"""Places at which each stream breaks off."""

VARIABLE = "SPANTAP_REPLAY"
"""Set to ``all``, every cut of reads is tried with every framing: minutes instead of seconds."""

pytestmark = NEEDS_RECORDINGS


def _lend(_: int) -> bool:
    return True


def read(case: Case, body: bytes, size: int | random.Random | None = None) -> Said:
    """The answer of a stream, in reads of this size."""
    stream = case.open()
    for piece in _cut(body, size):
        stream.feed(piece)
    return stream.finish()


def _cut(body: bytes, size: int | random.Random | None) -> Iterator[bytes]:
    start = 0
    while start < len(body):
        wanted = size.randrange(1, 700) if isinstance(size, random.Random) else size or len(body)
        yield body[start : start + wanted]
        start += wanted


def test_all_of_them_are_here() -> None:
    """None is left out by the reader but for one response that is no text."""
    recorded = CASES[:RECORDED]
    streams = [case for case in recorded if case.is_stream]
    counts = {
        api: tuple(sum(case.api == api for case in cases) for cases in (streams, recorded))
        for api in {case.api for case in recorded}
    }
    assert counts == {
        "responses": (169, 516),
        "messages": (151, 409),
        "count_tokens": (0, 11),
        "rerank": (0, 15),
        "moderations": (0, 15),
        "ollama.chat": (25, 59),
        "ollama.generate": (4, 8),
        "ollama.embed": (0, 1),
        "gemini.generate": (0, 328),
        "gemini.stream": (144, 145),
        "images": (0, 34),
        "audio.speech": (0, 8),
        "audio.transcriptions": (1, 26),
        "audio.translations": (0, 3),
    }


def test_some_are_built() -> None:
    """Of each API; of Gemini's streams all that can be arrays are arrays, too."""
    built = [case for case in CASES if case.recording.id.startswith("built")]
    assert built == CASES[RECORDED:]
    assert {case.api for case in built} == FOLDS.keys()
    assert sum("the array of" in case.recording.id for case in built) == 133


def vary(recording: Recording) -> Iterator[tuple[str, str, Recording]]:
    """The recording in each cut of reads, with what is done to it; some break off anywhere."""
    chance = random.Random(recording.id)
    chosen = [*zip(CUTS, chance.sample([*FRAMINGS], len(FRAMINGS)), strict=True)]
    broken = {chance.choice(chosen)}
    if os.environ.get(VARIABLE) == "all":
        chosen = [*product(CUTS, FRAMINGS)]
        broken = {*chosen}
    for cut, framing in chosen:
        framed = FRAMINGS[framing](recording)
        yield cut, framing, framed
        if (cut, framing) in broken and framed.body:
            body = framed.body[: chance.randrange(len(framed.body))]
            yield cut, f"{framing}, breaks off", replace(framed, body=body, breaks_off=True)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_replay_is_transparent_and_gives_one_true_span(bench: Bench, case: Case) -> None:
    """The client gets the bytes of the upstream, the span says what the second fold says."""
    for cut, framing, framed in vary(case.recording):
        replay = await bench.replay(framed, framed.request, cut)
        assert not find_faults(replay), (cut, framing)


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case.id)
def test_a_stream_says_the_same_however_it_is_read(case: Case) -> None:
    """Whole, event by event, in sevens, anyhow, in bytes; with LF and with CRLF."""
    recording, body = case.recording, case.recording.body
    whole = read(case, body)
    stream = case.open()
    for event in re.split(rb"(?<=\n\n)", body.replace(b"\r\n", b"\n")):
        stream.feed(event)
    assert stream.finish() == whole
    for written in (body, FRAMINGS["CRLF"](recording).body):
        for size in (7, random.Random(recording.id)):
            assert read(case, written, size) == whole
        if len(body) <= FINELY_CUT_BYTES:
            assert read(case, written, 1) == whole


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case.id)
def test_a_stream_that_breaks_off_tells_the_truth_so_far(case: Case) -> None:
    """What the second fold says of the same bytes, and no more."""
    recording = case.recording
    chance = random.Random(recording.id)
    for _ in range(TRUNCATIONS):
        body = recording.body[: chance.randrange(len(recording.body))]
        broken = replace(recording, body=body, breaks_off=True)
        exchange = observe_recording(broken, case.api, kind=EndKind.UPSTREAM_BROKEN)
        assert not find_answer_faults(broken, exchange), len(body)


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case.id)
def test_chunks_are_counted_and_content_is_noticed(case: Case) -> None:
    """Each event is a chunk but for errors; a stream with words or calls has content."""
    stream = case.open()
    stream.feed(case.recording.body)
    answer = stream.finish()
    assert stream.chunk_count == case.fold(case.recording.body)["chunks"]
    parts = [part for one in answer.answers for part in one.message.parts]
    said = [part for part in parts if not isinstance(part, Text) or part.text]
    assert stream.has_content or not any(isinstance(part, Text | ToolCall) for part in said)
