"""A row with a real Phoenix: out of reach twice, its connections cut; every span is there once.

A relay stands in between and is gone, Phoenix itself lives on: it answers 200 before it stores, so
that killing it would tell of its losses and not of ours.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.e2e.phoenix import Phoenix
from tests.e2e.processes import find_free_port
from tests.faults.load import Load, build_marks, run_load, running_load
from tests.faults.relay import Relay
from tests.faults.row import report
from tests.faults.scene import ARRIVAL_SECONDS
from tests.faults.stage import running_spantap, scaled

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(os.environ.get("SPANTAP_E2E") != "1", reason="needs Phoenix: SPANTAP_E2E=1"),
    pytest.mark.timeout(600),
]

PROJECT = "faults"

COUNT = 1_000
"""Exchanges of each of the four loads."""

CUT_RATE = 50.0
"""Exchanges per second of the load that is under way when the relay goes."""


def test_phoenix_has_every_span_once_after_outages(load_upstream: str, tmp_path: Path) -> None:
    """Within reach, out of it, within, cut off during load, within: nothing lost, nothing twice."""
    port = find_free_port()
    with (
        Phoenix(tmp_path).running() as phoenix,
        running_spantap(
            tmp_path,
            upstream=f"{load_upstream}/v1",
            endpoint=f"http://127.0.0.1:{port}",
            environment={"OTEL_RESOURCE_ATTRIBUTES": f"openinference.project.name={PROJECT}"},
        ) as spantap,
    ):
        target_port = int(phoenix.url.rpartition(":")[2])
        rates = (0.0, 0.0, CUT_RATE, 0.0)
        loads = [
            Load(port=spantap.port, prefix=f"phoenix{n}", count=scaled(COUNT), rate=rate)
            for n, rate in enumerate(rates)
        ]
        with Relay(port=port, target_port=target_port):
            calm = run_load(loads[0])
            phoenix.wait_for_spans(PROJECT, scaled(COUNT), seconds=ARRIVAL_SECONDS)
        seen = [calm, run_load(loads[1])]
        with running_load(loads[2]) as running:
            with Relay(port=port, target_port=target_port):
                phoenix.wait_for_spans(PROJECT, 2 * scaled(COUNT), seconds=ARRIVAL_SECONDS)
            seen.append(running.wait())
        seen.append(run_load(loads[3]))
        sent = {mark for load in loads for mark in build_marks(load)}
        with Relay(port=port, target_port=target_port):
            spans = phoenix.wait_for_spans(PROJECT, len(sent), seconds=ARRIVAL_SECONDS)
        marks = Counter(str(span.attributes["user.id"]) for span in spans)
        report(
            name="Phoenix out of reach twice, once during load",
            sent=len(sent),
            lost=len(sent - marks.keys()),
            client_saw=seen[1].in_words,
            added_latency=seen[1].compare(calm),
            figures={"spans in Phoenix": len(spans)},
            command="SPANTAP_E2E=1 make faults",
        )
        assert all(result.whole == result.sent for result in seen), "a client was hurt (R2)"
        assert marks == Counter(sent), "a span is missing, or there twice (R8)"
        assert spantap.terminate() == 0, spantap.log
