"""The tool calls of a stream, told bit by bit."""

from __future__ import annotations

from typing import Any

import pytest

from codec.compat.tool_progress import (
    PYTHON_TAG,
    ParsedCall,
    ParseStatus,
    TaggedText,
    ToolProgress,
    parse_call,
)


def chunk(index: int = 0, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """A chunk with one choice."""
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


def call(index: int, arguments: str, **identity: str) -> dict[str, Any]:
    """An entry of a delta's calls."""
    name = {"name": identity.pop("name")} if "name" in identity else {}
    return {"index": index, **identity, "function": name | {"arguments": arguments}}


def test_text_and_calls_are_told_in_order() -> None:
    """Text first, then name, fragments and end of each call (``docs/contract/sources.md#s3-8``)."""
    progress = ToolProgress()
    told = [
        progress.feed(one)
        for one in (
            chunk(content="Aye.", tool_calls=[call(0, "", id="a", name="row")]),
            chunk(tool_calls=[call(0, '{"far":')]),
            chunk(index=1, content="another choice"),
            chunk(tool_calls=[call(0, "2}"), call(1, "{}", id="b", name="sail")]),
            chunk(finish="tool_calls"),
        )
    ]
    assert told == [["Aye.", "row("], ['{"far":'], [], ["2}", ")", "sail(", "{}"], [")"]]
    rest, calls = progress.finish()
    assert rest == []
    assert calls == (
        ParsedCall(
            id="a",
            name="row",
            arguments={"far": 2},
            raw='{"far":2}',
            parse_status=ParseStatus.SUCCEEDED,
        ),
        ParsedCall(id="b", name="sail", arguments={}, raw="{}", parse_status=ParseStatus.SUCCEEDED),
    )


def test_a_stream_that_breaks_off_closes_its_call() -> None:
    """What is not JSON then is a failed call with its raw text."""
    progress = ToolProgress()
    progress.feed(chunk(tool_calls=[call(0, '{"far', id="a", name="row")]))
    told, (broken,) = progress.finish()
    assert told == [")"]
    assert (broken.parse_status, broken.raw) == (ParseStatus.FAILED, '{"far')
    assert ToolProgress().finish() == ([], ())


@pytest.mark.parametrize(
    ("arguments", "parsed", "status"),
    [
        ('{"a":1}', {"a": 1}, ParseStatus.SUCCEEDED),
        ("", {}, ParseStatus.SUCCEEDED),
        ("{oops", None, ParseStatus.FAILED),
        ("[1]", None, ParseStatus.FAILED),
    ],
)
def test_arguments_are_parsed_and_their_text_is_kept(
    arguments: str, parsed: Any, status: ParseStatus
) -> None:
    """What is no object keeps its id, name and text (``docs/contract/sources.md#s3-5``)."""
    made = parse_call("c", "row", arguments)
    assert (made.arguments, made.parse_status) == (parsed, status)
    assert (made.id, made.name, made.raw) == ("c", "row", arguments)
    assert parse_call(None, None, "").id == ""


def test_a_python_tag_begins_a_call() -> None:
    """Started, in progress, succeeded; the raw text is kept (``docs/contract/sources.md#s3-7``)."""
    tagged = TaggedText()
    phases = [tagged.feed(PYTHON_TAG), tagged.feed("row(far=2)"), tagged.feed(""), tagged.finish()]
    assert phases == ["started", "in_progress", None, "succeeded"]
    assert tagged.raw_text == f"{PYTHON_TAG}row(far=2)"


def test_a_tag_may_come_in_pieces_and_need_not_come() -> None:
    """Text that begins otherwise is no call, and a tag alone is a failed one."""
    tagged = TaggedText()
    assert [tagged.feed(piece) for piece in ("<|python", "_tag|>row()")] == [None, "started"]
    assert tagged.raw_text == f"{PYTHON_TAG}row()"
    plain = TaggedText()
    assert [plain.feed(piece) for piece in ("<|", "other", PYTHON_TAG)] == [None, None, None]
    assert (plain.finish(), plain.raw_text) == (None, "")
    empty = TaggedText()
    empty.feed(PYTHON_TAG)
    assert empty.finish() is ParseStatus.FAILED
