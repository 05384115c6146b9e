"""``codec.apis.ollama.player``: what is played is what is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.ollama.route import OLLAMA_CHAT, OLLAMA_GENERATE
from codec.dialects import find_dialect
from codec.text.jsontext import decode_json
from proxy.demo.script import FAILING_MODEL, MODEL, REASONING_MODEL, REFUSED_PHRASES, write_script

if TYPE_CHECKING:
    from codec.apis.api import Api
    from codec.apis.player import Performance, Player

PLAIN = find_dialect("openai")
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {}}}}}
ASKED: dict[str, dict[str, Any]] = {
    "text": {},
    "thinking": {"model": REASONING_MODEL},
    "tools": {"tools": [TOOL]},
    "cut call": {"tools": [TOOL], "options": {"num_predict": 2}},
    "refusal": {"messages": [{"role": "user", "content": REFUSED_PHRASES[0]}]},
    "failing": {"model": FAILING_MODEL},
}


def player_of(api: Api) -> Player:
    """The API's player."""
    assert api.open_player is not None
    return api.open_player()


def play(api: Api, members: dict[str, Any]) -> Performance:
    """An answer that begins."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "prompt": "Hi"}
    asked = api.asked(body | members)
    script = write_script(asked, answer_id="1", created=1_795_456_987)
    return player_of(api).play(asked, script, PLAIN)


@pytest.mark.parametrize("api", [OLLAMA_CHAT, OLLAMA_GENERATE], ids=lambda api: api.name)
@pytest.mark.parametrize("name", ASKED)
def test_a_stream_says_what_the_plain_answer_says(api: Api, name: str) -> None:
    """One line a piece; both are read without an anomaly."""
    whole = api.read_said(play(api, ASKED[name]).whole())
    stream = api.open_stream(choice_count=1, hides_usage=False, lend=lambda _: True)
    for lines in play(api, ASKED[name]).stream():
        stream.feed(b"".join(lines))
    streamed = stream.finish()
    assert streamed.error == whole.error
    assert (streamed.error is None) is (name != "failing")
    if streamed.error is None:
        assert streamed == whole
        assert whole.anomalies == ()
        assert whole.body["created_at"] == "2026-11-23T18:03:07Z"


@pytest.mark.parametrize(
    ("api", "body", "words"),
    [
        (OLLAMA_CHAT, {}, "model is required"),
        (OLLAMA_CHAT, {"model": "m", "messages": "Hi"}, "cannot unmarshal messages"),
        (OLLAMA_CHAT, {"model": "m", "messages": [7]}, "cannot unmarshal messages"),
        (OLLAMA_CHAT, {"model": "m"}, None),
        (OLLAMA_GENERATE, {"model": "m", "prompt": 7}, "cannot unmarshal prompt"),
        (OLLAMA_GENERATE, {"model": "m"}, None),
    ],
)
def test_what_is_wrong_with_a_request(api: Api, body: dict[str, Any], words: str | None) -> None:
    """An error is a text."""
    fault = player_of(api).find_fault(body)
    if words is None:
        assert fault is None
    else:
        assert fault is not None
        told = decode_json(player_of(api).write_error(fault["error"], PLAIN))
        assert words in told["error"]
