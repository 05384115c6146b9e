"""The load tool speaking Gemini."""

from __future__ import annotations

import pytest
import requests

from codec.apis.gemini.stream import ContentStream
from codec.said import Ending
from tests.load.tool import LOAD_TOOL_OBSTACLE, ClientLoad, LoadUpstream, run_client

pytestmark = pytest.mark.skipif(LOAD_TOOL_OBSTACLE is not None, reason=LOAD_TOOL_OBSTACLE or "")

PATH = "/v1/models/load-1:streamGenerateContent?alt=sse"


def test_its_stream_is_a_whole_answer() -> None:
    """Each text has a stamp of its own."""
    with LoadUpstream(chunks=3, api="gemini") as upstream:
        asked = {"contents": [], "stream": True}
        answer = requests.post(f"{upstream.url}{PATH}", json=asked, timeout=20)
    stream = ContentStream()
    stream.feed(answer.content)
    said = stream.finish()
    assert said.usage is not None
    assert (said.usage.prompt, said.usage.completion) == (9, 3)
    assert said.ending(streamed=True) is Ending.UNMARKED
    assert not said.anomalies
    assert answer.content.count(b"@") == 3


@pytest.mark.parametrize("rate", [0, 200])
def test_its_client_takes_what_its_upstream_says(rate: float) -> None:
    """Every stream is whole and every text timed."""
    with LoadUpstream(chunks=20, rate=rate, api="gemini") as upstream:
        load = ClientLoad(
            port=upstream.port, mode="stream", connections=4, requests=8, api="gemini"
        )
        result = run_client(load)
    assert result.answered == upstream.counts.streams == 8
    assert result.chunk_delay.count == 160


def test_a_chat_is_no_answer_of_gemini() -> None:
    """Its client calls a stream cut that ends as another API's does."""
    with LoadUpstream(chunks=2) as upstream:
        load = ClientLoad(port=upstream.port, mode="stream", requests=2, api="gemini")
        assert run_client(load).cut == 2
