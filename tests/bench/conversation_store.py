"""What the store takes for a long conversation, and how long: ``make bench-conversation``.

Calls of an agent and of a chat, of ``--turns`` turns and ``--bytes`` bytes of the last request, go
through the service once; their spans are then recorded, read and searched, each call of its own
commit, stored whole and stored in parts, by turns. Of each time the least of ``--rounds`` counts,
for a shared machine only adds to it; commits are told by the median of the last fifty.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from opentelemetry.sdk.resources import Resource

from telemetry.finding.where import ALL_CALLS
from telemetry.reading.stored_calls import open_calls
from telemetry.service import TelemetryService
from telemetry.spans.recorder import SpanRecorder, build_span_limits
from telemetry.spans.rules import SpanRules
from telemetry.store import writing
from telemetry.store.calls import is_call
from telemetry.store.store import Store
from tests.telemetry.service_bench import FailingStore
from tests.telemetry.span_rows import make_row
from tests.telemetry.tap_frames import START_NS, exchange_frames
from tests.telemetry.turns import make_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from telemetry.store.rows import SpanRow

__all__ = ("make_conversation", "measure")

_LAST: Final = 50

_TEXTS: Final = ("nowhere to be found", "нигде не найти", 'not "quoted" anywhere')

_PLAIN: Final = 200
"""Plain calls of a commit, of some 3 KB each."""


def make_conversation(turns: int, size: int, *, is_agent: bool) -> list[SpanRow]:
    """Make the rows of a conversation's calls, the last request of some `size` bytes."""
    keeping, rules, dice = FailingStore(), SpanRules(), random.Random(turns)
    recorder = SpanRecorder(
        Resource.create({"service.name": "spantap"}), build_span_limits(), rules
    )
    service = TelemetryService(
        recorder,
        keeping,  # type: ignore[arg-type]
        rules=rules,
        now_ns=lambda: START_NS,
    )
    tools = [_make_tool(dice, number) for number in range(15)]
    turn_bytes = (size - 20_000) // turns
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": make_words(dice, 8_000)},
        {"role": "user", "content": make_words(dice, 500)},
    ]
    for number in range(1, turns + 1):
        asked = json.dumps({"model": "m", "messages": messages, "tools": tools}).encode()
        said, told = _make_turn(dice, number, turn_bytes, is_agent=is_agent)
        choice = {"index": 0, "message": said, "finish_reason": "stop"}
        usage = {"prompt_tokens": len(asked) // 4, "completion_tokens": 9, "total_tokens": 9}
        answer = {"id": f"c-{number}", "model": "m", "choices": [choice], "usage": usage}
        for frame in exchange_frames(json.dumps(answer).encode(), number=number, asked=asked):
            service.feed(frame)
        messages += (said, told)
    service._commit_waiting()
    return [row for row in keeping.rows if is_call(row.columns.kind)]


def _make_tool(dice: random.Random, number: int) -> dict[str, Any]:
    about = {"type": "object", "properties": {"path": {"description": make_words(dice, 100)}}}
    function = {"name": f"tool_{number}", "description": make_words(dice, 400), "parameters": about}
    return {"type": "function", "function": function}


def _make_turn(
    dice: random.Random, number: int, size: int, *, is_agent: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make an answer, and what is told next."""
    if not is_agent:
        half = max(size // 2 - 40, 20)
        return (
            {"role": "assistant", "content": make_words(dice, half)},
            {"role": "user", "content": make_words(dice, half)},
        )
    function = {"name": "tool_3", "arguments": json.dumps({"path": make_words(dice, 60)})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    rest = max(int(dice.expovariate(1 / max(size - 300, 20))), 20)
    return (
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": make_words(dice, rest)},
    )


@contextmanager
def _storing(*, in_parts: bool) -> Iterator[None]:
    """Store in parts, or all whole."""
    with pytest.MonkeyPatch.context() as patch:
        if not in_parts:
            patch.setattr(writing, "is_for_family", lambda _: False)
        yield


def measure(rows: Sequence[SpanRow], folder: Path, *, in_parts: bool) -> dict[str, float]:
    """Record, read and search once; tell bytes, and milliseconds of CPU and by the clock."""
    told: dict[str, float] = {}
    cpu, clock = [], []
    path = folder / "spans.db"
    with _storing(in_parts=in_parts), Store.open(path, delivers=False) as store:
        for row in rows:
            began, began_cpu = time.perf_counter(), time.process_time()
            store.add([row])
            cpu.append(time.process_time() - began_cpu)
            clock.append(time.perf_counter() - began)
        while store.compact(gives_back=True).free_bytes:
            pass
    told["bytes"] = path.stat().st_size
    told["commit, CPU ms"] = _median(cpu[-_LAST:]) * 1e3
    told["commit, ms"] = _median(clock[-_LAST:]) * 1e3
    told["all commits, CPU ms"] = sum(cpu) * 1e3
    with open_calls(path) as reader:
        began_cpu = time.process_time()
        spans = [one.span for one in reader.with_bytes(reader.after(0))]
        told["read all, CPU ms"] = (time.process_time() - began_cpu) * 1e3
        assert spans == [row.span for row in rows]
        for text in _TEXTS:
            began_cpu = time.process_time()
            assert not any(
                step.hits for step in reader.that(ALL_CALLS.also(texts=(text,))).search()
            )
            told[f"search `{text}`, CPU ms"] = (time.process_time() - began_cpu) * 1e3
    return told


def measure_plain(folder: Path, *, in_parts: bool) -> dict[str, float]:
    """Record plain calls, many to a commit, as a service does that has no conversations."""
    cpu = []
    with _storing(in_parts=in_parts), Store.open(folder / "plain.db", delivers=False) as store:
        for at in range(0, 20 * _PLAIN, _PLAIN):
            rows = [make_row(at + it, padding_bytes=3_000) for it in range(_PLAIN)]
            began_cpu = time.process_time()
            store.add(rows)
            cpu.append(time.process_time() - began_cpu)
    return {f"commit of {_PLAIN} plain calls, CPU ms": _median(cpu) * 1e3}


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def main() -> None:
    """Measure, and print a table for each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--bytes", type=int, default=475_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="on the disk to be measured")
    options = parser.parse_args()
    for kind in ("agent", "chat"):
        rows = make_conversation(options.turns, options.bytes, is_agent=kind == "agent")
        best: list[dict[str, float]] = [{}, {}]
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            for number in range(options.rounds):
                for in_parts in (False, True):
                    folder = Path(name) / f"{number}-{in_parts}"
                    folder.mkdir()
                    told = measure(rows, folder, in_parts=in_parts)
                    told |= measure_plain(folder, in_parts=in_parts)
                    for what, value in told.items():
                        best[in_parts][what] = min(value, best[in_parts].get(what, value))
            (last := Path(name) / "last").mkdir()
            alone = measure(rows[-1:], last, in_parts=True)["bytes"]
        last_bytes = len(rows[-1].span)
        print(f"\n| {kind}, {len(rows)} calls, the last {last_bytes:,} bytes | whole | in parts |")
        print("| --- | ---: | ---: |")
        for what, value in best[False].items():
            print(f"| {what} | {value:,.2f} | {best[True][what]:,.2f} |")
        ratios = [one["bytes"] / alone for one in best]
        print(f"| times what the last call alone takes | {ratios[0]:.2f} | {ratios[1]:.2f} |")


if __name__ == "__main__":
    main()
