"""The Grafana dashboard asks for what there is: metrics, labels and variables exist."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from codec.text.jsontext import decode_json
from telemetry.metrics.instruments import INSTRUMENTS, Kind, prometheus_label

DASHBOARD = decode_json((Path(__file__).parents[1] / "deploy/grafana/spantap.json").read_bytes())
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
TARGETS = [target for panel in PANELS for target in panel["targets"]]
VARIABLES: dict[str, dict[str, Any]] = {
    variable["name"]: variable for variable in DASHBOARD["templating"]["list"]
}

TARGET_LABELS = {"job", "instance"}
"""What Prometheus itself puts on what it scrapes."""

GRAFANA_VARIABLES = {"__rate_interval"}

FUNCTIONS = {"histogram_quantile", "increase", "label_values", "max", "rate", "sum"}

SELECTOR = re.compile(r"\b([a-z_]+)\{([^}]*)\}")
GROUPING = re.compile(r"\bby \(([^)]*)\)")
MATCHER = re.compile(r'([a-z_]+)=~?"([^"]*)"')


def read_sample_labels() -> dict[str, set[str]]:
    """The labels of every sample that a scrape may hold, by its name."""
    samples: dict[str, set[str]] = {}
    for instrument in INSTRUMENTS:
        labels = set(map(prometheus_label, instrument.labels)) | TARGET_LABELS
        name = instrument.prometheus_name
        if instrument.kind is Kind.HISTOGRAM:
            samples |= {f"{name}_sum": labels, f"{name}_count": labels}
            samples[f"{name}_bucket"] = labels | {"le"}
        else:
            samples[name] = labels
    return samples


SAMPLE_LABELS = read_sample_labels()


def find_unknown(expression: str) -> list[str]:
    """What an expression in PromQL names that does not exist; empty where all is well."""
    unknown = []
    names = []
    for name, matchers in SELECTOR.findall(expression):
        names.append(name)
        known = SAMPLE_LABELS.get(name, set())
        if name not in SAMPLE_LABELS:
            unknown.append(f"metric {name}")
        if MATCHER.sub("", matchers).strip(", "):
            unknown.append(f"matchers {matchers}")
        unknown += [
            f"label {label}" for label, _ in MATCHER.findall(matchers) if label not in known
        ]
    for group in GROUPING.findall(expression):
        unknown += [
            f"label {label}"
            for label in re.split(r",\s*", group)
            if not all(label in SAMPLE_LABELS.get(name, ()) for name in names)
        ]
    rest = GROUPING.sub("", SELECTOR.sub("", expression))
    words = re.findall(r"(?<![\w$])[a-z_]+", re.sub(r"\[[^]]*\]", "", rest))
    return unknown + [f"word {word}" for word in words if word not in FUNCTIONS]


def test_the_check_finds_what_does_not_exist() -> None:
    """A metric, a label, a grouping, a histogram without its suffix, and a bare name."""
    assert find_unknown('sum by (reason) (rate(spantap_spans_dropped_total{job="a"}[5m]))') == []
    assert find_unknown("sum(rate(spantap_spans_lost_total{}[5m]))") == [
        "metric spantap_spans_lost_total"
    ]
    assert find_unknown('spantap_requests_total{reason="x"}') == ["label reason"]
    assert find_unknown("spantap_requests_total{job}") == ["matchers job"]
    assert find_unknown("sum by (le) (rate(spantap_requests_total{}[5m]))") == ["label le"]
    assert find_unknown("gen_ai_client_token_usage{}") == ["metric gen_ai_client_token_usage"]
    assert find_unknown("sum(spantap_requests_total)") == ["word spantap_requests_total"]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target["legendFormat"]))
def test_an_expression_names_what_exists(target: dict[str, Any]) -> None:
    """Metrics and labels are those of the table; a counter is never shown without its rate."""
    expression = target["expr"]
    assert find_unknown(expression) == []
    for name, _ in SELECTOR.findall(expression):
        if re.search(r"_(total|sum|count|bucket)$", name):
            assert re.search(rf"(rate|increase)\({name}{{[^}}]*}}\[", expression)
    variables = set(re.findall(r"\$(\w+)", expression))
    assert variables <= set(VARIABLES) | GRAFANA_VARIABLES


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target["legendFormat"]))
def test_a_legend_names_labels_that_are_left(target: dict[str, Any]) -> None:
    """After the aggregation only what was grouped by is there."""
    grouped = {
        label for group in GROUPING.findall(target["expr"]) for label in re.split(r",\s*", group)
    }
    shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
    assert shown == grouped - {"le"}


def test_variables_ask_for_what_exists() -> None:
    """The lists of jobs and models come from metrics and labels that there are."""
    queries = [v["query"]["query"] for v in VARIABLES.values() if v["type"] == "query"]
    for query in queries:
        match = re.fullmatch(r"label_values\((\w+), (\w+)\)", query)
        assert match is not None
        assert match[2] in SAMPLE_LABELS[match[1]]
    assert len(queries) == 2


def test_every_metric_is_shown() -> None:
    """A metric that nobody looks at would not be missed."""
    shown = {name for target in TARGETS for name, _ in SELECTOR.findall(target["expr"])}
    families = {re.sub(r"_(sum|bucket)$", "", name) for name in shown}
    assert families == {instrument.prometheus_name for instrument in INSTRUMENTS}


def test_panels_stand_side_by_side() -> None:
    """Each has an id and a place of its own, inside the grid, and the chosen data source."""
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below
    sources = [thing["datasource"] for thing in (*PANELS, *TARGETS)]
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)


def test_rows() -> None:
    """Traffic, latency, tokens and spans, in this order, and how well spantap itself keeps up."""
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == ["Traffic", "Latency", "Tokens", "Spans", "Observation"]
