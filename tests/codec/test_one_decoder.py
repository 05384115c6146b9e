"""One decoder: an answer says the same whether it came whole or in pieces.

An answer is made up, cut into chunks at random (in the orders that servers use and in others), and
folded; beside it stands the same answer as a plain body.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import assume, given
from hypothesis import strategies as st

from codec.chat.completion import build_completion
from codec.chat.response import decode_response
from codec.chat.stream import ChatStream
from tests.fixtures.wire import DONE, sse, usage_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from codec.text.jsontext import JsonObject

    Draw = Callable[[st.SearchStrategy[Any]], Any]

HEAD = {"id": "chatcmpl-5", "created": 1_764_000_000, "model": "m-2"}
NAMES = st.sampled_from(["moor", "sail", "row"])
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
TOKENS = st.lists(st.fixed_dictionaries({"token": TEXTS, "bytes": st.none()}), max_size=3)
NOTHING = st.sampled_from(["absent", "null", "empty"])
"""Three ways to say nothing (``docs/contract/wire.md#absent-null-empty``)."""


def _cut(draw: Draw, text: str) -> list[str]:
    """The pieces of a text, some of them empty."""
    ends = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    starts = [0, *ends]
    return [text[start:end] for start, end in zip(starts, [*ends, len(text)], strict=True)]


def _mixed(draw: Draw, tracks: list[list[Any]]) -> list[Any]:
    """All items of several tracks, those of each in their order."""
    places = [place for place, track in enumerate(tracks) for _ in track]
    rests = [iter(track) for track in tracks]
    return [next(rests[place]) for place in draw(st.permutations(places))]


def _text(draw: Draw, name: str) -> tuple[JsonObject, list[JsonObject]]:
    text = draw(TEXTS)
    return {name: text}, [{name: piece} for piece in _cut(draw, text)]


def _nothing(draw: Draw, name: str, empty: Any) -> JsonObject:
    way = draw(NOTHING)
    return {} if way == "absent" else {name: None if way == "null" else empty}


def _parts(draw: Draw) -> tuple[JsonObject, list[JsonObject]]:
    """Thinking, then text: Mistral, whose text goes on as a plain string."""
    thought, text = draw(TEXTS), draw(TEXTS)
    pieces: list[JsonObject] = [{"content": [_thinking(piece)]} for piece in _cut(draw, thought)]
    pieces += [{"content": piece} for piece in _cut(draw, text)]
    return {"content": [_thinking(thought), {"type": "text", "text": text}]}, pieces


def _thinking(text: str) -> JsonObject:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def _tool_calls(draw: Draw) -> tuple[JsonObject, list[JsonObject]]:
    whole, tracks = [], []
    for index in range(draw(st.integers(1, 3))):
        kind, member = draw(st.sampled_from([("function", "arguments"), ("custom", "input")]))
        name, text = draw(NAMES), draw(TEXTS | st.just(""))
        known = {"id": f"call-{index}", "type": kind}
        signed = {"extra_content": {"signature": "q"}} if draw(st.booleans()) else {}
        whole.append(known | signed | {kind: {"name": name, member: text}})
        header = known | signed | {kind: {"name": name} | _nothing(draw, member, "")}
        fragments = [{kind: {member: piece}} for piece in _cut(draw, text)]
        tracks.append(
            [{"tool_calls": [{"index": index} | entry]} for entry in [header, *fragments]]
        )
    return {"tool_calls": whole}, _mixed(draw, tracks)


def _function_call(draw: Draw) -> tuple[JsonObject, list[JsonObject]]:
    name, text = draw(NAMES), draw(TEXTS)
    pieces = [{"arguments": piece} for piece in _cut(draw, text)]
    called = [{"name": name, "arguments": ""}, *pieces]
    whole = {"function_call": {"name": name, "arguments": text}}
    return whole, [{"function_call": piece} for piece in called]


def _message(draw: Draw) -> tuple[JsonObject, list[JsonObject]]:
    """A message and its deltas."""
    shape = draw(st.sampled_from(["text", "parts", "reasoning", "refusal", "tools", "function"]))
    made = [_parts(draw)] if shape == "parts" else []
    if shape in {"text", "reasoning", "tools"}:
        made.append(_text(draw, "content"))
    if shape == "reasoning":
        made.append(_text(draw, draw(st.sampled_from(["reasoning", "reasoning_content"]))))
    if shape == "refusal":
        made.append(_text(draw, "refusal"))
    if shape == "tools":
        made.append(_tool_calls(draw))
    if shape == "function":
        made.append(_function_call(draw))
    if draw(st.booleans()):
        made.append(({"annotations": [{"type": "chart"}]}, [{"annotations": [{"type": "chart"}]}]))
    message: JsonObject = {"role": "assistant"}
    for name, empty in (("content", ""), ("refusal", ""), ("tool_calls", []), ("audio", None)):
        message |= _nothing(draw, name, empty)
    for members, _ in made:
        message |= members
    deltas = _mixed(draw, [track for _, track in made])
    first = {"role": "assistant"} | _nothing(draw, "content", "") | _nothing(draw, "refusal", "")
    return message, [first, *deltas]


@st.composite
def choices(draw: Draw, index: int) -> tuple[JsonObject, list[JsonObject]]:
    """A choice of a plain body, and the same choice in the entries of chunks."""
    message, deltas = _message(draw)
    entries: list[JsonObject] = [{"index": index, "delta": delta} for delta in deltas]
    end = {"finish_reason": draw(st.sampled_from(["stop", "tool_calls", "length", "sensitive"]))}
    if draw(st.booleans()):
        end["stop_reason"] = draw(st.integers(0, 9))
    if draw(st.booleans()):
        entries[-1] |= end
    else:
        entries.append({"index": index, "delta": {}} | end)
    choice = {"index": index, "message": message} | end
    tokens = draw(st.none() | TOKENS)
    if tokens:
        place = draw(st.integers(0, len(tokens)))
        entries[0]["logprobs"] = {"content": tokens[:place], "refusal": None}
        entries[-1]["logprobs"] = {"content": tokens[place:], "refusal": None}
    choice |= _nothing(draw, "logprobs", {}) if not tokens else {"logprobs": {"content": tokens}}
    return choice, entries


@st.composite
def answers(draw: Draw) -> tuple[JsonObject, list[JsonObject]]:
    """A plain body, and the chunks of the same answer."""
    made = [draw(choices(index)) for index in range(draw(st.integers(1, 3)))]
    usage = usage_of(4, 7, completion_tokens_details={"reasoning_tokens": 2})
    body = HEAD | {"object": "chat.completion", "choices": [choice for choice, _ in made]}
    body |= {"usage": usage} | _nothing(draw, "system_fingerprint", None)
    entries = _mixed(draw, [track for _, track in made])
    head = HEAD | {"object": "chat.completion.chunk"} | _nothing(draw, "system_fingerprint", None)
    chunks: list[JsonObject] = [
        head | {"choices": [entry]} | _nothing(draw, "usage", None) for entry in entries
    ]
    if draw(st.booleans()):
        extra = {"nvext": {"worker": {"id": 3}, "note": None}, "citations": ["a", "b"]}
        body |= extra
        chunks[draw(st.integers(0, len(chunks) - 1))] |= extra
    if draw(st.booleans()):
        chunks[-1]["usage"] = usage
    else:
        chunks.append(head | {"choices": [], "usage": usage})
    return body, chunks


@given(answers())
def test_streamed_or_not_an_answer_is_the_same(answer: tuple[JsonObject, list[JsonObject]]) -> None:
    """Equal choices, usage, anomalies and complete object (``docs/contract/sources.md#n3``)."""
    body, chunks = answer
    stream = ChatStream(choice_count=len(body["choices"]))
    stream.feed(sse(*chunks) + DONE)
    streamed = stream.finish()
    assume("cumulative_content" not in streamed.anomalies)
    plain = decode_response(json.dumps(body).encode())
    assert streamed.choices == plain.choices
    assert streamed.usage == plain.usage
    assert streamed.finished == plain.finished
    assert streamed.anomalies == plain.anomalies
    assert build_completion(streamed) == build_completion(plain)
