"""Alerts, autoscaler, dashboard and monitor of the chart are about metrics that there are."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from codec.text.jsontext import decode_json
from telemetry.errors import SpoolFull
from telemetry.frames.spool import FrameSpool, measure_spool
from telemetry.store.rows import Retention
from telemetry.store.store import Store
from tests.deploy.chart import (
    CHART,
    render,
    rendered,
)
from tests.deploy.tools import ROOT
from tests.telemetry.span_rows import make_row
from tests.test_dashboard import SAMPLE_LABELS

if TYPE_CHECKING:
    from pathlib import Path


def test_alerts_are_about_metrics_that_exist() -> None:
    """Each metric and label in a rule is in the one table of metrics; the job is the Service's."""
    everything = rendered(CHART / "ci/monitored-values.yaml")
    groups = everything.one("PrometheusRule")["spec"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    job = everything.one("Service", "-admin")["metadata"]["name"]
    assert len(rules) == 11
    for rule in rules:
        names = re.findall(r"\b(?:spantap|gen_ai)_\w+(?=[{\[])", rule["expr"])
        assert names
        assert set(names) <= set(SAMPLE_LABELS), rule["expr"]
        labels = {"namespace", "pod"}.union(*(SAMPLE_LABELS[name] for name in names))
        grouped = re.findall(r"by \(([^)]*)\)", rule["expr"])
        for label in re.split(r",\s*", ", ".join(grouped)):
            assert not label or label in labels
        if "alert" in rule:
            assert rule["expr"].count(f'{{namespace="llm", job="{job}"') == len(names)
            shown = re.findall(r"\$labels\.(\w+)", rule["annotations"]["description"])
            assert set(shown) <= set(re.split(r",\s*", ", ".join(grouped)))
            assert rule["labels"]["team"] == "llm"


def find_alert(name: str, store: dict[str, int]) -> dict[str, Any]:
    """The alert of this name with such a store; empty where there is none."""
    everything = render({"prometheusRule": {"enabled": True}, "store": store})
    (group,) = everything.one("PrometheusRule")["spec"]["groups"]
    found: list[dict[str, Any]] = [rule for rule in group["rules"] if rule["alert"] == name]
    return found[0] if found else {}


def test_a_store_that_fills_up_is_told_before_it_drops(tmp_path: Path) -> None:
    """In an outage the alert comes before the first span is lost, and not while spans are sent."""
    rule = find_alert("SpantapStoreFillsUp", {"maxBytes": 8 << 20})
    product, _, limit = rule["expr"].rpartition(" > ")
    assert re.sub(r"\w+ by \(pod\) \(\w+_store_(\w+)\{[^,]*, [^,}]*(?:, (.*?))?\}\)", r"\1 \2",
                  product) == 'size_bytes  * spans state="pending" / spans '  # fmt: skip

    def fires(store: Store) -> bool:
        counts = store.counts()
        spans = counts.pending + counts.delivered + counts.rejected + counts.kept
        return counts.size_bytes * counts.pending / spans > int(limit)

    numbers = iter(range(1, 10_000))
    retention = Retention(max_bytes=8 << 20, max_age_ns=2**62)
    with Store.open(tmp_path / "traces.db", retention=retention) as store:

        def add() -> int:
            rows = [make_row(next(numbers), padding_bytes=16 << 10) for _ in range(10)]
            store.add(rows)
            lost = (step := store.prune(0)).lost
            while step.more:
                lost += (step := store.prune(0)).lost
            return lost

        for _ in range(100):  # a backend that takes everything: full of what was sent
            assert add() == 0
            store.mark_delivered([s.seq for s in store.read_due(1000, 2**40, 2**62)])
            assert not fires(store)
        assert store.counts().delivered < 1000
        told = 0
        while add() == 0:  # an outage
            told += fires(store)
    assert told > 5


def test_a_spool_that_fills_up_is_told_before_it_is_full(tmp_path: Path) -> None:
    """At three quarters, for a while before it takes no more; never where there is none."""
    rule = find_alert("SpantapSpoolFillsUp", {"maxSpoolBytes": 256 << 20})
    expression, _, limit = rule["expr"].rpartition(" >= ")
    assert re.sub(r"\{.*\}", "", expression) == "max by (pod) (spantap_spool_size_bytes)"
    spool = FrameSpool(tmp_path, "a1", 256 << 20)
    pieces = [os.urandom(4 << 20)]  # nothing that could be compressed
    sizes: list[int] = []
    try:
        while True:
            spool.write(pieces)
            sizes.append(measure_spool(tmp_path))
    except SpoolFull:
        spool.close()
    told = [size for size in sizes if size >= int(limit)]
    assert 10 < len(told) < len(sizes) / 2
    assert find_alert("SpantapSpoolFillsUp", {"maxSpoolBytes": 0}) == {}


def test_the_autoscaler_counts_what_is_measured() -> None:
    """The custom metric is one that spantap has, and the scale-down window is five minutes."""
    scaler = rendered(CHART / "ci/autoscaled-values.yaml").one("HorizontalPodAutoscaler")["spec"]
    assert scaler["metrics"][1]["pods"]["metric"]["name"] in SAMPLE_LABELS
    assert scaler["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 300


def test_the_dashboard_is_grafanas() -> None:
    """The chart's dashboard is a copy of deploy/grafana/spantap.json."""
    original = (ROOT / "deploy/grafana/spantap.json").read_bytes()
    assert (CHART / "dashboards/spantap.json").read_bytes() == original
    shipped = rendered(CHART / "ci/monitored-values.yaml").one("ConfigMap", "-dashboard")
    assert decode_json(shipped["data"]["spantap.json"]) == decode_json(original)


def test_the_monitor_selects_the_admin_service() -> None:
    """By labels that the admin port's Service has and the traffic port's has not."""
    everything = rendered(CHART / "ci/monitored-values.yaml")
    wanted = everything.one("ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
    found = [s for s in everything.all("Service") if wanted <= s["metadata"]["labels"].items()]
    assert [service["metadata"]["name"] for service in found] == ["demo-spantap-admin"]
    (endpoint,) = everything.one("ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in found[0]["spec"]["ports"]}
