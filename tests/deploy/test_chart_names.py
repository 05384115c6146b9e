"""Names and words of whoever installs the chart, however odd, stay what they are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deploy.chart import (
    HelmError,
    ask,
    pod_specs,
    render,
)

ODD: dict[str, Any] = {
    "fullnameOverride": "true",
    "nameOverride": "1e3",
    "commonLabels": {"example.com/odd": "0123"},
    "serviceAccount": {"name": "0123"},
    "upstream": {
        "existingSecret": "123",
        "secretKey": "0x1f",
        "baseUrl": "http://a",
        "caSecret": "1e3",
        "caKey": "12",
    },
    "upstreams": [
        {"name": "a", "url": "http://a", "prefix": "/a", "existingSecret": "1", "secretKey": "2"}
    ],
    "inboundKeys": {"existingSecret": "0123", "secretKey": "1.0"},
    "tls": {"existingSecret": "456"},
    "otel": {"endpoint": "http://a", "headersSecret": "789", "headersKey": "1.5", "caSecret": "9"},
    "service": {"appProtocol": "null"},
    "ingress": {
        "enabled": True,
        "className": "yes",
        "hosts": [{"host": "1.2", "paths": [{"path": "/a: b"}]}],
    },
    "httpRoute": {"enabled": True, "parentRefs": [{"name": "g"}], "path": "/a: b # c"},
    "priorityClassName": "123",
    "runtimeClassName": "off",
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "dashboard": {"enabled": True},
    "networkPolicy": {"enabled": True},
    "autoscaling": {"enabled": True, "openExchanges": {"enabled": True, "metricName": "_1"}},
}


@pytest.mark.parametrize("persistence", [{}, {"enabled": True, "storageClass": "123"}], ids=str)
def test_names_that_look_like_numbers_stay_text(persistence: dict[str, Any]) -> None:
    """Whatever a name looks like, Kubernetes reads it as text, and it is the one that was given."""
    values = {**ODD, "store": {"persistence": persistence}}
    everything = render(values, release="123", namespace="456")
    assert ask("judge", objects=list(everything.things)) == []
    assert {thing["metadata"]["namespace"] for thing in everything.things} == {"456"}
    assert everything.environment()["UPSTREAM_KEY"] == "Secret/123/0x1f"
    assert everything.environment()["UPSTREAM_KEY_0"] == "Secret/1/2"
    (spec,) = (spec for kind, spec in pod_specs(everything.things) if kind != "Pod")
    secrets = {v["secret"]["secretName"] for v in spec["volumes"] if "secret" in v}
    assert secrets == {"0123", "456", "1e3", "9"}
    (rule,) = everything.one("HTTPRoute")["spec"]["rules"]
    assert rule["matches"][0]["path"]["value"] == "/a: b # c"


def test_an_existing_claim_may_be_a_number() -> None:
    """Its name too is text; so is that of a Secret that the chart makes, and of its key."""
    values: dict[str, Any] = {"replicaCount": 1, "fullnameOverride": "null"}
    values["store"] = {"persistence": {"enabled": True, "existingClaim": "123"}}
    values["inboundKeys"] = {"digests": ["sha256:" + 64 * "0"], "secretKey": "123"}
    everything = render(values)
    assert ask("judge", objects=list(everything.things)) == []
    assert set(everything.one("Secret")["stringData"]) == {"123"}


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("a.b", "a-b-spantap"),
        ("spantap.v1", "spantap-v1"),
        (45 * "a" + ".b-", 45 * "a" + "-b--span"),
    ],
)
def test_a_release_with_dots_names_services(release: str, name: str) -> None:
    """No name has a dot, which a Service's may not, and none ends in what is no letter."""
    everything = render(release=release)
    names = [thing["metadata"]["name"] for thing in everything.things]
    assert {n.removesuffix("-admin").removesuffix("-test") for n in names} == {name[:52]}


