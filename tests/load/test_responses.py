"""The load tool speaking Responses."""

from __future__ import annotations

import pytest
import requests

from codec.apis.responses.stream import ResponseStream
from codec.parts import Text
from codec.said import Ending
from tests.load.tool import LOAD_TOOL_OBSTACLE, ClientLoad, LoadUpstream, run_client

pytestmark = pytest.mark.skipif(LOAD_TOOL_OBSTACLE is not None, reason=LOAD_TOOL_OBSTACLE or "")


def test_its_stream_is_a_whole_response() -> None:
    """Each delta has a stamp of its own, and the end repeats what they said."""
    with LoadUpstream(chunks=3, api="responses") as upstream:
        url, asked = f"{upstream.url}/v1/responses", {"input": "Hello", "stream": True}
        answer = requests.post(url, json=asked, timeout=20)
    stream = ResponseStream()
    stream.feed(answer.content)
    said = stream.finish()
    [message] = said.choices_of_answers
    assert message.message.parts == (Text("x" * 96),)
    assert said.usage is not None
    assert (said.usage.prompt, said.usage.completion) == (9, 3)
    assert said.ending(streamed=True) is Ending.COMPLETE
    assert not said.anomalies
    assert answer.content.count(b"@") == 3


@pytest.mark.parametrize("rate", [0, 200])
def test_its_client_takes_what_its_upstream_says(rate: float) -> None:
    """Every stream is whole and every delta timed."""
    with LoadUpstream(chunks=20, rate=rate, api="responses") as upstream:
        load = ClientLoad(
            port=upstream.port, mode="stream", connections=4, requests=8, api="responses"
        )
        result = run_client(load)
    assert result.answered == upstream.counts.streams == 8
    assert result.chunk_delay.count == 160


def test_a_chat_is_no_response() -> None:
    """Its client calls a stream cut that ends as another API's does."""
    with LoadUpstream(chunks=2) as upstream:
        load = ClientLoad(port=upstream.port, mode="stream", requests=2, api="responses")
        assert run_client(load).cut == 2
