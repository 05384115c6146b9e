"""Chunks recognised by their bytes, beside the same chunks folded in the general way."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec import event_reader
from codec.chat import accumulator as accumulator_module
from codec.chat import stream as stream_module
from codec.chat import template as template_module
from codec.chat.stream import ChatStream
from codec.chat.template import learn_template
from codec.text.jsontext import decode_json

HEAD: dict[str, Any] = {"id": "c-1", "object": "chat.completion.chunk", "created": 9, "model": "m"}


def chunk(delta: Any, *, index: Any = 0, choice: Any = None, **members: Any) -> dict[str, Any]:
    """A chunk with one choice."""
    entry = {"index": index, "delta": delta, "finish_reason": None} | (choice or {})
    return HEAD | {"choices": [entry]} | members


def event(value: Any, **options: Any) -> bytes:
    """An event of one line; text stands as it is."""
    text = value if isinstance(value, str) else json.dumps(value, **options)
    return f"data: {text}\n\n".encode("utf-8", "surrogatepass")


def watch(pieces: list[bytes], **members: Any) -> list[Any]:
    """All that a stream shows, after each read and at the end."""
    stream = ChatStream(**members)
    seen: list[Any] = []
    for piece in pieces:
        stream.feed(piece)
        seen.append((stream.event_count, stream.has_content, stream.is_complete, stream.done))
    return [*seen, stream.finish()]


def assert_alike(pieces: list[bytes], **members: Any) -> None:
    """With templates and without, everything is the same."""
    quick = watch(pieces, **members)
    with mock.patch.object(stream_module, "MAX_WASTED_TEMPLATES", 0):
        assert quick == watch(pieces, **members)
    with mock.patch.object(stream_module, "_MAX_UNFOLDED_BYTES", 1_000):
        assert quick == watch(pieces, **members)


texts = st.one_of(
    st.sampled_from(["a", " word", "", "\n", '"', "\\", "é", "\N{GRINNING FACE}", "\ud83d"]),
    st.sampled_from(['"},"finish_reason":"stop"', '","p":"', "data: x\n\n", '"content":"']),
    st.text(max_size=5),
)
deltas = st.one_of(
    texts.map(lambda text: {"content": text}),
    texts.map(lambda text: {"content": text}),
    texts.map(lambda text: {"role": "assistant", "content": text}),
    texts.map(lambda text: {"role": None, "content": text, "reasoning_content": None}),
    texts.map(lambda text: {"content": None, "reasoning_content": text}),
    texts.map(lambda text: {"content": "", "reasoning": text, "extra": {"a": 1}}),
    texts.map(lambda text: {"reasoning": text, "reasoning_content": text}),
    texts.map(lambda text: {"content": text, "refusal": "no"}),
    texts.map(lambda text: {"content": text, "audio": {"transcript": "no"}}),
    texts.map(lambda text: {"content": "a", "reasoning_text": text}),
    texts.map(lambda text: {"content": None, "reasoning_text": text}),
    texts.map(lambda text: {"reasoning_details": [{"text": text}]}),
    texts.map(lambda text: {"content": [{"type": "text", "text": text}]}),
    texts.map(lambda text: {"content": text, "list": [text]}),
    texts.map(lambda text: {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}),
    st.just({}),
    st.none(),
)
chunks = st.builds(
    chunk,
    deltas,
    index=st.sampled_from([0, 0, 0, 1, "1", None]),
    choice=st.sampled_from(
        [None, None, None, {"logprobs": None}, {"logprobs": {"content": [1]}}, {"x": [1]},
         {"finish_reason": "stop"}, {"seed": 7}, {"usage": {"completion_tokens": 1}},
         {"content_filter_results": {"hate": {"filtered": False}}}]
    ),
)  # fmt: skip
members = st.sampled_from(
    [{}, {}, {"usage": None}, {"obfuscation": "aB"}, {"obfuscation": "xyz"}, {"p": "q"},
     {"usage": {"completion_tokens": 2}}, {"x_groq": {"id": "r"}}, {"citations": [1]},
     {"obfuscation": "tail", "usage": None}, {"model": "other"}, {"error": "bad"}]
)  # fmt: skip
said = st.builds(lambda one, more: one | more, chunks, members)
events = st.one_of(
    st.builds(event, said, separators=st.just((",", ":"))),
    st.builds(event, said, separators=st.just((",", ":")), ensure_ascii=st.just(False)),
    st.builds(event, said),
    st.sampled_from([b": keep-alive\n\n", b"data: [DONE]\n\n", b"data: {oops\n\n", b"\n",
                     b"event: x\ndata: {}\n\n", b'data: {"choices":[],"usage":{"a":1}}\n\n',
                     b"data: \xff\n\n"]),
)  # fmt: skip


@given(st.lists(events, max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=400, deadline=None)
def test_templates_change_nothing(pieces: list[bytes], random: Any) -> None:
    """Any events, repeated and cut anywhere, fold as they do in the general way."""
    stream = b"".join(piece * random.choice((1, 1, 1, 3)) for piece in pieces)
    cuts = sorted(random.sample(range(len(stream) + 1), min(len(stream), random.randrange(9))))
    reads = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert_alike(reads)
    assert_alike([piece for piece in pieces for _ in range(2)])


@pytest.mark.parametrize(
    "odd",
    [
        '{"choices":[{"index":0,"delta":{"content":"a","content":"b"}}]}',
        '{"choices":[{"index":0,"delta":{"content":"a","c\\u006fntent":"b"}}]}',
        '{"content":"a","choices":[{"index":0,"delta":{"c\\u006fntent":"a"}}]}',
        '{"x":"\\"content\\":\\"a\\"","choices":[{"index":0,"delta":{"c\\u006fntent":"a"}}]}',
        '{"choices":[{"index":0,"delta":{"content":"a"}}],"choices":[{"delta":{"content":"b"}}]}',
        '{"choices":[{"index":0,"delta":{"content":"a"}}],"n":NaN}',
        '{"choices":[{"index":0,"delta":{"content":"a"}}],"obfuscation":"\\u0061"}',
        '{"obfuscation":"a","choices":[{"index":0,"delta":{"content":"a"}}]}',
        '{"choices":[{"index":0,"delta":{"content":"a"}}],"obfuscation":"a","obfuscation":"b"}',
    ],
)
def test_no_trick_of_json_makes_a_wrong_template(odd: str) -> None:
    """What the parser does not confirm is no template, or it is a right one."""
    assert_alike([event(odd), event(odd.replace('"a"', '"z"')), event(odd), event(chunk({}))])


@pytest.mark.parametrize(
    "literal", [r"\ud83d\ude00", r"\ud83d", r"\n", r"\"", r"\x", r"\u12", "\t"]
)
def test_escapes_are_read_as_json_reads_them(literal: str) -> None:
    """Pairs, halves of pairs, quotes, and what is no escape at all."""
    whole = event('{"choices":[{"index":0,"delta":{"content":"a"}}]}')
    events = [whole, whole.replace(b'"a"', f'"{literal}"'.encode()), whole]
    assert_alike(events)
    assert_alike([b"".join(events)])


def test_a_plain_stream_is_parsed_only_where_it_changes() -> None:
    """Of a long stream with padding, few chunks go through the parser."""
    pieces = [event(chunk({"role": "assistant", "content": ""}, obfuscation="0"))]
    pieces += [event(chunk({"content": f" {n}\n"}, obfuscation="z" * (n % 7))) for n in range(500)]
    with mock.patch.object(event_reader, "decode_json", wraps=decode_json) as parse:
        answer = watch(pieces)[-1]
    assert answer.choices[0].message.content == "".join(f" {n}\n" for n in range(500))
    assert answer.body["obfuscation"] == "z" * (499 % 7)
    assert answer.event_count == 501
    assert parse.call_count < 5


def test_reads_that_begin_inside_an_event_are_quick_too() -> None:
    """Few chunks go through the parser, wherever the reads end."""
    stream = b"".join(event(chunk({"content": f" {n}"})) for n in range(500))
    pieces = [stream[start : start + 1_000] for start in range(0, len(stream), 1_000)]
    with mock.patch.object(event_reader, "decode_json", wraps=decode_json) as parse:
        watch(pieces)
    assert parse.call_count < len(pieces) + 5
    assert_alike(pieces)


def test_streams_that_differ_elsewhere_stop_learning() -> None:
    """After so many templates in vain nothing more is tried."""
    pieces = [event(chunk({"content": "a", "token_id": n})) for n in range(100)]
    with mock.patch.object(stream_module, "learn_template", wraps=learn_template) as learn:
        watch(pieces)
    assert learn.call_count == stream_module.MAX_WASTED_TEMPLATES
    assert_alike(pieces)


@pytest.mark.parametrize("room", [400, 3_000, 3_500, 4_500, 6_000, 20_000])
def test_the_limit_of_memory_is_the_same(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """R5: near the limit everything goes the general way, which knows what to leave out."""
    monkeypatch.setattr(accumulator_module, "MAX_ANSWER_BYTES", room)
    pieces = [event(chunk({"content": "tide" * (n % 9)}, obfuscation="z" * n)) for n in range(60)]
    assert_alike(pieces)
    assert_alike([b"".join(pieces)])


_WORDS = [event(chunk({"content": f"w{n} "})) for n in range(4)]
_THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}
_LONG = b"".join(event(chunk({"content": "w" * 40 * n})) for n in range(12))
_LINES = b'data: {"choices":[{"index":0,\n%b"delta":{"content":"a"}}]}\n\n'
READS = {
    "parts, then text (Mistral)": [event(chunk({"content": [_THOUGHT]})), *_WORDS],
    "empty reads": [_WORDS[0], b"", _WORDS[1], b"", b"", _WORDS[2]],
    "bytes": [_LONG[n : n + 1] for n in range(len(_LONG))],
    "events of several lines": [_LINES % b"data: ", _LINES % b"", _LINES % b""],
    "an event under way": [*_WORDS[:2], b"data: " + b"x" * 2_000, *_WORDS[2:]],
}


@pytest.mark.parametrize("name", READS)
def test_these_reads_are_read_alike(name: str) -> None:
    """Whatever comes before an event that its bytes would make known."""
    assert_alike(READS[name])


def test_a_choice_that_does_not_fit_has_no_template() -> None:
    """Past the number of choices a chunk leaves nothing behind that could be added to."""
    pieces = [event(chunk({"content": "x"}, index=n)) for n in range(3)]
    pieces += [event(chunk({"content": "y"}, index=2))] * 2
    with mock.patch.object(accumulator_module, "MAX_CHOICES", 2):
        assert_alike(pieces)


@pytest.mark.parametrize("raw", ["\n", "\r", "\r\n", "\n\n", "\r\r", "\x00", "\x85", "\u2028"])
@pytest.mark.parametrize("place", ['"a"', '"pad"'])
def test_line_ends_inside_a_text_end_the_line(raw: str, place: str) -> None:
    """The event stream's grammar comes before JSON's, in the text and in the padding."""
    whole = event('{"choices":[{"index":0,"delta":{"content":"a"}}],"p":"pad"}')
    odd = whole.replace(place.encode(), f'"x{raw}y"'.encode())
    assert_alike([whole, odd, whole, whole, odd])
    assert_alike([whole + odd + whole, whole])


ODD_EVENTS = [
    event(chunk({"content": text}, p="q"))
    for text in ("\n", "a\\", '"', "\\\\", '\\"', "\ud83d", "\ude00", "", "\u20ac")
] + [
    event('{"choices":[{"index":0,"delta":{"content":"%b"}}],"p":"q"}'.replace("%b", raw))
    for raw in ("a\\x", "a\nb", "a\rb", "a\tb", '","', "\\ud83d", "\\ude00", "a\\\\", 'b\\"')
]
ODD_EVENTS += [
    event('{"choices":[{"index":0,"delta":{"content":"a"}}],"p":"q"}').replace(b"a", b"\xe2\x82"),
    event('{"choices":[{"index":0,"delta":{"content":"a"}}]}'),
    event('{"choices":[{"index":0,"delta":{"content":"a"}}],"p":"a\\u0062"}'),
    event('{"choices":[{"index":0,"delta":{"content":"a"}}],"p":"q","p":"r"}'),
    b": hi\n\n",
    b"\n",
]


@pytest.mark.parametrize("padding", ["", ',"p":"q"'])
@pytest.mark.parametrize("count", [1, 2, 70])
def test_one_odd_event_in_a_row_is_read_as_it_would_be_alone(padding: str, count: int) -> None:
    """Before it, behind it and in the middle of those that are like each other."""
    words = [
        event(f'{{"choices":[{{"index":0,"delta":{{"content":"w{n}"}}}}]{padding}}}')
        for n in range(count)
    ]
    for odd in ODD_EVENTS:
        assert_alike([b"".join([*words, odd, *words, odd, odd, *words])])


@given(st.lists(st.sampled_from(["a", "ab", "abc", "abcd", "abcde", "x", "", "a\n"]), max_size=9))
def test_texts_that_grow_are_the_last_of_them(words: list[str]) -> None:
    """Where each text may be all so far, none is put together with the next one too early."""
    pieces = [event(chunk({"content": word})) for word in ("a", *words)]
    assert_alike(pieces)
    assert_alike([pieces[0], b"".join(pieces[1:])])
    assert_alike([*pieces[:4], event(chunk({"content": "w"}, note=1)), *pieces[4:]])


@pytest.mark.parametrize("cut", range(1, 40))
def test_rows_cut_anywhere_are_read_alike(cut: int) -> None:
    """A read may begin and end with any part of an event, its blank line included."""
    pieces = [event(chunk({"content": f"w{n}"})) for n in range(12)]
    stream = b"".join(pieces)
    step = len(pieces[0]) * 4 + cut - 20
    assert_alike([stream[start : start + step] for start in range(0, len(stream), step)])


def test_what_the_parser_refuses_is_no_template() -> None:
    """A trial that fails in whatever way leaves the general way in charge."""
    one = chunk({"content": "a"}, note="\n")
    assert learn_template(event(one), one) is not None
    with mock.patch.object(template_module, "decode_json", side_effect=ValueError):
        assert learn_template(event(one), one) is None


@pytest.mark.parametrize("key", ['"a\\"content"', '"content" : "a", "b"'])
def test_a_key_that_looks_like_the_texts_is_not_taken_for_it(key: str) -> None:
    """The trial tells whose text it was that was found."""
    odd = '{%s:"a","choices":[{"index":0,"delta":{"content":"a"}}]}' % key  # noqa: UP031 - braces
    assert_alike([event(odd), event(odd.replace('"a"}', '"b"}')), event(odd)])


@pytest.mark.parametrize("members", [{"hides_usage": True}, {"choice_count": 2}])
def test_templates_change_nothing_for_any_stream(members: dict[str, Any]) -> None:
    """With usage that is hidden, with choices that take turns, between comments and end markers."""
    usage = event({"choices": [], "usage": {"completion_tokens": 3}})
    words = [event(chunk({"content": f"w{n}"}, index=n // 4 % 2)) for n in range(20)]
    ends = [event(chunk({}, index=n, choice={"finish_reason": "stop"})) for n in (0, 1)]
    pieces = [*words[:9], b": hi\n\n", *words[9:], usage, b"data: [DONE]\n\n", *words[:3], *ends]
    assert_alike(pieces, **members)
    assert_alike([b"".join(pieces)], **members)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_is_seen_at_once(end: bytes) -> None:
    """After every read, however its lines end.

    See ``docs/contract/wire.md#line-ends``.
    """
    pieces = [event(chunk({"content": f"w{n}"})).replace(b"\n", end) for n in range(6)]
    pieces += [b"data: [DONE]\n\n".replace(b"\n", end)]
    assert_alike(pieces)
    assert_alike([pieces[0].replace(end, b"\n"), *pieces])
    whole = b"".join(pieces)
    assert_alike([whole[n : n + 50] for n in range(0, len(whole), 50)])


@pytest.mark.parametrize("depth", [100, 400, 500, 700, 900, 990, 1_100])
def test_depth_is_no_obstacle(depth: int) -> None:
    """What the parser accepts and folding does not costs that chunk alone."""
    deep = '{"a":' * depth + "1" + "}" * depth
    odd = '{"choices":[{"index":0,"delta":{"content":"a"}}],"x":%s}' % deep  # noqa: UP031 - braces
    assert_alike([event(chunk({"content": "b"})), event(odd), event(odd), event(chunk({}))])


def test_padding_is_kept_before_what_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """R5: the last padding has its room before the chunk that finds none."""
    for room in range(2_300, 3_300, 20):
        monkeypatch.setattr(accumulator_module, "MAX_ANSWER_BYTES", room)
        words = [event(chunk({"content": w}, obfuscation=p)) for w, p in
                 (("a", "0"), ("a", "0"), ("b", "zzzz"))]  # fmt: skip
        assert_alike([*words, event(chunk({"content": "w" * 900, "extra": "e" * 99}))])
