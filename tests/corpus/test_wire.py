"""Every recorded chunk, typed without loss."""

from __future__ import annotations

import json
from functools import partial

from codec.text.sse import SseDecoder
from codec.wire.chunks import decode_chunk
from tests.corpus.oracle import is_stream, parse_json
from tests.corpus.recordings import (
    NEEDS_RECORDINGS,
    load_all,
    load_chats,
    load_completions,
    load_dynamo,
)

pytestmark = NEEDS_RECORDINGS


def test_every_chunk_is_accepted_and_written_again() -> None:
    """Of all providers; reading by name changes nothing (``docs/contract/sources.md#s2-1``)."""
    legacy = partial(load_dynamo, legacy=True)
    count = 0
    for recording in load_all(load_chats, load_completions, load_dynamo, legacy):
        if not is_stream(recording.body):
            continue
        decoder = SseDecoder()
        for event in (*decoder.feed(recording.body), decoder.finish()):
            data = event.data if event is not None else None
            value = parse_json(data) if data else None
            if data and isinstance(value, dict):
                chunk = decode_chunk(data)
                texts = [(choice.index, choice.delta, choice.text) for choice in chunk.choices]
                assert len(texts) == len(value.get("choices") or ())
                assert json.dumps(chunk.raw) == json.dumps(value), recording.id
                count += 1
    assert count > 7_500
