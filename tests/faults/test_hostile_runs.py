"""Row of the upstream: names and ids of tools that are long, in runs that stay open (R5)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.e2e.processes import wait_until
from tests.faults.raw import ask_all, make_call
from tests.faults.row import report
from tests.faults.scripted import UpstreamThread, running_stage
from tests.faults.stage import is_long
from tests.faults.test_big_event import read_peak
from tests.proxy.harness import CHAT, request_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.faults.stage import RunningSpantap
    from tests.proxy.harness import Connection

MIB = 1024 * 1024

MAX_PEAK_MIB = 381
"""The most that the whole telemetry process may take: 400 MB."""

TOOLS = 128

CALLS = {"names": 1_000 if is_long() else 250, "ids": 2_000 if is_long() else 1_000}
"""By what is long."""

WIDE = [chr(code) for code in range(0x20000, 0x20000 + 2_000)]
"""Letters of four bytes."""

RECORDED = "spantap_spans_recorded_total"


def make_answer(number: int, ids: Callable[[int, int], str], name: Callable[[int], str]) -> bytes:
    """An answer that calls as many tools as a run waits for."""
    made = [
        {
            "id": ids(number, at),
            "type": "function",
            "function": {"name": name(at), "arguments": "{}"},
        }
        for at in range(TOOLS)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": made}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    told = {"id": f"a-{number}", "model": "m-1", "choices": [choice]}
    return json.dumps(told, ensure_ascii=False).encode()


def long_id(number: int, at: int) -> str:
    """An id that is nobody else's, as long as one may be that counts."""
    return "".join(WIDE[(number * 7 + at * 13 + n) % len(WIDE)] for n in range(240)) + str(
        number * TOOLS + at
    )


def long_name(at: int) -> str:
    """A name of 8 KB."""
    return "".join(WIDE[(at + n) % len(WIDE)] for n in range(2_000)) + str(at)


def wait_for_spans(spantap: RunningSpantap, count: int) -> None:
    """Wait until so many calls are recorded."""
    wait_until(lambda: spantap.metrics().get(RECORDED, 0) >= count, 120, "all are recorded")


def measure(folder: Path) -> int:
    """The bytes of the store in a folder."""
    return sum(path.stat().st_size for path in folder.glob("**/*.db*"))


ANSWERS: dict[str, Callable[[int], bytes]] = {
    "names": lambda number: make_answer(number, lambda _, at: f"call_{at}", long_name),
    "ids": lambda number: make_answer(number, long_id, lambda at: f"tool_{at}"),
}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("attack", ANSWERS)
async def test_open_runs_of_hostile_tools_keep_telemetry_within_its_memory(
    tmp_path: Path, attack: str
) -> None:
    """Each call is recorded and opens a run; nobody comes back."""
    sent = [0]

    async def call_tools(_: UpstreamThread, connection: Connection) -> None:
        number = int(connection.request_line.split(b"/")[2])
        body = ANSWERS[attack](number)
        sent[0] += len(body)
        await connection.answer(body)

    with running_stage(tmp_path, {"tools": call_tools}) as stage:
        [telemetry] = stage.spantap.children()["telemetry"]
        calls = []
        for number in range(CALLS[attack]):
            body = CHAT.replace(b'"hi"', b'"Look %d"' % number)
            target = b"/tools/%d/v1/chat/completions" % number
            # Without a traceparent, whose caller has spans of its own for its tools.
            data = request_bytes(body, target=target, close=True)
            calls.append(replace(make_call("tools"), data=data))
        seen = await ask_all(stage.spantap.port, calls, at_once=4)
        assert {one.code for one in seen} == {200}
        wait_for_spans(stage.spantap, len(calls))
        peak_mib = read_peak(telemetry) // MIB
        report(
            f"{len(calls)} open runs with {TOOLS} tools each, long {attack}",
            sent=len(calls),
            lost=0,
            client_saw="every answer, whole",
            figures={
                "peak of telemetry": f"{peak_mib} MiB",
                "answers": f"{sent[0] // MIB} MiB",
                "store": f"{measure(tmp_path) // MIB} MiB",
            },
        )
        assert peak_mib <= MAX_PEAK_MIB
        await stage.assert_healthy()
