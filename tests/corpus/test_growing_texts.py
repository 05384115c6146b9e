"""``codec.growing_text``: of every recorded stream, what is seen growing is what it said.

However its reads are cut and however often somebody looks; and looking changes nothing.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.table import get_api
from codec.parts import Reasoning, Refusal, Text, ToolCall
from codec.text.jsontext import decode_json, is_json
from telemetry.news.texts import TextCount, TextReader
from telemetry.privacy.credentials import NO_CREDENTIALS
from tests.corpus.recordings import NEEDS_RECORDINGS, load_all, load_chats, load_completions
from tests.corpus.test_apis import CASES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codec.apis.api import Stream
    from codec.said import Said

pytestmark = NEEDS_RECORDINGS

STREAMS = [
    *((case.api, case.recording) for case in CASES if case.is_stream),
    *(("chat.completions", one) for one in load_all(load_chats) if one.asks_stream),
    *(("completions", one) for one in load_all(load_completions) if one.asks_stream),
]
STREAMS = [(api, recording) for api, recording in STREAMS if recording.status < 400]


def open_stream(api: str) -> Stream:
    return get_api(api).open_stream(choice_count=1, hides_usage=False, lend=lambda _: True)


def watch(api: str, body: bytes, reads: int, seed: int) -> tuple[Counter[str], int, Said]:
    """Feed a body, and look after every read.

    Returns:
        The texts that were seen, how many characters were counted, and the answer.
    """
    rng = random.Random(seed)
    places = sorted(rng.randrange(len(body) + 1) for _ in range(reads - 1))
    stream, reader, count = open_stream(api), TextReader(), TextCount()
    seen: dict[tuple[str, int], str] = {}
    chars = 0
    for start, end in zip([0, *places], [*places, len(body)], strict=True):
        stream.feed(body[start:end])
        texts = stream.look()
        chars = count.count(texts)
        for new in reader.read(texts, NO_CREDENTIALS):
            key = new.kind.value, new.part
            assert len(seen.get(key, "")) == new.at
            seen[key] = seen.get(key, "") + new.text
    said = stream.finish()
    for new in reader.read(stream.look(), NO_CREDENTIALS):
        key = new.kind.value, new.part
        seen[key] = seen.get(key, "") + new.text
    return Counter(seen.values()), chars, said


def texts_of(said: Said) -> Counter[str]:
    """The texts of an answer that have to be seen; of no arguments nothing comes.

    What the provider itself called comes as it likes.
    """
    must: Counter[str] = Counter()
    for answer in said.answers:
        for part in answer.message.parts:
            match part:
                case str():
                    must[spell(part)] += 1
                case Text() | Refusal():
                    must[spell(part.text)] += 1
                case Reasoning():
                    must[spell(part.text or "")] += 1
                case ToolCall() if part.type == "function" and part.arguments != "{}":
                    must[spell(part.arguments)] += 1
    del must[""]
    return must


def strings_of(value: Any) -> Iterator[str]:
    """All strings in a value, and all objects in it as JSON."""
    if isinstance(value, str):
        yield spell(value)
    elif isinstance(value, dict):
        yield json.dumps(value, sort_keys=True)
        for member in value.values():
            yield from strings_of(member)
    elif isinstance(value, list):
        for member in value:
            yield from strings_of(member)


def join_neighbours(texts: list[str]) -> Iterator[str]:
    """Neighbours, as many of them as there are, with a line end between two."""
    for start in range(len(texts)):
        for end in range(start + 2, len(texts) + 1):
            yield "\n".join(texts[start:end])


def spell(text: str) -> str:
    """The same for whatever is the same JSON."""
    return (
        json.dumps(decode_json(text), sort_keys=True)
        if text[:1] in "{[" and is_json(text)
        else text
    )


@pytest.mark.parametrize("reads", [1, 7, 60])
@pytest.mark.parametrize(
    ("api", "number"),
    [(api, number) for number, (api, _) in enumerate(STREAMS)],
    ids=[f"{api} {recording.id}" for api, recording in STREAMS],
)
def test_what_is_seen_growing_is_what_was_said(api: str, number: int, reads: int) -> None:
    """Every text of the answer, and looking leaves the answer as it is."""
    body = STREAMS[number][1].text
    seen, _, said = watch(api, body, reads, number)
    unseen = open_stream(api)
    unseen.feed(body)
    assert unseen.finish() == said
    if api.startswith("audio.") or "shell-container.1" in STREAMS[number][1].id:
        return  # what came in pieces is corrected at the end
    told = [spell(text) for text in seen.elements()]
    # Paragraphs of reasoning are texts of their own, and one in the record.
    free = [json.dumps({"input": text}) for text in seen]
    assert texts_of(said) - Counter([*told, *join_neighbours(told), *free]) == Counter()
    if "several_responses" not in said.anomalies:  # of which the last one counts
        assert {*told} <= {*strings_of(said.body), *texts_of(said)}
