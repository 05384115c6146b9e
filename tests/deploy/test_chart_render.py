"""The chart renders to what Kubernetes takes and streams depend on.

See ``docs/contract/promises.md#chart``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from codec._version import __version__
from tests.deploy.chart import (
    CHART,
    CI_FILES,
    NAMESPACE,
    ask,
    containers_of,
    example_of,
    pod_specs,
    read_values,
    render,
    rendered,
)
from tests.deploy.tools import run, tool

every_ci_file = pytest.mark.parametrize("values", CI_FILES, ids=lambda path: path.stem)


@every_ci_file
def test_kubernetes_takes_every_object(values: Path) -> None:
    """Each is valid by the strict schemas of Kubernetes 1.34, or by ours for other kinds."""
    assert ask("judge", objects=list(rendered(values).things)) == []


def test_an_unknown_kind_is_no_success() -> None:
    """The schemas' own tool only warns of kinds that it does not know; here they are wrong."""
    unknown = {"apiVersion": "example.com/v1", "kind": "Unknown", "metadata": {"name": "x"}}
    route = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "spec": {}}
    misspelt = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spek": {}}
    found = ask("judge", objects=[unknown, route, misspelt])
    assert [line.split(" ")[0] for line in found] == ["Unknown", "HTTPRoute", "Service"]


@every_ci_file
def test_helm_lint_is_content(values: Path) -> None:
    """``helm lint --strict`` has nothing to say, not even a warning."""
    assert ask("lint", values=read_values(values)) == []


@every_ci_file
def test_examples_are_as_rendered(values: Path) -> None:
    """A change shows what it does in its diff: ``python -m tests.deploy.chart`` writes them."""
    path, text = example_of(values)
    assert path.read_text() == text


def test_there_is_no_example_of_nothing() -> None:
    """Each file under examples/ belongs to one under ci/."""
    names = {path.stem for path in (CHART / "examples").iterdir()}
    assert names == {path.name.removesuffix("-values.yaml") for path in CI_FILES}


@pytest.mark.parametrize("folder", ["examples", "ci"])
def test_rendered_yaml_is_tidy(folder: str) -> None:
    """No key twice, no stray space, no odd indentation."""
    rules = "line-length: disable, document-start: disable"
    rules += ", indentation: {indent-sequences: whatever}"
    rules += ", comments: {min-spaces-from-content: 1}"
    found = run([
        tool("yamllint"), "--strict", "-d", f"{{extends: default, rules: {{{rules}}}}}",
        CHART / folder,
    ])  # fmt: skip
    assert (found.returncode, found.stdout) == (0, "")


def test_the_package_has_what_an_installation_needs(tmp_path: Path) -> None:
    """Templates, schema, dashboard and README; not the tests' values, nor their examples."""
    archive = ask("package", folder=str(tmp_path))
    names = run(["tar", "tzf", archive]).stdout.split()
    files = {name.removeprefix("spantap/") for name in names}
    assert {"Chart.yaml", "values.yaml", "values.schema.json", "README.md"} <= files
    assert {"dashboards/spantap.json", "templates/NOTES.txt", "templates/_pod.tpl"} <= files
    assert not [name for name in files if name.startswith(("ci/", "examples/"))]


def test_the_image_is_of_this_version() -> None:
    """Where values name none."""
    deployment = render().one("Deployment")
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == f"ghcr.io/spantap/spantap:{__version__}"


