"""Phoenix away at first and once more later: chats go on, and every span arrives once (R8)."""

from __future__ import annotations

import subprocess
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from codec.text.jsontext import decode_json_object
from proxy.demo.script import MODEL
from tests.e2e.calls import open_client
from tests.e2e.phoenix import Phoenix
from tests.e2e.processes import clean_environment, wait_until
from tests.e2e.spantap import PROGRAM, running_proxy

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.calls import Client

pytestmark = pytest.mark.e2e

PROJECT = "outage"

LONGEST_WAIT_SECONDS = 90.0
"""The exporter's waits double up to a minute, so a backend that is back is noticed by then."""


def test_spans_wait_for_phoenix(tmp_path: Path, upstream_port: int) -> None:
    """The client notices nothing of an outage, and Phoenix has every span once when it is there."""
    phoenix = Phoenix(tmp_path)
    with running_proxy(
        tmp_path,
        upstream_port=upstream_port,
        project=PROJECT,
        endpoint=phoenix.url,
        protocol="http/protobuf",
    ) as proxy:
        with open_client(proxy.base_url, f"http://127.0.0.1:{upstream_port}/v1") as client:
            early = chat(client, 3)
            wait_until(lambda: list_states(proxy.store) == ["pending"] * 3, 10, "3 spans pending")
            with phoenix.running():
                phoenix.wait_for_spans(PROJECT, 3, seconds=LONGEST_WAIT_SECONDS)
                while_up = chat(client, 1)
                phoenix.wait_for_spans(PROJECT, 4)
            while_down = chat(client, 2)
        with phoenix.running():
            spans = phoenix.wait_for_spans(PROJECT, 6, seconds=LONGEST_WAIT_SECONDS)
        assert list_states(proxy.store) == ["delivered"] * 6
    sent = early + while_up + while_down
    assert [span.request_id for span in spans] == sent
    assert Counter(span.span_id for span in spans).most_common(1)[0][1] == 1


def chat(client: Client, count: int) -> list[str]:
    """Have so many chats that go well; the provider's ids of the calls."""
    calls = [
        client.stream(model=MODEL, messages=[{"role": "user", "content": f"Hello {number}"}])
        for number in range(count)
    ]
    assert all(call.completion["choices"][0]["finish_reason"] == "stop" for call in calls)
    return [call.request_id for call in calls]


def list_states(store: Path) -> list[str]:
    """What has become of the spans, as ``spantap traces`` tells while the proxy runs."""
    listing = subprocess.run(
        [PROGRAM, "traces", "--store", store, "--json"],
        env=clean_environment(),
        capture_output=True,
        check=True,
    )
    return [decode_json_object(line)["state"] for line in listing.stdout.splitlines()]
