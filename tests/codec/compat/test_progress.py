"""An answer as start, progress and completion."""

from __future__ import annotations

from typing import Any

from codec.compat.progress import AnswerProgress, ProgressKind, ProgressStep
from codec.compat.stop_reasons import StopReason

START = ProgressStep(kind=ProgressKind.START)


def said(text: str, choice: int = 0) -> ProgressStep:
    """A step of progress."""
    return ProgressStep(kind=ProgressKind.PROGRESS, choice=choice, text=text)


def done(stop: StopReason | None, choice: int = 0) -> ProgressStep:
    """A completion."""
    return ProgressStep(kind=ProgressKind.COMPLETE, choice=choice, stop=stop)


def chunk(index: Any = 0, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """A chunk with one choice."""
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


def test_an_answer_has_a_start_its_words_and_an_end() -> None:
    """Empty chunks add nothing; usage after the end counts (``docs/contract/sources.md#s3-9``)."""
    progress = AnswerProgress()
    usage = {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}
    chunks: list[Any] = [
        {"choices": []},
        chunk(),
        chunk(content="Aye"),
        chunk(finish="stop"),
        {"choices": [], "usage": usage},
        "odd",
    ]
    steps = [progress.feed(one) for one in chunks]
    assert steps == [[START], [], [said("Aye")], [], [], []]
    last, answer = progress.finish()
    assert last == [done(StopReason.END_OF_TURN)]
    assert answer.usage is not None
    assert answer.usage.total == 3


def test_all_choices_are_told() -> None:
    """There only the first one is; one without an index goes by its place."""
    progress = AnswerProgress()
    assert progress.feed(chunk(content="a")) == [START, said("a")]
    assert progress.feed(chunk(index=1, content="b", finish="length")) == [said("b", 1)]
    assert progress.feed(chunk(index=None, content="c")) == [said("c")]
    steps, _ = progress.finish()
    assert steps == [done(None), done(StopReason.OUT_OF_TOKENS, 1)]


def test_each_api_stops_in_its_own_words() -> None:
    """A message beside a delta says nothing (``docs/contract/sources.md#s3-1``)."""
    progress = AnswerProgress()
    legacy = {"choices": [{"index": 0, "text": "Once", "finish_reason": "eom"}, "odd", {}]}
    assert progress.feed(legacy) == [START, said("Once")]
    assert progress.finish()[0] == [done(StopReason.END_OF_MESSAGE), done(None, 2)]
    repeated = {"choices": [{"delta": {"content": ""}, "message": {"content": "All"}}]}
    assert AnswerProgress().feed(repeated) == [START]


def test_streams_without_an_end_or_without_anything() -> None:
    """No finish reason is no stop reason (``docs/contract/sources.md#s3-11``)."""
    progress = AnswerProgress()
    assert progress.feed({"choices": []}) == [START]
    assert progress.finish()[0] == []
    cut = AnswerProgress()
    cut.feed(chunk(content="cu"))
    steps, answer = cut.finish()
    assert steps == [done(None)]
    assert answer.anomalies == ("no_finish_reason", "no_usage")