def test_health_check_hook_asks_the_admin_port() -> None:
    """``helm test`` runs the program's health check with the release's image, by the Service."""
    everything = render()
    (container,) = everything.one("Pod")["spec"]["containers"]
    service = everything.one("Service", "-admin")
    main = everything.one("Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == main["image"]
    assert container["args"] == [
        "healthcheck",
        f"--admin-host={service['metadata']['name']}",
        f"--admin-port={service['spec']['ports'][0]['port']}",
    ]
    help_text = run([Path(sys.executable).with_name("spantap"), "healthcheck", "--help"]).stdout
    assert "--admin-host" in help_text
    assert "--admin-port" in help_text


# Details that streams depend on


@pytest.mark.parametrize(
    ("streaming", "expected"),
    [
        ("nginx", {"nginx.ingress.kubernetes.io/proxy-buffering": "off",
                   "nginx.ingress.kubernetes.io/proxy-read-timeout": "1200"}),
        ("haproxy", {"haproxy.org/timeout-server": "1200s"}),
        ("alb", {"alb.ingress.kubernetes.io/load-balancer-attributes":
                 "idle_timeout.timeout_seconds=1200"}),
    ],
)  # fmt: skip
def test_an_ingress_lets_streams_through(streaming: str, expected: dict[str, str]) -> None:
    """Annotations for the controller: no buffering, and a timeout above the silence we allow."""
    ingress = {"enabled": True, "streaming": streaming, "timeoutSeconds": 1200}
    ingress["hosts"] = [{"host": "a.example.com"}]
    annotations = render({"ingress": ingress}).one("Ingress")["metadata"]["annotations"]
    assert expected.items() <= annotations.items()
    name = next(iter(expected))
    ingress["annotations"] = {name: "mine"}
    annotations = render({"ingress": ingress}).one("Ingress")["metadata"]["annotations"]
    assert annotations[name] == "mine"


def test_a_gateway_cuts_no_stream() -> None:
    """An HTTPRoute's timeouts hold for a request with its whole stream: there are none."""
    (rule,) = rendered(CHART / "ci/gateway-api-values.yaml").one("HTTPRoute")["spec"]["rules"]
    assert rule["timeouts"] == {"request": "0s", "backendRequest": "0s"}


def test_a_network_policy_lets_out_what_the_settings_name() -> None:
    """DNS, 443, the ports of upstreams and of OTLP, and nothing else."""
    values = {
        "networkPolicy": {"enabled": True},
        "upstream": {"baseUrl": "http://vllm.models:8000/v1"},
        "upstreams": [{"name": "a", "url": "http://plain.example.com", "prefix": "/a"}],
        "otel": {"endpoint": "collector:4317", "protocol": "grpc"},
    }
    dns, rest = render(values).one("NetworkPolicy")["spec"]["egress"]
    assert [(p["port"], p["protocol"]) for p in dns["ports"]] == [(53, "UDP"), (53, "TCP")]
    assert [p["port"] for p in rest["ports"]] == [443, 8000, 80, 4317]


def test_services_keep_the_admin_port_inside() -> None:
    """A LoadBalancer has the traffic port alone; the admin port's Service stays in the cluster."""
    everything = render({"service": {"type": "LoadBalancer"}})
    admin = everything.one("Service", "-admin")
    (traffic,) = (s for s in everything.all("Service") if s is not admin)
    assert [port["targetPort"] for port in traffic["spec"]["ports"]] == ["traffic"]
    assert (admin["spec"]["type"], admin["spec"]["clusterIP"]) == ("ClusterIP", "None")


def test_the_page_is_on_a_service_of_its_own_where_it_is_wanted() -> None:
    """Off by default; its token is a Secret's, and no Service of ours leads there from outside."""
    off = render()
    assert off.environment()["SPANTAP_PAGE"] == "false"
    assert not any("page" in str(service["spec"]) for service in off.all("Service"))
    on = render(
        {"page": {"enabled": True, "existingSecret": "p"}, "service": {"type": "LoadBalancer"}}
    )
    service = on.one("Service", "-page")["spec"]
    assert (service["type"], service["sessionAffinity"]) == ("ClusterIP", "ClientIP")
    others = [other["spec"]["ports"] for other in on.all("Service") if other["spec"] != service]
    assert not any(port["targetPort"] == "page" for ports in others for port in ports)
    environment = on.environment()
    assert environment["SPANTAP_PAGE_TOKEN"] == "Secret/p/token"
    name = on.one("Service", "-page")["metadata"]["name"]
    assert f"{name}.{NAMESPACE}" in environment["SPANTAP_PAGE_HOSTS"].split(",")


def test_a_network_policy_lets_nobody_to_the_page_but_whom_it_names() -> None:
    """Empty, not even a port of the page is open: `kubectl port-forward` comes from within."""
    page = {"enabled": True, "existingSecret": "p"}
    somebody: list[dict[str, Any]] = [{"podSelector": {}}]
    for peers in ([], somebody):
        policy = {"enabled": True, "pageFrom": peers}
        rules = render({"page": page, "networkPolicy": policy}).one("NetworkPolicy")["spec"]
        found = [rule["from"] for rule in rules["ingress"] if rule["ports"][0]["port"] == "page"]
        assert found == ([peers] if peers else [])


def test_selectors_find_the_pods_and_no_others() -> None:
    """Services, budget and policy select the pods that relay, not that of ``helm test``."""
    everything = rendered(CHART / "ci/autoscaled-values.yaml")
    relays = everything.one("Deployment")["spec"]["template"]["metadata"]["labels"].items()
    test = everything.one("Pod")["metadata"]["labels"].items()
    selectors = [service["spec"]["selector"] for service in everything.all("Service")]
    selectors.append(everything.one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"])
    selectors.append(everything.one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"])
    selectors.append(everything.one("Deployment")["spec"]["selector"]["matchLabels"])
    for selector in selectors:
        assert selector.items() <= relays
        assert not selector.items() <= test
    (_, admin) = everything.one("NetworkPolicy")["spec"]["ingress"]
    assert admin["from"][-1]["podSelector"]["matchLabels"].items() <= test


def test_names_meet() -> None:
    """Ports, ConfigMaps, claims and volumes that are named exist."""
    for values in CI_FILES:
        everything = rendered(values)
        maps = {thing["metadata"]["name"] for thing in everything.all("ConfigMap")} | {"proxies"}
        for kind, spec in pod_specs(everything.things):
            volumes = {volume["name"] for volume in spec.get("volumes", [])}
            if kind == "StatefulSet":
                (workload,) = everything.all(kind)
                templates = workload["spec"].get("volumeClaimTemplates", [])
                volumes |= {template["metadata"]["name"] for template in templates}
                assert everything.one("Service", workload["spec"]["serviceName"])
            for container in containers_of(spec):
                mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
                assert mounted <= volumes
                sources = [
                    s.get("configMapRef", {}).get("name") for s in container.get("envFrom", [])
                ]
                assert set(sources) <= maps
                ports = {port["name"] for port in container.get("ports", [])}
                for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
                    if probe in container:
                        assert container[probe]["httpGet"]["port"] in ports


def test_a_change_of_settings_restarts_pods() -> None:
    """Settings and digests are in a checksum of the pod template; what is not theirs is not."""

    def checksum(values: dict[str, Any]) -> str:
        template = render(values).one("Deployment")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    same = checksum({})
    assert checksum({"replicaCount": 5}) == same
    assert checksum({"config": {"workers": 2}}) != same
    assert checksum({"inboundKeys": {"digests": ["sha256:" + 64 * "0"]}}) != checksum(
        {"inboundKeys": {"digests": ["sha256:" + 64 * "1"]}}
    )
