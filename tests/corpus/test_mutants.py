"""The replay test can fail: each fault below, planted into relay, record or fold, is found.

Over the hand-written dialects, which are always there, and over the recordings where they are.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from codec import usage_fold
from codec.chat import usage_filter
from codec.chat.accumulator import Accumulator
from codec.chat.choice import ChoiceFold
from codec.chat.tool_calls import CallSlot, ToolCallSlots
from codec.chat.usage_filter import UsageFilter
from codec.text.jsontext import decode_json
from proxy.downstream import downstream
from proxy.downstream.downstream import Downstream
from proxy.headers import response_headers
from proxy.relay.exchange import ObservedExchange
from proxy.relay.tap import Tap
from telemetry.spans import exchange_attributes
from telemetry.spans.vocabulary import build_concept_attributes
from tests.corpus.recordings import NEEDS_RECORDINGS, Recording, load_all, load_chats
from tests.corpus.replay import find_faults, open_bench
from tests.fixtures.dialects import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from codec.budget import Budget
    from codec.chat.answer import Choice, ToolCall
    from codec.text.jsontext import JsonObject
    from codec.usage_option import Rewrite
    from proxy.headers import Head

_ASKED = b'{"model":"m-1", "stream": true, "messages":[{"role":"user","content":"Where to?"}]}'
_EVENT_STREAM = ((b"Content-Type", b"text/event-stream"), (b"x-Request-ID", b"r-1"))

SOURCES: dict[str, list[Recording]] = {
    "dialects": [
        Recording(
            id=dialect.name,
            target=b"/v1/chat/completions",
            request=_ASKED,
            status=200,
            head=_EVENT_STREAM,
            body=dialect.stream,
        )
        for dialect in DIALECTS
    ],
    "recordings": [recording for recording in load_all(load_chats) if recording.asks_stream],
}


async def find_first_fault(source: str, word: str = "") -> str | None:
    """The first fault that names ``word`` when a source is replayed."""
    found = None
    try:
        async with open_bench() as bench:
            for recording in SOURCES[source]:
                request = recording.request_with(asks_usage=False)
                faults = find_faults(await bench.replay(recording, request, "random"))
                if found := next((fault for fault in faults if word in fault), None):
                    break
    except AssertionError:  # of a call without an end, which a mutant may cause
        if found is None:
            raise
    return found


# --- mutants: each takes pytest's monkeypatch and plants one fault ------------------------------


def change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: what finds the mutants does not cry wolf."""


def change_sent(monkeypatch: pytest.MonkeyPatch, change: Callable[[bytes], bytes]) -> None:
    """Of a body, whether its client is waited for or not."""
    for name in ("send", "send_at_once"):
        send = getattr(Downstream, name)
        monkeypatch.setattr(
            Downstream, name, lambda self, data, send=send: send(self, change(data))
        )


def drop_last_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    change_sent(monkeypatch, lambda data: data[:-1])


def double_first_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    change_sent(monkeypatch, lambda data: data[:1] + data)


def swap_two_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    change_sent(monkeypatch, lambda data: data[1::-1] + data[2:])


