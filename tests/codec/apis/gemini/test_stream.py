"""``codec.apis.gemini.stream``: chunks in any framing to one answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.apis.gemini.calls import join_arguments
from codec.apis.gemini.fold import ContentFold
from codec.apis.gemini.said import ContentAnswer, read_answer
from codec.apis.gemini.stream import ContentStream
from codec.budget import MAX_ANSWER_BYTES, Budget
from codec.parts import Media, Reasoning, Text, ToolCall
from codec.said import Ending, Stop
from codec.text.base64_text import TakenPictures
from codec.text.jsontext import encode_json
from tests.codec.apis.gemini.chunks import USAGE, answer_of, chunk, write_array, write_events

HELLO = (
    chunk({"text": "He", "thought": True}, responseId="r-1", modelVersion="g-1"),
    chunk({"text": "llo"}, usageMetadata={"promptTokenCount": 10}),
    chunk({"text": " you \U0001f600"}, {"functionCall": {"name": "f", "args": {"a": [1]}}}),
    chunk(reason="STOP", usageMetadata=USAGE),
)


def read(data: bytes, size: int | None = None) -> ContentAnswer:
    """What a stream says, in reads of this size."""
    stream = ContentStream()
    for start in range(0, len(data), size or len(data) or 1):
        stream.feed(data[start : start + (size or len(data))])
    return stream.finish()


def test_parts_are_joined_where_they_are_of_a_kind() -> None:
    """Thoughts to thoughts, text to text, and nothing over a call."""
    answer = answer_of(
        chunk({"text": "Let me ", "thought": True}),
        chunk({"text": "think", "thought": True}),
        chunk({"text": "Hel"}, {"text": "lo", "thought": False}),
        chunk({"text": ""}),
        chunk({"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"}),
        chunk({"text": "bye"}, reason="STOP", usageMetadata=USAGE),
    )
    [said] = answer.answers
    assert said.message.parts == (
        Reasoning(text="Let me think"),
        Text("Hello"),
        ToolCall(name="f", arguments="{}", reasoning_signature="c2ln"),
        Text("bye"),
    )
    assert (said.finish_reason, said.stop) == ("STOP", Stop.STOP)
    assert answer.anomalies == ()


def test_a_signed_text_is_a_part_of_its_own() -> None:
    """Also where it says nothing, as the last one does."""
    answer = answer_of(
        chunk({"text": "a"}),
        chunk({"text": "b", "thoughtSignature": "s1"}),
        chunk({"text": "c"}),
        chunk({"text": "", "thoughtSignature": "s2"}, reason="STOP"),
    )
    [said] = answer.answers
    assert said.message.parts == (Text("a"), Text("b", "s1"), Text("c"), Text("", "s2"))


def test_candidates_are_known_by_their_index() -> None:
    """One without has that of its place; a reason may come before the text."""
    first = {"content": {"parts": [{"text": "a"}]}}
    second = {"content": {"parts": [{"text": "b"}]}, "finishReason": "MAX_TOKENS"}
    answer = answer_of(
        {"candidates": [first, second]},
        {"candidates": [second | {"index": 1, "finishReason": ""}]},
        {"candidates": [first | {"finishReason": "STOP"}]},
    )
    told = [(one.index, one.message.content, one.finish_reason) for one in answer.answers]
    assert told == [(0, "aa", "STOP"), (1, "bb", "MAX_TOKENS")]
    assert {one.message.role for one in answer.answers} == {"model"}


def test_arguments_in_pieces_are_joined_by_their_paths() -> None:
    """Later pieces have no name, and a bare call ends it."""
    answer = answer_of(
        chunk({"functionCall": {"name": "f", "willContinue": True}, "thoughtSignature": "s"}),
        *(
            chunk({"functionCall": {"partialArgs": [piece], "willContinue": True}})
            for piece in (
                {"jsonPath": "$.a.b", "stringValue": "Bos", "willContinue": True},
                {"jsonPath": "$.a.b", "stringValue": "ton"},
                {"jsonPath": "$.l[0].n", "numberValue": 1},
                {"jsonPath": "$.l[1]['x']", "boolValue": False},
                {"jsonPath": "$.z", "nullValue": "NULL_VALUE"},
            )
        ),
        chunk({"functionCall": {}}),
        chunk({"functionCall": {"name": "g"}}),
        chunk({"functionCall": {}}, reason="STOP"),
    )
    first, second = answer.tool_calls
    assert first.arguments == '{"a":{"b":"Boston"},"l":[{"n":1},{"x":false}],"z":null}'
    assert (first.name, first.reasoning_signature) == ("f", "s")
    assert (second.name, second.arguments) == ("g", "")
    assert "willContinue" not in encode_json(answer.body)


@pytest.mark.parametrize(
    "path", ["a", "$", "$.a[2]", "$[0]", "$.a..b", "$.a[x]", "$.a[0].b.c", "$.s.t"]
)
def test_pieces_without_a_place_stay_pieces(path: str) -> None:
    """Nothing is guessed; an anomaly tells."""
    pieces = [
        {"jsonPath": "$.a[0].b", "stringValue": "x"},
        {"jsonPath": "$.s", "numberValue": 1},
        {"jsonPath": path, "numberValue": 1},
    ]
    assert join_arguments(pieces) is None
    answer = answer_of(
        chunk({"functionCall": {"name": "f", "partialArgs": pieces}}, reason="STOP"),
    )
    assert answer.tool_calls[0].arguments.startswith('[{"jsonPath":')
    assert "bad_tool_arguments" in answer.anomalies


def test_counts_run_and_members_are_what_was_told_last() -> None:
    """A null replaces nothing."""
    answer = answer_of(
        chunk({"text": "a"}, usageMetadata={"promptTokenCount": 3, "totalTokenCount": 3}),
        chunk(reason="STOP", usageMetadata=USAGE, modelVersion="m"),
        chunk(usageMetadata=None, modelVersion=None),
        {"usageMetadata": {"candidatesTokenCount": 6, "totalTokenCount": 23}},
    )
    assert answer.usage is not None
    assert answer.usage.raw == USAGE | {"candidatesTokenCount": 6, "totalTokenCount": 23}
    assert answer.model == "m"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (USAGE, (10, 12, 22, 7)),
        (USAGE | {"toolUsePromptTokenCount": 4, "totalTokenCount": 26}, (14, 12, 26, 7)),
        (USAGE | {"candidatesTokenCount": 12}, (10, 12, 22, 7)),  # a gateway's, which includes them
        ({"promptTokenCount": 1, "thoughtsTokenCount": 2, "totalTokenCount": 3}, (1, 2, 3, 2)),
        (USAGE | {"totalTokenCount": 30}, (10, 12, 30, 7)),
        (USAGE | {"totalTokenCount": 3}, (10, 12, None, 7)),
        ({"toolUsePromptTokenCount": 4, "totalTokenCount": 4}, (None, None, 4, None)),
        ({"promptTokenCount": 4, "candidatesTokenCount": 0}, (4, 0, None, None)),
    ],
)
def test_thoughts_and_tools_count_beside(raw: dict[str, int], expected: tuple[Any, ...]) -> None:
    """Unless the total has no room for them (``docs/contract/apis.md#gemini-thoughts``)."""
    usage = answer_of(chunk(reason="STOP", usageMetadata=raw)).usage
    assert usage is not None
    assert (usage.prompt, usage.completion, usage.total, usage.reasoning) == expected


def test_a_total_that_is_too_small_is_noted() -> None:
    """And left out."""
    answer = answer_of(chunk(reason="STOP", usageMetadata=USAGE | {"totalTokenCount": 3}))
    assert answer.anomalies == ("total_inconsistent",)


@pytest.mark.parametrize(
    ("data", "ending"),
    [
        (write_events(*HELLO), Ending.UNMARKED),
        (write_events(*HELLO).rstrip(), Ending.UNMARKED),
        (write_events(*HELLO[:3]), Ending.OPEN),
        (write_events(*HELLO)[:-9], Ending.OPEN),
        (write_events(*HELLO, HELLO[0])[:-9], Ending.OPEN),
        (write_array(*HELLO), Ending.COMPLETE),
        (write_array(*HELLO)[:-1], Ending.OPEN),
        (write_array(*HELLO[:3]), Ending.OPEN),
        (b"[]", Ending.OPEN),
        (encode_json(HELLO[3]).encode(), Ending.UNMARKED),
        (write_events({"promptFeedback": {"blockReason": "OTHER"}}), Ending.UNMARKED),
    ],
)
def test_an_array_has_an_end_and_events_have_none(data: bytes, ending: Ending) -> None:
    """What ended within a chunk, or before any reason, is open.

    See ``docs/contract/apis.md#gemini-endings``.
    """
    for size in (None, 1, 7):
        assert read(data, size).ending(streamed=True) is ending


def test_an_error_may_stand_bare_between_events() -> None:
    """Pretty-printed, or as an element of the array; what was said before stays.

    See ``docs/contract/apis.md#bare-json``.
    """
    error = {"error": {"code": 429, "message": "Too much", "status": "RESOURCE_EXHAUSTED"}}
    bare = b'{\r\n  "error": {\r\n    "code": 429,\r\n    "message": "Too much",\r\n'
    bare += b'    "status": "RESOURCE_EXHAUSTED"\r\n  }\r\n}'
    for data in (
        write_events(HELLO[0]) + bare,
        write_events(HELLO[0]) + bare + b"\r\n\r\n",
        write_events(HELLO[0], error),
        write_array(HELLO[0], error),
        write_array(HELLO[0], error)[:-1],
    ):
        for size in (None, 1, 5):
            answer = read(data, size)
            assert answer.error is not None
            assert (answer.error.message, answer.error.type) == ("Too much", "RESOURCE_EXHAUSTED")
            assert len(answer.answers) == 1


def test_events_whose_blank_lines_are_lost_are_all_read() -> None:
    """As the official SDK does, which knows lines alone."""
    lost = write_events(*HELLO).replace(b"\r\n\r\n", b"\n")
    assert read(lost) == read(write_events(*HELLO))


@given(st.integers(1, 60), st.booleans(), st.integers(0, 5))
def test_the_framing_and_the_cut_of_reads_change_nothing(
    size: int, indented: bool, spaces: int
) -> None:
    """But for the end that an array has."""
    events = read(write_events(*HELLO), size)
    assert events == read(write_events(*HELLO))
    array = b" " * spaces + write_array(*HELLO)
    if indented:
        array = array.replace(b": ", b":\r\n  ").replace(b"}\r\n,", b"}\n\n,\n")
    whole = read(array, size)
    assert whole.has_end
    assert whole.body == events.body


@given(st.integers(0, 2_000), st.booleans(), st.sampled_from([1, 9, 5_000]))
def test_what_breaks_off_says_what_came(end: int, in_array: bool, size: int) -> None:
    """Never more, and never an error (R2)."""
    data = (write_array if in_array else write_events)(*HELLO)
    whole, broken = read(data), read(data[:end], size)
    assert broken.error is None
    for name, value in broken.body.items():
        if name != "candidates":
            assert value == whole.body[name] or name == "usageMetadata"
    texts = [
        part.text or ""
        for one in broken.answers
        for part in one.message.parts
        if isinstance(part, Text | Reasoning)
    ]
    assert "Hello you \U0001f600".startswith("".join(texts))


def test_other_things_in_a_stream_are_noted() -> None:
    """Nothing raises (R2)."""
    answer = read(b"data: {}\n\ndata: x\n\ndata: [1]\n\ndata: [DONE]\n\n")
    assert answer.anomalies == (
        *("foreign_chunk", "non_json_event", "no_finish_reason", "no_usage"),
    )
    assert answer.answers == []
    odd = {"candidates": [None, {"content": 1}, {"content": {"parts": [1, {}, {"x": 1}]}}]}
    assert [len(one.message.parts) for one in answer_of(odd).answers] == [0]


def test_past_its_budget_nothing_grows_but_counts_and_reasons() -> None:
    """The beginning stays."""
    fold = ContentFold(Budget(30_000), TakenPictures())
    for _ in range(100):
        fold.feed(chunk({"text": "a" * 1_000}, groundingMetadata={"a": "b" * 1_000}))
        fold.feed({"candidates": [{"index": 7, "citationMetadata": {"c": "d" * 5_000}}]})
    fold.feed(chunk({"functionCall": {"name": "f"}}, reason="STOP", usageMetadata=USAGE))
    answer = fold.answer(has_end=False, is_cut=False)
    assert "observer_limit" in answer.anomalies
    assert answer.finish_reasons == [(0, "STOP")]
    assert answer.usage is not None
    assert answer.usage.total == 22
    assert len(encode_json(answer.body)) < 40_000


def test_an_endless_chunk_is_given_up() -> None:
    """It holds no more than its limit, in either framing (R5)."""
    for head in (b"data: ", b"["):
        stream = ContentStream(lend=lambda _: False)
        stream.feed(head + b'{"candidates": "')
        for _ in range(300):
            stream.feed(b"a" * 1_000)
        assert stream.finish().anomalies[0] == "observer_limit"
    assert MAX_ANSWER_BYTES >= 1 << 24


def test_a_long_picture_is_told_by_its_length() -> None:
    """In a stream, however it is read, and in a plain answer."""
    data = "iVBORw0KGgo" + "A" * 400_000
    part = {"inlineData": {"mimeType": "image/png", "data": data}}
    whole = chunk(part, reason="STOP", usageMetadata=USAGE)
    url = "data:image/png;base64,<400011 base64 characters, image/png>"
    picture = Media(kind="image", url=url, mime_type="image/png")
    for written in (write_events(whole), write_array(whole)):
        for size in (None, 3_000):
            assert read(written, size).answers[0].message.parts == (picture,)
    plain = read_answer(encode_json(whole).encode())
    assert plain.answers[0].message.parts == (picture,)


@pytest.mark.parametrize(
    ("word", "stop", "refused"),
    [
        ("STOP", Stop.STOP, []),
        (1, Stop.STOP, []),
        ("MAX_TOKENS", Stop.LENGTH, []),
        ("SAFETY", Stop.CONTENT_FILTER, [0]),
        (3, Stop.CONTENT_FILTER, [0]),
        ("MALFORMED_FUNCTION_CALL", Stop.ERROR, []),
        ("TEA", None, []),
    ],
)
def test_reasons_stay_verbatim(word: Any, stop: Stop | None, refused: list[int]) -> None:
    """A number is its digits; a plain answer without any is whole.

    See ``docs/contract/apis.md#gemini-answer`` and
    ``docs/contract/apis.md#how-an-answer-ends``.
    """
    answer = read_answer(encode_json(chunk({"text": "a"}, reason=word)).encode())
    assert answer.finish_reasons == [(0, str(word))]
    assert (answer.answers[0].stop, answer.refused) == (stop, refused)
    assert ("bad_tool_arguments" in answer.anomalies) is (stop is Stop.ERROR)
    assert answer.ending(streamed=False) is Ending.STOPPED


def test_a_blocked_prompt_has_no_message_and_a_reason() -> None:
    """Its own word (``docs/contract/apis.md#gemini-answer``)."""
    answer = read_answer(b'{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}')
    assert answer.answers == []
    assert answer.finish_reasons == [(0, "PROHIBITED_CONTENT")]
    assert answer.refused == [0]
    assert answer.anomalies == ("no_usage",)


def test_names_in_snake_case_are_read() -> None:
    """Gateways that write Python's names: counts, finish reason and model, streamed and plain."""
    counts = {
        "prompt_token_count": 10,
        "candidates_token_count": 5,
        "thoughts_token_count": 7,
        "total_token_count": 22,
        "cached_content_token_count": 4,
        "prompt_tokens_details": [{"modality": "AUDIO", "token_count": 3}],
    }
    first = {"candidates": [{"content": {"parts": [{"text": "Hel"}], "role": "model"}}]}
    last = {
        "candidates": [{"content": {"parts": [{"text": "lo"}]}, "finish_reason": "STOP"}],
        "usage_metadata": counts,
        "model_version": "g-1",
    }
    streamed = answer_of(first | {"usage_metadata": {"prompt_token_count": 10}}, last)
    plain = read_answer(encode_json(last).encode())
    for answer in (streamed, plain):
        assert answer.usage is not None
        assert (answer.usage.prompt, answer.usage.completion, answer.usage.total) == (10, 12, 22)
        assert (answer.usage.cache_read, answer.usage.prompt_audio) == (4, 3)
        assert (answer.model, answer.finish_reasons) == ("g-1", [(0, "STOP")])
        assert answer.anomalies == ()


def test_a_cache_that_is_larger_than_the_prompt_is_left_out() -> None:
    """The anomaly says so."""
    answer = answer_of(chunk(reason="STOP", usageMetadata=USAGE | {"cachedContentTokenCount": 11}))
    assert answer.usage is not None
    assert (answer.usage.prompt, answer.usage.cache_read) == (10, None)
    assert answer.anomalies == ("details_inconsistent",)


def test_candidates_of_one_index_are_answers_each() -> None:
    """In a plain answer no candidate takes the place of another."""
    said = [{"index": 0, "content": {"parts": [{"text": word}]}} for word in ("a", "b")]
    answers = read_answer(encode_json({"candidates": said}).encode()).answers
    assert [(one.index, one.message.content) for one in answers] == [(0, "a"), (1, "b")]
