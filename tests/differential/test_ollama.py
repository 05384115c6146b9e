"""The proxy's span of an Ollama chat says what the client's own instrumentation says.

The real ``ollama`` package with OpenInference's real instrumentation makes the recorded calls anew,
through the proxy. The instrumentation knows chats alone.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ollama
import pytest
from openinference.instrumentation.ollama import OllamaInstrumentor

from tests.corpus.ollama_oracle import is_lines
from tests.corpus.oracle import parse_json
from tests.corpus.recordings import NEEDS_RECORDINGS, Recording, load_all, load_ollama_chats
from tests.differential.recorded import (
    OF_MODELS,
    Allowed,
    RecordedPair,
    count_noticed,
    find_faults,
    find_needed,
    is_extra,
    is_null,
    is_unread,
)
from tests.differential.sdk_stage import Sdk, run_recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from telemetry.spans.otlp.decoding import DecodedSpan
    from tests.differential.comparison import Difference

pytestmark = [*NEEDS_RECORDINGS, pytest.mark.timeout(240)]

CALLS = 59
"""Of the recordings: all of them."""

DRAWN = 80
"""Calls that are drawn by chance."""

_PARAMETERS = frozenset(inspect.signature(ollama.Client.chat).parameters)


def _open_client(url: str) -> contextlib.AbstractContextManager[Any]:
    client: Any = ollama.Client(url, trust_env=False)
    return contextlib.closing(client)


def _make(client: ollama.Client, recording: Recording) -> None:
    asked = parse_json(recording.request)
    known: dict[str, Any] = {name: asked[name] for name in asked if name in _PARAMETERS}
    answer: Any = client.chat(**known | {"stream": is_lines(recording)})
    if is_lines(recording):
        for _ in answer:
            pass


SDK = Sdk(
    provider="ollama",
    instrumentor=OllamaInstrumentor,
    open_client=_open_client,
    make=_make,
    errors=(ollama.ResponseError, ValueError),
)


def _has_parts(pair: RecordedPair, difference: Difference) -> bool:
    """What it calls the content is the text among the parts."""
    message = difference.path.removesuffix(".content")
    texts = [
        value
        for key, value in pair.ours.attributes.items()
        if key.startswith(f"{message}.contents.") and key.endswith(".text")
    ]
    return difference.theirs in texts


def _is_default(_: RecordedPair, difference: Difference) -> bool:
    return bool(difference.ours == [])


_MESSAGE = r"llm\.(in|out)put_messages\.\d+\.message"
_SCHEMA = r"(input\.value/tools/\d+|llm\.tools\.\d+\.tool\.json_schema)/function/parameters/.*"

ALLOWED = (
    *OF_MODELS,
    Allowed("the system, which it does not tell", "docs/contract/apis.md#span-names",
            r"llm\.system", is_extra),
    Allowed("both models where they differ", "docs/contract/spans.md#model-name",
            r"llm\.(request|response)\.model_name", is_extra),
    Allowed("it takes out the model", "docs/contract/apis.md#ollama",
            r"llm\.invocation_parameters/model", is_extra),
    Allowed("the package drops what its classes lack, of schemas", "docs/contract/apis.md#ollama",
            _SCHEMA),
    Allowed("the package drops what its classes lack, of messages", "docs/contract/apis.md#ollama",
            r"input\.value/messages/\d+/(content|tool_calls/\d+/type)"),
    Allowed("the package sends a list of no tools", "docs/contract/apis.md#ollama",
            r"input\.value/tools", _is_default),
    Allowed("what the package cannot read", "docs/contract/spans.md#accumulated-object", ".*",
            is_unread),
    Allowed("thinking and pictures", "docs/contract/apis.md#ollama",
            rf"{_MESSAGE}\.contents\..*", is_extra),
    Allowed("content among parts", "docs/contract/apis.md#ollama",
            rf"{_MESSAGE}\.content", _has_parts),
    Allowed("ids of calls", "docs/contract/apis.md#ollama",
            rf"{_MESSAGE}\.tool_calls\.\d+\.tool_call\.id|"
            r"output\.value/message/tool_calls/\d+/(id|function/index)", is_extra),
    Allowed("its classes have members that did not come",
            "docs/contract/spans.md#accumulated-object", r"output\.value/.*", is_null),
)  # fmt: skip


@pytest.fixture(scope="module", name="pairs")
def _pairs() -> list[RecordedPair]:
    return [
        replace(pair, theirs=_normalise(pair.theirs), ours=_normalise(pair.ours))
        for pair in run_recorded(SDK, [*load_all(load_ollama_chats), *_draw_chats(DRAWN)])
    ]


def _normalise(span: DecodedSpan) -> DecodedSpan:
    """With arguments that are JSON without white space."""
    shown = dict(span.attributes)
    for key, value in span.attributes.items():
        if key.endswith("function.arguments"):
            shown[key] = json.dumps(parse_json(str(value)))
    return replace(span, attributes=shown)


_WORDS = ("ahoy", " ", "🌊", "é", "\n", '"quoted"', "\\", "{}", "日本")
_ARGUMENTS: tuple[dict[str, Any], ...] = ({}, {"city": "Łódź", "days": 2}, {"a": [1, {"b": True}]})


def _draw_chats(count: int) -> Iterator[Recording]:
    """So many chats by chance, the same in every run; every other one is a stream."""
    dice = random.Random(count)
    for number in range(count):
        streams = number % 2 == 0
        messages = [_draw_message(dice) for _ in range(dice.randrange(1, 5))]
        asked = {"model": "m-1", "messages": messages, "stream": streams}
        if dice.random() < 0.5:
            asked["options"] = {"temperature": 0.5, "num_predict": dice.randrange(9)}
        if dice.random() < 0.3:
            asked |= {"think": True, "format": "json", "keep_alive": "5m"}
        pieces = [{"message": _draw_said(dice)} for _ in range(dice.randrange(1, 5) * streams)]
        lines: list[dict[str, Any]] = [
            *(piece | {"model": "m-1", "done": False} for piece in pieces),
            {"model": "m-1", "message": _draw_said(dice), "done": True} | _draw_end(dice),
        ]
        yield Recording(
            id=f"chance {number}",
            target=b"/api/chat",
            request=json.dumps(asked).encode(),
            head=((b"content-type", b"application/x-ndjson" if streams else b"application/json"),),
            body=b"".join(json.dumps(line).encode() + b"\n" for line in lines),
        )


def _draw_text(dice: random.Random) -> str:
    return "".join(dice.choices(_WORDS, k=dice.randrange(1, 5)))


def _draw_message(dice: random.Random) -> dict[str, Any]:
    user = {"role": "user", "content": _draw_text(dice)}
    picture = user | {"images": ["/9j/4AAQ"]}
    result = {"role": "tool", "content": _draw_text(dice), "tool_name": "f"}
    return dice.choice((user, picture, result, _draw_said(dice)))


def _draw_said(dice: random.Random) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": dice.choice(("", _draw_text(dice)))}
    if dice.random() < 0.3:
        said["thinking"] = _draw_text(dice)
    if dice.random() < 0.3:
        function = {"name": "f", "arguments": dice.choice(_ARGUMENTS)}
        said["tool_calls"] = [{"function": function}] * dice.randrange(1, 3)
    return said


def _draw_end(dice: random.Random) -> dict[str, Any]:
    end = {"done_reason": dice.choice(("stop", "length")), "total_duration": 5_000_000_000}
    counts = {"prompt_eval_count": dice.randrange(1, 99), "eval_count": dice.randrange(1, 99)}
    return end | {name: count for name, count in counts.items() if dice.random() < 0.9}


def test_a_chat_has_the_span_of_the_instrumentation(pairs: list[RecordedPair]) -> None:
    """All recordings, and those that are drawn, streamed or not."""
    assert find_faults(pairs, ALLOWED) == []
    assert len(pairs) == CALLS + DRAWN
    assert {pair.ours.status for pair in pairs} == {"OK", "ERROR"}


def test_every_allowance_is_needed(pairs: list[RecordedPair]) -> None:
    """Some difference has no other reason, or the list is too long."""
    assert {one.name for one in ALLOWED} == find_needed(pairs, ALLOWED)


def test_nothing_may_be_missing_or_another(pairs: list[RecordedPair]) -> None:
    """Whatever the instrumentation says is looked for: changed, it is a fault."""
    samples = [pair for pair in pairs if pair.ours.status == pair.theirs.status == "OK"]
    assert count_noticed(samples[::6], ALLOWED) > 200
