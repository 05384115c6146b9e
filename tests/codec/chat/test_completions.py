"""Legacy completions, folded like chats."""

from __future__ import annotations

from typing import Any

from codec.chat.completion import build_completion
from codec.chat.response import decode_response
from codec.chat.stream import ChatStream
from tests.fixtures.wire import DONE, counts, sse, usage_of

HEAD = {"id": "cmpl-1", "object": "text_completion", "created": 5, "model": "davinci-3"}


def _fold(*chunks: Any) -> ChatStream:
    stream = ChatStream()
    stream.feed(sse(*chunks) + DONE)
    return stream


def _piece(text: str, finish: str | None = None, index: int = 0, **members: Any) -> Any:
    choice = {"index": index, "text": text, "logprobs": None, "finish_reason": finish}
    return HEAD | {"choices": [choice]} | members


def test_text_is_the_content_of_a_choice() -> None:
    """Where there is neither delta nor message (``docs/contract/sources.md#s3-2``)."""
    probs = {"tokens": ["Ahoy"], "token_logprobs": [-0.5], "top_logprobs": None, "text_offset": [0]}
    more = {"tokens": ["!"], "token_logprobs": [-0.25], "top_logprobs": None, "text_offset": [4]}
    first = {"index": 0, "text": "Ahoy", "logprobs": probs, "finish_reason": None}
    last = {"index": 0, "text": "!", "logprobs": more, "finish_reason": "stop"}
    answer = _fold(
        HEAD | {"choices": [first]},
        HEAD | {"choices": [last]},
        HEAD | {"choices": [], "usage": usage_of(3, 2)},
    ).finish()
    assert answer.choices[0].message.content == "Ahoy!"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.anomalies == ()
    assert answer.body["choices"] == [
        {
            "index": 0,
            "text": "Ahoy!",
            "finish_reason": "stop",
            "logprobs": {
                "tokens": ["Ahoy", "!"],
                "token_logprobs": [-0.5, -0.25],
                "text_offset": [0, 4],
            },
        }
    ]
    assert build_completion(answer)["choices"][0]["text"] == "Ahoy!"


def test_a_delta_wins_over_text() -> None:
    """Together's choices have both, and say the same thing twice."""
    choice = {"index": 0, "text": "Hi", "delta": {"content": "Hi"}, "finish_reason": "eos"}
    answer = _fold(HEAD | {"choices": [choice]}).finish()
    assert answer.choices[0].message.content == "Hi"
    assert answer.choices[0].finish_reason == "eos"


def test_several_prompts_are_several_choices() -> None:
    """Each has its text; an answer without any text has empty text, not none."""
    answer = _fold(_piece("a"), _piece("b", index=1), _piece("", "stop", 2)).finish()
    texts = [choice["text"] for choice in answer.body["choices"]]
    assert texts == ["a", "b", ""]
    assert answer.choices[2].message.content is None


def test_one_usage_per_prompt_is_summed() -> None:
    """TGI: with the finish of each prompt's choice, as the same answer unstreamed counts them."""
    answer = _fold(
        _piece("a", "length", 1, usage=usage_of(8, 10)),
        _piece("b", "length", 0, usage=usage_of(3, 4)),
    ).finish()
    assert answer.usage is not None
    assert (answer.usage.prompt, answer.usage.completion, answer.usage.total) == (11, 14, 25)


def test_running_counts_are_not_summed() -> None:
    """Usage with other chunks, of a prompt again, or of equal prompts may be cumulative."""
    for chunks in (
        [_piece("a", usage=usage_of(8, 1)), _piece("", "stop", usage=usage_of(3, 4))],
        [_piece("a", "stop", usage=usage_of(8, 1)), _piece("", "stop", usage=usage_of(3, 4))],
        [_piece("a", "stop", usage=usage_of(3, 1)), _piece("", "stop", 1, usage=usage_of(3, 4))],
        [
            _piece("a", "stop", usage=usage_of(8, 1)),
            HEAD | {"choices": [], "usage": usage_of(3, 4)},
        ],
    ):
        usage = _fold(*chunks).finish().usage
        assert usage is not None
        assert {"prompt": usage.prompt, "completion": usage.completion, "total": usage.total} == (
            counts(3, 4)
        )


def test_bare_values_are_text() -> None:
    """Writer streams nothing but values; there is neither finish reason nor end marker."""
    stream = ChatStream()
    stream.feed(b'data: {"value":"Sure"}\n\ndata: {"value":"!"}\n\n')
    answer = stream.finish()
    assert answer.choices[0].message.content == "Sure!"
    assert answer.anomalies == ("no_finish_reason", "no_usage")
    assert answer.event_count == 2


def test_a_plain_completion_reads_like_its_stream() -> None:
    """The same values, whole or in pieces (``docs/contract/sources.md#n3``)."""
    plain = decode_response(
        b'{"id":"cmpl-1","object":"text_completion","created":5,"model":"davinci-3","choices":'
        b'[{"text":"Ahoy!","index":0,"logprobs":null,"finish_reason":"length"}],"usage":'
        b'{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}'
    )
    streamed = _fold(
        _piece("Ahoy"), _piece("!", "length"), HEAD | {"choices": [], "usage": usage_of(3, 2)}
    ).finish()
    assert plain.choices == streamed.choices
    assert plain.usage == streamed.usage
    assert build_completion(plain) == build_completion(streamed)