def test_a_cut_name_ends_in_a_letter() -> None:
    """Where the cut is behind a dot or a hyphen, that goes as well."""
    everything = render(release=51 * "a" + ".b")
    assert everything.one("Service", "-admin")["metadata"]["name"] == 51 * "a" + "-admin"


def test_a_name_that_no_service_may_have_is_refused() -> None:
    """It begins with a letter; another name is one value away."""
    with pytest.raises(HelmError, match='"123-spantap" does not begin with a letter'):
        render(release="123")


def test_no_variable_stands_twice() -> None:
    """One of extraEnv takes the place of the chart's: the server's apply refuses two."""
    values = {
        "upstream": {"baseUrl": "https://a", "existingSecret": "key"},
        "otel": {
            "endpoint": "http://a",
            "headersSecret": "x",
            "resourceAttributes": {"service.namespace": "mine"},
        },
    }

    def variables(extra: list[dict[str, str]]) -> list[dict[str, Any]]:
        deployment = render({**values, "extraEnv": extra}).one("Deployment")
        found = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
        return list(found)

    own = [entry["name"] for entry in variables([])]
    assert {"POD_NAME", "UPSTREAM_KEY", "OTEL_EXPORTER_OTLP_HEADERS"} <= set(own)
    theirs = [{"name": name, "value": "mine"} for name in ["FURTHER", *own]]
    found = variables(theirs)
    assert sorted(entry["name"] for entry in found) == sorted(["FURTHER", *own])
    assert all(entry["value"] == "mine" for entry in found)
    (pod_name, *_) = variables([{"name": "POD_NAME", "value": "mine"}])[2:]
    assert pod_name == {"name": "POD_NAME", "value": "mine"}  # before what refers to it


def test_no_label_stands_twice() -> None:
    """Of labels that are given twice one is taken; those that select pods are the chart's."""
    labels = {"app.kubernetes.io/component": "b", "app.kubernetes.io/name": "c", "team": "llm"}
    monitored = {"enabled": True, "labels": {**labels, "team": "own"}}
    values = {
        "commonLabels": labels,
        "podLabels": {**labels, "team": "pods"},
        "podAnnotations": {"checksum/config": "mine"},
        "serviceMonitor": monitored,
        "prometheusRule": {**monitored, "alertLabels": {"severity": "page"}},
        "dashboard": monitored,
    }
    everything = render(values)
    template = everything.one("Deployment")["spec"]["template"]["metadata"]
    selector = everything.one("Deployment")["spec"]["selector"]["matchLabels"]
    assert selector.items() <= template["labels"].items()
    assert template["labels"]["team"] == "pods"
    assert template["annotations"]["checksum/config"] != "mine"
    wanted = everything.one("ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
    found = [s for s in everything.all("Service") if wanted <= s["metadata"]["labels"].items()]
    assert [service["metadata"]["name"] for service in found] == ["demo-spantap-admin"]
    assert everything.one("PrometheusRule")["metadata"]["labels"]["team"] == "own"
    (group,) = everything.one("PrometheusRule")["spec"]["groups"]
    assert {rule["labels"]["severity"] for rule in group["rules"]} == {"page"}


def test_another_way_takes_the_place_of_the_charts() -> None:
    """A probe asks in one way only, and a Deployment that starts anew does not roll."""
    command = {"command": ["spantap", "healthcheck"]}
    values = {"updateStrategy": {"type": "Recreate"}, "livenessProbe": {"exec": command}}
    deployment = render(values).one("Deployment")["spec"]
    assert deployment["strategy"] == {"type": "Recreate"}
    container = deployment["template"]["spec"]["containers"][0]
    assert container["livenessProbe"]["exec"] == command
    assert "httpGet" not in container["livenessProbe"]
    assert "httpGet" in container["readinessProbe"]


def test_the_pod_of_helm_test_finds_a_node_too() -> None:
    """It goes where the others may go."""
    values = {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "priorityClassName": "important",
        "runtimeClassName": "gvisor",
    }
    pod = render(values).one("Pod")["spec"]
    assert {key: pod[key] for key in values} == values