def send_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each read leaves after the next one."""
    waiting: list[bytes] = []

    def feed(self: UsageFilter, data: bytes) -> bytes:
        waiting.append(data)
        return waiting.pop(-2) if len(waiting) > 1 else b""

    def finish(self: UsageFilter) -> bytes:
        left = b"".join(waiting)
        waiting.clear()
        return left

    monkeypatch.setattr(UsageFilter, "feed", feed)
    monkeypatch.setattr(UsageFilter, "finish", finish)


def change_line_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    change_sent(monkeypatch, lambda data: data.replace(b"\r\n", b"\n"))


def hide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_filter, "reads_as_usage_event", lambda block: False)


def hide_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_filter, "_find_suspect", usage_filter._TWO_LINE_ENDS)
    monkeypatch.setattr(usage_filter, "find_usage", lambda block: True)
    monkeypatch.setattr(usage_filter, "reads_as_usage_event", lambda block: b":[]" in block)


def write_request_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite_request = ObservedExchange._rewrite

    def rewrite(*arguments: Any) -> Rewrite:
        result = rewrite_request(*arguments)
        return structs.replace(
            result,
            more=(),
            body=json.dumps(decode_json(b"".join((result.body, *result.more)))).encode(),
        )

    monkeypatch.setattr(ObservedExchange, "_rewrite", rewrite)


def lower_field_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def lower(headers: Head, **rules: bool) -> list[tuple[bytes, bytes]]:
        return [(name.lower(), value) for name, value in response_headers(headers, **rules)]

    monkeypatch.setattr(downstream, "response_headers", lower)


def sort_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        downstream,
        "response_headers",
        lambda headers, **rules: sorted(response_headers(headers, **rules), reverse=True),
    )


def lose_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tap, "end", lambda self, *ending: None)


def lose_data(monkeypatch: pytest.MonkeyPatch) -> None:
    response_data = Tap.response_data
    monkeypatch.setattr(
        Tap, "response_data", lambda self, data, **how: response_data(self, data[:64], **how)
    )


def concatenate_names(monkeypatch: pytest.MonkeyPatch) -> None:
    identify = CallSlot.identify

    def concatenate(self: CallSlot, budget: Budget, **words: Any) -> bool:
        before, same = self.name, identify(self, budget, **words)
        self.name = (before or "") + (words["name"] or "") or None
        return same

    monkeypatch.setattr(CallSlot, "identify", concatenate)


def keep_last_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    call = CallSlot.call

    def keep_last(self: CallSlot) -> ToolCall:
        del self._arguments[:-1]
        return call(self)

    monkeypatch.setattr(CallSlot, "call", keep_last)


def reverse_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = ToolCallSlots.calls
    monkeypatch.setattr(ToolCallSlots, "calls", lambda self: calls(self)[::-1])


def one_call_per_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ToolCallSlots,
        "_continued_at",
        lambda self, index, *entry, **said: self._latest.get(index),
    )


def one_call_without_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToolCallSlots, "_continued", lambda self, *entry, **place: self._last)


def sum_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    def add(into: JsonObject, new: JsonObject, budget: Budget) -> None:
        counts = {key: value for key, value in into.items() if isinstance(value, int)}
        sums = {key: value + (new.get(key) or 0) for key, value in counts.items()}
        into.update(new | sums)

    monkeypatch.setattr(usage_fold, "merge_usage", add)


def let_null_erase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_fold, "merge_usage", lambda into, new, budget: into.update(new))


def lose_later_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = ChoiceFold.feed
    monkeypatch.setattr(
        ChoiceFold, "feed", lambda self, choice: None if self.index else feed(self, choice)
    )


def append_repeated_message(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = ChoiceFold.feed

    def feed_both(self: ChoiceFold, choice: JsonObject) -> None:
        feed(self, choice)
        if "delta" in choice and "message" in choice:
            feed(self, {"delta": choice["message"]})

    monkeypatch.setattr(ChoiceFold, "feed", feed_both)


def invent_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = ChoiceFold.choice

    def invent(self: ChoiceFold) -> Choice:
        folded = choice(self)
        return structs.replace(folded, finish_reason=folded.finish_reason or "stop")

    monkeypatch.setattr(ChoiceFold, "choice", invent)


def strip_content(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = ChoiceFold.choice

    def strip(self: ChoiceFold) -> Choice:
        folded = choice(self)
        message = structs.replace(
            folded.message, content=(folded.message.content or "").strip() or None
        )
        return structs.replace(folded, message=message)

    monkeypatch.setattr(ChoiceFold, "choice", strip)


def count_reasoning_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = ChoiceFold.choice

    def join(self: ChoiceFold) -> Choice:
        folded = choice(self)
        names = self._reasoning._by_name.values()
        texts = ["".join(fragments) for fragments in names] if len(names) > 1 else []
        reasoning = "".join(texts) or folded.message.reasoning
        return structs.replace(folded, message=structs.replace(folded.message, reasoning=reasoning))

    monkeypatch.setattr(ChoiceFold, "choice", join)


def stop_at_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Accumulator.feed

    def feed_until(self: Accumulator, chunk: Any, **known: Any) -> None:
        if not self.finished:
            feed(self, chunk, **known)

    monkeypatch.setattr(Accumulator, "feed", feed_until)


def show_hidden_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Accumulator.feed
    monkeypatch.setattr(
        Accumulator,
        "feed",
        lambda self, chunk, **known: feed(self, chunk, **(known | {"hidden_usage": False})),
    )


def swap_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(record: Any) -> Any:
        opentelemetry, openinference = build_concept_attributes(record)
        pairs = dict(openinference)
        counts = [key for key in pairs if key.startswith("llm.token_count.")]
        values = [pairs[key] for key in counts]
        rotated = dict(zip(counts, values[1:] + values[:1], strict=True))
        return opentelemetry, {**pairs, **rotated}.items()

    monkeypatch.setattr(exchange_attributes, "build_concept_attributes", swapped)


MUTANTS = {
    drop_last_byte: "the client got",
    double_first_byte: "the client got",
    swap_two_bytes: "the client got",
    send_late: "the client got",
    change_line_ends: "the client got",
    hide_nothing: "the client got",
    hide_too_much: "the client got",
    write_request_anew: "the upstream got the body",
    lower_field_names: "fields",
    sort_fields: "fields",
    lose_end: "0 records",
    lose_data: "choices",
    concatenate_names: "choices",
    keep_last_arguments: "choices",
    reverse_calls: "choices",
    one_call_per_index: "choices",
    one_call_without_index: "choices",
    sum_usage: "usage",
    let_null_erase: "usage",
    lose_later_choices: "choices",
    append_repeated_message: "choices",
    invent_finish: "choices",
    strip_content: "choices",
    count_reasoning_twice: "choices",
    stop_at_finish: "usage",
    show_hidden_usage: "usage in the output",
    swap_counts: "llm.token_count",
}
"""Each mutant with a word of the fault by which it must be found."""

NOT_IN_RECORDINGS = {
    count_reasoning_twice,
    let_null_erase,
    lower_field_names,
    one_call_without_index,
}
"""Faults that the recordings cannot show: their field names are in lower case, for one."""


def cases(mutants: Iterable[Any]) -> list[Any]:
    """Each mutant with each source that can show it; the recordings are marked as such."""
    return [
        pytest.param(mutant, source, id=f"{mutant.__name__}-{source}", marks=marks)
        for source, marks in (("dialects", []), ("recordings", NEEDS_RECORDINGS))
        for mutant in mutants
        if source == "dialects" or mutant not in NOT_IN_RECORDINGS
    ]


@pytest.mark.parametrize(("mutant", "source"), [*cases([change_nothing]), *cases(MUTANTS)])
async def test_a_mutant_is_found(mutant: Any, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks of the replay test report the planted fault by its name, and nothing unplanted."""
    mutant(monkeypatch)
    fault = await find_first_fault(source, MUTANTS.get(mutant, ""))
    assert (fault is not None) is (mutant in MUTANTS), fault
